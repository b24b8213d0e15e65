/* capuchin_passive.c - Capuchin's passive mode (Peng et al., ASPLOS 2020): a step runs in order;
 * where the room does not suffice, what was used least recently goes to the host, and comes back
 * when it is read. Compute waits for both.
 *
 * A result that could take over an input is counted beside it. */
#include "graph/memory/policies/capuchin_passive.h"

#include <string.h>

#include "core/status.h"

typedef struct weir_passive {
    const weir_problem *p;
    size_t         room, live;      /* bytes; live: of pieces that are there */
    weir_schedule *s;
    uint32_t      *used;            /* [pieces] task that made or read it last */
    uint32_t      *next;            /* [pieces] number of its next use */
} weir_passive;

static bool is_there(const weir_passive *v, uint32_t piece)
{
    return weir_schedule_has(v->s, piece, WEIR_PLAIN);
}

/* Will the piece be asked for once more? */
static bool is_wanted(const weir_passive *v, uint32_t piece)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    return v->next[piece] < k->uses.n || k->output || k->maker == WEIR_NO_TASK;
}

static void go(weir_passive *v, uint32_t piece)
{
    weir_schedule_drop(v->s, piece);
    v->live -= v->p->pieces.at[piece].bytes;
}

/* Sends pieces away that task i does not read until there are `bytes` more, or none is left. */
static bool make_room(weir_passive *v, uint32_t i, size_t bytes)
{
    while (v->live + bytes > v->room) {
        uint32_t oldest = WEIR_NO_PIECE;
        for (uint32_t k = 0; k < v->p->pieces.n; k++) {
            const weir_piece *x = &v->p->pieces.at[k];
            if (is_there(v, k) && x->maker != WEIR_NO_TASK && x->bytes > 0 &&
                v->next[k] < x->uses.n && !weir_among(v->p, v->p->tasks.at[i].in, k) &&
                (oldest == WEIR_NO_PIECE || v->used[k] < v->used[oldest]))
                oldest = k;
        }
        if (oldest == WEIR_NO_PIECE)
            return true;
        if (!weir_schedule_copy(v->s, oldest, WEIR_OUT))
            return false;
        go(v, oldest);
    }
    return true;
}

static bool bring_back(weir_passive *v, uint32_t i)
{
    const weir_range in = v->p->tasks.at[i].in;

    for (uint32_t k = 0; k < in.n; k++) {
        const uint32_t piece = weir_refs(v->p, in)[k];
        if (is_there(v, piece))
            continue;
        if (!make_room(v, i, v->p->pieces.at[piece].bytes) ||
            !weir_schedule_copy(v->s, piece, WEIR_IN))
            return false;
        v->live += v->p->pieces.at[piece].bytes;
    }
    return true;
}

static bool run(weir_passive *v, uint32_t i)
{
    const weir_task *t = &v->p->tasks.at[i];
    const uint32_t  *in = weir_refs(v->p, t->in), *out = weir_refs(v->p, t->out);
    size_t           made = 0;

    for (uint32_t k = 0; k < t->out.n; k++)
        made += v->p->pieces.at[out[k]].bytes;
    if (!bring_back(v, i) || !make_room(v, i, made + t->work) ||
        !weir_schedule_run(v->s, i, false))
        return false;
    v->live += made;
    for (uint32_t k = 0; k < t->in.n; k++) {
        v->used[in[k]] = i;
        v->next[in[k]]++;
        if (!is_wanted(v, in[k]))
            go(v, in[k]);
    }
    for (uint32_t k = 0; k < t->out.n; k++) {
        v->used[out[k]] = i;
        if (!is_wanted(v, out[k]))
            go(v, out[k]);
    }
    return true;
}

/* Runs the step in `room`. False when memory is short. */
static bool play(weir_passive *v, size_t room)
{
    bool ok = weir_schedule_begin(v->s, NULL);

    v->room = room;
    v->live = 0;
    v->s->lockstep = true;
    memset(v->next, 0, v->p->pieces.n * sizeof *v->next);
    for (uint32_t k = 0; k < v->p->pieces.n; k++)
        v->live += weir_piece_resident(v->p, k) ? v->p->pieces.at[k].bytes : 0;
    for (uint32_t i = 0; i < v->p->tasks.n && ok; i++)
        ok = run(v, i);
    return ok && weir_schedule_end(v->s, room);
}

weir_status weir_capuchin_passive(weir_policy_job *job)
{
    const size_t n = job->p->pieces.n + 1u;
    weir_passive v = {.p = job->p, .s = &job->s};
    bool         ok = weir_schedule_init(v.s, job->p);

    v.used = weir_mem_zalloc(n, sizeof *v.used);
    v.next = weir_mem_zalloc(n, sizeof *v.next);
    ok = ok && v.used && v.next && play(&v, SIZE_MAX);
    if (ok && job->s.peak > job->room)      /* results in place may be enough */
        ok = play(&v, job->room);
    weir_mem_free(v.used);
    weir_mem_free(v.next);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
