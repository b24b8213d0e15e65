/* tool.h - what the files of the command-line tool share: commands and options, JSON, a model in
 * training, heap counters.
 * Defined in bench.c, bench_case.c, commands.c, dump.c, fit.c, info.c, interpose.c, json.c,
 * launch.c, main.c, npy.c, onnx.c, options.c, option_table.c, place.c, plan.c, process.c,
 * run_graph.c, summary.c, train.c, view.c and worker.c.
 *
 * The tool uses Weir as any program does: through weir.h alone. */
#ifndef WEIR_TOOL_TOOL_H
#define WEIR_TOOL_TOOL_H

#include <stdio.h>

#include "weir.h"

/* Exit codes; tool_exit_codes explains them. */
enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_NO_PROGRAM = 127 };

/* ---- commands and options ---- */

/* The options of the command line. A missing option without a default is 0 or NULL. */
typedef struct tool_options {
    const char *command; /* "bench graph": messages begin with it */
    const char *model, *device, *json, *disable, *budget, *measure, *graph, *what, *out, *policy,
        *times, *placement, *capacity, *link, *curve, *check, *off_budget, *off_policy, *explain,
        *picture, *precision, *cache, *spill_dir, *guard, *level, *format, *ask;
    const char *inputs, *outputs;  /* NAME=FILE,NAME=FILE */
    const char *onnx, *dims, *values, *data, *labels, *loss, *optim, *lr, *frozen;
    const char *file, *second; /* the operands, for commands that take some */
    char *const *program;   /* its name and arguments, then NULL; NULL: none is given */
    int64_t     batch, steps, rounds, threads, image, length, depth, align, moves, nodes, micro,
        profile_steps, memory, levels, within, ranks;
    bool        dry;            /* inputs are not written: the step is only planned */
} tool_options;

typedef struct tool_command {
    const char *name; /* one or two words */
    unsigned    bit;  /* of the option table: which options it takes */
    int (*run)(const tool_options *o);
    int         operands; /* the most it takes */
    bool        program;  /* its operand is a program, which the options that follow are for */
    const char *usage[4]; /* what may follow the name */
    const char *meaning;  /* without a period, like all meanings */
    const char *examples[2];
} tool_command;

enum { TOOL_BIT_INFO = 1, TOOL_BIT_GRAPH = 2, TOOL_BIT_WORKER = 4, TOOL_BIT_DUMP = 8,
       TOOL_BIT_PLAN = 16, TOOL_BIT_PLACE = 32, TOOL_BIT_VERSION = 64, TOOL_BIT_HELP = 128,
       TOOL_BIT_SUMMARY = 256, TOOL_BIT_RUN = 512, TOOL_BIT_FIT = 1024, TOOL_BIT_VIEW = 2048,
       TOOL_BIT_ONNX = 4096, TOOL_BIT_TRAIN = 8192, TOOL_BIT_LAUNCH = 16384 };

enum { TOOL_MOST_RANKS = 64 }; /* of weir launch: the most that shared memory can join */

/* An option of one or more commands. A number has a range; a text is one of some words, or any. */
typedef struct tool_option {
    const char *name, *value, *meaning;
    unsigned    commands;
    size_t      at;                 /* of the field in tool_options */
    int64_t     min, max;           /* max 0: a text */
    const char *words;              /* separated by ", "; NULL: any */
    const char *(*ask)(void);       /* returns the words, if words is NULL */
    char *(*list)(void);            /* for --NAME help: names and variants, a line each */
    bool        open;               /* the words explain; the library checks the value */
    bool        file;               /* the value is a path */
    int64_t     number;             /* defaults; 0 and NULL: none */
    const char *text;
} tool_option;

typedef struct tool_exit_code {
    int         code;
    const char *meaning;
} tool_exit_code;

typedef struct tool_file {
    const char *name, *meaning;
} tool_file;

/* Both end with a row whose text is NULL. */
extern const tool_exit_code tool_exit_codes[];
extern const tool_file      tool_files[];

/* The command behind `before` (NULL: the first); NULL behind the last. */
const tool_command *tool_command_next(const tool_command *before);

/* The command that the first, or the first and second word (may be NULL) name; *used words. NULL:
 * none. */
const tool_command *tool_command_find(const char *first, const char *second, int *used);

/* The option of command c (NULL: of any) behind `before` (NULL: the first); NULL behind the last
 * one. */
const tool_option *tool_option_next(const tool_command *c, const tool_option *before);

/* The words that the option allows or explains, separated by ", "; NULL: any text. */
const char *tool_option_words(const tool_option *r);

/* Reads the options of command c from argv[1..]. Returns TOOL_DONE, or TOOL_USAGE after a message.
 * *help: --help was given and its text printed, so the program ends. */
int tool_options_read(tool_options *o, const tool_command *c, int argc, char **argv, bool *help);

/* Finds the nearest of the names that are added one by one; name stays "" if none is near. */
typedef struct tool_near {
    const char *wanted;
    char        name[64];
    size_t      edits; /* from wanted to name */
} tool_near;

void tool_near_add(tool_near *n, const char *name);

/* "weir: unknown command ..." with the nearest name and the list on stderr; TOOL_USAGE. */
int tool_unknown_command(const char *name);

/* "weir COMMAND: <the library's sentence>" on stderr; returns TOOL_FAILED. */
int tool_failed(const tool_options *o);

/* "weir COMMAND: <sentence>" on stderr; returns code. */
int tool_say(const tool_options *o, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text to a file, or stdout where path is NULL or "-"; returns TOOL_DONE, or TOOL_FAILED after
 * a message. */
int tool_write(const tool_options *o, const char *path, const char *text);

/* "1 operation", "2 operations": the s. */
const char *tool_plural(size_t n);

/* The whole file, its length in *bytes, and a final 0, which the caller frees; NULL after a
 * message. */
char *tool_read(const tool_options *o, const char *path, size_t *bytes);

int tool_info(const tool_options *o);
int tool_bench_graph(const tool_options *o);
int tool_bench_worker(const tool_options *o);
int tool_dump(const tool_options *o);
int tool_view(const tool_options *o);
int tool_fit(const tool_options *o);
int tool_summary(const tool_options *o);
int tool_plan(const tool_options *o);
int tool_place(const tool_options *o);
int tool_run_graph(const tool_options *o);
int tool_run(const tool_options *o);
int tool_train(const tool_options *o);
int tool_launch(const tool_options *o);
int tool_version(const tool_options *o);

/* ---- graphs by the names of their tensors ---- */

/* Reads the arrays that --inputs names into tensors of the list; inputs that it does not name get
 * numbers from 0 to 1, integers 0. Writes the arrays that --outputs names. TOOL_DONE, or what
 * failed after a message. */
int tool_npy_inputs(const tool_options *o, const weir_binding *list, size_t n);
int tool_npy_outputs(const tool_options *o, const weir_binding *list, size_t n);

/* TOOL_DONE if the graph has all names of "NAME=FILE,...". */
int tool_npy_names(const tool_options *o, weir_graph *g, const char *pairs);

/* Reads an array whose first axis is free, and those whose size in d is below 0; the others and the
 * type are those of d, which gets the array's sizes. Labels of a loss are classes, or as d. *rows
 * is freed by free. */
int tool_npy_rows(const tool_options *o, const char *path, weir_desc *d, void **rows);
int tool_npy_labels(const tool_options *o, const char *path, weir_desc like, weir_desc *d,
                    void **rows);

/* A model from an ONNX file, recorded for inference and planned. */
typedef struct tool_onnx {
    weir_device   *d;
    weir_onnx     *model;
    weir_graph    *graph;
    weir_binding  *in;          /* [n]: its inputs; their tensors are owned */
    size_t         n;
} tool_onnx;

/* Opens the file at `path` and plans it with the options of o; inputs are written. TOOL_DONE, or
 * what failed after a message. Close it in either case. */
int  tool_onnx_open(tool_onnx *t, const tool_options *o, const char *path,
                    const weir_plan_options *plan);
void tool_onnx_close(tool_onnx *t);

/* ---- files and JSON ---- */

/* A file for writing, stdout for NULL and "-"; NULL after a message. */
FILE *tool_open(const tool_options *o, const char *path);
/* Closes what tool_open returned; TOOL_DONE, or TOOL_FAILED after a message. */
int tool_close(const tool_options *o, const char *path, FILE *to);

/* True with --json -: stdout holds JSON alone. */
bool tool_quiet(const tool_options *o);

/* How the cache of plans was used: "off", "new", "used" or "failed". */
const char *tool_cache_text(weir_cache_use use);

/* One JSON object, in the file of --json. name NULL: an element of an array. */
typedef struct tool_json {
    const tool_options *o;
    FILE               *to;
    bool                first;
    int                 depth;
} tool_json;

bool tool_json_begin(tool_json *j, const tool_options *o);
int  tool_json_end(tool_json *j);
void tool_json_open(tool_json *j, const char *name, char bracket);
void tool_json_close(tool_json *j, char bracket);
void tool_json_text(tool_json *j, const char *name, const char *value);
void tool_json_count(tool_json *j, const char *name, uint64_t value);
void tool_json_number(tool_json *j, const char *name, double value);
void tool_json_bool(tool_json *j, const char *name, bool value);

/* ---- a model in training ---- */

#define TOOL_SEED 1

/* Names of the models, separated by ", ". */
const char *tool_model_names(void);
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
    weir_comm   *comm;         /* of the world that a simulated device is in; else NULL */
    weir_step   *apply;        /* with micro-batches: the update; step adds gradients up */
    int64_t      parts;        /* micro-batches of a step; 1: the whole batch */
    char        *x_data, *y_data;   /* of all micro-batches; NULL: one, which is in x and y */
    int64_t      batch, image; /* as trained; image 0: the model takes no images of another size */
    bool         pixels;       /* a class for each pixel */
} tool_bench_case;

/* The plan options that the command line gives. */
weir_plan_options tool_plan_options(const tool_options *o);

/* Opens a case; on failure everything is closed again. No step has run when it returns. */
weir_status tool_bench_case_open(tool_bench_case *t, const tool_options *o, bool graph);
void        tool_bench_case_close(tool_bench_case *t);

/* Writes the data of a case that was opened dry. */
weir_status tool_bench_case_fill(tool_bench_case *t, const tool_options *o);

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
