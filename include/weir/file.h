/* file.h - save and load models and whole training runs in safetensors files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file has the tensors of any shape and dtype by name ("fc1.weight"), as other programs and
 * weir.load_safetensors in Python read them. Numbers are little-endian.
 *
 * Saving writes a file beside the path, syncs it, renames it and syncs the folder: the path has the
 * old file or the new one at any moment, even if the process is killed. (A killed process may leave
 * PATH.NUMBER.tmp.) The mode is that of a new file; a symbolic link is followed. Saving and loading
 * need host memory for the largest tensor, and ERR_NOMEM says that it ran out.
 *
 * Loading trusts no file: every number is checked against the file's size before memory is
 * allocated. Names, shapes and dtypes must fit; if not, one error lists what does not, and nothing
 * has changed. Files of the format version 1 and files of other programs are read.
 *
 * Errors. ERR_IO for a file that is missing, unreadable, malformed, of another version, or does not
 * fit; ERR_INVALID for a tensor without a name, and for two of one name; NULL arguments as in
 * model.h. After an error of the system in the middle of loading (a disk that fails) the model may
 * be loaded in part.
 *
 * Threads: those of the model. Reading and writing happen at once, even while a graph is being
 * recorded. */
#ifndef WEIR_FILE_PUBLIC_H
#define WEIR_FILE_PUBLIC_H

#include "weir/base.h"
#include "weir/comm.h"
#include "weir/data.h"
#include "weir/model.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a file is written; {0} is the default. */
typedef struct weir_save_options {
    bool keep_previous;     /* the file that is replaced stays as PATH.bak */
} weir_save_options;

/* What loading found, in numbers of tensors. */
typedef struct weir_load_counts {
    size_t loaded;          /* taken from the file */
    size_t missing;         /* in the model, not in the file */
    size_t unexpected;      /* in the file, not in the model */
    size_t different;       /* in both, with different shapes or dtypes */
} weir_load_counts;

/* How a file is loaded; {0} is the default. */
typedef struct weir_load_options {
    bool              partial;  /* take what fits, and leave the rest of the model as it is */
    weir_load_counts *counts;   /* filled where not NULL, after a failure to fit, too */
} weir_load_options;

/* Writes all parameters and states of m to the file `path`. options NULL: all defaults. */
WEIR_API weir_status weir_model_save(const weir_model *m, const char *path,
                                     const weir_save_options *options);

/* Reads parameters and states of m from a file of weir_model_save, of weir_run_save (of which it
 * takes the model alone) or of another program. options NULL: all must fit. */
WEIR_API weir_status weir_model_load(weir_model *m, const char *path,
                                     const weir_load_options *options);

/* All that a training needs to go on with equal bits. Everything is borrowed. */
typedef struct weir_run {
    weir_model  *model;         /* its parameters and states, and its device's random stream */
    weir_optim  *optim;         /* states, learning rate; NULL: none */
    weir_scaler *scaler;        /* scale and counts; NULL: none */
    weir_tensor *const *tensors;    /* more tensors with names: a schedule's step counter, ...; */
    size_t       tensor_count;      /* number of tensors; 0: none */
    int64_t      step;          /* number of the step, 0 or more: written and read */
    weir_batches *batches;      /* where the reader is, all but its changes; NULL: none */
    weir_comm    *comm;         /* ranks that save and load together; NULL: this process alone */
} weir_run;

/* Ranks. With run->comm, a world of two ranks or more, weir_run_save and weir_run_load are calls of
 * all its ranks, with the same path, in a folder that all of them see. Each rank writes a part of
 * the tensors beside the path, "PATH.GENERATION.RANK.part", and syncs it. Only when all parts are
 * written does rank 0 put the manifest in the path's place, with their names, sizes and checksums;
 * the former checkpoint's parts go last. So the path is the former checkpoint or the new one at any
 * moment, whatever fails on whichever rank: a failure of one is the failure of all, with its
 * sentence; ERR_COMM if ranks are at other steps, save other tensors, or are gone. A tensor that is
 * another one on a rank, such as running statistics, and each rank's random stream and reader, are
 * saved for every rank.
 *
 * Loading checks all parts. As many ranks as have saved go on with the same bits. Of another number
 * of ranks, or without comm, rank r takes over from rank r modulo the number that has saved; the
 * parameters and the optimiser's states go on with the bits of a run that was never interrupted
 * where weir/comm.h promises the same sums for both. */

/* Writes the run to the file `path`: the model's tensors by their names, "optim.fc1.weight.m" and
 * its like, "scaler.scale", "program.NAME" for tensors; seed and position of the random stream,
 * step and the reader's weir_batches_state as text in __metadata__. Call it between two steps.
 * options NULL: all defaults. ERR_COMM with ranks. */
WEIR_API weir_status weir_run_save(const weir_run *run, const char *path,
                                   const weir_save_options *options);

/* Reads what weir_run_save wrote into run, which has the same parts; all of it must fit. States of
 * the optimiser that no update has made yet are made. Graphs that were recorded before go on with
 * what was read. Steps that follow have the bits of a run that was never interrupted. ERR_COMM with
 * ranks. */
WEIR_API weir_status weir_run_load(weir_run *run, const char *path);

#ifdef __cplusplus
}
#endif
#endif
