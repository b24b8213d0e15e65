/* lstm.cu - a whole sequence of an LSTM, and its gradient.
 *
 * The gates already hold the input's part: a step adds to it one product of the state with the
 * recurrent weights, and one kernel computes everything element-wise (Appleyard and others,
 * "Optimizing performance of recurrent neural networks on GPUs", 2016). The gradient runs backwards
 * in the same way: a product with the next step's gradient gives what flows in. Halves are computed
 * in f32 and rounded as they are stored. */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/maths.h"
#include "device/cuda/kernels/multiply.h"

enum { GATES = 4 };

/* t steps of n rows, w hidden units. */
struct lstm_plan {
    weir_multiply product;
    int64_t       t, n, w;
    bool          backward, dc;         /* dc: the call has a sixth input */
};

/* The type in which elements of a type are computed. */
template <class T> using lstm_value = decltype(weir_value(T()));

/* ---- one step; the gates i f g o of a unit are w apart in a row of 4 w ---- */

/* The summed gates become i f g o; c and h follow from them and the previous cell state. */
template <class T>
static __global__ void lstm_cell(T *gates, const T *before, T *c, T *h, int64_t n, int64_t w)
{
    typedef lstm_value<T> V;
    WEIR_EACH(at, n * w)
    {
        T *const gate = gates + at / w * GATES * w + at % w;
        const V  i = 1 / (1 + weir_exp(-weir_value(gate[0])));
        const V  f = 1 / (1 + weir_exp(-weir_value(gate[w])));
        const V  g = weir_tanh(weir_value(gate[2 * w]));
        const V  o = 1 / (1 + weir_exp(-weir_value(gate[3 * w])));
        const V  cell = f * weir_value(before[at]) + i * g;
        weir_put(&gate[0], i);
        weir_put(&gate[w], f);
        weir_put(&gate[2 * w], g);
        weir_put(&gate[3 * w], o);
        weir_put(&c[at], cell);
        weir_put(&h[at], o * weir_tanh(cell));
    }
}

/* Arguments of one step. before: its initial cell state. dc and carry_h, the gradient that flows in
 * from the next step, may be NULL. carry_c also flows in, except into the last step, and becomes
 * the gradient of the previous cell state. gates and dgates may share memory. */
template <class T> struct lstm_back_args {
    const T *gates, *before, *c, *dh, *dc, *carry_h;
    T       *carry_c, *dgates;
    int64_t  n, w;
};

template <class T> static __global__ void lstm_back(const lstm_back_args<T> p)
{
    typedef lstm_value<T> V;
    const int64_t         w = p.w;
    WEIR_EACH(at, p.n * w)
    {
        const int64_t  row = at / w * GATES * w + at % w;
        const T *const gate = p.gates + row;
        T *const       to = p.dgates + row;
        const V        i = weir_value(gate[0]), f = weir_value(gate[w]);
        const V        g = weir_value(gate[2 * w]), o = weir_value(gate[3 * w]);
        const V        tanh_c = weir_tanh(weir_value(p.c[at]));
        const V        d = (p.carry_h ? weir_value(p.carry_h[at]) : (V)0) + weir_value(p.dh[at]);
        const V        come = p.carry_h ? weir_value(p.carry_c[at]) : (V)0;
        const V        through = come + d * o * (1 - tanh_c * tanh_c);
        const V        sum = p.dc ? through + weir_value(p.dc[at]) : through;
        weir_put(&to[0], sum * g * i * (1 - i));
        weir_put(&to[w], sum * weir_value(p.before[at]) * f * (1 - f));
        weir_put(&to[2 * w], sum * i * (1 - g * g));
        weir_put(&to[3 * w], d * tanh_c * o * (1 - o));
        weir_put(&p.carry_c[at], sum * f);
    }
}

/* ---- runs ---- */

static unsigned lstm_grid(const lstm_plan *p)
{
    return weir_cuda_blocks(p->n * p->w);
}

/* Address of step `step` of a tensor whose rows have `units` times w elements. */
template <class T>
static T *lstm_at(const lstm_plan *p, void *base, int64_t step, int64_t units)
{
    return (T *)base + step * p->n * units * p->w;
}

/* gates, w_hh, h0, c0 -> gates, h, c */
template <class T> static weir_status lstm_run(const weir_kargs *k)
{
    const lstm_plan *const p = (const lstm_plan *)k->state;
    const T               *h = (const T *)k->src[2], *c = (const T *)k->src[3];
    for (int64_t i = 0; i < p->t; i++) {
        const int64_t       step = p->backward ? p->t - 1 - i : i;
        T *const            gates = lstm_at<T>(p, k->dst[0], step, GATES);
        T *const            to_h = lstm_at<T>(p, k->dst[1], step, 1);
        T *const            to_c = lstm_at<T>(p, k->dst[2], step, 1);
        const weir_operands o = {.a = h,
                                 .b = k->src[1],
                                 .add = lstm_at<T>(p, k->src[0], step, GATES),
                                 .to = gates,
                                 .work = k->work};
        WEIR_TRY(weir_multiply_run(k, &p->product, &o));
        WEIR_TRY(weir_launch(k, lstm_cell<T>, lstm_grid(p), WEIR_CUDA_THREADS, gates, c, to_c, to_h,
                             p->n, p->w));
        h = to_h;
        c = to_c;
    }
    return WEIR_OK;
}

/* Queues the product that gives the gradient of the state before a step; dh0 holds it. */
template <class T> static weir_status lstm_carry(const weir_kargs *k, int64_t step)
{
    const lstm_plan *const p = (const lstm_plan *)k->state;
    const weir_operands    o = {.a = lstm_at<T>(p, k->dst[0], step, GATES),
                                .b = k->src[1],
                                .to = k->dst[1],
                                .work = k->work};
    return weir_multiply_run(k, &p->product, &o);
}

/* gates, w_hh, c, c0, dh, (dc) -> dgates, dh0, dc0 */
template <class T> static weir_status lstm_grad_run(const weir_kargs *k)
{
    const lstm_plan *const p = (const lstm_plan *)k->state;
    for (int64_t i = 0; i < p->t; i++) {
        const int64_t           step = p->backward ? i : p->t - 1 - i;
        const int64_t           before = p->backward ? step + 1 : step - 1;
        const bool              first = i == p->t - 1;
        const lstm_back_args<T> g = {
            .gates = lstm_at<T>(p, k->src[0], step, GATES),
            .before = first ? (const T *)k->src[3] : lstm_at<T>(p, k->src[2], before, 1),
            .c = lstm_at<T>(p, k->src[2], step, 1),
            .dh = lstm_at<T>(p, k->src[4], step, 1),
            .dc = p->dc ? lstm_at<T>(p, k->src[5], step, 1) : NULL,
            .carry_h = i > 0 ? (const T *)k->dst[1] : NULL,
            .carry_c = (T *)k->dst[2],
            .dgates = lstm_at<T>(p, k->dst[0], step, GATES),
            .n = p->n,
            .w = p->w};
        WEIR_TRY(weir_launch(k, lstm_back<T>, lstm_grid(p), WEIR_CUDA_THREADS, g));
        WEIR_TRY(lstm_carry<T>(k, step));
    }
    return WEIR_OK;
}

/* ---- selecting ---- */

/* The product of a step: n x w by (4w x w)^T or, for the gradient, n x 4w by 4w x w. */
static weir_product lstm_product(const lstm_plan *p, weir_dtype t, bool back)
{
    const int64_t wide = GATES * p->w;
    return {.dtype = t,
            .tb = !back,
            .add = !back,
            .m = p->n,
            .n = back ? p->w : wide,
            .k = back ? wide : p->w,
            .lda = back ? wide : p->w,
            .ldb = p->w,
            .ldc = back ? p->w : wide};
}

static void lstm_free(void *state)
{
    weir_multiply_drop(&((lstm_plan *)state)->product);
    weir_mem_free(state);
}

typedef weir_status (*lstm_run_fn)(const weir_kargs *k);

template <class T> static lstm_run_fn lstm_run_of(bool back)
{
    return back ? lstm_grad_run<T> : lstm_run<T>;
}

static weir_status lstm_choose(weir_device *d, const weir_call *c, bool back, weir_kernel *out)
{
    const weir_desc *const gates = &c->in[0].desc;
    lstm_plan *const       p = (lstm_plan *)weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->t = gates->dim[0], p->n = gates->dim[1], p->w = gates->dim[2] / GATES;
    p->backward = ((const weir_lstm_attr *)c->attr)->backward != 0;
    p->dc = back && c->nin == 6;
    const weir_product product = lstm_product(p, gates->dtype, back);
    const weir_status  s = weir_multiply_plan(d, c, &product, &p->product);
    if (s != WEIR_OK) {
        weir_mem_free(p);
        return s;
    }
    *out = {};
    out->run = gates->dtype == WEIR_F64    ? lstm_run_of<double>(back)
               : gates->dtype == WEIR_F16  ? lstm_run_of<weir_f16>(back)
               : gates->dtype == WEIR_BF16 ? lstm_run_of<weir_bf16>(back)
                                           : lstm_run_of<float>(back);
    out->work = p->product.work;
    out->state = p;
    out->destroy = lstm_free;
    out->impl = p->product.impl;
    return WEIR_OK;
}

weir_status weir_cuda_lstm(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return lstm_choose(d, c, false, out);
}

weir_status weir_cuda_lstm_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return lstm_choose(d, c, true, out);
}
