/* tool.h - what the files of the command-line tool share: commands and options, a model in
 * training, heap counters.
 * Defined in bench.c, bench_case.c, dump.c, info.c, interpose.c, main.c, options.c, place.c,
 * plan.c, process.c and worker.c.
 *
 * The tool uses Weir as any program does: through weir.h alone. Exit codes: 0 done, 1 failed (with
 * a sentence on stderr), 2 invalid command line. */
#ifndef WEIR_TOOL_TOOL_H
#define WEIR_TOOL_TOOL_H

#include "weir.h"

enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* ---- commands and options ---- */

/* The options of the command line. A missing option without a default is 0 or NULL. */
typedef struct tool_options {
    const char *command; /* "bench graph": messages begin with it */
    const char *model, *device, *json, *disable, *budget, *measure, *graph, *what, *out, *policy,
        *times, *placement, *capacity, *link, *curve, *check, *off_budget,
        *off_policy, *explain, *picture, *precision;
    const char *file; /* the positional argument, for commands that take one */
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
 * *help: --help was given and its text printed, so the program ends. */
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
/* True if the model takes images of any size (--image). */
bool tool_model_scales(const char *name);
/* True if x is tokens (--length); if the model can have any depth (--depth). */
bool tool_model_is_text(const char *name);
bool tool_model_is_deep(const char *name);

/* One model on its own device, with synthetic data, SGD with momentum 0.9 (gpt2: Adam) and a step
 * that is ready to run. Two cases with equal options hold equal bits. */
typedef struct tool_bench_case {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y;
    weir_tensor *loss; /* of the last step; kept by it */
    weir_step   *step;
    weir_step   *apply;        /* with micro-batches: the update; step adds gradients up */
    int64_t      parts;        /* micro-batches of a step; 1: the whole batch */
    char        *x_data, *y_data;   /* of all micro-batches; NULL: one, which is in x and y */
    int64_t      batch, image; /* as trained; image 0: the model takes no images of another size */
    bool         pixels;       /* a class for each pixel */
} tool_bench_case;

/* Opens a case; on failure everything is closed again. No step has run when it returns. */
weir_status tool_bench_case_open(tool_bench_case *t, const tool_options *o, bool graph);
void        tool_bench_case_close(tool_bench_case *t);

/* The training step itself (a weir_step_fn; ctx is the case). */
weir_status tool_bench_case_record(void *ctx);

/* One whole step, of all micro-batches. */
weir_status tool_bench_case_step(tool_bench_case *t);

/* A hash of all bits of parameters, states, optimiser states and the last loss. */
weir_status tool_bench_case_bits(const tool_bench_case *t, uint64_t *bits);

/* Runs one more step and measures it: *m of the device afterwards, with live_peak of the step, and
 * the highest arena byte used (0 with the graph off). The graph must have run before. */
weir_status tool_bench_case_measure(tool_bench_case *t, weir_memory *m, size_t *arena);

/* True if time and memory are simulated: there are no values to compare. */
bool tool_simulated(const tool_options *o);

/* Limits the bytes of the device from now on; graph off. A share ("75%") is of `whole`; *bytes gets
 * the limit. */
weir_status tool_bench_case_limit(tool_bench_case *t, const char *budget, const char *policy,
                                  size_t whole, size_t *bytes);

/* The loss of the last step. */
weir_status tool_bench_case_loss(const tool_bench_case *t, float *loss);

/* Compares parameters, states, optimiser states and loss of two cases bit for bit. */
weir_status tool_bench_case_equal(const tool_bench_case *a, const tool_bench_case *b, bool *equal);

/* ---- time and heap ---- */

/* Milliseconds of a steady clock; of the device's clock, after all its work is done. */
double tool_now_ms(void);
double tool_clock_ms(weir_device *d);

/* Median of v[n] (n >= 1); sorts v. */
double tool_median(double *v, int64_t n);

/* Requests to malloc, mmap and the like from the whole process since it began. */
typedef struct tool_heap {
    uint64_t calls, bytes;    /* number of requests, requested bytes */
    int64_t  live, live_peak; /* bytes now held, and their peak since the last mark */
} tool_heap;

/* False if the counters stay 0: under a sanitizer, and without glibc. */
bool tool_heap_counts(void);
void tool_heap_read(tool_heap *h);
/* Reads, and begins a new live_peak. */
void tool_heap_mark(tool_heap *h);

/* Bytes of the process in memory: private ones, all, and the peak of all since the last mark. */
typedef struct tool_process {
    int64_t private_bytes, resident, resident_peak;
} tool_process;

/* False if the system has no such numbers, and under a sanitizer, whose memory would count. */
bool tool_process_read(tool_process *p);
/* Begins a new resident_peak; false if the system does not support it. */
bool tool_process_mark(void);

#endif
