/* table.c - finds the row of an operator: by its name, and by the opset of the model. */
#include <string.h>

#include "model/onnx/op/ops.h"

static const weir_onnx_row rows[] = {
#define NODE(op, since, until, known, fn)                                                          \
    {#op, since, until, known, false, false, weir_onnx_##fn},
#define DRAW(op, since, until, known, fn)                                                          \
    {#op, since, until, known, false, true, weir_onnx_##fn},
#define BODY(op, since, until, known, fn)                                                          \
    {#op, since, until, known, true, false, weir_onnx_##fn},
#include "model/onnx/onnx.def"
#undef NODE
#undef DRAW
#undef BODY
};

const char *weir_onnx_operator(size_t i)
{
    return i < sizeof rows / sizeof *rows ? rows[i].op : NULL;
}

const weir_onnx_row *weir_onnx_find(const char *op, int64_t opset, bool *known_op)
{
    *known_op = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].op, op) == 0) {
            *known_op = true;
            if (rows[i].since <= opset && opset <= rows[i].until)
                return &rows[i];
        }
    return NULL;
}
