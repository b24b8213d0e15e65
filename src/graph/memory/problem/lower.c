/* lower.c - one forward walk over the step: runs tasks and brings back what went.
 *
 * Lives end at the last event that reads them, whatever a decision would have kept longer, so a
 * useless decision costs nothing. */
#include "graph/memory/problem/lower.h"

#include <string.h>

/* Plans with more runs than this times the tasks are not looked at further. */
enum { MOST_RUNS = 6 };

uint32_t weir_walk_gaps(const weir_problem *p)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->pieces.n; k++)
        n += p->pieces.at[k].uses.n + 1;
    return n;
}

bool weir_walk_init(weir_walk_room *w, const weir_problem *p)
{
    *w = (weir_walk_room){.p = p, .budget = SIZE_MAX};
    w->first_gap = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->first_gap);
    w->at_home = weir_mem_alloc((size_t)p->pieces.n + 1);
    w->next = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->next);
    w->early = weir_mem_alloc(((size_t)p->tasks.n + 1) * sizeof *w->early);
    w->early_next = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->early_next);
    w->step = p->tasks.n / (UINT8_MAX - WEIR_EARLY) + 1;
    if (!weir_schedule_init(&w->s, p) || !w->first_gap || !w->at_home || !w->next || !w->early ||
        !w->early_next)
        return false;
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        w->first_gap[k] = w->gaps;
        w->gaps += p->pieces.at[k].uses.n + 1;
    }
    w->first_gap[p->pieces.n] = w->gaps;
    return true;
}

void weir_walk_free(weir_walk_room *w)
{
    weir_mem_free(w->first_gap);
    weir_mem_free(w->at_home);
    weir_mem_free(w->next);
    weir_mem_free(w->early);
    weir_mem_free(w->early_next);
    weir_schedule_free(&w->s);
    weir_vec_free(&w->burst);
    weir_vec_free(&w->stack);
}

/* Appends a run of the task; its inputs are there. */
static bool run(weir_walk_room *w, uint32_t task, bool again)
{
    const weir_task *t = &w->p->tasks.at[task];
    const uint32_t  *out = weir_refs(w->p, t->out);

    for (uint32_t i = 0; again && i < t->out.n; i++)
        if (!weir_schedule_has(&w->s, out[i], WEIR_PLAIN) && !weir_vec_push(&w->burst, out[i]))
            return false;
    return weir_schedule_run(&w->s, task, again);
}

/* Is input `piece` of the task there, in a form that does for it? An output comes back whole for
 * its last use, since it stays then. */
static bool there(const weir_walk_room *w, const weir_task *t, uint32_t piece)
{
    const weir_piece *k = &w->p->pieces.at[piece];

    return weir_schedule_has(&w->s, piece, WEIR_PLAIN) ||
           (weir_schedule_has(&w->s, piece, WEIR_MASK) && weir_among(w->p, t->masked, piece) &&
            !(k->output && w->next[piece] + 1 >= k->uses.n));
}

/* Brings the piece back from another form of it; *back says whether there is one. */
static bool bring_back(weir_walk_room *w, uint32_t piece, bool *back)
{
    const weir_act act = weir_schedule_has(&w->s, piece, WEIR_PACKED) ? WEIR_UNPACK : WEIR_IN;

    *back = act == WEIR_UNPACK || weir_schedule_has(&w->s, piece, WEIR_HOST);
    return !*back || (weir_vec_push(&w->burst, piece) && weir_schedule_copy(&w->s, piece, act));
}

/* Asks for the inputs of a task on top of the stack. */
static bool ask(weir_walk_room *w, const weir_task *t)
{
    const weir_problem *p = w->p;
    const uint32_t     *in = weir_refs(p, t->in);
    bool                back;

    for (uint32_t i = 0; i < t->in.n; i++) {
        if (there(w, t, in[i]))
            continue;
        if (!bring_back(w, in[i], &back))
            return false;
        if (!back && weir_piece_resident(p, in[i]))
            w->valid = false;
        else if (!back && !weir_vec_push(&w->stack, p->pieces.at[in[i]].maker))
            return false;
    }
    return true;
}

/* Runs what is on the stack, and before it whatever that misses, depth first. */
static bool run_stack(weir_walk_room *w, uint32_t stage)
{
    const weir_problem *p = w->p;

    while (w->stack.n > 0 && w->valid) {
        const uint32_t   task = w->stack.at[w->stack.n - 1], depth = w->stack.n;
        const weir_task *t = &p->tasks.at[task];
        bool             wanted = false;        /* two may have asked for it */

        if (t->until <= stage || w->s.events.n + depth > MOST_RUNS * (p->tasks.n + 1)) {
            w->valid = false;
            break;
        }
        if (!ask(w, t))
            return false;
        if (w->stack.n > depth)
            continue;
        w->stack.n--;
        for (uint32_t i = 0; i < t->out.n; i++)
            wanted = wanted || !weir_schedule_has(&w->s, weir_refs(p, t->out)[i], WEIR_PLAIN);
        if (wanted && w->valid && !run(w, task, true))
            return false;
    }
    return true;
}

/* Makes the piece be there. */
static bool need(weir_walk_room *w, uint32_t piece, uint32_t stage)
{
    bool back;

    if (weir_schedule_has(&w->s, piece, WEIR_PLAIN))
        return true;
    if (!bring_back(w, piece, &back))
        return false;
    if (back)
        return true;
    if (weir_piece_resident(w->p, piece)) {
        w->valid = false;
        return true;
    }
    w->stack.n = 0;
    return weir_vec_push(&w->stack, w->p->pieces.at[piece].maker) && run_stack(w, stage);
}

/* Makes the inputs of task i be there, one after another. */
static bool need_inputs(weir_walk_room *w, uint32_t i)
{
    const weir_task *t = &w->p->tasks.at[i];
    const uint32_t  *in = weir_refs(w->p, t->in);

    for (uint32_t k = 0; k < t->in.n && w->valid; k++)
        if (!there(w, t, in[k]) && !need(w, in[k], i))
            return false;
    return true;
}

/* Is the piece kept now, its use number `next` being the next one? */
static bool stays(const weir_walk_room *w, const uint8_t *gap, uint32_t piece, bool burst)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint8_t     d = gap[w->first_gap[piece] + w->next[piece]];

    if (k->maker == WEIR_NO_TASK && !w->at_home[piece])
        return true;
    if (w->next[piece] == k->uses.n)            /* what lives on the host goes back there */
        return k->maker != WEIR_NO_TASK && (d == WEIR_TAIL || k->output);
    return d == WEIR_KEEP || (burst && d != WEIR_DROP_AGAIN);
}

/* Lists the pieces to be made anew early by the task they come before: of each the last such gap
 * that is not over yet is looked at again when the gap before it ends. */
static void list_early(weir_walk_room *w, const uint8_t *gap, uint32_t piece)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint32_t    j = w->next[piece];

    if (j >= k->uses.n || gap[w->first_gap[piece] + j] < WEIR_EARLY || k->maker == WEIR_NO_TASK)
        return;
    const uint32_t use = weir_refs(w->p, k->uses)[j];
    const uint32_t from = j > 0 ? weir_refs(w->p, k->uses)[j - 1] : k->maker;
    const uint32_t back = (gap[w->first_gap[piece] + j] - WEIR_EARLY + 1u) * w->step;
    const uint32_t at = back < use - from ? use - back : from + 1;
    w->early_next[piece] = w->early[at];
    w->early[at] = piece;
}

/* A gap of the piece begins: it stays, or goes as decided. Nobody makes a resident piece: it goes
 * to the host. */
static bool decide(weir_walk_room *w, const uint8_t *gap, uint32_t piece)
{
    static const uint8_t act[] = {[WEIR_SWAP] = WEIR_OUT, [WEIR_CODE] = WEIR_PACK,
                                  [WEIR_MASKED] = WEIR_MARK, [WEIR_EARLY] = WEIR_RUN};
    const uint8_t d = gap[w->first_gap[piece] + w->next[piece]];
    uint8_t       to = d < WEIR_EARLY ? act[d] : WEIR_RUN;

    list_early(w, gap, piece);
    if (stays(w, gap, piece, false) || !weir_schedule_has(&w->s, piece, WEIR_PLAIN))
        return true;
    if (weir_piece_resident(w->p, piece))
        to = WEIR_OUT;
    else if (w->next[piece] == w->p->pieces.at[piece].uses.n && d != WEIR_SWAP)
        to = WEIR_RUN;
    if (to != WEIR_RUN &&
        (to == WEIR_OUT || !weir_schedule_has(&w->s, piece, (weir_form)weir_act_to[to])) &&
        !weir_schedule_copy(&w->s, piece, (weir_act)to))
        return false;
    weir_schedule_drop(&w->s, piece);
    return true;
}

/* After the first run of a task: what it read and made is kept or goes as decided. */
static bool settle(weir_walk_room *w, const uint8_t *gap, const weir_task *t)
{
    const uint32_t *in = weir_refs(w->p, t->in), *out = weir_refs(w->p, t->out);

    for (uint32_t i = 0; i < t->in.n; i++)
        w->next[in[i]]++;
    for (uint32_t i = 0; i < t->in.n; i++)
        if (!decide(w, gap, in[i]))
            return false;
    for (uint32_t i = 0; i < t->out.n; i++)
        if (!decide(w, gap, out[i]))
            return false;
    for (uint32_t i = 0; i < w->burst.n; i++)
        if (!stays(w, gap, w->burst.at[i], true))
            weir_schedule_drop(&w->s, w->burst.at[i]);
    w->burst.n = 0;
    return true;
}

/* What is to be made anew before task i. */
static bool make_early(weir_walk_room *w, uint32_t i)
{
    for (uint32_t k = w->early[i]; k != WEIR_NO_PIECE && w->valid; k = w->early_next[k])
        if (!need(w, k, i))
            return false;
    return true;
}

static bool begin(weir_walk_room *w, const uint8_t *gap)
{
    const weir_problem *p = w->p;

    w->burst.n = 0;
    memset(w->next, 0, p->pieces.n * sizeof *w->next);
    memset(w->early, 0xff, p->tasks.n * sizeof *w->early);
    for (uint32_t k = 0; k < p->pieces.n; k++)
        w->at_home[k] = weir_piece_resident(p, k) && gap[w->first_gap[k]] == WEIR_SWAP;
    return weir_schedule_begin(&w->s, w->at_home);
}

bool weir_walk(weir_walk_room *w, const uint8_t *gap)
{
    const weir_problem *p = w->p;

    w->valid = true;
    if (!begin(w, gap))
        return false;
    for (uint32_t i = 0; i < p->tasks.n && w->valid; i++) {
        if (!make_early(w, i))
            return false;
        if (w->valid && !need_inputs(w, i))
            return false;
        if (w->valid && !run(w, i, false))
            return false;
        w->valid = w->valid && w->s.valid;
        if (w->valid && !settle(w, gap, &p->tasks.at[i]))
            return false;
    }
    w->s.valid = w->valid;
    if (!weir_schedule_end(&w->s, w->budget))
        return false;
    w->peak = w->s.peak;
    w->peak_event = w->s.peak_event;
    w->extra = w->s.time - p->time;
    return true;
}
