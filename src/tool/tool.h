/* tool.h - what the files of the command-line tool share: commands and options, a model in
 * training, heap counters.
 * Defined in bench.c, bench_case.c, dump.c, info.c, interpose.c, main.c, options.c, place.c,
 * plan.c, process.c and worker.c.
 *
 * The tool uses Weir as any program would: weir.h and nothing else of the library. Exit codes: 0
 * done, 1 something failed (a sentence is on stderr), 2 the command line makes no sense. */
#ifndef WEIR_TOOL_TOOL_H
#define WEIR_TOOL_TOOL_H

#include "weir.h"

enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* ---- commands and options ---- */

/* What the command line asked for. Numbers are 0 and texts NULL where an option was left out and
 * has no default of its own. */
typedef struct tool_options {
    const char *command; /* "bench graph": messages begin with it */
    const char *model, *device, *json, *disable, *budget, *measure, *graph, *what, *out, *policy,
        *times, *placement, *capacity, *link, *curve, *check, *off_budget,
        *off_policy, *explain, *picture, *precision;
    const char *file; /* the one word that is no option, for commands that take it */
    int64_t     batch, steps, rounds, threads, image, length, depth, align, moves,
        nodes, micro;
} tool_options;

typedef struct tool_command {
    const char *name; /* one or two words */
    unsigned    bit;  /* of the option table: which options it takes */
    int (*run)(const tool_options *o);
    const char *meaning;
} tool_command;

enum { TOOL_BIT_INFO = 1, TOOL_BIT_GRAPH = 2, TOOL_BIT_WORKER = 4, TOOL_BIT_DUMP = 8,
       TOOL_BIT_PLAN = 16, TOOL_BIT_PLACE = 32 };

/* Reads the options of command c from argv[1..]. Returns TOOL_DONE, or TOOL_USAGE after a message.
 * *help is set when help was asked for and has been printed: nothing else is to be done. */
int tool_options_read(tool_options *o, const tool_command *c, int argc, char **argv, bool *help);

/* "weir COMMAND: <the library's sentence>" on stderr; returns TOOL_FAILED. */
int tool_failed(const tool_options *o);

/* "weir COMMAND: <sentence>" on stderr; returns code. */
int tool_say(const tool_options *o, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text to a file, or stdout where path is NULL; returns TOOL_DONE, or TOOL_FAILED after a
 * message. */
int tool_write(const tool_options *o, const char *path, const char *text);

int tool_info(const tool_options *o);
int tool_bench_graph(const tool_options *o);
int tool_bench_worker(const tool_options *o);
int tool_dump(const tool_options *o);
int tool_plan(const tool_options *o);
int tool_place(const tool_options *o);

/* ---- a model in training ---- */

#define TOOL_SEED 1

/* Names of the models, separated by ", ". */
const char *tool_model_names(void);
bool        tool_model_known(const char *name);
/* Images of this model can have another size (--image). */
bool tool_model_scales(const char *name);
/* Its x is tokens (--length); it has any depth (--depth). */
bool tool_model_is_text(const char *name);
bool tool_model_is_deep(const char *name);

/* One model on a device of its own, with synthetic data, SGD with momentum 0.9 (gpt2: Adam) and a
 * step that is ready to run. Two trials of equal options hold equal bits. */
typedef struct tool_bench_case {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
    weir_tensor *loss; /* of the last step; kept by it */
    weir_step   *step;
    weir_step   *apply;        /* with micro-batches: the update; step adds gradients up */
    int64_t      parts;        /* micro-batches of a step; 1: none */
    char        *x_data, *y_data;   /* of all of them; NULL: one, and it is in x and y */
    int64_t      batch, image; /* as trained; image 0: the model takes no images of another size */
    bool         pixels;       /* a class for each pixel */
} tool_bench_case;

/* On failure everything is closed again. Nothing has run yet when it returns. */
weir_status tool_bench_case_open(tool_bench_case *t, const tool_options *o, bool graph);
void        tool_bench_case_close(tool_bench_case *t);

/* The training step itself (a weir_step_fn; ctx is the trial). */
weir_status tool_bench_case_record(void *ctx);

/* One whole step: of all micro-batches, if there are such. */
weir_status tool_bench_case_step(tool_bench_case *t);

/* A number that all bits of parameters, states, optimiser states and the last loss go into. */
weir_status tool_bench_case_bits(const tool_bench_case *t, uint64_t *bits);

/* One more step under observation: m of the device afterwards, its live_peak that of the step, and
 * the highest arena byte used (0 with the graph off). The graph has run before. */
weir_status tool_bench_case_measure(tool_bench_case *t, weir_memory *m, size_t *arena);

/* Time and memory are simulated, and there are no values to compare. */
bool tool_simulated(const tool_options *o);

/* Limits the bytes of the device from now on; graph off. A share ("75%") is of `whole`; *bytes is
 * what it comes to. */
weir_status tool_bench_case_limit(tool_bench_case *t, const char *budget, const char *policy,
                                  size_t whole, size_t *bytes);

/* The loss of the last step. */
weir_status tool_bench_case_loss(const tool_bench_case *t, float *loss);

/* Compares parameters, states, optimiser states and loss of two trials bit for bit. */
weir_status tool_bench_case_equal(const tool_bench_case *a, const tool_bench_case *b, bool *equal);

/* ---- time and heap ---- */

/* Milliseconds of a steady clock; of the device's, once it has done all that it was asked for. */
double tool_now_ms(void);
double tool_clock_ms(weir_device *d);

/* Median of v[n] (n >= 1); sorts v. */
double tool_median(double *v, int64_t n);

/* What anything in the process asked of malloc, mmap and their like since it began. */
typedef struct tool_heap {
    uint64_t calls, bytes;    /* requests, and the bytes they named */
    int64_t  live, live_peak; /* bytes now held, and the most since the last mark */
} tool_heap;

/* False where the counters stay 0: under a sanitizer, and without glibc. */
bool tool_heap_counts(void);
void tool_heap_read(tool_heap *h);
/* Reads, and begins a new live_peak. */
void tool_heap_mark(tool_heap *h);

/* Bytes of the process: those of its own that are in memory, all that are, and the most that were
 * since the last mark. */
typedef struct tool_process {
    int64_t private_bytes, resident, resident_peak;
} tool_process;

/* False where the system does not tell, and under a sanitizer, whose memory would count. */
bool tool_process_read(tool_process *p);
/* Begins a new resident_peak; false where the system does not let us. */
bool tool_process_mark(void);

#endif
