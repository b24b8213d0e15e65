/* dot.c - the graph for Graphviz: boxes are operations coloured by phase, ellipses are external
 * storages coloured by kind, an edge is a value; dashed edges lead back to what an update
 * overwrites.
 *
 * Names that the program gave are escaped; all else in labels is names of operations, shapes and
 * numbers. */
#include <string.h>

#include "graph/ir/format.h"
#include "graph/report/report.h"
#include "graph/report/svg.h"

/* An end of an edge: operation n<i> or storage s<i>. */
typedef struct weir_end {
    char     letter;
    uint32_t number;
} weir_end;

/* The name of node i, if it has one. */
static void name(weir_string *s, const weir_graph *g, uint32_t i)
{
    weir_string text = {0};

    weir_format_name(&text, g, i);
    s->failed |= text.failed;
    if (text.at)
        weir_string_add_json(s, text.at);
    weir_mem_free(text.at);
}

static void operation(weir_string *s, const weir_graph *g, uint32_t i)
{
    const weir_instr *ins = &g->plan->instr[i];

    weir_string_add(s, "  n%u [shape=box, style=\"filled,rounded\", fillcolor=\"%s\", label=\"%u ",
                    i, weir_phase_colour[ins->phase], i);
    weir_format_op(s, &ins->call, "\\n+ ");
    weir_string_add(s, "\\n");
    name(s, g, i);
    weir_string_add(s, "\\n[%s]\"];\n", ins->kernel->impl);
}

static void storage_node(weir_string *s, const weir_graph *g, uint32_t storage)
{
    const weir_storage *st = &g->storages.at[storage];

    weir_string_add(s, "  s%u [shape=ellipse, style=filled, fillcolor=\"%s\"%s, label=\"", storage,
                    weir_kind_colour[st->kind],
                    st->kind == WEIR_KIND_PARAM ? ", fontcolor=white" : "");
    weir_format_tensor(s, g, storage, weir_string_add_json);
    weir_string_add(s, "\\n%s\"];\n", weir_kind_name[st->kind]);
}

/* An edge labelled with shape and bytes of the value, in the colour of its storage's kind. */
static void edge(weir_string *s, const weir_graph *g, weir_end from, weir_end to, uint32_t value,
                 const char *style)
{
    const weir_layout *l = &g->values.at[value].layout;
    const char        *colour = weir_kind_colour[weir_storage_at(g, value)->kind];

    weir_string_add(s, "  %c%u -> %c%u [color=\"%s\"%s, label=\"", from.letter, from.number,
                    to.letter, to.number, colour, style);
    weir_format_layout(s, l);
    weir_string_add(s, "\\n%zu B\"];\n", weir_shape_bytes(&l->desc));
}

/* The node that computed the storage so far, or the storage itself if none has. */
static weir_end source(const uint32_t *maker, uint32_t storage)
{
    return maker[storage] == WEIR_NONE ? (weir_end){'s', storage} : (weir_end){'n', maker[storage]};
}

/* The edges of node i; maker[] has the storages of earlier nodes. */
static void edges(weir_string *s, const weir_graph *g, uint32_t i, uint32_t *maker)
{
    const weir_node *n = &g->nodes.at[i];
    const weir_end   self = {'n', i};

    for (int k = 0; k < n->nin; k++) {
        const uint32_t storage = weir_storage_of(g, n->in[k]);
        edge(s, g, source(maker, storage), self, n->in[k], "");
        if (n->def->mutates >> k & 1)
            edge(s, g, self, (weir_end){'s', storage}, n->in[k],
                 ", style=dashed, constraint=false");
    }
    for (int k = 0; k < n->nout; k++) {
        const uint32_t storage = weir_storage_of(g, n->out[k]);
        maker[storage] = i;
        if (g->storages.at[storage].external)
            edge(s, g, self, (weir_end){'s', storage}, n->out[k], "");
    }
}

/* A box per node, an ellipse per external storage that a node names. */
static void vertices(weir_string *s, const weir_graph *g, uint32_t *seen)
{
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *ins = &g->plan->instr[i];
        operation(s, g, i);
        for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
            const weir_operand *o = &ins->in[k];    /* outputs follow the inputs */
            if (o->external && seen[o->storage] == WEIR_NONE)
                storage_node(s, g, o->storage);
            seen[o->storage] = i;
        }
    }
}

void weir_format_dot(const weir_graph *g, weir_string *s)
{
    const size_t bytes = (g->storages.n + 1) * sizeof(uint32_t);
    uint32_t    *of_storage = weir_mem_alloc(bytes);

    if (!of_storage) {
        s->failed = true;
        return;
    }
    weir_string_add(s, "digraph weir {\n  node [fontname=\"sans-serif\", fontsize=11];\n"
                    "  edge [fontname=\"sans-serif\", fontsize=8, arrowsize=0.6];\n");
    memset(of_storage, 0xff, bytes);
    vertices(s, g, of_storage);
    memset(of_storage, 0xff, bytes);
    for (uint32_t i = 0; i < g->plan->n; i++)
        edges(s, g, i, of_storage);
    weir_string_add(s, "}\n");
    weir_mem_free(of_storage);
}
