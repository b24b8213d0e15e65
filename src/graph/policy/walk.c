/* walk.c - one forward walk over the step: runs tasks, makes dropped pieces anew, adds up memory.
 *
 * Lives end at the last event that reads them, whatever a decision would have kept longer, so a
 * useless decision costs nothing. A result that takes over the memory of an input which dies there
 * counts once. */
#include "graph/policy/walk.h"

#include <string.h>

/* Plans with more runs than this times the tasks are not looked at further. */
enum { MOST_RUNS = 6 };

bool weir_walk_init(weir_walk_room *w, const weir_problem *p)
{
    *w = (weir_walk_room){.p = p};
    w->first_gap = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->first_gap);
    w->now = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->now);
    w->next = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->next);
    w->early = weir_mem_alloc(((size_t)p->tasks.n + 1) * sizeof *w->early);
    w->early_next = weir_mem_alloc(((size_t)p->pieces.n + 1) * sizeof *w->early_next);
    w->step = p->tasks.n / (UINT8_MAX - WEIR_EARLY) + 1;
    if (!w->first_gap || !w->now || !w->next || !w->early || !w->early_next)
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
    weir_mem_free(w->now);
    weir_mem_free(w->next);
    weir_mem_free(w->early);
    weir_mem_free(w->early_next);
    weir_vec_free(&w->events);
    weir_vec_free(&w->lives);
    weir_vec_free(&w->live);
    weir_vec_free(&w->life_of);
    weir_vec_free(&w->life_first);
    weir_vec_free(&w->burst);
    weir_vec_free(&w->stack);
}

/* Appends a run of the task; its inputs are there. */
static bool run(weir_walk_room *w, uint32_t task, bool again)
{
    const weir_task *t = &w->p->tasks.at[task];
    const uint32_t  *in = weir_refs(w->p, t->in), *out = weir_refs(w->p, t->out);
    const uint32_t   e = w->events.n;

    if (!weir_vec_push(&w->events, (weir_event){task, again}) ||
        !weir_vec_push(&w->life_first, w->life_of.n) ||
        !weir_vec_reserve(&w->life_of, (uint64_t)w->life_of.n + t->in.n + t->out.n) ||
        !weir_vec_reserve(&w->lives, (uint64_t)w->lives.n + t->out.n))
        return false;
    for (uint32_t i = 0; i < t->in.n; i++) {
        w->lives.at[w->now[in[i]]].last = e;
        w->life_of.at[w->life_of.n++] = w->now[in[i]];
    }
    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t life = w->lives.n++;
        w->lives.at[life] = (weir_life){out[i], e, e};
        w->life_of.at[w->life_of.n++] = life;
        if (w->now[out[i]] != WEIR_NO_PIECE)
            continue;                   /* there already: this copy is scratch */
        w->now[out[i]] = life;
        if (again && !weir_vec_push(&w->burst, out[i]))
            return false;
    }
    if (again)
        w->extra += t->time;
    return true;
}

/* Makes the piece be there, by running again whatever is missing, depth first. */
static bool need(weir_walk_room *w, uint32_t piece, uint32_t stage)
{
    const weir_problem *p = w->p;

    if (w->now[piece] != WEIR_NO_PIECE)
        return true;
    w->stack.n = 0;
    if (!weir_vec_push(&w->stack, p->pieces.at[piece].maker))
        return false;
    while (w->stack.n > 0 && w->valid) {
        const uint32_t   task = w->stack.at[w->stack.n - 1];
        const weir_task *t = &p->tasks.at[task];
        const uint32_t  *in = weir_refs(p, t->in);
        const uint32_t   depth = w->stack.n;

        if (t->until <= stage || w->events.n + depth > MOST_RUNS * (p->tasks.n + 1)) {
            w->valid = false;
            break;
        }
        for (uint32_t i = 0; i < t->in.n; i++)
            if (w->now[in[i]] == WEIR_NO_PIECE &&
                !weir_vec_push(&w->stack, p->pieces.at[in[i]].maker))
                return false;
        if (w->stack.n > depth)
            continue;
        w->stack.n--;
        bool wanted = false;            /* two may have asked for it */
        const uint32_t *out = weir_refs(p, t->out);
        for (uint32_t i = 0; i < t->out.n; i++)
            wanted = wanted || w->now[out[i]] == WEIR_NO_PIECE;
        if (wanted && !run(w, task, true))
            return false;
    }
    return true;
}

/* Is the piece kept now, its use number `next` being the next one? */
static bool stays(const weir_walk_room *w, const uint8_t *gap, uint32_t piece, bool burst)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint8_t     d = gap[w->first_gap[piece] + w->next[piece]];

    if (w->next[piece] == k->uses.n)
        return d == WEIR_TAIL || k->output;
    return d == WEIR_KEEP || (burst && d != WEIR_DROP_AGAIN);
}

/* Lists the pieces to be made anew early by the task they come before: of each the last such gap
 * that is not over yet is looked at again when the gap before it ends. */
static void list_early(weir_walk_room *w, const uint8_t *gap, uint32_t piece)
{
    const weir_piece *k = &w->p->pieces.at[piece];
    const uint32_t    j = w->next[piece];

    if (j >= k->uses.n || gap[w->first_gap[piece] + j] < WEIR_EARLY)
        return;
    const uint32_t use = weir_refs(w->p, k->uses)[j];
    const uint32_t from = j > 0 ? weir_refs(w->p, k->uses)[j - 1] : k->maker;
    const uint32_t back = (gap[w->first_gap[piece] + j] - WEIR_EARLY + 1u) * w->step;
    const uint32_t at = back < use - from ? use - back : from + 1;
    w->early_next[piece] = w->early[at];
    w->early[at] = piece;
}

/* Is the task the next one that reads the piece? */
static bool reads_next(const weir_walk_room *w, uint32_t task, uint32_t piece)
{
    const weir_range uses = w->p->pieces.at[piece].uses;
    return w->next[piece] < uses.n && weir_refs(w->p, uses)[w->next[piece]] == task;
}

/* After the first run of a task: what it read and made is kept or dropped as decided, by the gap
 * that begins here if it was made anew for the task itself. */
static void settle(weir_walk_room *w, const uint8_t *gap, uint32_t task)
{
    const weir_task *t = &w->p->tasks.at[task];
    const uint32_t *in = weir_refs(w->p, t->in), *out = weir_refs(w->p, t->out);

    for (uint32_t i = 0; i < w->burst.n; i++)
        if (!reads_next(w, task, w->burst.at[i]) && !stays(w, gap, w->burst.at[i], true))
            w->now[w->burst.at[i]] = WEIR_NO_PIECE;
    w->burst.n = 0;
    for (uint32_t i = 0; i < t->in.n; i++) {
        w->next[in[i]]++;
        list_early(w, gap, in[i]);
        if (!stays(w, gap, in[i], false))
            w->now[in[i]] = WEIR_NO_PIECE;
    }
    for (uint32_t i = 0; i < t->out.n; i++) {
        list_early(w, gap, out[i]);
        if (!stays(w, gap, out[i], false))
            w->now[out[i]] = WEIR_NO_PIECE;
    }
}

/* Bytes that results of event e take over from inputs that die in it; each input once. */
static int64_t taken_over(const weir_walk_room *w, uint32_t e)
{
    const weir_task *t = &w->p->tasks.at[w->events.at[e].task];
    const uint32_t  *pair = weir_refs(w->p, t->pairs);
    const uint32_t  *life = &w->life_of.at[w->life_first.at[e]];
    const uint32_t  *in = weir_refs(w->p, t->in), *out = weir_refs(w->p, t->out);
    int64_t          bytes = 0;
    uint32_t         used_in[8], used_out[8], used = 0;

    for (uint32_t i = 0; i + 1 < t->pairs.n && used < 8; i += 2) {
        uint32_t a = 0, b = 0;
        while (in[a] != pair[i])
            a++;
        while (out[b] != pair[i + 1])
            b++;
        bool free = w->lives.at[life[a]].last == e && w->lives.at[life[a]].first != e &&
                    !(w->p->pieces.at[pair[i]].output && e + 1 == w->events.n);
        for (uint32_t k = 0; k < used; k++)
            free = free && used_in[k] != a && used_out[k] != b;
        if (!free || w->p->pieces.at[pair[i]].bytes != w->p->pieces.at[pair[i + 1]].bytes)
            continue;
        used_in[used] = a;
        used_out[used++] = b;
        bytes += (int64_t)w->p->pieces.at[pair[i]].bytes;
    }
    return bytes;
}

/* Live bytes during every event, and the peak. */
static bool add_up(weir_walk_room *w)
{
    int64_t live = 0, peak = -1;

    if (!weir_vec_reserve(&w->live, (uint64_t)w->events.n + 1))
        return false;
    memset(w->live.at, 0, ((size_t)w->events.n + 1) * sizeof *w->live.at);
    for (uint32_t i = 0; i < w->lives.n; i++) {
        const int64_t bytes = (int64_t)w->p->pieces.at[w->lives.at[i].piece].bytes;
        w->live.at[w->lives.at[i].first] += bytes;
        w->live.at[w->lives.at[i].last + 1] -= bytes;
    }
    for (uint32_t e = 0; e < w->events.n; e++) {
        const weir_task *t = &w->p->tasks.at[w->events.at[e].task];
        live += w->live.at[e];
        w->live.at[e] = live + (int64_t)t->work - (t->pairs.n ? taken_over(w, e) : 0);
        if (w->live.at[e] > peak) {
            peak = w->live.at[e];
            w->peak_event = e;
        }
    }
    w->live.n = w->events.n;
    w->peak = peak < 0 ? 0 : (size_t)peak;
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

bool weir_walk(weir_walk_room *w, const uint8_t *gap)
{
    const weir_problem *p = w->p;

    w->events.n = w->lives.n = w->life_of.n = w->life_first.n = w->burst.n = 0;
    w->extra = 0;
    w->valid = true;
    memset(w->now, 0xff, p->pieces.n * sizeof *w->now);
    memset(w->next, 0, p->pieces.n * sizeof *w->next);
    memset(w->early, 0xff, p->tasks.n * sizeof *w->early);
    for (uint32_t i = 0; i < p->tasks.n && w->valid; i++) {
        const weir_task *t = &p->tasks.at[i];
        const uint32_t  *in = weir_refs(p, t->in);
        if (!make_early(w, i))
            return false;
        for (uint32_t k = 0; k < t->in.n && w->valid; k++)
            if (!need(w, in[k], i))
                return false;
        if (w->valid && !run(w, i, false))
            return false;
        if (w->valid)
            settle(w, gap, i);
    }
    if (!w->valid) {
        w->peak = SIZE_MAX;
        return true;
    }
    for (uint32_t k = 0; k < p->pieces.n; k++)      /* outputs are there to the end */
        if (p->pieces.at[k].output && w->now[k] != WEIR_NO_PIECE && w->events.n)
            w->lives.at[w->now[k]].last = w->events.n - 1;
    return add_up(w);
}

uint32_t weir_walk_stage(const weir_walk_room *w, uint32_t event)
{
    while (event < w->events.n && w->events.at[event].again)
        event++;
    return event < w->events.n ? w->events.at[event].task : 0;
}
