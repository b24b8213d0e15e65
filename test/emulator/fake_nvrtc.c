/* fake_nvrtc.c - NVRTC's functions on the host's C compiler: a "cubin" is a shared object.
 *
 * Kernels that Weir generates are C, except for the text put before and after them here. The object
 * has two symbols: the number of bytes of the kernel's parameters, and a function that runs a
 * launch, thread by thread (such kernels have no barriers). fake_driver.cpp loads it. */
#include <nvrtc.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

static const char before[] =
    "#include <math.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    "#include <string.h>\n"
    /* Aligned as on a card, so that unaligned reads fail here as well. */
    "typedef struct __attribute__((aligned(16))) uint4 { uint32_t x, y, z, w; } uint4;\n"
    "static __thread struct { unsigned x, y, z; } threadIdx, blockIdx, blockDim, gridDim;\n"
    "#define WEIR_KERNEL static\n";

static const char after[] =
    "const size_t weir_row_bytes = sizeof(weir_args);\n"
    "void weir_row_run(const void *params, unsigned blocks, unsigned threads)\n{\n"
    "    weir_args k;\n    memcpy(&k, params, sizeof k);\n"
    "    gridDim.x = blocks;\n    blockDim.x = threads;\n"
    "    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)\n"
    "        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)\n"
    "            weir_row(k);\n}\n";

static const char command[] =
    WEIR_HOST_CC " -x c -std=gnu11 -O1 -w -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fno-strict-aliasing -fPIC -shared '%s/weir.c' -o '%s/weir.so' -lm > '%s/weir.log' 2>&1";

struct _nvrtcProgram {
    char  *source, *image, *log;
    size_t image_bytes;
};

/* The version takes part in cache keys, so it changes with this file. */
nvrtcResult nvrtcVersion(int *major, int *minor)
{
    unsigned h = 2166136261u;

    EMULATE_CALL(nvrtcResult);
    for (const char *const *part = (const char *const[]){before, after, command, __VERSION__, NULL};
         *part; part++)
        for (const char *at = *part; *at; at++)
            h = (h ^ (unsigned char)*at) * 16777619u;
    *major = 0;
    *minor = (int)(h >> 1);
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_EMULATED";
}

static const int architectures[] = {75, 80, 86, 89, 90};

nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    EMULATE_CALL(nvrtcResult);
    *n = sizeof architectures / sizeof *architectures;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *list)
{
    EMULATE_CALL(nvrtcResult);
    memcpy(list, architectures, sizeof architectures);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *prog, const char *src, const char *name, int headers,
                               const char *const *header, const char *const *include)
{
    (void)name;
    (void)headers;
    (void)header;
    (void)include;
    EMULATE_CALL(nvrtcResult);
    emulate_hold_in_plugin(1);
    *prog = calloc(1, sizeof **prog);
    (*prog)->source = strdup(src);
    return NVRTC_SUCCESS;
}

static char *read_file(const char *folder, const char *name, size_t *n)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *const p = calloc(1, *n + 1);
    *n = fread(p, 1, *n, f);
    fclose(f);
    return p;
}

static void remove_all(const char *folder)
{
    static const char *const names[] = {"weir.c", "weir.so", "weir.log"};
    char                     path[1024];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

static void write_source(const char *folder, const char *source)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/weir.c", folder);
    FILE *const f = fopen(path, "wb");
    if (f) {
        fprintf(f, "%s%s%s", before, source, after);
        fclose(f);
    }
}

/* The last program that was compiled: tests compile the same one over and over. */
static struct _nvrtcProgram    last;
static pthread_mutex_t         last_lock = PTHREAD_MUTEX_INITIALIZER;

static void copy_image(struct _nvrtcProgram *to, const struct _nvrtcProgram *from)
{
    to->image = malloc(from->image_bytes + 1);
    memcpy(to->image, from->image, from->image_bytes);
    to->image_bytes = from->image_bytes;
}

static int recall(nvrtcProgram p)
{
    pthread_mutex_lock(&last_lock);
    const int same = last.source && strcmp(last.source, p->source) == 0;
    if (same)
        copy_image(p, &last);
    pthread_mutex_unlock(&last_lock);
    return same;
}

static void remember(nvrtcProgram p)
{
    if (!p->image)
        return;
    pthread_mutex_lock(&last_lock);
    free(last.source);
    free(last.image);
    last.source = strdup(p->source);
    copy_image(&last, p);
    pthread_mutex_unlock(&last_lock);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int options, const char *const *option)
{
    char   folder[] = "/tmp/weir-rtc-XXXXXX", line[2048];
    size_t n;

    (void)options;
    (void)option;
    p->log = strdup("planted: no such instruction\n");  /* of a call that must fail */
    EMULATE_CALL(nvrtcResult);
    free(p->log);
    p->log = NULL;
    if (recall(p))
        return NVRTC_SUCCESS;
    if (!mkdtemp(folder))
        return NVRTC_ERROR_COMPILATION;
    write_source(folder, p->source);
    snprintf(line, sizeof line, command, folder, folder, folder);
    if (system(line) == 0)
        p->image = read_file(folder, "weir.so", &p->image_bytes);
    p->log = read_file(folder, "weir.log", &n);
    remove_all(folder);
    remember(p);
    return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *prog)
{
    free((*prog)->source);
    free((*prog)->image);
    free((*prog)->log);
    free(*prog);
    *prog = NULL;
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(nvrtcResult);          /* the program is gone all the same */
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *n)
{
    EMULATE_CALL(nvrtcResult);
    *n = p->image_bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *to)
{
    EMULATE_CALL(nvrtcResult);
    memcpy(to, p->image, p->image_bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *n)
{
    EMULATE_CALL(nvrtcResult);
    return nvrtcGetCUBINSize(p, n);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *to)
{
    EMULATE_CALL(nvrtcResult);
    return nvrtcGetCUBIN(p, to);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n)
{
    EMULATE_CALL(nvrtcResult);
    *n = p->log ? strlen(p->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *to)
{
    EMULATE_CALL(nvrtcResult);
    strcpy(to, p->log ? p->log : "");
    return NVRTC_SUCCESS;
}
