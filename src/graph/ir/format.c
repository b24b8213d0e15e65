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

/* Appends a name from the program in one line: control characters become '?'. */
static void add_line(weir_string *s, const char *text)
{
    for (const char *c = text; *c; c++)
        weir_string_add(s, "%c", (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
}

/* Appends the text, which is freed, as the caller's format writes it. */
static void add_escaped(weir_string *s, weir_string *text,
                        void (*escape)(weir_string *s, const char *text))
{
    s->failed |= text->failed;
    if (text->at && escape)
        escape(s, text->at);
    else if (text->at)
        weir_string_add(s, "%s", text->at);
    weir_mem_free(text->at);
}

/* Appends "sgd(conv1.weight)" for an update in the update phase whose target has a name. */
static bool add_update(weir_string *s, const weir_graph *g, const weir_node *n)
{
    if (n->phase != WEIR_UPDATES || !n->def->mutates)
        return false;
    int k = 0;
    while (!(n->def->mutates >> k & 1))
        k++;
    const char *const target = weir_storage_name(g, weir_storage_of(g, n->in[k]));
    if (!*target)
        return false;
    weir_string_add(s, "%s(", n->def->name);
    add_line(s, target);
    weir_string_add(s, ")");
    return true;
}

void weir_format_name(weir_string *s, const weir_graph *g, uint32_t i)
{
    const weir_node *const n = &g->nodes.at[i];

    if (!add_update(s, g, n))
        weir_names_add(&g->names, n->name, n->recomputed, s);
}

void weir_format_node(weir_string *s, const weir_graph *g, uint32_t i,
                      void (*escape)(weir_string *s, const char *text))
{
    const weir_node *const n = &g->nodes.at[i];
    weir_string            text = {0};

    if (weir_names_leave_op(&g->names, n->name, n->def)) {
        weir_layout     in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
        const weir_call c = weir_node_call(g, n, in, out);
        weir_format_op(&text, &c, "+");
        weir_string_add(&text, n->name.n ? " " : "");
    }
    weir_format_name(&text, g, i);
    add_escaped(s, &text, escape);
}

void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage)
{
    static const char letter[WEIR_KIND_COUNT] = {
        [WEIR_KIND_PARAM] = 'p',      [WEIR_KIND_STATE] = 's',    [WEIR_KIND_INPUT] = 'i',
        [WEIR_KIND_OUTPUT] = 'o',     [WEIR_KIND_ACTIVATION] = 't', [WEIR_KIND_GRADIENT] = 't',
        [WEIR_KIND_WORKSPACE] = 't'};

    weir_string_add(s, "%c%u", letter[g->storages.at[storage].kind], storage);
}

void weir_format_tensor(weir_string *s, const weir_graph *g, uint32_t storage,
                        void (*escape)(weir_string *s, const char *text))
{
    weir_string text = {0};

    weir_format_storage(s, g, storage);
    if (!*weir_storage_name(g, storage))
        return;
    weir_string_add(&text, ":");
    add_line(&text, weir_storage_name(g, storage));
    add_escaped(s, &text, escape);
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
