/* fused.c - inputs and randomness of the rows of elementwise.def. */
#include "core/fused.h"

#include <string.h>

int weir_row_nin(weir_op row)
{
    static const int nin_of[WEIR_OP_COUNT] = {
#define ROW(ID, id, nin, ...) [WEIR_OP_##ID] = nin,
#include "core/elementwise.def"
#undef ROW
    };

    return nin_of[row];
}

bool weir_row_draws(weir_op row)
{
    static const char *const value[WEIR_OP_COUNT] = {
#define ROW(ID, id, nin, types, ...) [WEIR_OP_##ID] = #__VA_ARGS__,
#include "core/elementwise.def"
#undef ROW
    };

    return value[row] && strstr(value[row], "DRAW");
}
