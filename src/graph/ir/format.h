/* format.h - what the texts about a planned graph share: names, operands, sums by operation.
 *
 * Every writer appends to a string and only reads the graph; after a shortage of memory the
 * string is marked failed. Instruction i and node i are the same call. */
#ifndef WEIR_GRAPH_IR_FORMAT_H
#define WEIR_GRAPH_IR_FORMAT_H

#include "core/text.h"
#include "graph/plan/plan.h"

/* Is the graph there and planned? Else a failure that names the function. */
weir_status weir_format_check(const weir_graph *g, const char *function);

/* One writer per weir_text; the graph is planned. */
void weir_format_graph(const weir_graph *g, weir_string *s);
void weir_format_plan(const weir_graph *g, weir_string *s);
void weir_format_cost(const weir_graph *g, weir_string *s);
void weir_format_dot(const weir_graph *g, weir_string *s);
void weir_format_timeline(const weir_graph *g, weir_string *s);
void weir_format_addresses(const weir_graph *g, weir_string *s);
void weir_format_json(const weir_graph *g, weir_string *s);
void weir_format_stepfile(const weir_graph *g, weir_string *s); /* stepfile/stepfile_text.c */
void weir_format_explain(const weir_graph *g, weir_string *s);  /* explain/reasons.c */

/* "tensors": [...], "ops": [...] of the exchange format, from there, too. seconds[instruction]:
 * NULL, or below 0: the roofline's. again: with what a budget made run again, else as the step was
 * before. */
void weir_format_lists(const weir_graph *g, const double *seconds, bool recomputed, weir_string *s);

/* The name of the op called; a fused call is the chain of its rows, "bn_apply+add+relu", with
 * `plus` between them. */
void weir_format_op(weir_string *s, const weir_call *c, const char *plus);

/* A letter for the kind and the number of the storage: p3, s4, i0, o7, t45 (t: temporary). */
void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage);

/* "f32(2,3)", and the strides in brackets if the layout is not dense. */
void weir_format_layout(weir_string *s, const weir_layout *l);

/* Spaces until `width` bytes stand after position `start`. */
void weir_format_pad(weir_string *s, size_t start, int width);

/* The input of instruction i whose memory its output o takes over, or -1. */
int weir_instr_inplace_input(const weir_graph *g, uint32_t i, int o);

/* Does the call, or a row of its chain, draw random numbers? */
bool weir_call_draws(const weir_call *c);

/* "#rrggbb" for a kind of storage and for a phase. */
extern const char *const weir_kind_colour[WEIR_KIND_COUNT];
extern const char *const weir_phase_colour[WEIR_PHASE_COUNT];

/* What a budget adds: runs again, copies to the host and back. */
#define WEIR_RECOMPUTE_COLOUR "#8e63b5"
#define WEIR_OUT_COLOUR   "#a0694b"
#define WEIR_IN_COLOUR    "#2fa5b3"

/* All instructions of one operation (and, fused, one chain) that one implementation runs. */
typedef struct weir_op_sum {
    uint32_t instr;             /* the first of them */
    uint32_t count;
    double   flops, bytes;      /* of one run */
    double   seconds;           /* of all profiled runs */
} weir_op_sum;

typedef WEIR_VEC(weir_op_sum) weir_op_sums;

/* False when memory is short; the list is the caller's either way. `order` is a qsort comparison.
 */
bool weir_op_sums_of(const weir_plan *p, int (*order)(const void *, const void *),
                     weir_op_sums    *sums);

/* a / b, 0 where nothing was counted. */
static inline double weir_format_ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

#endif
