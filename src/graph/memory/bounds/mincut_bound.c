/* mincut_bound.c - builds the network of one moment and climbs over lambda.
 *
 * Capacities are whole numbers, rounded down, so a cut is never above the true one. A line (cost of
 * a choice, and how its bytes exceed the room) bounds the concave function from above: the tangents
 * at the best lambda from either side meet there. */
#include "graph/memory/bounds/mincut_bound.h"

#include <math.h>
#include <string.h>

#define SECONDS_SCALE 0x1p40        /* capacity of all tasks together */
#define MOST_CAPACITY 0x1p42        /* of one piece: more than all tasks, so nobody pays it */
#define FEWEST_SCALE  0x1p16        /* of all tasks together, when a byte is dearer than they */
#define ROUNDING      1e-12         /* relative, of the sums of doubles */

/* Does a mask of the piece do, as far as first runs behind the stage say? If there are none, for
 * somebody at least. */
static bool mask_does(const weir_cut *c, uint32_t piece)
{
    const weir_piece *k = &c->p->pieces.at[piece];
    bool              any = false, later = false, all = !k->output;

    for (uint32_t i = 0; i < k->uses.n; i++) {
        const uint32_t reader = weir_refs(c->p, k->uses)[i];
        const bool     masked = weir_among(c->p, c->p->tasks.at[reader].masked, piece);
        any = any || masked;
        if (reader > c->stage && reader <= c->end) {
            later = true;
            all = all && masked;
        }
    }
    return later ? all : any;
}

/* Of the smallest form in which it may lie idle. */
static size_t bytes_of(const weir_cut *c, uint32_t piece)
{
    const weir_piece *k = &c->p->pieces.at[piece];
    size_t            least = k->bytes;

    if (c->levers.pack && k->packed)
        least = k->packed < least ? k->packed : least;
    if (c->levers.pack && k->mask && mask_does(c, piece))
        least = k->mask < least ? k->mask : least;
    return least;
}

bool weir_cut_init(weir_cut *c, const weir_problem *p, const weir_levers *levers)
{
    const size_t pieces = p->pieces.n + 1u, tasks = p->tasks.n + 1u;

    *c = (weir_cut){.p = p, .levers = levers ? *levers : (weir_levers){0}};
    c->scale = p->time > 0 ? SECONDS_SCALE / p->time : 0;
    c->fate = weir_mem_zalloc(pieces, sizeof *c->fate);
    c->there = weir_mem_zalloc(pieces, sizeof *c->there);
    c->again = weir_mem_zalloc(tasks, sizeof *c->again);
    c->fixed = weir_mem_zalloc(tasks, sizeof *c->fixed);
    c->dear = weir_mem_zalloc(tasks, sizeof *c->dear);
    c->piece_node = weir_mem_zalloc(pieces, sizeof *c->piece_node);
    c->task_node = weir_mem_zalloc(tasks, sizeof *c->task_node);
    return c->fate && c->there && c->again && c->fixed && c->dear && c->piece_node &&
           c->task_node;
}

void weir_cut_free(weir_cut *c)
{
    weir_flow_free(&c->flow);
    weir_vec_free(&c->pieces);
    weir_vec_free(&c->tasks);
    weir_mem_free(c->fate);
    weir_mem_free(c->there);
    weir_mem_free(c->again);
    weir_mem_free(c->fixed);
    weir_mem_free(c->dear);
    weir_mem_free(c->piece_node);
    weir_mem_free(c->task_node);
}

/* ---- what a task itself needs ---- */

/* Are the two of pair i of equal size, so that one may become the other? */
static bool pair_fits(const weir_problem *p, const uint32_t *pair, uint32_t i)
{
    return p->pieces.at[pair[i & ~1u]].bytes == p->pieces.at[pair[i | 1u]].bytes;
}

static bool seen_before(const weir_problem *p, const uint32_t *pair, uint32_t i)
{
    for (uint32_t k = i & 1; k < i; k += 2)
        if (pair[k] == pair[i] && pair_fits(p, pair, k))
            return true;
    return false;
}

/* At most so many bytes are shared by results and inputs that die. *whole: only one input may be
 * taken over. */
static size_t taken_over(const weir_problem *p, const weir_task *t, bool *whole)
{
    const uint32_t *pair = weir_refs(p, t->pairs);
    size_t          in = 0, out = 0;
    uint32_t        nin = 0;

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        const size_t bytes = p->pieces.at[pair[i]].bytes;
        if (!pair_fits(p, pair, i))
            continue;
        nin += !seen_before(p, pair, i);
        in += seen_before(p, pair, i) ? 0 : bytes;
        out += seen_before(p, pair, i + 1) ? 0 : bytes;
    }
    *whole = nin == 1;
    return in < out ? in : out;
}

static size_t must_of(const weir_problem *p, const weir_levers *levers, uint32_t task, bool *whole)
{
    const weir_task *t = &p->tasks.at[task];
    size_t           bytes = t->work;

    for (uint32_t k = 0; k < t->in.n; k++) {
        const weir_piece *in = &p->pieces.at[weir_refs(p, t->in)[k]];
        const bool        masked = levers && levers->pack && in->mask > 0 && in->mask < in->bytes &&
                            weir_among(p, t->masked, weir_refs(p, t->in)[k]);
        bytes += masked ? in->mask : in->bytes;
    }
    for (uint32_t k = 0; k < t->out.n; k++)
        bytes += p->pieces.at[weir_refs(p, t->out)[k]].bytes;
    const size_t less = taken_over(p, t, whole);
    return bytes > less ? bytes - less : 0;
}

size_t weir_cut_must(const weir_problem *p, const weir_levers *levers, uint32_t task)
{
    bool whole;
    return must_of(p, levers, task, &whole);
}

/* ---- the network ---- */

static bool may_run_again(const weir_cut *c, uint32_t task)
{
    return c->p->tasks.at[task].until > c->stage + 1 &&
           !(c->levers.banned && c->levers.banned[task]);
}

static bool wanted_later(const weir_cut *c, uint32_t piece)
{
    const weir_piece *k = &c->p->pieces.at[piece];

    if (c->end >= c->p->tasks.n && k->output)
        return true;
    for (uint32_t i = k->uses.n; i-- > 0 && weir_refs(c->p, k->uses)[i] > c->stage;)
        if (weir_refs(c->p, k->uses)[i] <= c->end)
            return true;
    return false;
}

/* Marks what is in memory while the stage runs: its results, and its inputs but for one that may be
 * taken over, which costs its bytes if it is to stay. */
static void mark_own(weir_cut *c)
{
    const weir_task *t = &c->p->tasks.at[c->stage];
    const uint32_t  *pair = weir_refs(c->p, t->pairs);
    bool             whole;

    c->own = c->must = must_of(c->p, &c->levers, c->stage, &whole);
    for (uint32_t k = 0; k < t->in.n; k++)
        c->there[weir_refs(c->p, t->in)[k]] = 1;
    for (uint32_t k = 0; k < t->out.n; k++)
        c->there[weir_refs(c->p, t->out)[k]] = 1;
    for (uint32_t k = 0; k < c->p->pieces.n; k++)
        if (weir_piece_resident(c->p, k))
            c->there[k] = 1;
    for (uint32_t i = 0; whole && !c->levers.pack && i + 1 < t->pairs.n; i += 2)
        if (pair_fits(c->p, pair, i))
            c->there[pair[i]] = 0;
}

static bool add_piece(weir_cut *c, uint32_t piece)
{
    if (c->there[piece] || c->piece_node[piece])
        return true;
    c->piece_node[piece] = c->flow.first.n;
    return weir_flow_node(&c->flow) && weir_vec_push(&c->pieces, piece);
}

/* Nodes of what is read later: what nothing can make anew is in memory, and costs. */
static bool add_wanted(weir_cut *c)
{
    const weir_problem *p = c->p;

    for (int round = 0; round < 2; round++)
        for (uint32_t k = 0; k < p->pieces.n; k++) {
            if (p->pieces.at[k].maker >= c->stage || c->there[k] || !wanted_later(c, k))
                continue;
            const bool fixed = !may_run_again(c, p->pieces.at[k].maker);
            if (fixed)
                c->must += c->levers.link > 0 ? 0 : bytes_of(c, k);
            c->there[k] = fixed && !(c->levers.link > 0);
            if (round == 1 && !add_piece(c, k))
                return false;
        }
    c->wanted = c->pieces.n;
    return true;
}

/* Nodes of the makers, of what those read, and so on. */
static bool add_makers(weir_cut *c)
{
    const weir_problem *p = c->p;

    for (uint32_t i = 0; i < c->pieces.n; i++) {
        const uint32_t   o = p->pieces.at[c->pieces.at[i]].maker;
        const weir_task *t = &p->tasks.at[o];
        if (c->task_node[o] || !may_run_again(c, o))
            continue;
        c->task_node[o] = c->flow.first.n;
        if (!weir_flow_node(&c->flow) || !weir_vec_push(&c->tasks, o))
            return false;
        for (uint32_t k = 0; k < t->in.n; k++)
            if (!add_piece(c, weir_refs(p, t->in)[k]))
                return false;
    }
    return true;
}

/* First an edge for each piece, then two for each task, from the source and to the sink: their
 * numbers follow the lists. */
static bool add_edges(weir_cut *c)
{
    const weir_problem *p = c->p;
    bool                ok = true;

    for (uint32_t i = 0; i < c->pieces.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->task_node[p->pieces.at[c->pieces.at[i]].maker],
                                c->piece_node[c->pieces.at[i]], 0);
    for (uint32_t i = 0; i < c->tasks.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, 0, c->task_node[c->tasks.at[i]], 0);
    for (uint32_t i = 0; i < c->tasks.n && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->task_node[c->tasks.at[i]], 1, 0);
    for (uint32_t i = 0; i < c->wanted && ok; i++)
        ok = weir_flow_edge_add(&c->flow, c->piece_node[c->pieces.at[i]], 1, WEIR_FLOW_MOST);
    for (uint32_t i = 0; i < c->tasks.n && ok; i++) {
        const weir_task *t = &p->tasks.at[c->tasks.at[i]];
        for (uint32_t k = 0; k < t->in.n && ok; k++) {
            const uint32_t in = weir_refs(p, t->in)[k];
            if (c->piece_node[in])
                ok = weir_flow_edge_add(&c->flow, c->piece_node[in], c->task_node[c->tasks.at[i]],
                                        WEIR_FLOW_MOST);
        }
    }
    return ok;
}

/* Smallest cut with these prices of a second and a byte, `most` for a piece; *value may be below it
 * by rounding. */
static bool cut(weir_cut *c, double second, double byte, double most, int64_t *value)
{
    for (uint32_t i = 0; i < c->pieces.n; i++) {
        const double price = byte * (double)bytes_of(c, c->pieces.at[i]);
        weir_flow_set(&c->flow, i, (int64_t)fmin(price, most));
    }
    for (uint32_t i = 0; i < c->tasks.n; i++) {
        const uint32_t o = c->tasks.at[i];
        const uint8_t  fixed = c->fixed[o];
        const int64_t  price = (int64_t)(second * c->p->tasks.at[o].time);
        weir_flow_set(&c->flow, c->pieces.n + i, fixed == WEIR_CUT_NEVER ? WEIR_FLOW_MOST : price);
        weir_flow_set(&c->flow, c->pieces.n + c->tasks.n + i,
                      fixed == WEIR_CUT_ALWAYS ? WEIR_FLOW_MOST : 0);
    }
    for (uint32_t e = c->pieces.n + 2 * c->tasks.n; 2 * e < c->flow.edges.n; e++)
        weir_flow_set(&c->flow, e, WEIR_FLOW_MOST);
    return weir_flow_run(&c->flow, value);
}

/* Was the piece kept by the last cut? */
static bool is_kept(const weir_cut *c, uint32_t i)
{
    const uint32_t piece = c->pieces.at[i], task = c->task_node[c->p->pieces.at[piece].maker];
    return weir_flow_far(&c->flow, c->piece_node[piece]) && !weir_flow_far(&c->flow, task);
}

/* Seconds and bytes of the last cut. */
static void weigh(const weir_cut *c, double *seconds, double *bytes)
{
    *seconds = *bytes = 0;
    for (uint32_t i = 0; i < c->tasks.n; i++)
        if (weir_flow_far(&c->flow, c->task_node[c->tasks.at[i]]))
            *seconds += c->p->tasks.at[c->tasks.at[i]].time;
    for (uint32_t i = 0; i < c->pieces.n; i++)
        if (is_kept(c, i))
            *bytes += (double)bytes_of(c, c->pieces.at[i]);
}

/* The last cut is the choice to tell of. */
static void keep_choice(weir_cut *c)
{
    memset(c->fate, WEIR_CUT_NOT_ASKED, c->p->pieces.n);
    memset(c->again, 0, c->p->tasks.n);
    for (uint32_t i = 0; i < c->pieces.n; i++)
        if (weir_flow_far(&c->flow, c->piece_node[c->pieces.at[i]]))
            c->fate[c->pieces.at[i]] = is_kept(c, i) ? WEIR_CUT_KEPT : WEIR_CUT_AGAIN;
    for (uint32_t i = 0; i < c->tasks.n; i++)
        c->again[c->tasks.at[i]] = weir_flow_far(&c->flow, c->task_node[c->tasks.at[i]]);
}

/* The cheapest of the choices with the fewest bytes; *value: a whole number of times those. */
static bool cut_to_fewest(weir_cut *c, int64_t *value)
{
    return cut(c, c->scale * (FEWEST_SCALE / SECONDS_SCALE), 2 * FEWEST_SCALE,
               0x1p60 / (c->pieces.n + 1), value);
}

bool weir_cut_at(weir_cut *c, uint32_t stage, uint32_t end)
{
    size_t  all = 0;
    int64_t value;

    c->stage = stage;
    c->end = end;
    c->pieces.n = c->tasks.n = 0;
    memset(c->there, 0, c->p->pieces.n);
    memset(c->piece_node, 0, c->p->pieces.n * sizeof *c->piece_node);
    memset(c->task_node, 0, c->p->tasks.n * sizeof *c->task_node);
    mark_own(c);
    if (!weir_flow_begin(&c->flow) || !add_wanted(c) || !add_makers(c) || !add_edges(c) ||
        !cut_to_fewest(c, &value))
        return false;
    for (size_t i = 0; i < c->wanted; i++)
        all += bytes_of(c, c->pieces.at[i]);
    keep_choice(c);
    c->least = c->must + (c->levers.link > 0 ? 0 : (size_t)value / (size_t)(2 * FEWEST_SCALE));
    c->all = c->must + all;
    return true;
}

/* ---- the climb ---- */

/* A choice as a line over lambda: seconds + lambda * slope. */
typedef struct weir_line {
    double seconds, slope;
} weir_line;

typedef struct weir_climb {
    double    room;             /* bytes for pieces that idle; with a link, more that left before */
    double    most;             /* lambda */
    weir_line left, right;      /* of choices that do not fit, and do */
    double    value;            /* at the lambda looked at last: of its choice */
} weir_climb;

/* Line of the last cut. */
static weir_line line_of(const weir_cut *c, double room)
{
    double seconds, bytes;

    weigh(c, &seconds, &bytes);
    return (weir_line){seconds, bytes - room - c->levers.link * seconds};
}

static void keep_dear(weir_cut *c)
{
    memset(c->dear, 0, c->p->tasks.n);
    for (uint32_t i = 0; i < c->tasks.n; i++)
        c->dear[c->tasks.at[i]] = weir_flow_far(&c->flow, c->task_node[c->tasks.at[i]]);
}

/* Raises `extra` to the function's value at lambda; the choice there replaces one of the lines. */
static bool look_at(weir_cut *c, weir_climb *k, double lambda)
{
    const double second = c->scale * fmax(0, 1 - lambda * c->levers.link);
    int64_t      value;

    if (!cut(c, second, c->scale * lambda, MOST_CAPACITY, &value))
        return false;
    const double whole = (double)value / c->scale;
    const double below = whole - lambda * k->room - ROUNDING * (whole + lambda * fabs(k->room));
    c->extra = fmax(c->extra, below);
    const weir_line now = line_of(c, k->room);
    k->value = now.seconds + lambda * now.slope;
    if (now.slope > 0) {
        k->left = now;
        keep_dear(c);
    } else {
        k->right = now;
        c->seconds = now.seconds;
        keep_choice(c);
    }
    return true;
}

/* The two choices of the top disagree over it, and it takes longest. */
static uint32_t open_task(const weir_cut *c)
{
    uint32_t open = WEIR_NO_TASK;

    for (uint32_t i = 0; i < c->tasks.n; i++) {
        const uint32_t o = c->tasks.at[i];
        if (c->again[o] != c->dear[o] && c->fixed[o] == WEIR_CUT_FREE &&
            (open == WEIR_NO_TASK || c->p->tasks.at[o].time > c->p->tasks.at[open].time))
            open = o;
    }
    return open;
}

static bool climb(weir_cut *c, weir_climb *k, double known)
{
    enum { MOST_TANGENTS = 40 };

    for (int i = 0; i < MOST_TANGENTS && k->left.slope > 0; i++) {
        const weir_line l = k->left, r = k->right;
        const double    meet = r.slope < l.slope ? (r.seconds - l.seconds) / (l.slope - r.slope)
                                                 : k->most;
        const double    lambda = r.slope > 0 || meet > k->most ? k->most : meet;
        const double    above = fmin(l.seconds + lambda * l.slope, r.seconds + lambda * r.slope);
        if (above <= known || above <= c->extra * (1 + 1e-9))
            break;
        if (!look_at(c, k, lambda))
            return false;
        if (k->value >= above * (1 - 1e-9) || (lambda == k->most && k->left.slope > 0))
            break;
    }
    return true;
}

bool weir_cut_solve(weir_cut *c, size_t budget, double known)
{
    const double link = c->levers.link;
    weir_climb   k = {.room = (double)budget - (double)c->must,
                      .most = link > 0 ? 1 / link : HUGE_VAL};
    int64_t      value;

    for (uint32_t i = 0; i < c->stage && link > 0; i++)
        k.room += link * c->p->tasks.at[i].time;
    c->extra = 0;
    c->seconds = INFINITY;
    c->open = WEIR_NO_TASK;
    if (!cut_to_fewest(c, &value))
        return false;
    keep_choice(c);
    k.right = line_of(c, k.room);
    if (k.right.slope <= 0)
        c->seconds = k.right.seconds;
    else if (link == 0)
        c->extra = INFINITY;
    if (isinf(c->extra) || c->scale == 0)
        return true;
    const double low = 1e-7 * c->p->time / (double)(c->all + 1);
    if (!look_at(c, &k, fmin(low, k.most)) || !climb(c, &k, known))
        return false;
    c->open = open_task(c);
    return true;
}
