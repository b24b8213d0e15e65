/* vdnn.c - virtualized DNN (Rhu et al., "vDNN: virtualized deep neural networks for scalable,
 * memory-efficient neural network design", MICRO 2016): input feature maps of layers go to the host
 * after the forward pass and come back for the backward one.
 *
 *   all, conv     those of all layers, or of convolutions, whatever the room
 *   dyn           the least of nothing, conv, all that fits
 *
 * A feature map is copied out while its last forward reader runs, and the next layer waits for
 * that. In the backward pass, while a layer runs, what the next one with anything on the host reads
 * comes back, no farther ahead than the nearest convolution; the next layer waits for that, too.
 * There is no choice of algorithms here: kernels are chosen before. */
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

typedef enum weir_maps { NONE, CONV, ALL } weir_maps;

static bool is_map_of(const weir_problem *p, uint32_t piece, uint32_t gap, weir_maps maps)
{
    const weir_piece *k = &p->pieces.at[piece];
    bool              conv = false;

    for (uint32_t j = 0; j < gap; j++)
        conv = conv || p->tasks.at[weir_refs(p, k->uses)[j]].kind == WEIR_WORK_CONV;
    return maps == ALL || (maps == CONV && conv);
}

/* after[piece]: the last forward task that reads the map, WEIR_NO_TASK: the piece stays. */
static void choose_maps(const weir_problem *p, weir_maps maps, uint32_t *after)
{
    const uint32_t turn = weir_keep_turn(p);

    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const weir_piece *x = &p->pieces.at[k];
        const uint32_t    j = weir_keep_gap(p, k, turn);
        const bool        goes = !weir_piece_resident(p, k) && !x->output && x->bytes > 0 &&
                          j > 0 && j < x->uses.n && is_map_of(p, k, j, maps);
        after[k] = goes ? weir_refs(p, x->uses)[j - 1] : WEIR_NO_TASK;
    }
}

static bool is_out(const weir_schedule *s, uint32_t piece)
{
    return !weir_schedule_has(s, piece, WEIR_PLAIN) && weir_schedule_has(s, piece, WEIR_HOST);
}

/* Brings back what task i reads. *any: there was something. */
static bool bring_back(weir_schedule *s, uint32_t i, bool *any)
{
    const weir_range in = s->p->tasks.at[i].in;
    bool             ok = true;

    *any = false;
    for (uint32_t k = 0; k < in.n && ok; k++) {
        const uint32_t piece = weir_refs(s->p, in)[k];
        if (!is_out(s, piece))
            continue;
        *any = true;
        ok = weir_schedule_copy(s, piece, WEIR_IN);
    }
    return ok;
}

/* What the next layer reads, before task i runs. A convolution is two tasks going backwards. */
static bool fetch_ahead(weir_schedule *s, uint32_t i)
{
    enum { CONV_TASKS = 2 };
    uint32_t convs = 0;
    bool     any = false, ok = true;

    for (uint32_t k = i + 1; k < s->p->tasks.n && ok && !any && convs < CONV_TASKS; k++) {
        ok = bring_back(s, k, &any);
        convs += s->p->tasks.at[k].kind == WEIR_WORK_CONV;
    }
    return ok;
}

/* Task i, and the copies with it. */
static bool run(weir_schedule *s, uint32_t i, bool backward, const uint32_t *after)
{
    const weir_range in = s->p->tasks.at[i].in;
    bool             any, ok = bring_back(s, i, &any);

    if (ok && backward)
        ok = fetch_ahead(s, i);
    for (uint32_t k = 0; k < in.n && ok; k++)
        if (after[weir_refs(s->p, in)[k]] == i)
            ok = weir_schedule_copy(s, weir_refs(s->p, in)[k], WEIR_OUT);
    ok = ok && weir_schedule_run(s, i, false);
    for (uint32_t k = 0; k < in.n && ok; k++)
        if (after[weir_refs(s->p, in)[k]] == i)
            weir_schedule_drop(s, weir_refs(s->p, in)[k]);
    return ok;
}

static bool build(weir_schedule *s, weir_maps maps, size_t room, uint32_t *after)
{
    const uint32_t turn = weir_keep_turn(s->p);
    bool           ok = weir_schedule_begin(s, NULL);

    s->lockstep = true;
    choose_maps(s->p, maps, after);
    for (uint32_t i = 0; i < s->p->tasks.n && ok; i++)
        ok = run(s, i, i >= turn, after);
    return ok && weir_schedule_end(s, room);
}

/* Builds into s; the better one of s and the answer is the answer then. */
static bool try_maps(weir_policy_job *job, weir_schedule *s, weir_maps maps, uint32_t *after)
{
    if (!build(s, maps, job->room, after))
        return false;
    weir_best_take(job, s);
    return s->now || weir_schedule_init(s, job->p);
}

static weir_status maps_of(const char *text, weir_maps *from, weir_maps *to)
{
    *from = strcmp(text, "all") == 0 ? ALL : strcmp(text, "conv") == 0 ? CONV : NONE;
    *to = *from == NONE ? ALL : *from;
    if (*from == NONE && *text && strcmp(text, "dyn") != 0)
        return weir_fail(WEIR_ERR_INVALID, "policy vdnn: '%s' is no way of it; there are all, "
                         "conv, dyn", text);
    return WEIR_OK;
}

weir_status weir_policy_vdnn(weir_policy_job *job)
{
    weir_maps maps, last;

    WEIR_TRY(maps_of(job->variant, &maps, &last));
    WEIR_TRY(weir_policy_needs_link(job->p, "vdnn"));
    weir_schedule   s;
    uint32_t *const after = weir_mem_alloc((job->p->pieces.n + 1u) * sizeof *after);
    bool            ok = weir_schedule_init(&s, job->p) && after != NULL;

    for (; maps <= last && ok && !(job->s.valid && job->s.peak <= job->room); maps++)
        ok = try_maps(job, &s, maps, after);
    weir_schedule_free(&s);
    weir_mem_free(after);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
