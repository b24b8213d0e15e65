/* calls.c - the table of recorded operations and the operators of ONNX that they become. */
#include "model/onnx/write/calls.h"

#include <string.h>

static const weir_onnx_way ways[] = {
#define SAME(op, operator, since) {#op, since, 1, false, #operator, NULL},
#define CALL(op, function, since, results, as)                                                     \
    {#op, since, results, false, NULL, weir_onnx_write_##function},
#define MOVE(op, function, since, as) {#op, since, 1, true, NULL, weir_onnx_write_##function},
#include "model/onnx/write/calls.def"
#undef SAME
#undef CALL
#undef MOVE
};

const weir_onnx_way *weir_onnx_way_of(const char *op)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].op, op) == 0)
            return &ways[i];
    return NULL;
}

const char *weir_onnx_writable(size_t i)
{
    return i < sizeof ways / sizeof *ways ? ways[i].op : NULL;
}
