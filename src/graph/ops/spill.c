/* spill.c - definitions of SPILL_OUT, SPILL_IN and SPILL_WAIT: offloading to the spill file.
 *
 * Inserted by the memory planner only, after all passes. SPILL_OUT of x starts a copy; SPILL_WAIT
 * of x with the same ticket waits for it and keeps x live until then. SPILL_IN -> y and SPILL_WAIT
 * of y read it back. In the list, a wait stands between each copy and the next node that may access
 * the same memory. Like updates, these nodes keep their positions and run once. */
#include "graph/ops/define.h"

const weir_opdef weir_op_spill_out = {
    .name = "spill_out",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_spill_in = {
    .name = "spill_in",
    .flags = WEIR_UPDATE,
    .nin_min = 0,
    .nin_max = 0,
    .nout = 1,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_spill_wait = {
    .name = "spill_wait",
    .flags = WEIR_UPDATE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};
