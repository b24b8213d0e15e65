/* statistics.h - the batch statistics of batch norm layers under data parallelism.
 *
 * Each micro-batch is normalised by its own statistics. They are kept until the update of the
 * parameters, when those of all micro-batches of all ranks are applied, in their order, to the
 * running statistics of every rank: the bits of one process that computes all micro-batches. */
#ifndef WEIR_MODEL_STATISTICS_H
#define WEIR_MODEL_STATISTICS_H

#include "model/model.h"

/* From now on the model's batch norm layers keep the statistics of `micro_batches` micro-batches
 * for each update. */
weir_status weir_statistics_begin(weir_model *m, int64_t micro_batches);

/* weir_batch_norm in training; the statistics are kept. */
weir_tensor *weir_statistics_norm(weir_model *m, weir_tensor *x, weir_tensor *scale,
                                  weir_tensor *bias, weir_tensor *mean, weir_tensor *var);

/* The next call of a layer is in another micro-batch. */
void weir_statistics_end_part(weir_statistics *s);

/* Applies what all ranks of c have kept; they must have computed the same layers. */
weir_status weir_statistics_apply(const weir_statistics *s, weir_comm *c);

void weir_statistics_free(weir_statistics *s);

#endif
