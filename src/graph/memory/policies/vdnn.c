/* vdnn.c - virtualized DNN (Rhu and others, "vDNN: virtualized deep neural networks for scalable,
 * memory-efficient neural network design", MICRO 2016): the input feature maps of layers are
 * offloaded after their forward pass and prefetched for the backward pass.
 *
 *     all, conv    those of all layers, or of convolutions, whatever the limit
 *     dyn          the first of nothing, conv, all that fits
 *
 * A feature map is offloaded while its last forward reader runs, and the next layer waits for that
 * copy. In the backward pass, while a layer runs, the inputs of the next layer that has inputs on
 * the host are prefetched, no farther ahead than the nearest convolution; the next layer waits for
 * that copy, too. The paper also chooses convolution algorithms; here kernels are chosen
 * beforehand. */
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/copy_streams.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

typedef enum weir_maps { NONE, CONV, ALL } weir_maps;

static bool is_map_of(const weir_mem_problem *p, uint32_t tensor, uint32_t interval, weir_maps maps)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    bool                   conv = false;

    for (uint32_t j = 0; j < interval; j++)
        conv = conv || p->ops.at[weir_refs(p, k->uses)[j]].kind == WEIR_OP_CLASS_CONV;
    return maps == ALL || (maps == CONV && conv);
}

/* Sets after[tensor] to the last forward op that reads the map; WEIR_NO_OP: the tensor stays. */
static void choose_maps(const weir_mem_problem *p, weir_maps maps, uint32_t *after)
{
    const uint32_t turn = weir_forward_end(p);

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        const uint32_t         j = weir_forward_end_interval(p, k, turn);
        const bool goes = !weir_mem_tensor_is_resident(p, k) && !x->output && x->bytes > 0 &&
                          j > 0 && j < x->uses.n && is_map_of(p, k, j, maps);
        after[k] = goes ? weir_refs(p, x->uses)[j - 1] : WEIR_NO_OP;
    }
}

static bool is_out(const weir_schedule *s, uint32_t tensor)
{
    return !weir_schedule_has(s, tensor, WEIR_FORM_PLAIN) &&
           weir_schedule_has(s, tensor, WEIR_FORM_HOST);
}

/* Prefetches what op i reads. *any says whether it prefetched anything. */
static bool prefetch(weir_schedule *s, uint32_t i, bool *any)
{
    const weir_index_range in = s->p->ops.at[i].in;
    bool                   ok = true;

    *any = false;
    for (uint32_t k = 0; k < in.n && ok; k++) {
        const uint32_t tensor = weir_refs(s->p, in)[k];
        if (!is_out(s, tensor))
            continue;
        *any = true;
        ok = weir_schedule_copy(s, tensor, WEIR_EVENT_PREFETCH);
    }
    return ok;
}

/* Before op i runs, prefetches what the next layer reads. A convolution has two backward ops. */
static bool prefetch_ahead(weir_schedule *s, uint32_t i)
{
    enum { CONV_OPS = 2 };
    uint32_t convs = 0;
    bool     any = false, ok = true;

    for (uint32_t k = i + 1; k < s->p->ops.n && ok && !any && convs < CONV_OPS; k++) {
        ok = prefetch(s, k, &any);
        convs += s->p->ops.at[k].kind == WEIR_OP_CLASS_CONV;
    }
    return ok;
}

/* Runs op i and issues its copies. */
static bool run(weir_schedule *s, uint32_t i, bool backward, const uint32_t *after)
{
    const weir_index_range in = s->p->ops.at[i].in;
    bool                   any, ok = prefetch(s, i, &any);

    if (ok && backward)
        ok = prefetch_ahead(s, i);
    for (uint32_t k = 0; k < in.n && ok; k++)
        if (after[weir_refs(s->p, in)[k]] == i)
            ok = weir_schedule_copy(s, weir_refs(s->p, in)[k], WEIR_EVENT_OFFLOAD);
    ok = ok && weir_schedule_run(s, i, false);
    for (uint32_t k = 0; k < in.n && ok; k++)
        if (after[weir_refs(s->p, in)[k]] == i)
            weir_schedule_drop(s, weir_refs(s->p, in)[k]);
    return ok;
}

static bool build(weir_schedule *s, weir_maps maps, size_t limit, uint32_t *after)
{
    const uint32_t turn = weir_forward_end(s->p);
    bool           ok = weir_schedule_begin(s, NULL);

    s->lockstep = true;
    choose_maps(s->p, maps, after);
    for (uint32_t i = 0; i < s->p->ops.n && ok; i++)
        ok = run(s, i, i >= turn, after);
    return ok && weir_schedule_end(s, limit);
}

/* Builds the schedule in *s and keeps the better of it and job->s as the job's answer. */
static bool try_maps(weir_policy_job *job, weir_schedule *s, weir_maps maps, uint32_t *after)
{
    if (!build(s, maps, job->limit, after))
        return false;
    weir_best_take(job, s);
    return s->now || weir_schedule_init(s, job->p);
}

static weir_status maps_of(const char *text, weir_maps *from, weir_maps *to)
{
    *from = strcmp(text, "all") == 0 ? ALL : strcmp(text, "conv") == 0 ? CONV : NONE;
    *to = *from == NONE ? ALL : *from;
    if (*from == NONE && *text && strcmp(text, "dyn") != 0)
        return weir_fail(WEIR_ERR_INVALID, "policy vdnn: unknown variant '%s' (expected all, conv "
                         "or dyn)", text);
    return WEIR_OK;
}

weir_status weir_policy_vdnn(weir_policy_job *job)
{
    weir_maps maps, last;

    WEIR_TRY(maps_of(job->variant, &maps, &last));
    WEIR_TRY(weir_policy_needs_link(job->p, "vdnn"));
    weir_schedule   s;
    uint32_t *const after = weir_mem_alloc((job->p->tensors.n + 1u) * sizeof *after);
    bool            ok = weir_schedule_init(&s, job->p) && after != NULL;

    for (; maps <= last && ok && !(job->s.valid && job->s.peak <= job->limit); maps++)
        ok = try_maps(job, &s, maps, after);
    weir_schedule_free(&s);
    weir_mem_free(after);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
