/* reorder.c - steps in another order compute the same and need no more memory. */
#include "graph/memory/search/reorder.h"

#include "graph/memory/policies/policy.h"
#include "graph/memory/problems.h"

/* Returns how often ops without outputs have overwritten input k of op i before it. */
static uint32_t version(const weir_mem_problem *p, uint32_t i, uint32_t tensor)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < i; j++)
        n += p->ops.at[j].out.n == 0 && weir_among(p, p->ops.at[j].changes, tensor);
    return n;
}

/* Returns whether op i gives the same outputs if it runs again after the ops up to `end`: its
 * inputs must not have changed. */
static bool same_outputs(const weir_mem_problem *p, uint32_t i, uint32_t end)
{
    const weir_mem_op *t = &p->ops.at[i];

    for (uint32_t k = 0; k < t->in.n - t->n_write_only; k++) {
        const uint32_t tensor = weir_refs(p, t->in)[k];
        if (weir_mem_tensor_is_resident(p, tensor) &&
            version(p, i, tensor) != version(p, end, tensor))
            return false;
    }
    return true;
}

static size_t peak(const weir_mem_problem *p)
{
    weir_policy_job job = {.p = p, .limit = SIZE_MAX, .variant = ""};

    CHECK_OK(weir_policy_recycle(&job));
    const size_t bytes = job.s.peak;
    weir_schedule_free(&job.s);
    return bytes;
}

/* Every op reads what it read before: tensors that exist by then, residents in the same version. */
static void check_meaning(const weir_mem_problem *p, const weir_mem_problem *q,
                          const uint32_t *order)
{
    CHECK_OR_RETURN(q->ops.n == p->ops.n && q->tensors.n == p->tensors.n);
    for (uint32_t i = 0; i < q->ops.n; i++) {
        const weir_mem_op *t = &q->ops.at[i], *was = &p->ops.at[order[i]];
        CHECK(t->time == was->time && t->work == was->work && t->in.n == was->in.n);
        for (uint32_t k = 0; k < t->in.n; k++) {
            const uint32_t tensor = weir_refs(q, t->in)[k],
                           producer = q->tensors.at[tensor].producer;
            CHECK(tensor == weir_refs(p, was->in)[k]);
            CHECK(producer == WEIR_NO_OP || producer < i);
            CHECK(version(q, i, tensor) == version(p, order[i], tensor));
        }
        if (t->out.n && t->rerun_before > i)
            CHECK(same_outputs(q, i, t->rerun_before));
        CHECK(was->rerun_before > 0 || t->rerun_before == 0);
    }
}

/* A step of n ops with much freedom: each reads a few tensors, residents (the first four) and
 * others; every third op is an update that overwrites a resident. */
static void make_loose(weir_mem_problem *p, uint32_t n)
{
    enum { RESIDENT = 4 };

    *p = (weir_mem_problem){0};
    for (uint32_t k = 0; k < RESIDENT; k++)
        CHECK(weir_mem_problem_add_tensor(p, 64, 0, false));
    for (uint32_t i = 0; i < n; i++) {
        const bool            update = i % 3 == 2;
        const uint32_t        out = p->tensors.n, in[3] = {below(out), below(out), below(RESIDENT)};
        const weir_mem_op_def def = {.time = 1.0 + below(9),
                                     .rerun_before = update ? 0 : n,
                                     .nin = 3,
                                     .in = in,
                                     .nout = !update,
                                     .out = &out,
                                     .nchanges = update,
                                     .changes = &in[2]};
        CHECK(update || weir_mem_problem_add_tensor(p, 64 * (1 + below(16)), 0, below(8) == 0));
        CHECK(weir_mem_problem_add_op(p, &def));
    }
    CHECK(weir_mem_problem_end(p));
}

CASE(random_steps_mean_the_same)
{
    uint32_t moved = 0;

    for (int round = 0; round < 200; round++) {
        weir_mem_problem p, q;
        uint32_t         order[MAX_OPS], times[MAX_OPS] = {0};
        make_loose(&p, (uint32_t)check_int(6, MAX_OPS));
        CHECK_OR_RETURN(weir_mem_problem_reorder(&p, &q, order));
        for (uint32_t i = 0; i < p.ops.n; i++)
            times[order[i]]++;
        for (uint32_t i = 0; i < p.ops.n; i++) {
            CHECK(times[i] == 1);
            moved += order[i] != i;
        }
        check_meaning(&p, &q, order);
        CHECK(peak(&q) <= peak(&p));
        weir_mem_problem_free(&p);
        weir_mem_problem_free(&q);
    }
    CHECK(moved > 0);
}
