/* launcher.c - reads what Open MPI, MPICH and torchrun tell each process. See launcher.h. */
#include "device/comm/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

/* The whole number that a variable holds; -1 if it holds none. */
static long number_of(const char *text)
{
    char      *end;
    const long n = text && *text ? strtol(text, &end, 10) : -1;

    return n >= 0 && *end == '\0' ? n : -1;
}

static uint64_t add_text(uint64_t h, const char *text)
{
    return text ? weir_hash_bytes(h, text, strlen(text)) : weir_hash_u64(h, 0);
}

/* torchrun's ranks on one machine share memory, under a name made of what only they have in common:
 * the run, the port that is theirs, and how often torchrun has started them again. */
static weir_status torchrun(char *spec, size_t capacity)
{
    const long rank = number_of(getenv("RANK")), world = number_of(getenv("WORLD_SIZE"));
    const long here = number_of(getenv("LOCAL_WORLD_SIZE"));
    uint64_t   name = add_text(WEIR_HASH_SEED, getenv("TORCHELASTIC_RUN_ID"));

    if (world == 1)
        return WEIR_OK;
    if (rank < 0 || world < 0 || here < 0)
        return weir_fail(WEIR_ERR_COMM, "weir_comm_open: torchrun has started this process, but "
                         "RANK, WORLD_SIZE and LOCAL_WORLD_SIZE are not three numbers");
    if (here != world)
        return weir_fail(WEIR_ERR_COMM, "weir_comm_open: torchrun has started %ld ranks, %ld of "
                         "them on this machine: several machines need MPI's launcher", world, here);
    name = add_text(name, getenv("MASTER_PORT"));
    name = add_text(name, getenv("TORCHELASTIC_RESTART_COUNT"));
    snprintf(spec, capacity, "local:torchrun-%016llx,rank=%ld,world=%ld", (unsigned long long)name,
             rank, world);
    return WEIR_OK;
}

weir_status weir_launcher_spec(char spec[WEIR_LAUNCHER_SPEC])
{
    const char *const run = getenv("TORCHELASTIC_RUN_ID");

    *spec = '\0';
    if (run && *run)
        return torchrun(spec, WEIR_LAUNCHER_SPEC);
    if (number_of(getenv("OMPI_COMM_WORLD_SIZE")) > 1)
        strcpy(spec, "mpi:openmpi");
    else if (number_of(getenv("PMI_SIZE")) > 1)
        strcpy(spec, "mpi:mpich");
    return WEIR_OK;
}
