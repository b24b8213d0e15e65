/* shrink.c - makes a failing program smaller: fewer operations, acts, values in a loss, kept
 * results; what an operation made is read from an input in its place. */
#include <string.h>

#include "programs/ops.h"

static void rename_value(program *p, int g, int from, int to)
{
    for (int i = 0; i < p->graph[g].nop; i++)
        for (int k = 0; k < p->graph[g].op[i].nin; k++)
            if (p->graph[g].op[i].in[k] == from)
                p->graph[g].op[i].in[k] = to;
}

static bool is_read(const program *p, int g, int v)
{
    for (int i = 0; i < p->graph[g].nop; i++)
        for (int k = 0; k < p->graph[g].op[i].nin; k++)
            if (p->graph[g].op[i].in[k] == v)
                return true;
    return false;
}

bool program_without(program *p, int g, int i)
{
    graph *const to = &p->graph[g];
    const op     o = to->op[i];

    for (int k = 0; k < o.nout; k++) {
        const int v = o.out + k;
        if (!is_read(p, g, v))
            continue;
        if (p->nleaf == MAX_LEAVES)
            return false;
        const weir_dtype t = o.desc[k].dtype;
        const bool       real = t == WEIR_F32 || t == WEIR_F64;
        const bool       whole = t == WEIR_BOOL || t == WEIR_I32 || t == WEIR_I64 || t == WEIR_U8;
        p->leaf[p->nleaf] = (leaf){real ? LEAF_PARAM : LEAF_INPUT, o.desc[k],
                                   whole ? DATA_WHOLE : DATA_REAL, whole ? 0 : -1, 1,
                                   (uint64_t)(v + 1), false};
        rename_value(p, g, v, -1 - p->nleaf++);
    }
    memmove(&to->op[i], &to->op[i + 1], (size_t)(to->nop - i - 1) * sizeof *to->op);
    to->nop--;
    return true;
}

/* Keeps the smaller program if it still fails. */
static bool take(program *p, const program *tried, bool (*fails)(const program *p, void *ctx),
                 void *ctx)
{
    if (!fails(tried, ctx))
        return false;
    *p = *tried;
    return true;
}

static bool fewer_ops(program *p, bool (*fails)(const program *p, void *ctx), void *ctx)
{
    bool           any = false;
    static program tried;
    for (int g = 0; g < p->ngraph; g++)
        for (int i = p->graph[g].nop; i-- > 0;) {
            tried = *p;
            if (program_without(&tried, g, i) && take(p, &tried, fails, ctx))
                any = true;
        }
    return any;
}

/* Inputs of losses and gradients, one at a time. */
static bool fewer_inputs(program *p, bool (*fails)(const program *p, void *ctx), void *ctx)
{
    bool           any = false;
    static program tried;
    for (int g = 0; g < p->ngraph; g++)
        for (int i = 0; i < p->graph[g].nop; i++)
            for (int k = p->graph[g].op[i].nin; k-- > 0;) {
                tried = *p;
                op *const         o = &tried.graph[g].op[i];
                const char *const name = op_of(o->kind)->name;
                const bool        total = strcmp(name, "total") == 0;
                if (!(total && o->nin > 1) && !(strcmp(name, "gradients") == 0 && k > 0))
                    continue;
                memmove(&o->in[k], &o->in[k + 1], (size_t)(o->nin - k - 1) * sizeof *o->in);
                if (total)
                    memmove(&o->a[k], &o->a[k + 1], (size_t)(o->nin - k - 1) * sizeof *o->a);
                o->nin--;
                any = take(p, &tried, fails, ctx) || any;
            }
    return any;
}

static bool fewer_acts(program *p, bool (*fails)(const program *p, void *ctx), void *ctx)
{
    bool           any = false;
    static program tried;
    for (int i = p->nact; i-- > 0;) {
        tried = *p;
        memmove(&tried.act[i], &tried.act[i + 1],
                (size_t)(tried.nact - i - 1) * sizeof *tried.act);
        tried.nact--;
        any = take(p, &tried, fails, ctx) || any;
    }
    return any;
}

void shrink_program(program *p, bool (*fails)(const program *p, void *ctx), void *ctx)
{
    bool any = true;
    for (int round = 0; round < 6 && any; round++) {
        any = fewer_acts(p, fails, ctx);
        any = fewer_ops(p, fails, ctx) || any;
        any = fewer_inputs(p, fails, ctx) || any;
    }
}
