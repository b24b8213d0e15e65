/* libs.c - tests of the libraries that are opened at run time: each function that libs.def names
 * is in the library that it is listed for, wherever that is installed. */
#include "device/cuda/libs.h"

#include <dlfcn.h>
#include <unistd.h>

#include "check.h"

#define NAME_TEXT(name) #name
#define NAME(name)      NAME_TEXT(name),

static const char *const driver[] = {
#define DRIVER(function) NAME(function)
#include "device/cuda/libs.def"
    NULL};
static const char *const nvrtc[] = {
#define NVRTC(function) NAME(function)
#include "device/cuda/libs.def"
    NULL};
static const char *const blas[] = {
#define BLAS(function) NAME(function)
#include "device/cuda/libs.def"
    NULL};
static const char *const dnn[] = {
#define DNN(function) NAME(function)
#include "device/cuda/libs.def"
    NULL};

/* The toolkit's library; without it there is nothing to compare with. */
static void check_names(const char *file, const char *const *name)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", WEIR_CUDA_LIBRARY_FOLDERS, file);
    if (access(path, R_OK) != 0) {
        printf("%s is not installed: its names are not checked\n", path);
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
    check_names("stubs/libcuda.so", driver);
    check_names("libnvrtc.so", nvrtc);
    check_names("libcublasLt.so", blas);
    check_names("libcudnn.so", dnn);
}

/* Macros of the headers stand for names with a version. */
CASE(libs_macros_are_expanded)
{
#define cuTested cuTested_v2
    static const char *const name[] = {NAME(cuTested)};
    CHECK(strcmp(name[0], "cuTested_v2") == 0);
}
