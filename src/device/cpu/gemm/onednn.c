/* onednn.c - the wrapper of oneDNN's C interface, version 2 (from 2.6) or 3.
 *
 * A prepared call is one main primitive, at most one reorder of the weights before it (forward,
 * grad_x) or after it (grad_w), and a list of operands whose addresses are set before each run.
 * Activations are channels-last. The library chooses the format of the weights; unless it takes
 * ours, they are reordered into the workspace, which also holds the scratchpad. The reorder also
 * rounds f32 weights of a convolution of halves.
 *
 * onednn_api.h hides the differences between the two interfaces. */
#include "device/cpu/gemm/onednn.h"

#include "device/cpu/context.h"
#include "device/cpu/gemm/conv_patch.h"

#ifdef WEIR_ONEDNN

#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cpu/gemm/onednn_api.h"
#include "device/cpu/isa.h"

/* ---- the library's objects, one set per device ---- */

typedef struct engine {
    dnnl_engine_t         cpu;
    dnnl_stream_t         stream;
    dnnl_primitive_attr_t attr; /* scratchpad mode: user */
} engine;

void weir_cpu_onednn_close(void *onednn)
{
    engine *const e = onednn;
    if (!e)
        return;
    if (e->attr)
        dnnl_primitive_attr_destroy(e->attr);
    if (e->stream)
        dnnl_stream_destroy(e->stream);
    if (e->cpu)
        dnnl_engine_destroy(e->cpu);
    weir_mem_free(e);
}

/* The device's engine, created at the first call. *out is NULL if the library cannot create one. */
static weir_status engine_of(weir_device *d, engine **out)
{
    weir_cpu *const cpu = weir_cpu_of(d);
    *out = cpu->onednn;
    if (*out)
        return WEIR_OK;
    engine *const e = weir_mem_zalloc(1, sizeof *e);
    if (!e)
        return WEIR_ERR_NOMEM;
    if (dnnl_engine_create(&e->cpu, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&e->stream, e->cpu, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_primitive_attr_create(&e->attr) != dnnl_success ||
        dnnl_primitive_attr_set_scratchpad_mode(e->attr, dnnl_scratchpad_mode_user) !=
            dnnl_success) {
        weir_cpu_onednn_close(e);
        return WEIR_OK;
    }
    *out = cpu->onednn = e;
    return WEIR_OK;
}

/* ---- memory of its own ---- */

/* What the library allocated at most in 3,000 drawn calls and the convolutions of test_op, by
 * version 2.6.3: a call to be prepared, 310 kB by malloc and 2.9 MB mapped for code; its first run
 * 3.4 kB and 262 kB; a later run less than the 1 KiB that is promised (guarantees.md). Where
 * it gets less, it ends the process. */
enum {
    PREPARE_HEAP = 1 << 20,
    PREPARE_MAP = 8 << 20,
    FIRST_RUN_HEAP = 64 << 10,
    FIRST_RUN_MAP = 1 << 20,
    RUN_HEAP = 1000
};

/* Fails with ERR_NOMEM unless the library can get this much. */
static weir_status spare(size_t heap, size_t map)
{
    if (weir_mem_can_alloc(heap) && (map == 0 || weir_mem_can_map(map)))
        return WEIR_OK;
    return weir_fail(WEIR_ERR_NOMEM, "out of memory: oneDNN wants %zu bytes of its own",
                     heap + map);
}

/* ---- a prepared call ---- */

/* Where an operand's address comes from: src, dst or the workspace. */
typedef enum place { SRC, DST, WORK } place;

typedef struct operand {
    dnnl_memory_t mem;
    place         from;
    size_t        at;   /* index in src or dst, or byte offset in the workspace */
    void         *last; /* the address that was set last */
} operand;

enum { MAX_OPERANDS = 6, WORK_UNIT = 64 };

struct weir_onednn {
    engine          *e;
    operand          operand[MAX_OPERANDS];
    dnnl_exec_arg_t  arg[MAX_OPERANDS]; /* of the main primitive */
    dnnl_exec_arg_t  turn[2];           /* of the reorder: from, to */
    int              noperands, nargs;
    dnnl_primitive_t main, before, after; /* before and after: a reorder or NULL */
    bool             ran;
    size_t           work;
    char             impl[96];
};

bool weir_onednn_present(void)
{
    return true;
}

/* f32 always, bf16 from AVX512_BF16 on, f16 from AVX512_FP16 on. WEIR_ISA and ONEDNN_MAX_CPU_ISA
 * may rule a half out. Without the instructions the library would emulate them, which takes longer
 * than f32. */
bool weir_onednn_multiplies(weir_dtype t)
{
    enum { AVX512_CORE_BF16 = 0xe7, AVX512_CORE_FP16 = 0x1ef }; /* of dnnl_cpu_isa_t; bits add up */
    const int has = (int)dnnl_get_effective_cpu_isa();
    const int needs = t == WEIR_BF16 ? AVX512_CORE_BF16 : AVX512_CORE_FP16;
    if (t == WEIR_F32)
        return true;
    return weir_is_half(t) && weir_cpu_isa() == WEIR_ISA_AVX512 && (has & needs) == needs;
}

size_t weir_onednn_work(const weir_onednn *p)
{
    return p->work;
}

const char *weir_onednn_impl(const weir_onednn *p)
{
    return p->impl;
}

void weir_onednn_free(void *prepared)
{
    weir_onednn *const p = prepared;
    if (!p)
        return;
    const dnnl_primitive_t all[] = {p->main, p->before, p->after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            dnnl_primitive_destroy(all[i]);
    for (int i = 0; i < p->noperands; i++)
        dnnl_memory_destroy(p->operand[i].mem);
    weir_mem_free(p);
}

static weir_status failed(const weir_onednn *p)
{
    return weir_fail(WEIR_ERR_DEVICE, "%s failed to run", p->impl);
}

weir_status weir_onednn_run(weir_onednn *p, void *const *src, void *const *dst, void *work,
                            weir_threads *t)
{
    WEIR_TRY(spare(p->ran ? RUN_HEAP : FIRST_RUN_HEAP, p->ran ? 0 : FIRST_RUN_MAP));
    WEIR_TRY(weir_threads_lend(t));
    /* The library may leave the end of its scratchpad unused; all that it requested counts as
     * used. */
    if (p->work > 0)
        memset((char *)work + p->work - WORK_UNIT, 0, WORK_UNIT);
    for (int i = 0; i < p->noperands; i++) {
        operand *const o = &p->operand[i];
        void *const    at = o->from == SRC   ? src[o->at]
                            : o->from == DST ? dst[o->at]
                                             : (void *)((char *)work + o->at);
        if (at != o->last && dnnl_memory_set_data_handle(o->mem, at) != dnnl_success)
            return failed(p);
        o->last = at;
    }
    const dnnl_stream_t s = p->e->stream;
    if ((p->before && dnnl_primitive_execute(p->before, s, 2, p->turn) != dnnl_success) ||
        dnnl_primitive_execute(p->main, s, p->nargs, p->arg) != dnnl_success ||
        (p->after && dnnl_primitive_execute(p->after, s, 2, p->turn) != dnnl_success) ||
        dnnl_stream_wait(s) != dnnl_success)
        return failed(p);
    p->ran = true;
    return WEIR_OK;
}

/* ---- preparing ---- */

/* Adds an operand with description m; NULL on failure. */
static dnnl_memory_t add_operand(weir_onednn *p, seen m, place from, size_t at)
{
    operand *const o = &p->operand[p->noperands];
    *o = (operand){.from = from, .at = at};
    if (dnnl_memory_create(&o->mem, m, p->e->cpu, DNNL_MEMORY_NONE) != dnnl_success)
        return NULL;
    p->noperands++;
    return o->mem;
}

/* Adds an operand that the main primitive knows as argument `id`. */
static bool add_arg(weir_onednn *p, int id, seen m, place from, size_t at)
{
    const dnnl_memory_t mem = add_operand(p, m, from, at);
    p->arg[p->nargs] = (dnnl_exec_arg_t){.arg = id, .memory = mem};
    p->nargs += mem != NULL;
    return mem != NULL;
}

/* Reserves space for m at the end of the workspace; returns its offset. */
static size_t add_work(weir_onednn *p, seen m)
{
    const size_t at = p->work;
    p->work += (dnnl_memory_desc_get_size(m) + WORK_UNIT - 1) / WORK_UNIT * WORK_UNIT;
    return at;
}

/* Adds the weights as argument `id`: the primitive wants format `inner`, the caller has `outer` in
 * src or dst number `at`. If they differ, the weights are reordered through the workspace. */
static bool add_weights(weir_onednn *p, int id, seen inner, seen outer, place from, size_t at)
{
    if (dnnl_memory_desc_equal(inner, outer))
        return add_arg(p, id, outer, from, at);
    const dnnl_memory_t ours = add_operand(p, outer, from, at);
    if (!ours || !add_arg(p, id, inner, WORK, add_work(p, inner)))
        return false;
    const dnnl_memory_t   theirs = p->operand[p->noperands - 1].mem;
    const bool            in = from == SRC;
    dnnl_primitive_desc_t pd = NULL;
    p->turn[0] = (dnnl_exec_arg_t){.arg = DNNL_ARG_FROM, .memory = in ? ours : theirs};
    p->turn[1] = (dnnl_exec_arg_t){.arg = DNNL_ARG_TO, .memory = in ? theirs : ours};
    const bool made =
        dnnl_reorder_primitive_desc_create(&pd, in ? outer : inner, p->e->cpu, in ? inner : outer,
                                           p->e->cpu, NULL) == dnnl_success &&
        dnnl_primitive_create(in ? &p->before : &p->after, pd) == dnnl_success;
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return made;
}

/* Adds the primitive and its scratchpad. False if the library has only its reference code, or only
 * its packed product ("gemm:"), which allocates memory in every run. */
static bool add_main(weir_onednn *p, const_dnnl_primitive_desc_t pd)
{
    const char *const info = impl_of(pd);
    if (strstr(info, "ref") || strstr(info, "gemm:"))
        return false;
    snprintf(p->impl, sizeof p->impl, "onednn %s", info);
    const seen scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    if (scratch && dnnl_memory_desc_get_size(scratch) > 0 &&
        !add_arg(p, DNNL_ARG_SCRATCHPAD, scratch, WORK, add_work(p, scratch)))
        return false;
    return dnnl_primitive_create(&p->main, pd) == dnnl_success;
}

/* Creates an empty call. *out is NULL if the library is not usable for the type. */
static weir_status begin(weir_device *d, weir_dtype t, weir_onednn **out)
{
    engine *e;
    *out = NULL;
    if (!weir_onednn_multiplies(t))
        return WEIR_OK;
    WEIR_TRY(spare(PREPARE_HEAP, PREPARE_MAP));
    WEIR_TRY(weir_threads_lend(d->threads));
    WEIR_TRY(engine_of(d, &e));
    if (!e)
        return WEIR_OK;
    weir_onednn *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->e = e;
    *out = p;
    return WEIR_OK;
}

/* ---- convolution ---- */

/* Descriptors of a convolution. any: weights in a format that the library chooses. */
typedef struct conv_descs {
    desc          x, w, any, b, y;
    conv_geometry g;
} conv_descs;

static bool activation(desc *d, weir_dtype t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return desc_make(d, t, 4, (dnnl_dims_t){n, c, h, w}, (dnnl_dims_t){h * w * c, 1, w * c, c});
}

static bool weights(conv_descs *m, const weir_conv *c)
{
    const int64_t     cg = weir_conv_cg(c), og = weir_conv_og(c), row = c->kh * c->kw * cg;
    const bool        grouped = c->groups > 1;
    const dnnl_dims_t five = {c->groups, og, cg, c->kh, c->kw};
    const dnnl_dims_t plain = {og * row, row, 1, c->kw * cg, cg};
    const dnnl_dims_t turned = {0, 1, c->kh * c->kw * og, c->kw * og, og};
    const int         skip = grouped ? 0 : 1;
    const weir_dtype  stored = c->wide ? WEIR_F32 : c->dtype;
    return desc_make(&m->w, stored, 5 - skip, five + skip, (c->turned ? turned : plain) + skip) &&
           desc_make(&m->any, c->dtype, 5 - skip, five + skip, NULL);
}

/* Padding after the image along axis i: equal to the padding before it if that gives the output's
 * size, else what the last window needs. */
static int64_t pad_after(const weir_conv *c, int i)
{
    const int64_t in = i == 0 ? c->h : c->w, out = i == 0 ? c->oh : c->ow;
    const int64_t span = c->dilation[i] * ((i == 0 ? c->kh : c->kw) - 1) + 1;
    const int64_t slack = in + 2 * c->pad[i] - span, need = (out - 1) * c->stride[i] + span - in;
    if (slack >= 0 && slack / c->stride[i] + 1 == out)
        return c->pad[i];
    return need > c->pad[i] ? need - c->pad[i] : 0;
}

static bool describe(conv_descs *m, const weir_conv *c, bool bias)
{
    *m = (conv_descs){0};
    for (int i = 0; i < 2; i++) {
        m->g.strides[i] = c->stride[i];
        m->g.dilates[i] = c->dilation[i] - 1;
        m->g.pad[i] = c->pad[i];
        m->g.end[i] = pad_after(c, i);
    }
    return activation(&m->x, c->dtype, c->n, c->c, c->h, c->w) &&
           activation(&m->y, c->dtype, c->n, c->o, c->oh, c->ow) && weights(m, c) &&
           (!bias || desc_make(&m->b, c->dtype, 1, (dnnl_dims_t){c->o}, (dnnl_dims_t){1}));
}

static void forget(conv_descs *m)
{
    desc *const all[] = {&m->x, &m->w, &m->any, &m->b, &m->y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        desc_free(all[i]);
}

static bool add_forward(weir_onednn *p, const conv_descs *m, const_dnnl_primitive_desc_t pd)
{
    const seen w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), b = see(&m->b);
    return add_arg(p, DNNL_ARG_SRC, see(&m->x), SRC, 0) &&
           add_weights(p, DNNL_ARG_WEIGHTS, w, see(&m->w), SRC, 1) &&
           (!b || add_arg(p, DNNL_ARG_BIAS, b, SRC, 2)) &&
           add_arg(p, DNNL_ARG_DST, see(&m->y), DST, 0) && add_main(p, pd);
}

static bool add_grad_x(weir_onednn *p, const conv_descs *m, const_dnnl_primitive_desc_t pd)
{
    const seen w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    return add_arg(p, DNNL_ARG_DIFF_DST, see(&m->y), SRC, 0) &&
           add_weights(p, DNNL_ARG_WEIGHTS, w, see(&m->w), SRC, 1) &&
           add_arg(p, DNNL_ARG_DIFF_SRC, see(&m->x), DST, 0) && add_main(p, pd);
}

static bool add_grad_w(weir_onednn *p, const conv_descs *m, const_dnnl_primitive_desc_t pd)
{
    const seen w = dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0), b = see(&m->b);
    return add_arg(p, DNNL_ARG_SRC, see(&m->x), SRC, 0) &&
           add_arg(p, DNNL_ARG_DIFF_DST, see(&m->y), SRC, 1) &&
           add_weights(p, DNNL_ARG_DIFF_WEIGHTS, w, see(&m->w), DST, 0) &&
           (!b || add_arg(p, DNNL_ARG_DIFF_BIAS, b, DST, 1)) && add_main(p, pd);
}

/* Creates the pass's primitive descriptor and everything that follows from it. Gradients need a
 * forward descriptor as a hint. */
static bool add_conv(weir_onednn *p, const conv_descs *m, const weir_conv *c,
                     weir_conv_pass pass)
{
    const seen                  x = see(&m->x), w = see(&m->any), b = see(&m->b), y = see(&m->y);
    const dnnl_engine_t         e = p->e->cpu;
    const dnnl_primitive_attr_t attr = p->e->attr;
    dnnl_primitive_desc_t       forward = NULL, back = NULL;
    bool                        made = forward_pd(&forward, e, x, w, b, y, &m->g, attr);
    if (made && pass == WEIR_CONV_FORWARD)
        made = add_forward(p, m, forward);
    else if (made && pass == WEIR_CONV_GRAD_X)
        made = grad_x_pd(&back, e, x, w, y, &m->g, forward, attr) && add_grad_x(p, m, back);
    else if (made)
        made = grad_w_pd(&back, e, x, w, b, y, &m->g, forward, attr, c) && add_grad_w(p, m, back);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    if (back)
        dnnl_primitive_desc_destroy(back);
    return made;
}

weir_status weir_onednn_conv(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                             weir_onednn **out)
{
    *out = NULL;
    if (weir_onednn_half_defect(c, pass))
        return WEIR_OK;
    WEIR_TRY(begin(d, c->dtype, out));
    if (!*out)
        return WEIR_OK;
    conv_descs m;
    if (!describe(&m, c, bias) || !add_conv(*out, &m, c, pass)) {
        weir_onednn_free(*out);
        *out = NULL;
    }
    forget(&m);
    return WEIR_OK;
}

/* ---- matmul ---- */

/* A stored matrix of rows x cols with leading dimension ld; turned: its transpose. */
static bool matrix(desc *d, weir_dtype t, int64_t rows, int64_t cols, int64_t ld, bool turned)
{
    return turned ? desc_make(d, t, 2, (dnnl_dims_t){rows, cols}, (dnnl_dims_t){1, ld})
                  : desc_make(d, t, 2, (dnnl_dims_t){rows, cols}, (dnnl_dims_t){ld, 1});
}

static bool add_matmul(weir_onednn *p, seen a, seen b, seen bias, seen c)
{
    dnnl_primitive_desc_t pd = NULL;
    const bool            made = matmul_pd(&pd, p->e->cpu, a, b, bias, c, p->e->attr) &&
                      add_arg(p, DNNL_ARG_SRC, a, SRC, 0) &&
                      add_arg(p, DNNL_ARG_WEIGHTS, b, SRC, 1) &&
                      (!bias || add_arg(p, DNNL_ARG_BIAS, bias, SRC, 2)) &&
                      add_arg(p, DNNL_ARG_DST, c, DST, 0) && add_main(p, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return made;
}

weir_status weir_onednn_matmul(weir_device *d, const weir_gemm_shape *s, bool bias,
                               weir_onednn **out)
{
    WEIR_TRY(begin(d, s->dtype, out));
    if (!*out)
        return WEIR_OK;
    const weir_dtype t = s->dtype;
    desc             a = {0}, b = {0}, v = {0}, c = {0};
    if (!matrix(&a, t, s->m, s->k, s->lda, s->ta) || !matrix(&b, t, s->k, s->n, s->ldb, s->tb) ||
        !matrix(&c, t, s->m, s->n, s->ldc, false) ||
        (bias && !matrix(&v, t, 1, s->n, s->n, false)) ||
        !add_matmul(*out, see(&a), see(&b), see(&v), see(&c))) {
        weir_onednn_free(*out);
        *out = NULL;
    }
    desc *const all[] = {&a, &b, &v, &c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        desc_free(all[i]);
    return WEIR_OK;
}

/* The name of a set that all versions from 2.0 on have; "" of others. */
static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char    *name;
    } known[] = {{dnnl_cpu_isa_sse41, " (sse41)"},
                 {dnnl_cpu_isa_avx, " (avx)"},
                 {dnnl_cpu_isa_avx2, " (avx2)"},
                 {dnnl_cpu_isa_avx512_core, " (avx512_core)"},
                 {dnnl_cpu_isa_avx512_core_vnni, " (avx512_core_vnni)"},
                 {dnnl_cpu_isa_avx512_core_bf16, " (avx512_core_bf16)"},
                 {dnnl_cpu_isa_avx512_core_amx, " (avx512_core_amx)"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].isa == isa)
            return known[i].name;
    return "";
}

void weir_cpu_onednn_info(weir_string *s)
{
    const dnnl_version_t *const v = dnnl_version();
    const dnnl_cpu_isa_t        isa = dnnl_get_effective_cpu_isa();
    weir_string_add(s, "oneDNN: %d.%d.%d, instruction set 0x%x%s\n", v->major, v->minor, v->patch,
                    (unsigned)isa, isa_name(isa));
}

#else

bool weir_onednn_present(void)
{
    return false;
}

weir_status weir_onednn_conv(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                             weir_onednn **out)
{
    (void)d, (void)c, (void)pass, (void)bias;
    *out = NULL;
    return WEIR_OK;
}

weir_status weir_onednn_matmul(weir_device *d, const weir_gemm_shape *s, bool bias,
                               weir_onednn **out)
{
    (void)d, (void)s, (void)bias;
    *out = NULL;
    return WEIR_OK;
}

size_t weir_onednn_work(const weir_onednn *p)
{
    (void)p;
    return 0;
}

const char *weir_onednn_impl(const weir_onednn *p)
{
    (void)p;
    return "";
}

void weir_onednn_free(void *p)
{
    (void)p;
}

weir_status weir_onednn_run(weir_onednn *p, void *const *src, void *const *dst, void *work,
                            weir_threads *t)
{
    (void)p, (void)src, (void)dst, (void)work, (void)t;
    return WEIR_OK;
}

void weir_cpu_onednn_close(void *onednn)
{
    (void)onednn;
}

void weir_cpu_onednn_info(weir_string *s)
{
    weir_string_add(s, "oneDNN: not part of this build\n");
}

bool weir_onednn_multiplies(weir_dtype t)
{
    (void)t;
    return false;
}

#endif

static weir_status run_prepared(const weir_kargs *k)
{
    return weir_onednn_run(k->state, k->src, k->dst, k->work, k->threads);
}

weir_kernel weir_onednn_kernel(weir_onednn *p)
{
    return (weir_kernel){.run = run_prepared,
                         .work = weir_onednn_work(p),
                         .state = p,
                         .destroy = weir_onednn_free,
                         .impl = weir_onednn_impl(p)};
}
