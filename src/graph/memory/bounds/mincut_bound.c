/* mincut_bound.c - builds the network of one moment and maximises the relaxed bound over lambda.
 *
 * Capacities are integers, rounded down, so a computed cut never exceeds the true one. A choice
 * corresponds to a line over lambda (its seconds; its bytes beyond the limit as slope), which
 * bounds the concave function from above. The next lambda is where the tangents at the best lambdas
 * of either side meet (Kelley's cutting planes in one dimension). */
#include "graph/memory/bounds/mincut_bound.h"

#include <math.h>
#include <string.h>

#define SECONDS_SCALE 0x1p40        /* capacity of all ops together */
/* of one tensor: more than all ops, so that cutting it never pays */
#define MOST_CAPACITY 0x1p42
/* of all ops together, if a byte shall cost more than all of them */
#define FEWEST_SCALE  0x1p16
#define ROUNDING      1e-12         /* relative error of sums of doubles */

/* Is a mask of the tensor enough for all first runs after the stage that read it? If there are
 * none: is it enough for any op at all? */
static bool mask_does(const weir_mincut_bound *c, uint32_t tensor)
{
    const weir_mem_tensor *k = &c->p->tensors.at[tensor];
    bool                   any = false, later = false, all = !k->output;

    for (uint32_t i = 0; i < k->uses.n; i++) {
        const uint32_t reader = weir_refs(c->p, k->uses)[i];
        const bool     masked = weir_among(c->p, c->p->ops.at[reader].masked, tensor);
        any = any || masked;
        if (reader > c->stage && reader <= c->end) {
            later = true;
            all = all && masked;
        }
    }
    return later ? all : any;
}

/* Returns the bytes of the smallest form in which the tensor may be kept while idle. */
static size_t bytes_of(const weir_mincut_bound *c, uint32_t tensor)
{
    const weir_mem_tensor *k = &c->p->tensors.at[tensor];
    size_t                 least = k->bytes;

    if (c->levers.pack && k->packed)
        least = k->packed < least ? k->packed : least;
    if (c->levers.pack && k->mask && mask_does(c, tensor))
        least = k->mask < least ? k->mask : least;
    return least;
}

bool weir_mincut_bound_init(weir_mincut_bound *c, const weir_mem_problem *p,
                            const weir_levers *levers)
{
    const size_t tensors = p->tensors.n + 1u, ops = p->ops.n + 1u;

    *c = (weir_mincut_bound){.p = p, .levers = levers ? *levers : (weir_levers){0}};
    c->scale = p->time > 0 ? SECONDS_SCALE / p->time : 0;
    c->fate = weir_mem_zalloc(tensors, sizeof *c->fate);
    c->in_memory = weir_mem_zalloc(tensors, sizeof *c->in_memory);
    c->recomputed = weir_mem_zalloc(ops, sizeof *c->recomputed);
    c->fixed = weir_mem_zalloc(ops, sizeof *c->fixed);
    c->infeasible = weir_mem_zalloc(ops, sizeof *c->infeasible);
    c->tensor_node = weir_mem_zalloc(tensors, sizeof *c->tensor_node);
    c->op_node = weir_mem_zalloc(ops, sizeof *c->op_node);
    return c->fate && c->in_memory && c->recomputed && c->fixed && c->infeasible &&
           c->tensor_node && c->op_node;
}

void weir_mincut_bound_free(weir_mincut_bound *c)
{
    weir_flow_free(&c->flow);
    weir_vec_free(&c->tensors);
    weir_vec_free(&c->ops);
    weir_mem_free(c->fate);
    weir_mem_free(c->in_memory);
    weir_mem_free(c->recomputed);
    weir_mem_free(c->fixed);
    weir_mem_free(c->infeasible);
    weir_mem_free(c->tensor_node);
    weir_mem_free(c->op_node);
}

/* ---- what an op itself needs ---- */

/* Do both tensors of the pair with entry i have equal sizes, so that one may be made in place? */
static bool pair_fits(const weir_mem_problem *p, const uint32_t *pair, uint32_t i)
{
    return p->tensors.at[pair[i & ~1u]].bytes == p->tensors.at[pair[i | 1u]].bytes;
}

static bool seen_before(const weir_mem_problem *p, const uint32_t *pair, uint32_t i)
{
    for (uint32_t k = i & 1; k < i; k += 2)
        if (pair[k] == pair[i] && pair_fits(p, pair, k))
            return true;
    return false;
}

/* Returns an upper bound on the bytes that outputs share with inputs that die. Sets *whole if only
 * one input can be taken over. */
static size_t taken_over(const weir_mem_problem *p, const weir_mem_op *t, bool *whole)
{
    const uint32_t *pair = weir_refs(p, t->pairs);
    size_t          in = 0, out = 0;
    uint32_t        nin = 0;

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        const size_t bytes = p->tensors.at[pair[i]].bytes;
        if (!pair_fits(p, pair, i))
            continue;
        nin += !seen_before(p, pair, i);
        in += seen_before(p, pair, i) ? 0 : bytes;
        out += seen_before(p, pair, i + 1) ? 0 : bytes;
    }
    *whole = nin == 1;
    return in < out ? in : out;
}

static size_t bytes_required(const weir_mem_problem *p, const weir_levers *levers, uint32_t op,
                             bool *whole)
{
    const weir_mem_op *t = &p->ops.at[op];
    size_t             bytes = t->work;

    for (uint32_t k = 0; k < t->in.n; k++) {
        const weir_mem_tensor *in = &p->tensors.at[weir_refs(p, t->in)[k]];
        const bool        masked = levers && levers->pack && in->mask > 0 && in->mask < in->bytes &&
                            weir_among(p, t->masked, weir_refs(p, t->in)[k]);
        bytes += masked ? in->mask : in->bytes;
    }
    for (uint32_t k = 0; k < t->out.n; k++)
        bytes += p->tensors.at[weir_refs(p, t->out)[k]].bytes;
    const size_t less = taken_over(p, t, whole);
    return bytes > less ? bytes - less : 0;
}

size_t weir_mincut_bound_required(const weir_mem_problem *p, const weir_levers *levers, uint32_t op)
{
    bool whole;
    return bytes_required(p, levers, op, &whole);
}

/* ---- the network ---- */

static bool may_rerun(const weir_mincut_bound *c, uint32_t op)
{
    return c->p->ops.at[op].rerun_before > c->stage + 1 &&
           !(c->levers.banned && c->levers.banned[op]);
}

static bool wanted_later(const weir_mincut_bound *c, uint32_t tensor)
{
    const weir_mem_tensor *k = &c->p->tensors.at[tensor];

    if (c->end >= c->p->ops.n && k->output)
        return true;
    for (uint32_t i = k->uses.n; i-- > 0 && weir_refs(c->p, k->uses)[i] > c->stage;)
        if (weir_refs(c->p, k->uses)[i] <= c->end)
            return true;
    return false;
}

/* Marks what is in memory while the stage's op runs: its inputs and outputs, and resident tensors.
 * If only one input can be taken over, keeping that input costs its bytes. */
static void mark_own(weir_mincut_bound *c)
{
    const weir_mem_op *t = &c->p->ops.at[c->stage];
    const uint32_t    *pair = weir_refs(c->p, t->pairs);
    bool               whole;

    c->own = c->must = bytes_required(c->p, &c->levers, c->stage, &whole);
    for (uint32_t k = 0; k < t->in.n; k++)
        c->in_memory[weir_refs(c->p, t->in)[k]] = 1;
    for (uint32_t k = 0; k < t->out.n; k++)
        c->in_memory[weir_refs(c->p, t->out)[k]] = 1;
    for (uint32_t k = 0; k < c->p->tensors.n; k++)
        if (weir_mem_tensor_is_resident(c->p, k))
            c->in_memory[k] = 1;
    for (uint32_t i = 0; whole && !c->levers.pack && i + 1 < t->pairs.n; i += 2)
        if (pair_fits(c->p, pair, i))
            c->in_memory[pair[i]] = 0;
}

static bool add_tensor(weir_mincut_bound *c, uint32_t tensor)
{
    if (c->in_memory[tensor] || c->tensor_node[tensor])
        return true;
    c->tensor_node[tensor] = c->flow.first.n;
    return weir_flow_node(&c->flow) && weir_vec_push(&c->tensors, tensor);
}

/* Adds nodes for what is read later. What no run can recompute is in memory and counts in full. */
static bool add_wanted(weir_mincut_bound *c)
{
    const weir_mem_problem *p = c->p;

    for (int round = 0; round < 2; round++)
        for (uint32_t k = 0; k < p->tensors.n; k++) {
            if (p->tensors.at[k].producer >= c->stage || c->in_memory[k] || !wanted_later(c, k))
                continue;
            const bool fixed = !may_rerun(c, p->tensors.at[k].producer);
            if (fixed)
                c->must += c->levers.link > 0 ? 0 : bytes_of(c, k);
            c->in_memory[k] = fixed && !(c->levers.link > 0);
            if (round == 1 && !add_tensor(c, k))
                return false;
        }
    c->wanted = c->tensors.n;
    return true;
}

/* Adds nodes for the producers, for the inputs of those, and so on. */
static bool add_producers(weir_mincut_bound *c)
{
    const weir_mem_problem *p = c->p;

    for (uint32_t i = 0; i < c->tensors.n; i++) {
        const uint32_t     o = p->tensors.at[c->tensors.at[i]].producer;
        const weir_mem_op *t = &p->ops.at[o];
        if (c->op_node[o] || !may_rerun(c, o))
            continue;
        c->op_node[o] = c->flow.first.n;
        if (!weir_flow_node(&c->flow) || !weir_vec_push(&c->ops, o))
            return false;
        for (uint32_t k = 0; k < t->in.n; k++)
            if (!add_tensor(c, weir_refs(p, t->in)[k]))
                return false;
    }
    return true;
}

/* Adds one edge per tensor, then two per op, from the source and to the sink. Edge numbers follow
 * the order of the lists. */
static bool add_edges(weir_mincut_bound *c)
{
    const weir_mem_problem *p = c->p;
    bool                    ok = true;

    for (uint32_t i = 0; i < c->tensors.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->op_node[p->tensors.at[c->tensors.at[i]].producer],
                                c->tensor_node[c->tensors.at[i]], 0);
    for (uint32_t i = 0; i < c->ops.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, 0, c->op_node[c->ops.at[i]], 0);
    for (uint32_t i = 0; i < c->ops.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->op_node[c->ops.at[i]], 1, 0);
    for (uint32_t i = 0; i < c->wanted && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->tensor_node[c->tensors.at[i]], 1, WEIR_FLOW_MOST);
    for (uint32_t i = 0; i < c->ops.n && ok; i++) {
        const weir_mem_op *t = &p->ops.at[c->ops.at[i]];
        for (uint32_t k = 0; k < t->in.n && ok; k++) {
            const uint32_t in = weir_refs(p, t->in)[k];
            if (c->tensor_node[in])
                ok = weir_flow_edge_add(&c->flow, c->tensor_node[in], c->op_node[c->ops.at[i]],
                                        WEIR_FLOW_MOST);
        }
    }
    return ok;
}

/* Computes the minimum cut at these prices per second and per byte, at most `most` for a tensor.
 * *value may be below the true cut by rounding. */
static bool solve_mincut(weir_mincut_bound *c, double second, double byte, double most,
                         int64_t *value)
{
    for (uint32_t i = 0; i < c->tensors.n; i++) {
        const double price = byte * (double)bytes_of(c, c->tensors.at[i]);
        weir_flow_set(&c->flow, i, (int64_t)fmin(price, most));
    }
    for (uint32_t i = 0; i < c->ops.n; i++) {
        const uint32_t o = c->ops.at[i];
        const uint8_t  fixed = c->fixed[o];
        const int64_t  price = (int64_t)(second * c->p->ops.at[o].time);
        weir_flow_set(&c->flow, c->tensors.n + i,
                      fixed == WEIR_MINCUT_NEVER ? WEIR_FLOW_MOST : price);
        weir_flow_set(&c->flow, c->tensors.n + c->ops.n + i,
                      fixed == WEIR_MINCUT_ALWAYS ? WEIR_FLOW_MOST : 0);
    }
    for (uint32_t e = c->tensors.n + 2 * c->ops.n; 2 * e < c->flow.edges.n; e++)
        weir_flow_set(&c->flow, e, WEIR_FLOW_MOST);
    return weir_flow_run(&c->flow, value);
}

/* Did the last cut keep tensors.at[i]? */
static bool is_kept(const weir_mincut_bound *c, uint32_t i)
{
    const uint32_t tensor = c->tensors.at[i], op = c->op_node[c->p->tensors.at[tensor].producer];
    return weir_flow_far(&c->flow, c->tensor_node[tensor]) && !weir_flow_far(&c->flow, op);
}

/* Computes the seconds and bytes of the last cut. */
static void weigh(const weir_mincut_bound *c, double *seconds, double *bytes)
{
    *seconds = *bytes = 0;
    for (uint32_t i = 0; i < c->ops.n; i++)
        if (weir_flow_far(&c->flow, c->op_node[c->ops.at[i]]))
            *seconds += c->p->ops.at[c->ops.at[i]].time;
    for (uint32_t i = 0; i < c->tensors.n; i++)
        if (is_kept(c, i))
            *bytes += (double)bytes_of(c, c->tensors.at[i]);
}

/* Records the last cut as the choice to report. */
static void keep_choice(weir_mincut_bound *c)
{
    memset(c->fate, WEIR_MINCUT_UNUSED, c->p->tensors.n);
    memset(c->recomputed, 0, c->p->ops.n);
    for (uint32_t i = 0; i < c->tensors.n; i++)
        if (weir_flow_far(&c->flow, c->tensor_node[c->tensors.at[i]]))
            c->fate[c->tensors.at[i]] = is_kept(c, i) ? WEIR_MINCUT_KEPT : WEIR_MINCUT_RECOMPUTED;
    for (uint32_t i = 0; i < c->ops.n; i++)
        c->recomputed[c->ops.at[i]] = weir_flow_far(&c->flow, c->op_node[c->ops.at[i]]);
}

/* Computes the cheapest among the choices with the fewest bytes; *value is a multiple of those
 * bytes. */
static bool cut_to_fewest(weir_mincut_bound *c, int64_t *value)
{
    return solve_mincut(c, c->scale * (FEWEST_SCALE / SECONDS_SCALE), 2 * FEWEST_SCALE,
                        0x1p60 / (c->tensors.n + 1), value);
}

bool weir_mincut_bound_at(weir_mincut_bound *c, uint32_t stage, uint32_t end)
{
    size_t  all = 0;
    int64_t value;

    c->stage = stage;
    c->end = end;
    c->tensors.n = c->ops.n = 0;
    memset(c->in_memory, 0, c->p->tensors.n);
    memset(c->tensor_node, 0, c->p->tensors.n * sizeof *c->tensor_node);
    memset(c->op_node, 0, c->p->ops.n * sizeof *c->op_node);
    mark_own(c);
    if (!weir_flow_begin(&c->flow) || !add_wanted(c) || !add_producers(c) || !add_edges(c) ||
        !cut_to_fewest(c, &value))
        return false;
    for (size_t i = 0; i < c->wanted; i++)
        all += bytes_of(c, c->tensors.at[i]);
    keep_choice(c);
    c->least = c->must + (c->levers.link > 0 ? 0 : (size_t)value / (size_t)(2 * FEWEST_SCALE));
    c->all = c->must + all;
    return true;
}

/* ---- the maximum over lambda ---- */

/* A choice as a line over lambda: its bound is seconds + lambda * slope. */
typedef struct weir_tangent {
    double seconds, slope;
} weir_tangent;

typedef struct weir_ascent {
    double       limit;       /* bytes for idle tensors; with a link, plus those offloaded before */
    double       most;        /* largest lambda to try */
    weir_tangent left, right; /* of a choice that does not fit, and of one that does */
    double       value;       /* of the last choice, at its lambda */
} weir_ascent;

/* Returns the line of the last cut. */
static weir_tangent tangent_of(const weir_mincut_bound *c, double limit)
{
    double seconds, bytes;

    weigh(c, &seconds, &bytes);
    return (weir_tangent){seconds, bytes - limit - c->levers.link * seconds};
}

static void keep_infeasible(weir_mincut_bound *c)
{
    memset(c->infeasible, 0, c->p->ops.n);
    for (uint32_t i = 0; i < c->ops.n; i++)
        c->infeasible[c->ops.at[i]] = weir_flow_far(&c->flow, c->op_node[c->ops.at[i]]);
}

/* Evaluates the bound at lambda and raises `extra` to it; the choice there replaces the left or the
 * right line. */
static bool evaluate(weir_mincut_bound *c, weir_ascent *k, double lambda)
{
    const double second = c->scale * fmax(0, 1 - lambda * c->levers.link);
    int64_t      value;

    if (!solve_mincut(c, second, c->scale * lambda, MOST_CAPACITY, &value))
        return false;
    const double whole = (double)value / c->scale;
    const double below = whole - lambda * k->limit - ROUNDING * (whole + lambda * fabs(k->limit));
    c->extra = fmax(c->extra, below);
    const weir_tangent now = tangent_of(c, k->limit);
    k->value = now.seconds + lambda * now.slope;
    if (now.slope > 0) {
        k->left = now;
        keep_infeasible(c);
    } else {
        k->right = now;
        c->seconds = now.seconds;
        keep_choice(c);
    }
    return true;
}

/* Returns the longest op on which the two choices at the maximum disagree. */
static uint32_t open_op(const weir_mincut_bound *c)
{
    uint32_t open = WEIR_NO_OP;

    for (uint32_t i = 0; i < c->ops.n; i++) {
        const uint32_t o = c->ops.at[i];
        if (c->recomputed[o] != c->infeasible[o] && c->fixed[o] == WEIR_MINCUT_FREE &&
            (open == WEIR_NO_OP || c->p->ops.at[o].time > c->p->ops.at[open].time))
            open = o;
    }
    return open;
}

static bool ascend(weir_mincut_bound *c, weir_ascent *k, double known)
{
    enum { MOST_TANGENTS = 40 };

    for (int i = 0; i < MOST_TANGENTS && k->left.slope > 0; i++) {
        const weir_tangent l = k->left, r = k->right;
        const double    meet = r.slope < l.slope ? (r.seconds - l.seconds) / (l.slope - r.slope)
                                                 : k->most;
        const double    lambda = r.slope > 0 || meet > k->most ? k->most : meet;
        const double    above = fmin(l.seconds + lambda * l.slope, r.seconds + lambda * r.slope);
        if (above <= known || above <= c->extra * (1 + 1e-9))
            break;
        if (!evaluate(c, k, lambda))
            return false;
        if (k->value >= above * (1 - 1e-9) || (lambda == k->most && k->left.slope > 0))
            break;
    }
    return true;
}

bool weir_mincut_bound_solve(weir_mincut_bound *c, size_t budget, double known)
{
    const double link = c->levers.link;
    weir_ascent  k = {.limit = (double)budget - (double)c->must,
                      .most = link > 0 ? 1 / link : HUGE_VAL};
    int64_t      value;

    for (uint32_t i = 0; i < c->stage && link > 0; i++)
        k.limit += link * c->p->ops.at[i].time;
    c->extra = 0;
    c->seconds = INFINITY;
    c->open = WEIR_NO_OP;
    if (!cut_to_fewest(c, &value))
        return false;
    keep_choice(c);
    k.right = tangent_of(c, k.limit);
    if (k.right.slope <= 0)
        c->seconds = k.right.seconds;
    else if (link == 0)
        c->extra = INFINITY;
    if (isinf(c->extra) || c->scale == 0)
        return true;
    const double low = 1e-7 * c->p->time / (double)(c->all + 1);
    if (!evaluate(c, &k, fmin(low, k.most)) || !ascend(c, &k, known))
        return false;
    c->open = open_op(c);
    return true;
}
