/* way.h - the ways a row is checked, and what a check knows; each is a case of the program. */
#ifndef WEIR_TEST_GRAPH_OPS_WAY_H
#define WEIR_TEST_GRAPH_OPS_WAY_H

#include "check.h"
#include "graph/ops/op_fixture.h"

/* What was seen of a row: the summary's line. Errors of values are in units of epsilon, those of
 * gradients relative to what is allowed. */
typedef struct op_score {
    const op_row *row;
    int           values, gradients;
    double        worst_f32, worst_f64, worst_half, worst_gradient;
    int           peers;        /* cases that ran on two devices */
    double        worst_peer;   /* normalised mean square error between them, in f32 */
} op_score;

typedef struct op_check {
    check_case    base;         /* first: the running case is this check */
    const op_row *row;
    const op_set *set;
    weir_dtype    type;
    int           asked;        /* -1, or a type that a call without inputs is wrongly asked for */
    op_score     *score;
    void        (*way)(const struct op_check *c);
    char          label[160];
} op_check;

void op_way_desc(const op_check *c);        /* inferred desc = the reference's, graph off and on */
void op_way_values(const op_check *c);      /* values and states against the reference */
void op_way_special(const op_check *c);     /* the same of NaN, infinities, zeros */
void op_way_gradient(const op_check *c);    /* gradients against central differences */
void op_way_half_gradient(const op_check *c);   /* gradients in f16, bf16 against those in f64 */
void op_way_frozen(const op_check *c);       /* each gradient, the other inputs not trainable */
void op_way_stale(const op_check *c);        /* operands that change before the gradient */
void op_way_graph(const op_check *c);       /* graph on = graph off, bit for bit */
void op_way_plans(const op_check *c);       /* the same with each pass left out, and with none */
void op_way_onnx(const op_check *c);        /* an ONNX file of it, read again, computes the same */
void op_way_threads(const op_check *c);     /* 1, 2 and 3 threads make the same bits */
void op_way_peer(const op_check *c);        /* the device's values and gradients are the CPU's */
void op_way_mistake(const op_check *c);     /* a shape set of row->wrong */
void op_way_types(const op_check *c);       /* types that the operation does not take */
void op_way_null(const op_check *c);        /* NULL for each input */

#endif
