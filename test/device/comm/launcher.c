/* launcher.c - which ranks `auto` joins, by the variables that launchers set. */
#include "device/comm/launcher.h"

#include "check.h"
#include "weir.h"

static const char *const variables[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT"};

static void clear(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

static void torchrun(const char *rank, const char *world, const char *here)
{
    clear();
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
    setenv("MASTER_PORT", "29500", 1);
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", world, 1);
    setenv("LOCAL_WORLD_SIZE", here, 1);
}

CASE(mpi_by_its_number_of_processes)
{
    char spec[WEIR_LAUNCHER_SPEC];

    clear();
    CHECK_OK(weir_launcher_spec(spec));
    CHECK(strcmp(spec, "") == 0);
    setenv("PMI_SIZE", "2", 1);
    CHECK_OK(weir_launcher_spec(spec));
    CHECK(strcmp(spec, "mpi:mpich") == 0);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    CHECK_OK(weir_launcher_spec(spec));
    CHECK(strcmp(spec, "mpi:openmpi") == 0);
    setenv("PMI_SIZE", "1", 1);
    for (const char *const *none = (const char *const[]){"1", "0", "", "x", "2x", NULL}; *none;
         none++) {
        setenv("OMPI_COMM_WORLD_SIZE", *none, 1);
        CHECK_OK(weir_launcher_spec(spec));
        CHECK(strcmp(spec, "") == 0);
    }
    clear();
}

CASE(torchruns_ranks_have_one_name)
{
    char first[WEIR_LAUNCHER_SPEC], second[WEIR_LAUNCHER_SPEC], other[WEIR_LAUNCHER_SPEC];

    torchrun("0", "2", "2");
    CHECK_OK(weir_launcher_spec(first));
    torchrun("1", "2", "2");
    CHECK_OK(weir_launcher_spec(second));
    const size_t name = strcspn(first, ",");
    CHECK(strncmp(first, "local:torchrun-", 15) == 0 && strncmp(first, second, name + 1) == 0);
    CHECK(strcmp(first + name, ",rank=0,world=2") == 0);
    CHECK(strcmp(second + name, ",rank=1,world=2") == 0);
    static const char *const differ[][2] = {{"TORCHELASTIC_RUN_ID", "another"},
                                            {"TORCHELASTIC_RESTART_COUNT", "1"},
                                            {"MASTER_PORT", "29501"}};
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
        torchrun("0", "2", "2");
        setenv(differ[i][0], differ[i][1], 1);
        CHECK_OK(weir_launcher_spec(other));
        if (!CHECK(strncmp(other, "local:", 6) == 0 && strcmp(other, first) != 0))
            printf("    %s: %s\n", differ[i][0], other);
    }
    torchrun("0", "1", "1");
    CHECK_OK(weir_launcher_spec(other));
    CHECK(strcmp(other, "") == 0);
    clear();
}

CASE(ranks_that_nothing_joins_are_an_error)
{
    static const struct {
        const char *rank, *world, *here, *says;
    } wrong[] = {
        {"0", "4", "2", "has started 4 ranks, 2 of them on this machine"},
        {"x", "2", "2", "RANK, WORLD_SIZE and LOCAL_WORLD_SIZE are not three numbers"},
        {"0", "2", "", "are not three numbers"},
    };
    char               spec[WEIR_LAUNCHER_SPEC];
    weir_device *const d = weir_device_open("cpu", NULL);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        torchrun(wrong[i].rank, wrong[i].world, wrong[i].here);
        CHECK_STATUS(weir_launcher_spec(spec), WEIR_ERR_COMM);
        CHECK_TEXT(weir_error(), wrong[i].says);
        weir_error_clear();
        CHECK(!weir_comm_open("auto", d, NULL));
        CHECK_STATUS(weir_error_status(), WEIR_ERR_COMM);
        weir_error_clear();
    }
    torchrun("2", "2", "2");            /* the transport refuses a rank that the world lacks */
    CHECK(!weir_comm_open("auto", d, NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    weir_error_clear();
    clear();
    weir_device_close(d);
}
