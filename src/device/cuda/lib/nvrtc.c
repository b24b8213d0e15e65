/* nvrtc.c - runs NVRTC. See nvrtc.h.
 *
 * Options keep the CPU's arithmetic: no contraction, subnormals, correctly rounded division and
 * square root. Functions and tables of core's headers are compiled for the device. */
#include "device/cuda/lib/nvrtc.h"

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cuda/runtime/libs.h"

enum { MOST_ARCHITECTURES = 64, SAID_BYTES = 600 };

static const char *const options[] = {
    "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true",
    "--device-as-default-execution-space", "--std=c++17", "--disable-warnings",
};
enum { OPTIONS = sizeof options / sizeof *options };

static weir_status status_of(const weir_cuda_lib_nvrtc *lib, nvrtcResult r, const char *what)
{
    if (r == NVRTC_SUCCESS)
        return WEIR_OK;
    return weir_fail(r == NVRTC_ERROR_OUT_OF_MEMORY ? WEIR_ERR_NOMEM : WEIR_ERR_DEVICE,
                     "device cuda: %s: %s", what, lib->nvrtcGetErrorString(r));
}

#define TRY(expression) WEIR_TRY(status_of(lib, lib->expression, #expression))

weir_status weir_nvrtc_target(int capability, char target[WEIR_NVRTC_TARGET])
{
    const weir_cuda_lib_nvrtc *lib;
    int                        n = 0, known[MOST_ARCHITECTURES], best = 0;

    WEIR_TRY(weir_cuda_open_nvrtc(&lib));
    TRY(nvrtcGetNumSupportedArchs(&n));
    if (n > MOST_ARCHITECTURES)
        return weir_fail(WEIR_ERR_DEVICE, "device cuda: NVRTC supports %d architectures", n);
    TRY(nvrtcGetSupportedArchs(known));
    for (int i = 0; i < n; i++)
        if (known[i] <= capability && known[i] > best)
            best = known[i];
    if (best == 0)
        return weir_fail(WEIR_ERR_DEVICE, "device cuda: NVRTC does not compile for cards of "
                         "capability %d.%d", capability / 10, capability % 10);
    snprintf(target, WEIR_NVRTC_TARGET, "%s_%d", best == capability ? "sm" : "compute", best);
    return WEIR_OK;
}

weir_status weir_nvrtc_about(const weir_nvrtc_begin *begin, const char *target, weir_string *about)
{
    const weir_cuda_lib_nvrtc *lib;
    int                        major = 0, minor = 0;

    WEIR_TRY(weir_cuda_open_nvrtc(&lib));
    TRY(nvrtcVersion(&major, &minor));
    weir_string_add(about, "NVRTC %d.%d %s", major, minor, target);
    for (size_t i = 0; i < OPTIONS; i++)
        weir_string_add(about, " %s", options[i]);
    weir_string_add(about, " %016llx%016llx",
                    (unsigned long long)weir_hash_bytes(WEIR_HASH_SEED, begin->text, begin->n),
                    (unsigned long long)weir_hash_bytes(~WEIR_HASH_SEED, begin->text, begin->n));
    return about->failed ? WEIR_ERR_NOMEM : WEIR_OK;
}

/* Fails with the first lines of the compiler's log. */
static weir_status refused(const weir_cuda_lib_nvrtc *lib, nvrtcProgram program, nvrtcResult r,
                           const char *names)
{
    size_t n = 0;

    if (lib->nvrtcGetProgramLogSize(program, &n) != NVRTC_SUCCESS || n < 2)
        return status_of(lib, r, "nvrtcCompileProgram");
    char *const said = weir_mem_alloc(n + 1);
    if (!said)
        return WEIR_ERR_NOMEM;
    said[0] = said[n] = '\0';
    (void)lib->nvrtcGetProgramLog(program, said);
    const weir_status s = weir_fail(WEIR_ERR_DEVICE, "device cuda: the kernel of %s does not "
                                    "compile (%s): %.*s", names, lib->nvrtcGetErrorString(r),
                                    SAID_BYTES, said);
    weir_mem_free(said);
    return s;
}

/* Gets the image. PTX is text whose size includes the terminator. */
static weir_status image_of(const weir_cuda_lib_nvrtc *lib, nvrtcProgram program, bool ptx,
                            char **image, size_t *bytes)
{
    if (ptx)
        TRY(nvrtcGetPTXSize(program, bytes));
    else
        TRY(nvrtcGetCUBINSize(program, bytes));
    char *const p = weir_mem_alloc(*bytes);
    if (!p)
        return WEIR_ERR_NOMEM;
    const nvrtcResult r = ptx ? lib->nvrtcGetPTX(program, p) : lib->nvrtcGetCUBIN(program, p);
    if (r != NVRTC_SUCCESS) {
        weir_mem_free(p);
        return status_of(lib, r, "nvrtcGetCUBIN");
    }
    *image = p;
    return WEIR_OK;
}

static weir_status compile(const weir_cuda_lib_nvrtc *lib, const char *whole, const char *names,
                           const char *target, char **image, size_t *bytes)
{
    const char  *option[OPTIONS + 1];
    char         architecture[WEIR_NVRTC_TARGET + 32];
    nvrtcProgram program = NULL;

    memcpy(option, options, sizeof options);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
    option[OPTIONS] = architecture;
    TRY(nvrtcCreateProgram(&program, whole, "weir.cu", 0, NULL, NULL));
    const nvrtcResult r = lib->nvrtcCompileProgram(program, OPTIONS + 1, option);
    const weir_status s = r == NVRTC_SUCCESS
                              ? image_of(lib, program, strncmp(target, "compute", 7) == 0, image,
                                         bytes)
                              : refused(lib, program, r, names);
    (void)lib->nvrtcDestroyProgram(&program);
    return s;
}

weir_status weir_nvrtc_compile(const weir_nvrtc_begin *begin, const char *text, const char *names,
                               const char *target, char **image, size_t *bytes)
{
    const weir_cuda_lib_nvrtc *lib;
    const size_t               n = begin->n, own = strlen(text);

    WEIR_TRY(weir_cuda_open_nvrtc(&lib));
    char *const whole = weir_mem_alloc(n + own + 1);
    if (!whole)
        return WEIR_ERR_NOMEM;
    memcpy(whole, begin->text, n);
    memcpy(whole + n, text, own + 1);
    const weir_status s = compile(lib, whole, names, target, image, bytes);
    weir_mem_free(whole);
    return s;
}
