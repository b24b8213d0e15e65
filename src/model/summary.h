/* summary.h - the layers that a call of weir_apply goes through, with their costs.
 * Defined in summary.c. */
#ifndef WEIR_MODEL_SUMMARY_H
#define WEIR_MODEL_SUMMARY_H

#include "model/model.h"

typedef struct weir_summary weir_summary;

/* A layer's function begins: adds a row, and returns its number. */
size_t weir_summary_enter(weir_summary *s, weir_layer *l);

/* It ends with the result y (NULL: it failed). */
void weir_summary_leave(weir_summary *s, size_t row, const weir_tensor *y);

#endif
