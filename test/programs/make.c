/* make.c - draws a program: each operation is tried on a scratch device, recorded and never run,
 * which tells its shapes and whether it is legal; what is refused is left out. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "programs/ops.h"

enum { MOST_ELEMENTS = 12000, MOST_TRIES = 8 };

bool make_loud;

/* ---- values ---- */

int type_bit(weir_dtype t)
{
    switch (t) {
    case WEIR_F32:
    case WEIR_F64:  return REAL;
    case WEIR_F16:
    case WEIR_BF16: return HALF;
    case WEIR_BOOL: return BOOL;
    default:        return WHOLE;
    }
}

weir_desc desc_of(const maker *m, int ref)
{
    if (ref == INT_MIN)
        return (weir_desc){0};
    return ref < 0 ? m->p->leaf[-1 - ref].desc : weir_tensor_desc(m->w.stage[m->g].value[ref]);
}

bool grad_of(const maker *m, int ref)
{
    return ref < 0 ? m->p->leaf[-1 - ref].kind == LEAF_PARAM : m->of[ref].grad;
}

static bool fits(const maker *m, int ref, int types, int least, int most)
{
    const weir_desc d = desc_of(m, ref);
    return (type_bit(d.dtype) & types) && d.ndim >= least && d.ndim <= most;
}

int pick(maker *m, int types, int least, int most)
{
    int found[MAX_LEAVES + MAX_VALUES], n = 0;
    for (int i = 0; i < m->p->nleaf; i++)
        if (fits(m, -1 - i, types, least, most) && dice_chance(&m->r, 50))
            found[n++] = -1 - i;
    for (int v = 0; v < m->to->nvalue; v++)
        if (m->of[v].live && fits(m, v, types, least, most))
            found[n++] = v;
    if (n == 0)
        return INT_MIN;
    const int64_t a = dice_int(&m->r, 0, n - 1), b = dice_int(&m->r, 0, n - 1);
    return found[a > b ? a : b];
}

int64_t size_draw(maker *m)
{
    const int64_t k = dice_int(&m->r, 0, 99);
    return k < 88 ? dice_int(&m->r, 1, 8) : k < 97 ? dice_int(&m->r, 9, 24)
                                                   : dice_int(&m->r, 25, 130);
}

int new_leaf(maker *m, leaf_kind kind, weir_desc desc, leaf_data data, double lo, double hi)
{
    program *const p = m->p;
    if (p->nleaf == MAX_LEAVES || elements(&desc) > MOST_ELEMENTS)
        return INT_MIN;
    const int i = p->nleaf;
    p->leaf[i] = (leaf){kind, desc, data, lo, hi, dice_u64(&m->r), false};
    if (world_add_leaf(&m->w, i) != WEIR_OK)
        return INT_MIN;
    p->nleaf++;
    return -1 - i;
}

int new_real(maker *m, leaf_kind kind, weir_desc desc)
{
    if (type_bit(desc.dtype) == HALF && kind == LEAF_PARAM)
        kind = LEAF_INPUT;
    const bool drawn = kind == LEAF_PARAM && dice_chance(&m->r, 15);
    return new_leaf(m, kind, desc, drawn ? DATA_DRAWN : DATA_REAL, -1, 1);
}

int new_param(maker *m, int ndim, const int64_t *dim)
{
    weir_desc d = {m->p->type, ndim, {0}};
    for (int i = 0; i < ndim; i++)
        d.dim[i] = dim[i];
    return new_real(m, LEAF_PARAM, d);
}

int any_param(maker *m, int ndim, const int64_t *dim)
{
    for (int i = 0; i < m->p->nleaf && dice_chance(&m->r, 60); i++) {
        const leaf *l = &m->p->leaf[i];
        bool        same = l->kind == LEAF_PARAM && l->desc.ndim == ndim &&
                    l->desc.dtype == m->p->type;
        for (int k = 0; same && k < ndim; k++)
            same = l->desc.dim[k] == dim[k];
        if (same)
            return -1 - i;
    }
    return new_param(m, ndim, dim);
}

int pick_or_leaf(maker *m, int types, int least, int most)
{
    const int x = pick(m, types, least, most);
    if (x != INT_MIN && dice_chance(&m->r, 95))
        return x;
    weir_desc d = {m->p->type, (int)dice_int(&m->r, least, most), {0}};
    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = i < 2 ? dice_int(&m->r, 1, 4) : dice_int(&m->r, 2, 8);
    return new_real(m, dice_chance(&m->r, 70) ? LEAF_INPUT : LEAF_PARAM, d);
}

/* ---- operations ---- */

/* A gradient through a value that changes after it was read is an error, so what changes is read
 * only where no gradient is, or copied. */
static bool stale(const maker *m, const op *o, const op_def *def)
{
    bool changes = false, grad = strcmp(def->name, "layer") == 0;
    for (int i = 0; i < o->nin; i++) {
        const int v = o->in[i];
        changes = changes || (v < 0 ? m->p->leaf[-1 - v].changes : m->of[v].changes);
        grad = grad || grad_of(m, v);
    }
    return changes && grad && !(def->flags & (COPIES | OWN | EFFECT));
}

static info info_of(const maker *m, const op *o, const op_def *def, int v)
{
    info i = {.live = true,
              .grad = weir_tensor_needs_grad(m->w.stage[m->g].value[v])};
    for (int k = 0; k < o->nin && (def->flags & VIEW); k++) {
        const int x = o->in[k];
        i.alias = i.alias || x < 0 || m->of[x].alias;
        i.changes = i.changes || (x < 0 ? m->p->leaf[-1 - x].changes : m->of[x].changes);
    }
    return i;
}

static bool results_fit(maker *m, op *o, const op_def *def)
{
    for (int k = 0; k < o->nout; k++) {
        weir_tensor *const t = m->w.stage[m->g].value[o->out + k];
        o->desc[k] = weir_tensor_desc(t);
        const int64_t n = elements(&o->desc[k]);
        if (n == 0 || n > MOST_ELEMENTS)
            return false;
        if (m->p->smooth && type_bit(o->desc[k].dtype) == HALF)
            return false;
        m->of[o->out + k] = info_of(m, o, def, o->out + k);
    }
    return true;
}

/* After an update, values computed from the old parameters are no longer read. */
static void retire(maker *m)
{
    for (int v = 0; v < m->to->nvalue; v++)
        if (m->of[v].grad || m->of[v].alias)
            m->of[v].live = false;
    m->since = m->to->nvalue;
}

int emit(maker *m, op *o)
{
    graph *const        g = m->to;
    const op_def *const def = op_of(o->kind);

    for (int i = 0; i < o->nin; i++)
        if (o->in[i] == INT_MIN)
            return INT_MIN;
    if (g->nop == MAX_OPS || g->nvalue + o->nout > MAX_VALUES || stale(m, o, def))
        return INT_MIN;
    if (m->p->smooth && (def->flags & JUMP))
        return INT_MIN;
    o->out = g->nvalue;
    g->op[g->nop] = *o;
    if (play_op(&m->w.stage[m->g], &g->op[g->nop]) != WEIR_OK) {
        if (make_loud)
            printf("refused: %s: %s\n", def->name, weir_error());
        return INT_MIN;
    }
    if (!results_fit(m, &g->op[g->nop], def))
        return INT_MIN;
    g->nop++;
    g->nvalue += o->nout;
    if (def->flags & LAST)
        retire(m);
    return o->out;
}

int as_type(maker *m, int ref, weir_dtype t)
{
    if (ref == INT_MIN || desc_of(m, ref).dtype == t)
        return ref;
    op o = {.kind = op_named("cast"), .nout = 1, .a = {t}};
    op_in(&o, ref);
    return emit(m, &o);
}

int calm(maker *m, int ref)
{
    op o = {.kind = op_named("calm"), .nout = 1, .a = {dice_int(&m->r, 0, 1)}};
    op_in(&o, ref);
    return emit(m, &o);
}

static int draw_kind(maker *m)
{
    int sum = 0;
    for (int k = 0; k < op_count(); k++)
        sum += op_of(k)->weight;
    int64_t at = dice_int(&m->r, 0, sum - 1);
    for (int k = 0; k < op_count(); k++)
        if ((at -= op_of(k)->weight) < 0)
            return k;
    return 0;
}

static bool loud(const char *name)
{
    static const char *const names[] = {"matmul", "linear", "einsum", "conv", "conv1d", "scan",
                                        "reduce", "scatter", "binary"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Adds an operation, drawn in proportion to the weights. */
static bool draw_op(maker *m)
{
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        op                  o = {.kind = draw_kind(m), .nout = 1};
        const op_def *const def = op_of(o.kind);
        if (!def->draw(m, &o) || emit(m, &o) == INT_MIN)
            continue;
        const int v = m->to->op[m->to->nop - 1].out;
        if (o.nout && loud(def->name) && dice_chance(&m->r, 50) &&
            (type_bit(desc_of(m, v).dtype) & FLOAT) && elements(&m->to->op[m->to->nop - 1].desc[0]))
            calm(m, v);
        return true;
    }
    return false;
}

static void close_open(maker *m)
{
    const stage *s = &m->w.stage[m->g];
    const int    end[] = {1, 3, 5};     /* what operation scope ends: casts, quiet, region */
    const bool   open[] = {s->casts > 0, s->quiet > 0, s->regions > 0};
    for (int i = 0; i < 3; i++)
        if (open[i])
            emit(m, &(op){.kind = op_named("scope"), .a = {end[i]}});
}

static void draw_ops(maker *m, int n)
{
    for (int i = 0; i < n; i++)
        draw_op(m);
    close_open(m);
}

static void draw_leaves(maker *m)
{
    static const int axes[] = {1, 2, 2, 3, 4, 4};
    const int        n = (int)dice_int(&m->r, 2, 4);
    for (int i = 0; i < n; i++) {
        weir_desc d = {m->p->type, axes[dice_int(&m->r, 0, 5)], {0}};
        for (int k = 0; k < d.ndim; k++)
            d.dim[k] = d.ndim == 4 ? dice_int(&m->r, k < 2 ? 1 : 3, k < 2 ? 4 : 9)
                                   : size_draw(m);
        if (!m->p->smooth && dice_chance(&m->r, 20))
            d.dtype = (weir_dtype[]){WEIR_F64, WEIR_F16, WEIR_BF16}[dice_int(&m->r, 0, 2)];
        new_real(m, (leaf_kind)dice_int(&m->r, 0, 2), d);
    }
    if (!m->p->smooth && dice_chance(&m->r, 25)) {
        const weir_dtype t = (weir_dtype[]){WEIR_I32, WEIR_I64, WEIR_U8}[dice_int(&m->r, 0, 2)];
        new_leaf(m, LEAF_INPUT, weir_2d(t, size_draw(m), size_draw(m)), DATA_WHOLE, 0, 20);
    }
}

/* ---- what a graph ends with ---- */

/* A scalar of the program's type that depends on parameters; INT_MIN if nothing does. */
static int draw_total(maker *m)
{
    op        o = {.kind = op_named("total"), .nout = 1};
    const int want = (int)dice_int(&m->r, 1, 3);
    for (int v = m->to->nvalue - 1; v >= m->since && o.nin < want; v--)
        if (m->of[v].live && m->of[v].grad && (type_bit(desc_of(m, v).dtype) & FLOAT) &&
            dice_chance(&m->r, 80)) {
            o.a[o.nin] = dice_int(&m->r, 0, 2);
            op_in(&o, v);
        }
    o.a[9] = dice_chance(&m->r, 20);
    return o.nin ? emit(m, &o) : INT_MIN;
}

static void draw_keeps(maker *m, int n)
{
    for (int tries = 0; tries < 3 * n && n > 0; tries++) {
        if (m->to->nvalue == m->since)
            return;
        const int v = (int)dice_int(&m->r, m->since, m->to->nvalue - 1);
        if (!m->of[v].live || m->of[v].alias)
            continue;
        op o = {.kind = op_named("keep")};
        op_in(&o, v);
        emit(m, &o);
        n--;
    }
}

static void draw_gradients(maker *m, int total)
{
    op o = {.kind = op_named("gradients"), .a = {dice_chance(&m->r, 40)}};
    op_in(&o, total);
    for (int i = 0; i < m->p->nleaf && o.nin < MAX_IN; i++)
        if (m->p->leaf[i].kind == LEAF_PARAM && dice_chance(&m->r, 60))
            op_in(&o, -1 - i);
    for (int v = 0; v < total && o.nin < MAX_IN; v++)
        if (m->of[v].live && m->of[v].grad && dice_chance(&m->r, 10))
            op_in(&o, v);
    if (o.nin > 1)
        emit(m, &o);
}

typedef enum ending { END_MINIMIZE, END_BACKWARD, END_ACCUMULATE, END_GRADIENTS } ending;

static bool draw_end(maker *m, ending how, int which)
{
    static const char *const name[] = {"minimize", "backward", "accumulate", "gradients"};
    const int total = draw_total(m);
    if (total == INT_MIN)
        return false;
    emit(m, &(op){.kind = op_named("keep"), .nin = 1, .in = {total}});
    if (how == END_GRADIENTS) {
        draw_gradients(m, total);
        return true;
    }
    op o = {.kind = op_named(name[how]), .nin = 1, .in = {total},
            .a = {which, dice_int(&m->r, 0, 3), dice_chance(&m->r, 50)}};
    return emit(m, &o) != INT_MIN;
}

static int draw_optim(maker *m)
{
    program *const p = m->p;
    const int      i = p->noptim++;
    dice *const    r = &m->r;
    p->optim[i] = (optim){.kind = p->smooth ? OPTIM_SGD
                                            : (optim_kind)dice_int(r, 0, OPTIM_KINDS - 1),
                          .variant = (int)dice_int(r, 0, 3), .lr = dice_real(r, 0.001, 0.05),
                          .clip_norm = dice_chance(r, 15) ? 0.5 : 0,
                          .clip_value = dice_chance(r, 10) ? 0.1 : 0,
                          .scaled = !p->smooth && dice_chance(r, 20)};
    world_add_optim(&m->w, i);
    return i;
}

/* ---- graphs ---- */

static bool begin_graph(maker *m)
{
    m->g = m->p->ngraph++;
    m->to = &m->p->graph[m->g];
    m->since = 0;
    weir_model_train(m->w.model, true);
    m->w.stage[m->g].raw = weir_graph_begin(m->w.d);
    return m->w.stage[m->g].raw != NULL;
}

static void end_graph(maker *m)
{
    weir_graph_free(m->w.stage[m->g].raw);
    m->w.stage[m->g].raw = NULL;
}

/* The same operations up to the loss, in evaluation. */
static void add_evaluation(program *p)
{
    const graph *from = &p->graph[0];
    graph       *to = &p->graph[p->ngraph++];
    to->eval = true;
    to->nvalue = from->nvalue;
    for (int i = 0; i < from->nop; i++)
        if (!(op_of(from->op[i].kind)->flags & LAST))
            to->op[to->nop++] = from->op[i];
}

typedef enum style { TRAIN, TRAIN_EVAL, MICRO, INFER, GRADIENTS, TWO } style;

static style draw_style(dice *r)
{
    static const int percent[] = {34, 20, 11, 10, 10, 15};
    int64_t          at = dice_int(r, 0, 99);
    int              s = 0;
    while ((at -= percent[s]) >= 0)
        s++;
    return (style)s;
}

static bool make_graphs(maker *m, style s)
{
    const int n = (int)(dice_chance(&m->r, 8) ? dice_int(&m->r, 20, 45) : dice_int(&m->r, 3, 16));
    if (!begin_graph(m))
        return false;
    draw_ops(m, n);
    draw_keeps(m, (int)dice_int(&m->r, s == INFER ? 1 : 0, 3));
    bool done = m->to->nop > 0;
    if (s == GRADIENTS)
        done = draw_end(m, END_GRADIENTS, 0);
    else if (s != INFER)
        done = draw_end(m, s == MICRO ? END_ACCUMULATE
                           : dice_chance(&m->r, 60) ? END_MINIMIZE : END_BACKWARD, draw_optim(m));
    if (done && s == TWO) {
        draw_ops(m, n / 2 + 1);
        draw_end(m, dice_chance(&m->r, 60) ? END_MINIMIZE : END_BACKWARD,
                 dice_chance(&m->r, 50) ? draw_optim(m) : 0);
    }
    end_graph(m);
    if (!done)
        return false;
    if (s == MICRO) {
        op *const o = &m->p->graph[m->p->ngraph].op[0];
        *o = (op){.kind = op_named("apply")};
        m->p->graph[m->p->ngraph++].nop = 1;
    }
    if (s == TRAIN_EVAL || (s == MICRO && dice_chance(&m->r, 30)))
        add_evaluation(m->p);
    return true;
}

/* ---- the schedule ---- */

static void add_act(program *p, act a)
{
    if (p->nact < MAX_ACTS)
        p->act[p->nact++] = a;
}

static void draw_host(maker *m)
{
    program *const p = m->p;
    int            writes = 0;
    for (int i = 0; i < p->nleaf && writes < 3; i++) {
        const leaf *l = &p->leaf[i];
        const bool  drawn = l->data == DATA_REAL || l->data == DATA_WHOLE;
        if (drawn && dice_chance(&m->r, l->kind == LEAF_INPUT ? 50 : 5)) {
            add_act(p, (act){ACT_WRITE, i, dice_u64(&m->r), false});
            writes++;
        }
    }
    if (p->noptim && dice_chance(&m->r, 10))
        add_act(p, (act){ACT_RATE, 0, 0, false});
    if (dice_chance(&m->r, 6))
        add_act(p, (act){ACT_SEED, 0, dice_u64(&m->r) % 1000 + 1, false});
}

static void draw_schedule(maker *m)
{
    program *const p = m->p;
    const int      rounds = (int)dice_int(&m->r, 2, 3);
    for (int round = 0; round < rounds; round++)
        for (int g = 0; g < p->ngraph; g++) {
            if (round > 0 || g > 0)
                draw_host(m);
            add_act(p, (act){ACT_RUN, g, 0, round == rounds - 1});
            if (p->ngraph > 1 && g == 0 && round == 0 && dice_chance(&m->r, 50))
                add_act(p, (act){ACT_RUN, g, 0, false});
        }
}

bool make_program(program *p, uint64_t seed)
{
    const mode scratch = {.on = true, .threads = 1};
    for (uint64_t tries = 0; tries < 40; tries++) {
        static maker m;
        *p = (program){.seed = seed};
        m = (maker){.p = p, .r = {seed * 1000003 + tries}};
        p->smooth = dice_chance(&m.r, 25);
        p->type = dice_chance(&m.r, 85) ? WEIR_F32 : WEIR_F64;
        p->precision = p->smooth || dice_chance(&m.r, 80) ? WEIR_F32
                       : dice_chance(&m.r, 50)            ? WEIR_BF16
                                                          : WEIR_F16;
        const style s = draw_style(&m.r);
        bool        made = world_open(&m.w, p, &scratch) == WEIR_OK;
        if (made) {
            draw_leaves(&m);
            made = make_graphs(&m, s);
        }
        if (made)
            draw_schedule(&m);
        world_close(&m.w);
        if (made)
            return true;
    }
    return false;
}
