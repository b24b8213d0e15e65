/* stepfile_order.c - puts a step's ops into an order with a small peak. */
#include "graph/memory/stepfile/stepfile.h"
#include "graph/memory/search/reorder.h"

static bool copy_names(const weir_stepfile *o, const uint32_t *order, weir_stepfile *q)
{
    bool ok = (q->name = weir_mem_strdup(o->name)) != NULL;

    for (uint32_t k = 0; k < o->problem.tensors.n && ok; k++)
        ok = weir_vec_push(&q->tensor_id, o->tensor_id.at[k]) &&
             weir_vec_push(&q->kind, o->kind.at[k]);
    for (uint32_t i = 0; i < o->problem.ops.n && ok; i++)
        ok = weir_stepfile_name_op(q, o->op_id.at[order[i]], o->op_name.at[order[i]]);
    return ok;
}

weir_status weir_stepfile_reorder(const weir_stepfile *o, weir_stepfile **ordered)
{
    uint32_t *const     order = weir_mem_alloc((o->problem.ops.n + 1u) * sizeof *order);
    weir_stepfile *const q = weir_mem_zalloc(1, sizeof *q);

    const bool ok = order && q &&
                    weir_mem_problem_reorder(&o->problem, &q->problem, order) &&
                    copy_names(o, order, q);
    *ordered = ok ? q : NULL;
    if (!*ordered)
        weir_stepfile_free(q);
    weir_mem_free(order);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
