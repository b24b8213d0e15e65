/* libs.c - tests of the libraries opened at run time: every function of libs.def is in the library
 * that it is listed for, if that is installed. */
#include "device/cuda/runtime/libs.h"

#include <dlfcn.h>
#include <unistd.h>

#include "check.h"

#define NAME_TEXT(name) #name
#define NAME(name)      NAME_TEXT(name),

static const char *const driver[] = {
#define DRIVER(function) NAME(function)
#include "device/cuda/runtime/libs.def"
    NULL};
static const char *const nvrtc[] = {
#define NVRTC(function) NAME(function)
#include "device/cuda/runtime/libs.def"
    NULL};
static const char *const blas[] = {
#define BLAS(function) NAME(function)
#include "device/cuda/runtime/libs.def"
    NULL};
static const char *const dnn[] = {
#define DNN(function) NAME(function)
#include "device/cuda/runtime/libs.def"
    NULL};
static const char *const nccl[] = {
#define NCCL(function) NAME(function)
#include "device/cuda/runtime/libs.def"
    NULL};

/* The first such file in the toolkit's folders. */
static bool find(const char *file, char path[4096])
{
    for (const char *at = WEIR_CUDA_LIBRARY_FOLDERS; *at;) {
        const size_t n = strcspn(at, ":");
        snprintf(path, 4096, "%.*s/%s", (int)n, at, file);
        if (access(path, R_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Checks the toolkit's library; without it there is nothing to compare. */
static void check_names(const char *file, const char *other, const char *const *name)
{
    char path[4096];

    if (!find(file, path) && !find(other, path)) {
        printf("%s is not installed: its names are not checked\n", file);
        return;
    }
    void *const lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    CHECK_OR_RETURN(check_that(lib != NULL, __FILE__, __LINE__, "%s", lib ? "" : dlerror()));
    for (; *name; name++)
        check_that(dlsym(lib, *name) != NULL, __FILE__, __LINE__, "%s has no %s", file, *name);
    dlclose(lib);
}

CASE(libs_names_are_real)
{
    check_names("stubs/libcuda.so", "libcuda.so.1", driver);
    check_names("libnvrtc.so.13", "libnvrtc.so.12", nvrtc);
    check_names("libcublasLt.so.13", "libcublasLt.so.12", blas);
    check_names("libcudnn.so.9", "libcudnn.so", dnn);
    check_names("libnccl.so.2", "libnccl.so", nccl);
}

/* Creates a folder in which libcuda.so.1 is a copy of the file. A link would not do: the loader
 * recognises open files, so a library opened by an earlier case would keep its old name. */
static void copy_driver(char folder[24], const char *file)
{
    char        path[64], block[4096];
    size_t      n;
    FILE *const from = fopen(file, "rb");

    strcpy(folder, "/tmp/weir-libs-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    FILE *const to = fopen(path, "wb");
    if (CHECK(from && to))
        while ((n = fread(block, 1, sizeof block, from)) > 0)
            CHECK(fwrite(block, 1, n, to) == n);
    if (from)
        fclose(from);
    if (to)
        CHECK(fclose(to) == 0);
}

static void remove_driver(const char *folder)
{
    char path[64];

    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    unlink(path);
    rmdir(folder);
}

/* Behaviour without a driver. */
static void check_absent(void)
{
    const weir_cuda_lib_driver *lib = NULL;
    char                        wrong[24], right[24], list[128];

    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "libcuda.so.1");
    CHECK_TEXT(weir_error(), "/nowhere");
    copy_driver(wrong, WEIR_TEST_PLUGINS "/libnvrtc.so.13");
    copy_driver(right, WEIR_TEST_PLUGINS "/libcuda.so.1");
    snprintf(list, sizeof list, "/nowhere::%s:%s", wrong, right);
    setenv("WEIR_CUDA_LIBS", list, 1);
    CHECK_STATUS(weir_cuda_open_driver(&lib), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "the driver has no cuGetErrorName");
    CHECK_TEXT(weir_error(), wrong);
    setenv("WEIR_CUDA_LIBS", right, 1);
    CHECK_OK(weir_cuda_open_driver(&lib));
    remove_driver(wrong);
    remove_driver(right);
}

CASE(libs_are_looked_for_in_order)
{
    const weir_cuda_lib_driver *lib = NULL, *second = NULL;

    setenv("WEIR_CUDA_LIBS", "/nowhere", 1);
    if (weir_cuda_open_driver(&lib) != WEIR_OK)
        check_absent();
    unsetenv("WEIR_CUDA_LIBS");
    CHECK_OK(weir_cuda_open_driver(&lib));      /* opened once per process */
    CHECK_OK(weir_cuda_open_driver(&second));
    CHECK(second == lib && lib->cuModuleLoadData && lib->cuLaunchKernel);
}

CASE(libs_nccl_is_missed_by_name)
{
    const weir_cuda_lib_nccl *lib = NULL;

    if (weir_cuda_open_nccl(&lib) == WEIR_OK)
        return;         /* this machine has one */
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "NCCL was not found: libnccl.so.2 is neither in $WEIR_CUDA_LIBS");
}

/* Macros in the headers stand for versioned names. */
CASE(libs_macros_are_expanded)
{
#define cuTested cuTested_v2
    static const char *const name[] = {NAME(cuTested)};
    CHECK(strcmp(name[0], "cuTested_v2") == 0);
}
