/* cases.c - makes a case of every (row, shape set, way, element type) and prints a summary.
 *
 *     test_op conv2d            the cases of one row
 *     test_op "stride 2"        those of shape sets with this note
 *     test_op gradient          one way of all rows */
#include <stdlib.h>

#include "graph/ops/way.h"

const op_row *const op_families[] = {
    op_elementwise, op_math, op_compare, op_reduce, op_matmul, op_attention, op_recurrent,
    op_conv, op_pool2d, op_norm, op_loss, op_move, op_slice, op_gather, op_order,
    op_update, NULL,
};

/* Shape sets of a row that go through the plans with a pass left out, and that are given special
 * values: not all, that takes long. Of the integers that share their kernels' forms with others
 * each set but the first meets one. */
enum { PLANNED_SETS = 3, SPECIAL_SETS = 12, STORED_TYPES = 5, MAX_ROWS = 512 };

static op_score scores[MAX_ROWS];
static int      rows;

static void run_check(void)
{
    const op_check *const c = (const op_check *)check_current;
    c->way(c);
}

/* Lives as long as the program, in its list of cases. type may be -1: all or none in particular. */
static void add(op_score *score, const op_set *set, const char *way_name,
                void (*way)(const op_check *c), int type)
{
    const op_row *const row = score->row;
    op_check *const     c = calloc(1, sizeof *c);

    *c = (op_check){.base = {.file = row->name, .name = c->label, .run = run_check},
                    .row = row, .set = set, .score = score, .way = way, .asked = -1,
                    .type = type < 0 ? WEIR_F32 : (weir_dtype)type};
    snprintf(c->label, sizeof c->label, "%s%s%s: %s%s%s", set->in, set->note ? " " : "",
             set->note ? set->note : "", way_name, type < 0 ? "" : " ",
             type < 0 ? "" : weir_dtype_name((weir_dtype)type));
    *check_last = &c->base;
    check_last = &c->base.next;
}

/* Inputs that gradients are checked for. */
static int differentiated(const op_row *row)
{
    int n = 0;
    for (int i = 0; i < OP_MAX_IN; i++)
        n += row->in[i].kind == OP_PARAM && (row->types & OP_F64) != 0;
    return n;
}

static void add_set(op_score *score, const op_set *set, bool special)
{
    const op_row *const row = score->row;

    add(score, set, "desc", op_way_desc, -1);
    for (int type = 0; weir_dtype_size((weir_dtype)type) > 0; type++) {
        const bool half = (OP_HALVES >> type & 1) != 0;
        const bool stored = (OP_STORED >> type & 1) != 0;
        if (!(row->types >> type & 1) ||
            (stored && set > row->sets && (set - row->sets) % STORED_TYPES != type - WEIR_I8))
            continue;
        add(score, set, "values", op_way_values, type);
        if (special && (OP_ANY_FLOAT >> type & 1) != 0 && set < row->sets + SPECIAL_SETS)
            add(score, set, "special", op_way_special, type);
        if (strcmp(check_device(), "cpu") != 0)
            add(score, set, "peer", op_way_peer, type);
        if (half && differentiated(row) > 0 && !set->flat)
            add(score, set, "half gradient", op_way_half_gradient, type);
        if ((half && set >= row->sets + PLANNED_SETS) || (stored && set > row->sets))
            continue;
        add(score, set, "graph", op_way_graph, type);
        if (type == WEIR_F32 || set == row->sets)
            add(score, set, "onnx", op_way_onnx, type);
        add(score, set, "threads", op_way_threads, type);
        if ((type == WEIR_F32 || type == WEIR_BF16) && set < row->sets + PLANNED_SETS)
            add(score, set, "plans", op_way_plans, type);
    }
    if (differentiated(row) > 0 && !set->flat)
        add(score, set, "gradient", op_way_gradient, WEIR_F64);
    if (differentiated(row) > 0 && !set->flat && set < row->sets + PLANNED_SETS)
        add(score, set, "stale", op_way_stale, WEIR_F64);
    if (differentiated(row) > 1)
        add(score, set, "frozen", op_way_frozen, WEIR_F64);
}

/* Families whose references say what NaN, infinities and zeros make. */
static bool is_special(const op_row *family)
{
    return family == op_elementwise || family == op_math || family == op_compare ||
           family == op_reduce || family == op_pool2d;
}

static void add_row(const op_row *row, bool special)
{
    op_score *const score = &scores[rows++];
    const int       type = row->types & OP_F32   ? WEIR_F32
                         : row->types & OP_I32 ? WEIR_I32
                         : row->types & OP_U8  ? WEIR_U8
                         : row->types & OP_I8  ? WEIR_I8 : WEIR_BOOL;

    score->row = row;
    for (const op_set *set = row->sets; set->in; set++)
        add_set(score, set, special);
    for (const op_set *set = row->wrong; set && set->in; set++)
        add(score, set, "mistake", op_way_mistake, type);
    add(score, row->sets, "types", op_way_types, type);
    add(score, row->sets, "NULL", op_way_null, type);
}

/* One line per row of what ran, and the totals. */
static void summarise(void)
{
    int values = 0, gradients = 0;

    for (const op_score *s = scores; s < scores + rows; s++) {
        if (s->values + s->gradients + s->peers == 0)
            continue;
        printf("%-21s values %3d, worst %5.2f eps in f32, %5.2f eps in f64, allowed %2.0f",
               s->row->name, s->values, s->worst_f32, s->worst_f64, s->row->eps);
        if (s->row->types & OP_HALVES)
            printf("; %4.2f in f16, bf16", s->worst_half);
        if (s->gradients)
            printf("; gradients %2d, worst %.1e of allowed", s->gradients, s->worst_gradient);
        if (s->peers)
            printf("; against the CPU %3d, worst NMSE %.1e in f32", s->peers, s->worst_peer);
        printf("\n");
        values += s->values;
        gradients += s->gradients;
    }
    printf("op table: %d rows, %d value cases, %d gradient cases\n", rows, values, gradients);
}

__attribute__((constructor)) static void add_table(void)
{
    static check_case summary = {.file = "table.c", .name = "summary", .run = summarise};

    for (const op_row *const *family = op_families; *family; family++)
        for (const op_row *row = *family; row->name; row++)
            add_row(row, is_special(*family));
    *check_last = &summary;
    check_last = &summary.next;
}
