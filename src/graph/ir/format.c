/* format.c - writes names of operations, storages and layouts in the form that all texts use. */
#include "graph/ir/format.h"

#include "core/shape.h"

void weir_format_op(weir_string *s, const weir_call *c, const char *plus)
{
    if (c->op != WEIR_OP_FUSED) {
        weir_string_add(s, "%s", c->def->name);
        return;
    }
    const weir_ew_program *p = c->attr;
    for (int64_t i = 0; i < p->nstep; i++)
        weir_string_add(s, "%s%s", i ? plus : "", weir_op_name((weir_op)p->step[i].op));
}

void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage)
{
    static const char letter[WEIR_KIND_COUNT] = {
        [WEIR_KIND_PARAM] = 'p',      [WEIR_KIND_STATE] = 's',    [WEIR_KIND_INPUT] = 'i',
        [WEIR_KIND_OUTPUT] = 'o',     [WEIR_KIND_ACTIVATION] = 't', [WEIR_KIND_GRADIENT] = 't',
        [WEIR_KIND_WORKSPACE] = 't'};

    weir_string_add(s, "%c%u", letter[g->storages.at[storage].kind], storage);
}

void weir_format_layout(weir_string *s, const weir_layout *l)
{
    char text[WEIR_DESC_TEXT];

    weir_string_add(s, "%s", weir_desc_text(&l->desc, text));
    if (weir_shape_is_dense(l))
        return;
    for (int i = 0; i < l->desc.ndim; i++)
        weir_string_add(s, "%c%lld", i ? ',' : '[', (long long)l->stride[i]);
    weir_string_add(s, "]");
}

void weir_format_pad(weir_string *s, size_t start, int width)
{
    const int used = (int)(s->n - start);
    weir_string_add(s, "%*s", used < width ? width - used : 0, "");
}

bool weir_call_draws(const weir_call *c)
{
    if (c->def->flags & WEIR_RANDOM)
        return true;
    const weir_ew_program *p = c->op == WEIR_OP_FUSED ? c->attr : NULL;
    for (int64_t i = 0; p && i < p->nstep; i++)
        if (weir_row_draws((weir_op)p->step[i].op))
            return true;
    return false;
}
