/* pack.c - definitions of PACK and UNPACK: lossless compression of a value.
 *
 * Inserted by the memory planner only, after all passes: x -> PACK -> bytes, then bytes -> UNPACK
 * -> a new storage with x's elements. Both process elements in memory order. */
#include "graph/ops/define.h"

const weir_opdef weir_op_pack = {
    .name = "pack",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_unpack = {
    .name = "unpack",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_none,
};
