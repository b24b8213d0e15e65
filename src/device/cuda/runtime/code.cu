/* code.cu - see code.h. */
#include "device/cuda/runtime/code.h"

#include "device/cuda/runtime/launch.h"

/* Compiled as all kernels are, so its attributes are those of all. */
static __global__ void probe()
{
}

/* The architectures that the plugin was built for: "sm_80, sm_90". */
static const char *built_for(char *text, size_t n)
{
    text[0] = '\0';
#ifdef __CUDA_ARCH_LIST__
    const int archs[] = {__CUDA_ARCH_LIST__};
    size_t    at = 0;
    for (const int arch : archs)
        if (at < n)
            at += (size_t)snprintf(text + at, n - at, "%ssm_%d", at ? ", " : "", arch / 10);
#else
    snprintf(text, n, "the emulated card");
#endif
    return text;
}

weir_status weir_cuda_code_check(weir_cuda_context *u)
{
    struct cudaFuncAttributes a = {};
    char                      archs[128];
    const cudaError_t         e = cudaFuncGetAttributes(&a, (const void *)probe);

    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        (void)cudaGetLastError();
        return weir_fail(WEIR_ERR_DEVICE, "device cuda: the plugin was built for %s, card %d (%s) "
                         "is sm_%d%d: build it with WEIR_CUDA_ARCH=%d%d", built_for(archs,
                         sizeof archs), u->gpu.ordinal, u->gpu.name, u->gpu.major, u->gpu.minor,
                         u->gpu.major, u->gpu.minor);
    }
    WEIR_CUDA_TRY(NULL, e);
    u->gpu.code = a.ptxVersion;
    return WEIR_OK;
}

void weir_cuda_code_info(const weir_cuda_context *u, weir_string *s)
{
    char archs[128];

    weir_string_add(s, "kernels: built for %s; this card runs those for sm_%d\n",
                    built_for(archs, sizeof archs), u->gpu.code);
    if (u->gpu.code / 10 < u->gpu.major)
        weir_string_add(s, "warning: they are for cards older than this one, on which some are "
                        "slower (bf16 attention below sm_80 by far): build the plugin with "
                        "WEIR_CUDA_ARCH=%d%d\n", u->gpu.major, u->gpu.minor);
}
