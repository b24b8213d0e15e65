/* op_table.c - the table of definitions.
 *
 * It is generated from ops.def and elementwise.def: an op without a definition is a link error.
 * This file refers to all definitions, so no file of this folder may call it. */
#include "graph/ops/op.h"

const weir_opdef *weir_opdef_of(weir_op op)
{
    static const weir_opdef *const table[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = &weir_op_##id,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = &weir_op_##id,
#include "core/elementwise.def"
#undef ROW
    };

    return table[op];
}
