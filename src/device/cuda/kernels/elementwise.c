/* elementwise.c - runs rows of elementwise.def, alone or chained, as one generated kernel.
 *
 * The outputs are dense; positions 0..n-1 are counted in their physical order. Parameters that are
 * the same in every run are written once; a run adds addresses, which of them allow vector reads
 * and writes, and its random position. */
#include "device/cuda/kernels/elementwise.h"

#include "device/common/operand.h"
#include "device/cuda/codegen/compile.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/runtime/geometry.h"

typedef struct parameter {
    weir_field field;
    uint64_t   word;
} parameter;

typedef struct rows {
    CUfunction f;
    unsigned   blocks;
    uint64_t   may_be_wide;     /* like WEIR_FIELD_WIDE, if the addresses are aligned too */
    int        n;
    parameter  at[];
} rows;

/* ---- running ---- */

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static uint64_t wide_of(const rows *r, const weir_kargs *k)
{
    uint64_t wide = ~(uint64_t)0 << WEIR_WIDE_SAME;

    for (int i = 0; i < k->call->nin; i++)
        wide |= (uint64_t)(address(k->src[i]) % 16 == 0) << i;
    for (int i = 0; i < k->call->nout; i++)
        wide |= (uint64_t)(address(k->dst[i]) % 16 == 0) << (WEIR_WIDE_OUT + i);
    return wide & r->may_be_wide;
}

static uint64_t word_of(const rows *r, const parameter *p, const weir_kargs *k)
{
    switch (p->field.kind) {
    case WEIR_FIELD_WIDE: return wide_of(r, k);
    case WEIR_FIELD_IN:   return address(k->src[p->field.index]);
    case WEIR_FIELD_OUT:  return address(k->dst[p->field.index]);
    case WEIR_FIELD_SEED: return k->seed;
    case WEIR_FIELD_DRAW: return address(k->draw);
    case WEIR_FIELD_RNG:  return k->rng + p->word;
    default:              return p->word;
    }
}

static weir_status rows_run(const weir_kargs *k)
{
    const rows *const r = (const rows *)k->state;
    uint64_t          word[WEIR_FIELDS];

    for (int i = 0; i < r->n; i++)
        word[i] = word_of(r, &r->at[i], k);
    return weir_cuda_launch(k, r->f, r->blocks, word);
}

static weir_status nothing_run(const weir_kargs *k)
{
    (void)k;
    return WEIR_OK;
}

/* ---- selecting ---- */

/* True if every aligned group of `width` positions is contiguous, at a multiple of 16 bytes from
 * the operand's first element. */
static bool adjacent(const operand_axes *o, int64_t width, int64_t size)
{
    if (operand_is_dense(o))
        return true;
    bool good = o->stride[o->n - 1] == 1 && o->dim[o->n - 1] % width == 0;
    for (int i = 0; i < o->n - 1; i++)
        good = good && o->stride[i] * size % 16 == 0;
    return good;
}

/* True if every aligned group of `width` positions reads one element. */
static bool same(const operand_axes *o, int64_t width)
{
    return o->n > 0 && o->stride[o->n - 1] == 0 && o->dim[o->n - 1] % width == 0;
}

/* The value of a parameter that is the same in every run; of RNG the constant part. */
static uint64_t word_fixed(const weir_field *f, const weir_source *s, int64_t n,
                           const operand_axes *in)
{
    const weir_ew_step *const step = &s->program->step[f->index];

    switch (f->kind) {
    case WEIR_FIELD_COUNT:  return (uint64_t)n;
    case WEIR_FIELD_S:      return weir_source_attr((weir_dtype)s->program->type, step->s);
    case WEIR_FIELD_T:      return weir_source_attr((weir_dtype)s->program->type, step->t);
    case WEIR_FIELD_RNG:    return step->rng;
    case WEIR_FIELD_STRIDE: return (uint64_t)in[f->index].stride[f->axis];
    case WEIR_FIELD_DIM:    return (uint64_t)in[f->index].dim[f->axis];
    case WEIR_FIELD_MAGIC:  return weir_source_magic(in[f->index].dim[f->axis]);
    default:                return 0;
    }
}

static rows *rows_make(const weir_source *s, const weir_call *c, const operand_axes *in)
{
    const int64_t n = weir_shape_count(&c->out[0].desc), width = weir_source_width(s);
    weir_field    field[WEIR_FIELDS];
    const int     fields = weir_source_fields(s, field);
    rows *const   r = (rows *)weir_mem_zalloc(1, sizeof *r + (size_t)fields * sizeof *r->at);

    if (!r)
        return NULL;
    r->n = fields;
    r->blocks = weir_cuda_blocks(ceil_div(n, width));
    r->may_be_wide = (((uint64_t)1 << c->nout) - 1) << WEIR_WIDE_OUT;
    for (int i = 0; i < c->nin; i++) {
        const int64_t size = (int64_t)weir_dtype_size(s->in[i]);
        r->may_be_wide |= (uint64_t)adjacent(&in[i], width, size) << i |
                          (uint64_t)same(&in[i], width) << (WEIR_WIDE_SAME + i);
    }
    for (int i = 0; i < fields; i++)
        r->at[i] = (parameter){field[i], word_fixed(&field[i], s, n, in)};
    return r;
}

static weir_status choose(weir_device *d, const weir_call *c, const weir_ew_program *p,
                          weir_kernel *out)
{
    const int64_t n = weir_shape_count(&c->out[0].desc);
    weir_source   s = {.program = p, .large = n > INT32_MAX};
    operand_axes  in[WEIR_EW_MAX_IN];
    weir_op       op;

    if (!weir_source_has(p, &op))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "%s has no CUDA kernel for %s",
                              weir_op_name(op), weir_dtype_name((weir_dtype)p->type));
    *out = (weir_kernel){.run = nothing_run, .impl = "nvrtc"};
    if (n == 0)
        return WEIR_OK;
    for (int i = 0; i < c->nout; i++)
        s.out[i] = c->out[i].desc.dtype;
    for (int i = 0; i < c->nin; i++) {
        s.in[i] = c->in[i].desc.dtype;
        operand_axes_make(&c->out[0], &c->in[i], &in[i]);
        s.read[i] = operand_is_dense(&in[i])    ? WEIR_READ_DENSE
                    : operand_is_scalar(&in[i]) ? WEIR_READ_SCALAR
                                                : in[i].n;
    }
    rows *const r = rows_make(&s, c, in);
    if (!r)
        return WEIR_ERR_NOMEM;
    const weir_status status = weir_cuda_compile(d, c, &s, &r->f);
    if (status != WEIR_OK) {
        weir_mem_free(r);
        return status;
    }
    *out = (weir_kernel){.run = rows_run, .state = r, .destroy = weir_mem_free, .impl = "nvrtc"};
    return WEIR_OK;
}

weir_status weir_cuda_elementwise(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_ew_program p = weir_ew_program_of(c);

    return choose(d, c, &p, out);
}

weir_status weir_cuda_fused(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose(d, c, (const weir_ew_program *)c->attr, out);
}
