/* onednn_defect.c - identifies calls that oneDNN computes wrongly.
 *
 * One kind is known, in versions 2.6 to 3.12 at least: the gradient by the weights of a strided 1 x
 * 1 convolution, "jit_1x1" and "jit_bf16_1x1", on channels-last images. Each thread first copies
 * the pixels that the stride keeps, ic floats each, into scratch for oh * ow * ic floats. But the
 * copy of a part of an image that begins at pixel sp is written at sp * block floats, where block
 * is the number of channels of a vector. With fewer channels than that, parts that do not begin an
 * image (large images are processed in parts, and images are split among threads) overwrite the
 * next thread's copy, or memory beyond the scratchpad. How the library divides images depends on
 * threads and version, so all such calls with few channels are refused.
 *
 * Another kind was met in 2.6.3: gradients of convolutions in bf16 whose channels do not fill whole
 * vectors. docs/internals/onednn-1x1-weights.md has the evidence for both. */
#include "device/cpu/gemm/onednn_defect.h"

#include <string.h>

#include "core/dtype.h"

/* True if the copy is made: the library makes it if the stride divides the image. */
static bool copies(const weir_conv *c)
{
    return c->groups == 1 && c->kh * c->kw == 1 && (c->stride[0] > 1 || c->stride[1] > 1) &&
           c->pad[0] == 0 && c->pad[1] == 0 && c->oh * c->stride[0] == c->h &&
           c->ow * c->stride[1] == c->w;
}

/* True if the input and output channels of a group are whole vectors. */
static bool fills_vectors(const weir_conv *c)
{
    enum { VECTOR = 16 };
    return c->c % (c->groups * VECTOR) == 0 && c->o % (c->groups * VECTOR) == 0;
}

bool weir_onednn_half_defect(const weir_conv *c, weir_conv_pass pass)
{
    return weir_is_half(c->dtype) && pass != WEIR_CONV_FORWARD && !fills_vectors(c);
}

bool weir_onednn_defect(const weir_conv *c, weir_conv_pass pass, const char *impl)
{
    enum { AVX512 = 16, AVX2 = 8 }; /* floats of a vector, in which bf16 is summed, too */
    if (pass != WEIR_CONV_GRAD_W || !copies(c) ||
        !(strstr(impl, "jit_1x1") || strstr(impl, "jit_bf16_1x1")))
        return false;
    return c->c < (strstr(impl, "avx512") ? AVX512 : AVX2);
}
