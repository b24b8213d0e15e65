/* op_sums.c - sums costs and times over the instructions of each operation. */
#include "graph/plan/op_sums.h"

#include <stdlib.h>
#include <string.h>

static bool same_operation(const weir_instr *a, const weir_instr *b)
{
    if (a->call.op != b->call.op || strcmp(a->kernel->impl, b->kernel->impl) != 0)
        return false;
    if (a->call.op != WEIR_OP_FUSED)
        return true;
    const weir_ew_program *p = a->call.attr, *q = b->call.attr;
    for (int64_t i = 0; i < p->nstep && i < q->nstep; i++)
        if (p->step[i].op != q->step[i].op)
            return false;
    return p->nstep == q->nstep;
}

bool weir_op_sums_of(const weir_plan *p, int (*order)(const void *, const void *),
                     weir_op_sums    *sums)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *ins = &p->instr[i];
        uint32_t          k = 0;
        while (k < sums->n && !same_operation(&p->instr[sums->at[k].instr], ins))
            k++;
        if (k == sums->n && !weir_vec_push(sums, (weir_op_sum){.instr = i}))
            return false;
        sums->at[k].count++;
        sums->at[k].flops += weir_call_flops(&ins->call);
        sums->at[k].bytes += weir_call_bytes(&ins->call);
        sums->at[k].seconds += ins->seconds;
    }
    if (sums->n > 0)
        qsort(sums->at, sums->n, sizeof *sums->at, order);
    return true;
}
