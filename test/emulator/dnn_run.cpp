/* dnn_run.cpp - the engines of the emulated cuDNN: convolutions as sums of products in double. */
#include "dnn_run.h"

#include <string.h>

#include <vector>

#include "core/half.h"

const dnn_engine dnn_engines[DNN_ENGINES] = {
    {1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, false, 0},
    {1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false, 131},
    {2, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}, false, 0},
    {0, {}, false, (int64_t)1 << 40},
    {0, {}, true, 0},
    {1, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, false, 1000},
    {0, {}, false, 0},
};

namespace {

double load(const dnn_problem &p, const void *at, int64_t i)
{
    switch (p.type) {
    case CUDNN_DATA_HALF:
        return weir_from_f16(((const uint16_t *)at)[i]);
    case CUDNN_DATA_BFLOAT16:
        return weir_from_bf16(((const uint16_t *)at)[i]);
    case CUDNN_DATA_DOUBLE:
        return ((const double *)at)[i];
    default:
        break;
    }
    float    v = ((const float *)at)[i];
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= p.engine == DNN_CORE ? ~UINT32_C(0x1fff) : ~UINT32_C(0);    /* TF32 */
    memcpy(&v, &bits, sizeof v);
    return v;
}

void store(const dnn_problem &p, void *at, int64_t i, double v)
{
    static int unsteady;
    if (p.engine == DNN_UNSTEADY)
        v *= 1 + 1e-4 * (++unsteady % 7);
    switch (p.type) {
    case CUDNN_DATA_HALF:
        ((uint16_t *)at)[i] = weir_to_f16((float)v);
        break;
    case CUDNN_DATA_BFLOAT16:
        ((uint16_t *)at)[i] = weir_to_bf16((float)v);
        break;
    case CUDNN_DATA_DOUBLE:
        ((double *)at)[i] = v;
        break;
    default:
        ((float *)at)[i] = (float)v;
    }
}

/* Visits the products of one cell of x, one tap of the window and one cell of y, for all
 * channels. */
template <class F>
void each_channel(const dnn_geometry &g, int64_t x, int64_t tap, int64_t y, F add)
{
    const int64_t groups = g.c / g.cg, og = g.o / groups;
    for (int64_t o = 0; o < g.o; o++)
        for (int64_t c = 0; c < g.cg; c++)
            add(x * g.c + o / og * g.cg + c, (o * g.kh * g.kw + tap) * g.cg + c, y * g.o + o);
}

/* Adds each product to its result: the roles of x, w and y depend on the pass; the last one is the
 * result. */
template <class F> void each_product(const dnn_geometry &g, F add)
{
    for (int64_t at = 0; at < g.n * g.oh * g.ow; at++) {
        const int64_t n = at / (g.oh * g.ow), i = at / g.ow % g.oh, j = at % g.ow;
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            const int64_t y = i * g.stride[0] - g.before[0] + tap / g.kw * g.dilation[0];
            const int64_t x = j * g.stride[1] - g.before[1] + tap % g.kw * g.dilation[1];
            if (y >= 0 && y < g.h && x >= 0 && x < g.w)
                each_channel(g, (n * g.h + y) * g.w + x, tap, at, add);
        }
    }
}

}

void dnn_run(const void *arguments)
{
    const dnn_problem  &p = *(const dnn_problem *)arguments;
    const dnn_geometry &g = p.g;
    const int64_t   size[3] = {g.n * g.h * g.w * g.c, g.o * g.kh * g.kw * g.cg,
                               g.n * g.oh * g.ow * g.o};
    const int       to = p.pass == 0 ? 2 : p.pass == 1 ? 0 : 1;
    std::vector<double> sum((size_t)size[to], 0.0);
    if (dnn_engines[p.engine].work > 0)
        memset(p.work, 0xff, (size_t)dnn_engines[p.engine].work);
    each_product(g, [&](int64_t x, int64_t w, int64_t y) {
        const int64_t i[3] = {x, w, y};
        double        product = 1;
        for (int k = 0; k < 3; k++)
            product *= k == to ? 1 : load(p, p.at[k], i[k]);
        sum[(size_t)i[to]] += product;
    });
    for (int64_t i = 0; i < size[to]; i++) {
        const double more = p.bias ? load(p, p.at[3], i % g.o) : 0;
        store(p, p.at[to], i, sum[(size_t)i] + more);
    }
}
