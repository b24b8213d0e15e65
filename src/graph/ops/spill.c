/* spill.c - SPILL_OUT, SPILL_IN, SPILL_WAIT: a value goes to the spill file and comes back.
 *
 * Made by a planner only, behind all passes: x -> SPILL_OUT starts the copy, SPILL_WAIT of x with
 * the same ticket ends it and keeps x where it is until then; SPILL_IN -> y and SPILL_WAIT of y
 * bring it back. In the list a wait stands between each copy and what may touch its memory next.
 * They keep their places and run once, like updates. */
#include "graph/ops/define.h"

/* A program cannot say what comes in: the output has the layout that the planner gave it. */
static weir_status spill_infer(weir_call *c)
{
    return weir_call_fail(WEIR_ERR_STATE, c, "is inserted by planners only");
}

const weir_opdef weir_op_spill_out = {
    .name = "spill_out",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .infer = spill_infer,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_spill_in = {
    .name = "spill_in",
    .flags = WEIR_UPDATE,
    .nin_min = 0,
    .nin_max = 0,
    .nout = 1,
    .infer = spill_infer,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_spill_wait = {
    .name = "spill_wait",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .infer = spill_infer,
    .flops = weir_flops_none,
};
