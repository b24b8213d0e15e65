/* facts.c - prints, for each row of the op table, what docs/generate.py writes into the table of
 * operations: element types, gradient, mixed precision, the operations that one call records. */
#include "check.h"
#include "graph/ir/graph.h"
#include "graph/ops/op_fixture.h"
#include "weir/graph.h"

enum { MOST = 512 };

/* One call of a row in a graph that is recorded and dropped. */
typedef struct fact {
    bool recorded, gradient;
    int  casts;             /* to `to`, in mixed precision */
    char ops[MOST];         /* their names, each once, with a space before each */
} fact;

static void add_name(char *ops, const char *name)
{
    char word[64];

    snprintf(word, sizeof word, " %s", name);
    const char *const at = strstr(ops, word);
    if (at && (at[strlen(word)] == ' ' || at[strlen(word)] == '\0'))
        return;
    if (CHECK(strlen(ops) + strlen(word) < MOST))
        strcat(ops, word);
}

static void look(fact *f, const weir_graph *g, weir_dtype to)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        add_name(f->ops, n->def->name);
        f->casts += n->op == WEIR_OP_CAST && g->values.at[n->out[0]].layout.desc.dtype == to;
    }
}

/* half: the type of mixed precision, WEIR_F32 for none; to: the type whose casts are counted. */
static fact try_row(weir_device *d, const op_row *row, weir_dtype type, weir_dtype half,
                    weir_dtype to)
{
    fact       f = {0};
    op_fixture t;

    if (op_open_on(&t, d, row, row->sets, type, NULL)) {
        weir_graph *const g = weir_graph_begin(d);
        CHECK_OK(weir_autocast_begin(d, half));
        weir_tensor *const y = op_apply(&t);
        CHECK_OK(weir_autocast_end(d));
        f.recorded = y != NULL;
        f.gradient = y && weir_tensor_needs_grad(y);
        look(&f, g, to);
        weir_graph_free(g);
    }
    op_close(&t);
    return f;
}

static const char *mixed(weir_device *d, const op_row *row)
{
    if (row->types & OP_F32 && try_row(d, row, WEIR_F32, WEIR_BF16, WEIR_BF16).casts > 0)
        return "half";
    return try_row(d, row, WEIR_BF16, WEIR_BF16, WEIR_F32).casts > 0 ? "f32" : "-";
}

static void print_row(weir_device *d, const op_row *row)
{
    int type = 0;

    while (!(row->types >> type & 1))
        type++;
    const fact f = try_row(d, row, (weir_dtype)type, WEIR_F32, WEIR_F64);
    check_that(f.recorded, __FILE__, __LINE__, "%s: %s", row->name, weir_error());
    printf("fact %s; types", row->name);
    for (type = 0; weir_dtype_size((weir_dtype)type) > 0; type++)
        if (row->types >> type & 1)
            printf(" %s", weir_dtype_name((weir_dtype)type));
    printf("; gradient %s; mixed %s; records%s\n", f.gradient ? "yes" : "no", mixed(d, row), f.ops);
}

CASE(operations)
{
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    CHECK_OR_RETURN(d);
    for (const op_row *const *family = op_families; *family; family++)
        for (const op_row *row = *family; row->name; row++)
            print_row(d, row);
    weir_device_close(d);
}
