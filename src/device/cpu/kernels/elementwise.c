/* elementwise.c - runs rows of elementwise.def, alone or chained, in one pass over memory.
 *
 * The outputs are dense; positions 0..n-1 are counted in their physical order. Work is divided into
 * tasks and tasks into tiles, by shape only. Each step of the chain is one call of a row function
 * per tile; the result of a step that later steps read stays in a tile buffer on the worker's
 * stack, so the memory traffic of a chain is that of its inputs and outputs. A chain in f32 widens
 * tiles of half inputs and rounds tiles of half results in such buffers too.
 *
 * In place: an output may share the address of a DENSE input. A step writes to output memory only
 * if no later step reads a DENSE input; otherwise the values stay in a buffer until the tile's
 * end. */
#include "device/cpu/kernels/elementwise.h"

#include <assert.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fused.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/run.h"
#include "device/common/operand.h"

/* A tile has TILE_BYTES or a little less; TASK_SMALL, TASK_LARGE and LARGE are in elements. */
enum {
    TILE_BYTES  = 4096,
    TASK_SMALL  = 16 << 10,
    TASK_LARGE  = 64 << 10,
    LARGE       = 4 << 20,                  /* larger tensors have large tasks */
    ALIGN       = 64,
    AHEAD       = 2,                        /* tiles by which memory is prefetched */
    CACHED      = 256 << 10,                /* operands up to these bytes are not prefetched */
    STACK_SMALL = 32 << 10,
    /* At most two tiles for an input that is expanded or widened, and one for each step. */
    STACK_LARGE = (2 * WEIR_EW_MAX_IN + WEIR_EW_MAX_STEPS) * (TILE_BYTES + ALIGN)
};

typedef enum operand_mode {
    DENSE,          /* position i is element i: read in place */
    SCALAR,         /* one element: a tile of copies is made once per task */
    PERIODIC,       /* repeats after `period` contiguous elements: expanded once per task */
    STRIDED         /* any other: gathered tile by tile, or read in place if a tile is contiguous */
} operand_mode;

typedef struct operand {
    operand_mode mode;
    operand_axes axes;
    int64_t      period;
    size_t       size;                      /* bytes of an element */
    size_t       buf;                       /* offset of its tile buffer */
    weir_half_fn widen;                     /* from a half to the chain's type; NULL for others */
    size_t       wide;                      /* DENSE and STRIDED halves: offset of an f32 tile */
} operand;

typedef struct step {
    weir_row_fn fn;
    int         nsrc, src[WEIR_MAX_IN];     /* values: first the inputs, then the steps' results */
    double      s, t;
    uint64_t    rng;
    void      (*round)(int64_t n, float *x);    /* for steps that read the result; or NULL */
    int         out;                        /* the output that the step writes, else -1 */
    size_t      buf;                        /* if -1: offset of the result's tile buffer */
} step;

typedef struct chain {
    size_t  size;                           /* bytes of an element */
    int64_t n, tile, task;
    int     nin, nwiden, nstep, nout, ncopy;
    size_t  stack;                          /* bytes of all tile buffers */
    operand in[WEIR_EW_MAX_IN];
    int     widen[WEIR_EW_MAX_IN];          /* inputs that are widened tile by tile */
    step    step[WEIR_EW_MAX_STEPS];
    size_t  out_size[WEIR_EW_MAX_OUT];
    struct {
        int          out, value;
        weir_half_fn narrow;                /* NULL: copied without conversion */
    } copy[WEIR_EW_MAX_OUT];                /* outputs that are copied at the end of a tile */
} chain;

/* ---- reading inputs ---- */

/* Positions [pos, pos + n) of a STRIDED operand: in place if contiguous, else copied to `to`. */
static const void *gather(const operand_axes *o, const char *src, int64_t pos, int64_t n, char *to,
                          size_t size)
{
    const int last = o->n - 1;
    int64_t   at[WEIR_MAX_DIMS], offset = 0;

    for (int axis = last; axis >= 0; axis--) {
        at[axis] = pos % o->dim[axis];
        pos /= o->dim[axis];
        offset += at[axis] * o->stride[axis];
    }
    if (o->stride[last] == 1 && o->dim[last] - at[last] >= n)
        return src + (size_t)offset * size;
    for (int64_t done = 0; done < n;) {
        const int64_t run = min64(o->dim[last] - at[last], n - done);
        run_copy(to + (size_t)done * size, src + (size_t)offset * size, o->stride[last], run, size);
        done += run;
        at[last] += run;
        offset += run * o->stride[last];
        for (int axis = last; axis > 0 && at[axis] == o->dim[axis]; axis--) {
            offset += o->stride[axis - 1] - at[axis] * o->stride[axis];
            at[axis] = 0;
            at[axis - 1]++;
        }
    }
    return to;
}

/* A PERIODIC buffer serves a tile from any phase; it is one tile if all tiles start at phase 0. */
static int64_t periodic_length(const operand *o, int64_t tile)
{
    return tile % o->period == 0 ? tile : tile + o->period;
}

static void repeat(const operand *o, const void *src, char *to, int64_t n, size_t size)
{
    int64_t have = min64(o->period, n);
    if (o->widen)
        o->widen(have, to, src);
    else
        memcpy(to, src, (size_t)have * size);
    for (; have < n; have *= 2) {
        const int64_t more = min64(have, n - have);
        memcpy(to + (size_t)have * size, to, (size_t)more * size);
    }
}

static void splat(const operand *o, const void *src, char *to, int64_t n, size_t size)
{
    float wide;
    if (o->widen)
        o->widen(1, &wide, src);
    run_splat(to, o->widen ? &wide : src, n, size);
}

/* Fills the buffers that are filled once per task. */
static void expand(const chain *p, const weir_kargs *k, char *buf)
{
    const int64_t tile = min64(p->tile, p->n);

    for (int i = 0; i < p->nin; i++) {
        const operand *const o = &p->in[i];
        if (o->mode == SCALAR)
            splat(o, k->src[i], buf + o->buf, tile, p->size);
        else if (o->mode == PERIODIC)
            repeat(o, k->src[i], buf + o->buf, periodic_length(o, tile), p->size);
    }
}

/* Address of the operand's elements at pos; size: bytes of an element of the chain. */
static const void *locate(const operand *o, const char *src, int64_t pos, int64_t n, char *buf,
                          size_t size)
{
    switch (o->mode) {
    case DENSE:    return src + (size_t)pos * o->size;
    case SCALAR:   return buf + o->buf;
    case PERIODIC: return buf + o->buf + (size_t)(pos % o->period) * size;
    case STRIDED:  return gather(&o->axes, src, pos, n, buf + o->buf, o->size);
    }
    return NULL;
}

/* ---- running ---- */

/* Tiles are too short for the hardware prefetcher: without this a chain reaches half of the memory
 * bandwidth. Step j prefetches its share of a later tile. */
static void fetch_ahead(const chain *p, const weir_kargs *k, int64_t pos, int j)
{
    const size_t tile = (size_t)p->tile;
    const size_t begin = (size_t)pos + tile * (size_t)j / (size_t)p->nstep;
    const size_t end = (size_t)pos + tile * (size_t)(j + 1) / (size_t)p->nstep;

    for (int i = 0; i < p->nin; i++)
        if (p->in[i].mode == DENSE)
            for (size_t at = begin * p->in[i].size; at < end * p->in[i].size; at += ALIGN)
                __builtin_prefetch((const char *)k->src[i] + at, 0, 2);
    for (int i = 0; i < p->nout; i++)
        for (size_t at = begin * p->out_size[i]; at < end * p->out_size[i]; at += ALIGN)
            __builtin_prefetch((const char *)k->dst[i] + at, 1, 2);
}

/* Computes positions [pos, pos + n). ahead: a position to be prefetched, or -1. */
static void run_tile(const chain *p, const weir_kargs *k, int64_t pos, int64_t n, int64_t ahead,
                     char *buf)
{
    const size_t offset = (size_t)pos * p->size;
    const void  *value[WEIR_EW_MAX_IN + WEIR_EW_MAX_STEPS];

    for (int i = 0; i < p->nin; i++)
        value[i] = locate(&p->in[i], k->src[i], pos, n, buf, p->size);
    for (int i = 0; i < p->nwiden; i++) {
        const operand *const o = &p->in[p->widen[i]];
        o->widen(n, buf + o->wide, value[p->widen[i]]);
        value[p->widen[i]] = buf + o->wide;
    }
    for (int j = 0; j < p->nstep; j++) {
        const step *const   s = &p->step[j];
        const weir_row_args args = {s->s, s->t, k->seed, k->rng + s->rng, pos};
        void *const         to = s->out >= 0 ? (char *)k->dst[s->out] + offset : buf + s->buf;
        const void         *src[WEIR_MAX_IN];
        for (int i = 0; i < s->nsrc; i++)
            src[i] = value[s->src[i]];
        if (ahead >= 0)
            fetch_ahead(p, k, ahead, j);
        s->fn(n, to, src, &args);
        if (s->round)
            s->round(n, to);
        value[p->nin + j] = to;
    }
    for (int i = 0; i < p->ncopy; i++) {
        const int         o = p->copy[i].out;
        char *const       to = (char *)k->dst[o] + (size_t)pos * p->out_size[o];
        const void *const from = value[p->copy[i].value];
        if (p->copy[i].narrow)
            p->copy[i].narrow(n, to, from);
        else
            memcpy(to, from, (size_t)n * p->size);
    }
}

static void run_tiles(const weir_kargs *k, int64_t task, char *buf)
{
    const chain *const p = k->state;
    const int64_t      begin = task * p->task, end = min64(p->n, begin + p->task);
    const bool         far = (size_t)p->n * p->size > CACHED;

    expand(p, k, buf);
    for (int64_t pos = begin; pos < end; pos += p->tile) {
        const int64_t next = pos + AHEAD * p->tile;
        const bool    fetch = far && next + p->tile <= end;
        run_tile(p, k, pos, min64(p->tile, end - pos), fetch ? next : -1, buf);
    }
}

static void task_small(void *ctx, int64_t task)
{
    _Alignas(ALIGN) char buf[STACK_SMALL];
    run_tiles(ctx, task, buf);
}

static void task_large(void *ctx, int64_t task)
{
    _Alignas(ALIGN) char buf[STACK_LARGE];
    run_tiles(ctx, task, buf);
}

static weir_status run_chain(const weir_kargs *k)
{
    const chain *const p = k->state;
    weir_kargs         args = *k;

    if (p->n > 0)
        weir_parallel(k->threads, ceil_div(p->n, p->task),
                      p->stack <= STACK_SMALL ? task_small : task_large, &args);
    return WEIR_OK;
}

/* ---- selecting ---- */

static void operand_make(const weir_layout *out, const weir_layout *in, int64_t tile, operand *o)
{
    *o = (operand){.mode = STRIDED};
    o->size = weir_dtype_size(in->desc.dtype);
    operand_axes_make(out, in, &o->axes);
    if (operand_is_dense(&o->axes)) {
        o->mode = DENSE;
    } else if (operand_is_scalar(&o->axes)) {
        o->mode = SCALAR;
    } else if (operand_is_periodic(&o->axes) && o->axes.dim[1] <= tile) {
        o->mode = PERIODIC;
        o->period = o->axes.dim[1];
    }
}

/* The largest multiple of the longest period that fits; of 16 elements as well if possible. */
static int64_t tile_of(const chain *p, int64_t most)
{
    int64_t unit = 1;
    for (int i = 0; i < p->nin; i++)
        if (p->in[i].mode == PERIODIC && p->in[i].period > unit)
            unit = p->in[i].period;
    int64_t wide = unit;
    while (wide % 16 != 0)
        wide *= 2;
    if (wide <= most)
        unit = wide;
    return most / unit * unit;
}

static size_t buffer_of(size_t *used, int64_t n, size_t size)
{
    const size_t at = *used;
    *used += ((size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Chooses tile, task and the buffers of inputs. A single step over DENSE inputs needs no tiles
 * unless halves are converted. */
static void plan_tiles(chain *p)
{
    const int64_t grain = p->n > LARGE ? TASK_LARGE : p->n > 2 * TASK_SMALL ? TASK_SMALL : p->n;
    bool          whole = p->nstep == 1;

    for (int i = 0; i < p->nin; i++)
        whole = whole && p->in[i].mode == DENSE && !p->in[i].widen;
    for (int i = 0; i < p->nout; i++)
        whole = whole && p->out_size[i] == p->size;
    p->tile = whole ? grain : tile_of(p, TILE_BYTES / (int64_t)p->size);
    p->task = ceil_div(grain, p->tile) * p->tile;
    for (int i = 0; i < p->nin; i++) {
        operand *const o = &p->in[i];
        const int64_t  n = o->mode == PERIODIC ? periodic_length(o, p->tile) : p->tile;
        if (o->mode != DENSE)
            o->buf = buffer_of(&p->stack, n, o->mode == STRIDED ? o->size : p->size);
        if (o->widen && (o->mode == DENSE || o->mode == STRIDED)) {
            o->wide = buffer_of(&p->stack, p->tile, p->size);
            p->widen[p->nwiden++] = i;
        }
    }
}

/* The last step that reads step j's result; j: none. */
static int last_step(const chain *p, int j)
{
    int last = j;
    for (int r = j + 1; r < p->nstep; r++)
        for (int i = 0; i < p->step[r].nsrc; i++)
            if (p->step[r].src[i] == p->nin + j)
                last = r;
    return last;
}

/* The same; nstep if the result is copied at the end of the tile. */
static int last_reader(const chain *p, int j)
{
    for (int i = 0; i < p->ncopy; i++)
        if (p->copy[i].value == p->nin + j)
            return p->nstep;
    return last_step(p, j);
}

/* Decides which outputs their step writes and which are copied at the end (see the top of the
 * file). All DENSE half inputs of a tile are read before its first step. */
static void place_outputs(chain *p, const weir_ew_program *prog, const weir_call *c,
                          const weir_half_entry *half)
{
    int last_dense = -1;    /* the last step that reads a DENSE input */
    for (int j = 0; j < p->nstep; j++) {
        p->step[j].out = -1;
        for (int i = 0; i < p->step[j].nsrc; i++) {
            const int from = p->step[j].src[i];
            if (from < p->nin && p->in[from].mode == DENSE && !p->in[from].widen)
                last_dense = j;
        }
    }
    for (int o = 0; o < p->nout; o++) {
        const int        j = (int)prog->out[o];
        const weir_dtype type = c->out[o].desc.dtype;
        if (p->step[j].out < 0 && j >= last_dense && type == prog->type) {
            p->step[j].out = o;
        } else {
            p->copy[p->ncopy].out = o;
            p->copy[p->ncopy].narrow = type == prog->type ? NULL : half[type].narrow;
            p->copy[p->ncopy++].value = p->nin + j;
        }
    }
}

/* Assigns tile buffers to results, reused after the last reader; a row may overwrite its
 * operand. */
static void place_results(chain *p)
{
    size_t slot[WEIR_EW_MAX_STEPS];
    int    holder[WEIR_EW_MAX_STEPS], nslot = 0;    /* the step whose result a slot holds */

    for (int j = 0; j < p->nstep; j++) {
        if (p->step[j].out >= 0)
            continue;
        int s = 0;
        while (s < nslot && last_reader(p, holder[s]) > j)
            s++;
        if (s == nslot)
            slot[nslot++] = buffer_of(&p->stack, p->tile, p->size);
        holder[s] = j;
        p->step[j].buf = slot[s];
    }
}

static weir_status bind_steps(chain *p, const weir_call *c, const weir_ew_program *prog,
                              weir_isa isa)
{
    static const weir_row_entry *const table[] = WEIR_ISA_TABLE(weir_rows);
    const weir_dtype                   type = (weir_dtype)prog->type;

    for (int j = 0; j < p->nstep; j++) {
        const weir_ew_step *const from = &prog->step[j];
        step *const               s = &p->step[j];
        const weir_row_fn fn = type < WEIR_ROW_TYPES ? table[isa][from->op].fn[type] : NULL;
        if (!fn)
            return weir_call_fail(WEIR_ERR_NOKERNEL, c, "%s has no CPU kernel for %s",
                                  weir_op_name((weir_op)from->op), weir_dtype_name(type));
        *s = (step){.fn = fn, .nsrc = weir_row_nin((weir_op)from->op), .s = from->s,
                    .t = from->t, .rng = from->rng};
        for (int i = 0; i < s->nsrc; i++)
            s->src[i] = (int)from->src[i];
    }
    return WEIR_OK;
}

/* Entries of the types, WEIR_ROW_TYPES of them. */
static const weir_half_entry *halves(weir_isa isa)
{
    static const weir_half_entry *const table[] = WEIR_ISA_TABLE(weir_halves);

    return table[isa];
}

weir_half_fn weir_cpu_widen(weir_dtype t)
{
    return t < WEIR_ROW_TYPES ? halves(weir_cpu_isa())[t].widen : NULL;
}

weir_half_fn weir_cpu_narrow(weir_dtype t)
{
    return t < WEIR_ROW_TYPES ? halves(weir_cpu_isa())[t].narrow : NULL;
}

/* Results that no step reads are rounded when they are written. */
static void bind_rounding(chain *p, const weir_ew_program *prog, const weir_half_entry *half)
{
    for (int j = 0; j < p->nstep; j++)
        if (weir_is_half((weir_dtype)prog->step[j].rounds) && last_step(p, j) > j)
            p->step[j].round = half[prog->step[j].rounds].round;
}

static weir_status chain_make(chain *p, const weir_call *c, const weir_ew_program *prog,
                              weir_isa isa)
{
    *p = (chain){.size = weir_dtype_size((weir_dtype)prog->type),
                 .n = weir_shape_count(&c->out[0].desc),
                 .nin = (int)prog->nin,
                 .nstep = (int)prog->nstep,
                 .nout = (int)prog->nout};
    assert(p->nin <= WEIR_EW_MAX_IN && p->nstep <= WEIR_EW_MAX_STEPS && p->nout <= WEIR_EW_MAX_OUT);
    WEIR_TRY(bind_steps(p, c, prog, isa));
    bind_rounding(p, prog, halves(isa));
    if (p->n == 0)
        return WEIR_OK;
    for (int i = 0; i < p->nin; i++) {
        const weir_dtype type = c->in[i].desc.dtype;
        operand_make(&c->out[0], &c->in[i], TILE_BYTES / (int64_t)p->size, &p->in[i]);
        p->in[i].widen = type == prog->type ? NULL : halves(isa)[type].widen;
        assert(type == prog->type || (prog->type == WEIR_F32 && p->in[i].widen));
    }
    for (int i = 0; i < p->nout; i++)
        p->out_size[i] = weir_dtype_size(c->out[i].desc.dtype);
    plan_tiles(p);
    place_outputs(p, prog, c, halves(isa));
    place_results(p);
    assert(p->stack <= STACK_LARGE);
    return WEIR_OK;
}

static weir_status choose(const weir_call *c, const weir_ew_program *prog, weir_kernel *out)
{
    chain *const p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const weir_status s = chain_make(p, c, prog, weir_cpu_isa());
    if (s != WEIR_OK) {
        weir_mem_free(p);
        return s;
    }
    *out = (weir_kernel){.run = run_chain, .state = p, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_elementwise(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_ew_program prog = weir_ew_program_of(c);

    (void)d;
    return choose(c, &prog, out);
}

weir_status weir_cpu_fused(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, c->attr, out);
}
