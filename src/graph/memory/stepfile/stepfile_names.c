/* stepfile_names.c - tensors and operations of a described step by the file's numbers and names. */
#include "graph/memory/stepfile/stepfile.h"

static void add_piece(const void *ctx, uint32_t piece, weir_string *s)
{
    const weir_outline *o = ctx;
    weir_string_add(s, "%lld", (long long)o->piece_id.at[piece]);
}

static void add_task(const void *ctx, uint32_t task, weir_string *s)
{
    const weir_outline *o = ctx;
    for (const char *c = o->task_name.at[task]; *c; c++)        /* one line stays one */
        weir_string_add(s, "%c", (unsigned char)*c < ' ' ? ' ' : *c);
}

static long long number_of(const void *ctx, uint32_t task)
{
    const weir_outline *o = ctx;
    return o->task_id.at[task];
}

static weir_kind kind_of(const void *ctx, uint32_t piece)
{
    const weir_outline *o = ctx;
    return (weir_kind)o->kind.at[piece];
}

weir_naming weir_outline_naming(const weir_outline *o)
{
    return (weir_naming){.title = o->name, .ctx = o, .piece = add_piece,
                         .task = add_task, .number = number_of, .kind = kind_of};
}
