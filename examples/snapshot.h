/* snapshot.h - the whole state of a training as bytes, to compare two trainings bit by bit. */
#ifndef EXAMPLES_SNAPSHOT_H
#define EXAMPLES_SNAPSHOT_H

#include "weir.h"

/* Every parameter and state of the model, every state of the optimiser, then the loss. */
typedef struct snapshot {
    size_t bytes;
    char  *at;
} snapshot;

weir_status snapshot_take(snapshot *s, const weir_model *m, const weir_optim *o,
                          const weir_tensor *loss);
bool        snapshot_equal(const snapshot *a, const snapshot *b);
void        snapshot_free(snapshot *s);

/* Writes the bytes to a file; on failure prints the reason to stderr and returns false. */
bool snapshot_write(const snapshot *s, const char *path);

#endif
