/* checkpoint.c - gradient checkpointing (Chen and others, "Training deep nets with sublinear memory
 * cost", 2016): some forward tensors stay; the others are recomputed from them, segment by segment,
 * when gradients read them.
 *
 *     manual          regions that the program marked, whatever the limit
 *     sequential=S    S equal segments of the forward ops; the last one is kept whole (PyTorch's
 *                     checkpoint_sequential); without S: the best S
 *     memory          articulation points of the forward pass: every sqrt(n)-th of n, or the first
 * after each `bound` bytes, with the best bound, as in the baseline of Checkmate
 *                     (Jain and others, MLSys 2020)
 *     offload=S       sequential=S with the inputs of segments on the host until they run again, as
 *                     in FairScale's checkpoint_wrapper(offload_to_cpu), but without waiting for
 *                     offloads; without S: the regions, or the best S
 *     speed           outputs of convolutions and matrix products stay (cybertronai,
 *                     "gradient-checkpointing", 2018)
 *
 * Default: memory. The best plan is the fastest that fits, otherwise the smallest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/articulation.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

enum { MOST_SEGMENTS = 64, BOUNDS = 48 };

static uint32_t forward_ops(const weir_mem_problem *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->ops.n; i++)
        n += p->ops.at[i].phase == WEIR_FORWARD;
    return n;
}

/* ---- sequential ---- */

static bool try_segments(weir_best *b, uint32_t *segment, uint32_t n)
{
    const weir_mem_problem *p = b->job->p;
    const uint64_t          all = forward_ops(p);
    uint64_t                at = 0;

    for (uint32_t i = 0; i < p->ops.n; i++) {
        segment[i] = 0;
        if (p->ops.at[i].phase != WEIR_FORWARD)
            continue;
        segment[i] = (uint32_t)(at++ * n / all) + 1;
        segment[i] = segment[i] == n ? 0 : segment[i];
    }
    weir_checkpoint_set_segments(p, segment, b->drop);
    return weir_best_try_drop(b);
}

static bool try_all_segments(weir_best *b, uint32_t *segment)
{
    const uint32_t all = forward_ops(b->job->p);
    bool           ok = true;

    for (uint32_t n = 2; n <= MOST_SEGMENTS && n <= all && ok; n++)
        ok = try_segments(b, segment, n);
    return ok;
}

/* ---- memory ---- */

/* Tries the plan that keeps the tensors in stay[] and everything after the last of them. */
static bool try_stay(weir_best *b, const uint8_t *stay)
{
    const weir_mem_problem *p = b->job->p;
    const uint32_t          turn = weir_forward_end(p);
    uint32_t                last = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (stay[k] && p->tensors.at[k].producer > last)
            last = p->tensors.at[k].producer;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t producer = p->tensors.at[k].producer;
        const bool goes = producer < last && !stay[k] && p->ops.at[producer].phase == WEIR_FORWARD;
        b->drop[k] = goes ? weir_forward_end_interval(p, k, turn) : WEIR_NEVER_DROPPED;
    }
    return weir_best_try_drop(b);
}

/* Keeps every step-th articulation point, in the order in which they are made. */
static bool try_every(weir_best *b, const uint8_t *cut, uint8_t *stay, uint32_t step)
{
    const weir_mem_problem *p = b->job->p;
    uint32_t                seen = 0;

    memset(stay, 0, p->tensors.n);
    for (uint32_t i = 0; i < p->ops.n; i++)
        for (uint32_t k = 0; k < p->ops.at[i].out.n; k++) {
            const uint32_t tensor = weir_refs(p, p->ops.at[i].out)[k];
            if (cut[tensor] && ++seen % step == 0)
                stay[tensor] = 1;
        }
    return try_stay(b, stay);
}

/* Keeps the first articulation point after each `bound` bytes of forward tensors. */
static bool try_bound(weir_best *b, const uint8_t *cut, uint8_t *stay, double bound)
{
    const weir_mem_problem *p = b->job->p;
    double                  bytes = 0;

    memset(stay, 0, p->tensors.n);
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        for (uint32_t k = 0; k < t->out.n && t->phase == WEIR_FORWARD; k++) {
            const uint32_t tensor = weir_refs(p, t->out)[k];
            bytes += (double)p->tensors.at[tensor].bytes;
            if (!cut[tensor] || bytes <= bound)
                continue;
            stay[tensor] = 1;
            bytes = 0;
        }
    }
    return try_stay(b, stay);
}

static bool try_memory(weir_best *b)
{
    const weir_mem_problem *p = b->job->p;
    uint8_t *const      cut = weir_mem_alloc(p->tensors.n + 1u);
    uint8_t *const      stay = weir_mem_alloc(p->tensors.n + 1u);
    bool                ok = cut && stay && weir_articulation(p, cut);
    uint32_t            points = 0;
    double              bytes = 0;

    for (uint32_t k = 0; k < p->tensors.n && ok; k++) {
        const uint32_t producer = p->tensors.at[k].producer;
        points += cut[k];
        if (producer != WEIR_NO_OP && p->ops.at[producer].phase == WEIR_FORWARD)
            bytes += (double)p->tensors.at[k].bytes;
    }
    ok = ok && try_every(b, cut, stay, (uint32_t)fmax(1, sqrt(points)));
    for (int i = 0; i < BOUNDS && ok; i++)
        ok = try_bound(b, cut, stay, bytes * pow(0.9, i + 1));
    weir_mem_free(cut);
    weir_mem_free(stay);
    return ok;
}

/* ---- speed ---- */

static bool try_speed(weir_best *b)
{
    weir_checkpoint_set_products(b->job->p, b->drop);
    return weir_best_try_drop(b);
}

/* ---- the policy ---- */

typedef enum weir_checkpoint_variant {
    MANUAL,
    SEQUENTIAL,
    OFFLOAD,
    MEMORY,
    SPEED
} weir_checkpoint_variant;

/* Parses a variant. *n receives the S of sequential=S or offload=S; 0: not given. */
static weir_status variant_of(const char *text, weir_checkpoint_variant *variant, uint32_t *n)
{
    static const char *const names[] = {"manual", "sequential", "offload", "memory", "speed"};
    const size_t             length = strcspn(text, "=");
    const char              *value = text[length] ? text + length + 1 : "";
    char                    *end = NULL;

    *n = 0;
    *variant = MEMORY;
    if (!*text)
        return WEIR_OK;
    for (int i = MANUAL; i <= SPEED; i++) {
        *variant = (weir_checkpoint_variant)i;
        if (strlen(names[i]) != length || strncmp(names[i], text, length) != 0)
            continue;
        const long number = strtol(value, &end, 10);
        *n = number > 0 && number <= INT32_MAX ? (uint32_t)number : 0;
        if (!text[length] ||
            ((*variant == SEQUENTIAL || *variant == OFFLOAD) && *end == 0 && *n > 0))
            return WEIR_OK;
    }
    return weir_fail(WEIR_ERR_INVALID, "policy checkpoint: unknown variant '%s' (expected manual, "
                     "memory, speed, sequential or offload, the last two also with =S for S > 0 "
                     "segments)",
                     text);
}

weir_status weir_policy_checkpoint(weir_policy_job *job)
{
    weir_best               b;
    weir_checkpoint_variant variant;
    uint32_t                n;

    WEIR_TRY(variant_of(job->variant, &variant, &n));
    if (variant == OFFLOAD)
        WEIR_TRY(weir_policy_needs_link(job->p, "checkpoint:offload"));
    uint32_t *const segment = weir_mem_alloc((job->p->ops.n + 1u) * sizeof *segment);
    bool            ok = segment && weir_best_init(&b, job);
    if (!segment)
        return WEIR_ERR_NOMEM;
    if (ok && (variant == MANUAL || n > 0 || !weir_best_fits(&b))) {
        /* plan as requested, whether it fits or not */
        b.peak = variant == MANUAL || n > 0 ? SIZE_MAX : b.peak;
        b.offload = variant == OFFLOAD;
        if (variant == MANUAL || (variant == OFFLOAD && n == 0)) {
            weir_checkpoint_set_segments(job->p, NULL, b.drop);
            ok = weir_best_try_drop(&b);
        }
        ok = !ok || variant == MANUAL ? ok
             : variant == MEMORY      ? try_memory(&b)
             : variant == SPEED       ? try_speed(&b)
             : n > 0                  ? try_segments(&b, segment, n)
                                      : try_all_segments(&b, segment);
    }
    weir_mem_free(segment);
    return weir_best_end(&b, ok, job);
}
