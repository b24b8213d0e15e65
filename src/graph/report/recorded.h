/* recorded.h - writes a recording down before the passes change it. */
#ifndef WEIR_GRAPH_REPORT_RECORDED_H
#define WEIR_GRAPH_REPORT_RECORDED_H

#include "graph/ir/graph.h"
#include "graph/ir/recorded_step.h"

/* Sets g->form of a closed recording. ERR_NOMEM. */
weir_status weir_recorded_make(weir_graph *g);

/* Adds t, a result of the recording that outlives a run but was not kept, to the outputs. Returns
 * NULL, without an error, if t is no such result, and if memory is short. */
weir_bound_tensor *weir_recorded_output(weir_recorded_step *r, weir_tensor *t);

/* Frees what *r owns, and r. NULL is fine. */
void weir_recorded_free(weir_recorded_step *r);

/* Appends "f32[2,3]", and "/[1,2]", the strides in elements, if the layout is not dense. */
void weir_recorded_layout(weir_string *s, const weir_layout *l);

/* Appends the text, escaped where it would end the line, and a newline. */
void weir_recorded_text(weir_string *s, const char *text);

/* How a call stands for a call of the program, by weir_name_mark: "grad". */
extern const char *const weir_name_mark_word[];

#endif
