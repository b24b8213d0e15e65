/* stepfile_names.c - names tensors and ops of a step description as its file does. */
#include "graph/memory/stepfile/stepfile.h"

static void add_tensor(const void *ctx, uint32_t tensor, weir_string *s)
{
    const weir_stepfile *o = ctx;
    weir_string_add(s, "%lld", (long long)o->tensor_id.at[tensor]);
}

static void add_op(const void *ctx, uint32_t op, weir_string *s)
{
    const weir_stepfile *o = ctx;
    for (const char *c = o->op_name.at[op]; *c; c++)        /* control characters become spaces */
        weir_string_add(s, "%c", (unsigned char)*c < ' ' ? ' ' : *c);
}

static long long number_of(const void *ctx, uint32_t op)
{
    const weir_stepfile *o = ctx;
    return o->op_id.at[op];
}

static weir_kind kind_of(const void *ctx, uint32_t tensor)
{
    const weir_stepfile *o = ctx;
    return (weir_kind)o->kind.at[tensor];
}

weir_naming weir_stepfile_naming(const weir_stepfile *o)
{
    return (weir_naming){.title = o->name,
                         .ctx = o,
                         .tensor = add_tensor,
                         .op = add_op,
                         .number = number_of,
                         .kind = kind_of};
}
