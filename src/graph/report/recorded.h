/* recorded.h - writes a recording down before the passes change it. */
#ifndef WEIR_GRAPH_REPORT_RECORDED_H
#define WEIR_GRAPH_REPORT_RECORDED_H

#include "graph/ir/graph.h"
#include "graph/ir/recorded_step.h"

/* Sets g->form of a closed recording. ERR_NOMEM. */
weir_status weir_recorded_make(weir_graph *g);

/* Frees what *r owns, and r. NULL is fine. */
void weir_recorded_free(weir_recorded_step *r);

/* Appends "f32[2,3]", and "/[1,2]", the strides in elements, if the layout is not dense. */
void weir_recorded_layout(weir_string *s, const weir_layout *l);

#endif
