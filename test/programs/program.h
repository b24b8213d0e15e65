/* program.h - a random training or inference program as a value: drawn once from a seed, then run
 * under many modes, printed, shrunk. It uses the public interface alone (weir.h).
 *
 *     seed -> make.c -> program -> play.c (one run under one mode) -> trace
 *
 * A program is a list of leaves (parameters, states, inputs), of graphs (each a list of operations
 * that a step function goes through), and a schedule: which graph runs when, and what the host does
 * between runs. References to values: v >= 0 is value v of the same graph, -1 - i is leaf i. */
#ifndef WEIR_TEST_PROGRAM_H
#define WEIR_TEST_PROGRAM_H

#include "weir.h"

enum {
    MAX_LEAVES = 96,
    MAX_OPS = 120,
    MAX_VALUES = 200,
    MAX_GRAPHS = 3,
    MAX_ACTS = 24,
    MAX_IN = 8,
    MAX_OUT = 3,
    MAX_ARG = 10,
    MAX_OPTIMS = 2,
    MAX_LAYERS = 8
};

/* ---- random numbers: SplitMix64 (Steele, Lea, Flood 2014) ---- */

typedef struct dice {
    uint64_t state;
} dice;

uint64_t dice_u64(dice *r);
int64_t  dice_int(dice *r, int64_t lo, int64_t hi);     /* lo <= result <= hi */
double   dice_real(dice *r, double lo, double hi);
bool     dice_chance(dice *r, int percent);

/* ---- the program ---- */

typedef enum leaf_kind { LEAF_PARAM, LEAF_INPUT, LEAF_STATE } leaf_kind;

/* What stands in a leaf before the first run: reals in [lo, hi), whole numbers in lo..hi, or one
 * value everywhere, which weir_write_fill writes; DRAWN is drawn by the device. */
typedef enum leaf_data { DATA_REAL, DATA_WHOLE, DATA_FILL, DATA_DRAWN } leaf_data;

typedef struct leaf {
    leaf_kind kind;
    weir_desc desc;
    leaf_data data;
    double    lo, hi;
    uint64_t  seed;
    bool      changes;      /* operations write it in the middle of a step */
} leaf;

typedef struct op {
    int       kind;         /* place in ops[] */
    int       nin, in[MAX_IN];
    int       nout, out;    /* results are values out, out + 1, ... */
    int64_t   a[MAX_ARG];
    double    f[2];
    weir_desc desc[MAX_OUT];
} op;

typedef struct graph {
    int  nop, nvalue;
    op   op[MAX_OPS];
    bool eval;              /* layers and norms as in evaluation */
} graph;

typedef enum optim_kind { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW, OPTIM_ADAGRAD, OPTIM_RMSPROP,
                          OPTIM_KINDS } optim_kind;

typedef struct optim {
    optim_kind kind;
    int        variant;     /* which options: a few for each kind */
    double     lr, clip_norm, clip_value;
    bool       scaled;
} optim;

typedef enum layer_kind { LAYER_LINEAR, LAYER_MLP, LAYER_CONV, LAYER_BATCH_NORM, LAYER_LAYER_NORM,
                          LAYER_EMBEDDING, LAYER_LSTM, LAYER_GRU, LAYER_DROPOUT, LAYER_KINDS
} layer_kind;

typedef struct layer {
    layer_kind kind;
    int64_t    a[3];
} layer;

typedef enum act_kind { ACT_RUN, ACT_WRITE, ACT_RATE, ACT_SEED } act_kind;

typedef struct act {
    act_kind kind;
    int      at;            /* graph, leaf, optimiser */
    uint64_t seed;
    bool     last;          /* last run of its graph: that one is measured */
} act;

typedef struct program {
    uint64_t   seed;
    int        nleaf, ngraph, nact, noptim, nlayer;
    leaf       leaf[MAX_LEAVES];
    graph      graph[MAX_GRAPHS];
    act        act[MAX_ACTS];
    optim      optim[MAX_OPTIMS];
    layer      layer[MAX_LAYERS];
    weir_dtype type;        /* of parameters, and of most values: f32 or f64 */
    weir_dtype precision;   /* weir_model_set_precision; WEIR_F32: none */
    bool       smooth;      /* no jumps, plain SGD: near in all kernels */
    size_t     nodes;       /* of the largest graph, once mode 1 has run */
} program;

/* The program of a seed. False, with a sentence in weir_error, if none could be drawn. */
bool make_program(program *p, uint64_t seed);

/* Refusals of drawn operations while programs are made, one line each, to stdout. */
extern bool make_loud;

void print_program(const program *p);

/* What a kernel setting, a device's options and a plan's options are in one run. */
typedef struct mode {
    bool   on;  /* graph on */
    bool   raw; /* weir_graph_begin or scopes, not weir_step */
    int    level;
    char   disable[256];        /* room for the names of all passes */
    int    share; /* of the peak in percent; SMALLEST; 0: no budget */
    char   policy[32], placement[16];
    bool   measure, cache;
    int    profile_steps;
    int    eager; /* graph off: the budget, percent of the peak without; 0: none */
    char   evict[16];
    int    threads, kernels, isa;
    size_t eager_bytes; /* what `eager` comes to, found by the reference */
} mode;

enum { SMALLEST = -1 };

/* WEIR_CONV and WEIR_GEMM */
typedef struct kernels {
    const char *name, *conv, *gemm;
    bool        own;        /* equal bits for every thread count */
} kernels;

extern const kernels     kernel_set[];
extern const int         kernel_sets;
extern const char *const isa_name[];
extern const int         isa_names;

/* ---- what a run leaves ---- */

typedef struct record {
    char      label[40];
    weir_desc desc;
    void     *data;
    size_t    bytes;
    bool      rough;        /* not to be compared between kernels: behind a jump */
} record;

typedef struct trace {
    record     *at;
    size_t      n, capacity;
    weir_status status;
    char        error[512]; /* of a failed call, or what of the memory is wrong */
    bool        bad;        /* error is set */
    bool        lossy;      /* a plan said so: bits are not promised */
    bool        refused;    /* a budget was too small, and the smallest was taken */
    size_t      recomputed; /* instructions that recompute values, or calls run again */
    size_t      live_peak;  /* graph off: the most bytes in a run */
    size_t      measured;   /* graphs whose peak was compared */
    size_t      nodes;      /* recorded operations of the largest graph */
} trace;

void play_program(const program *p, const mode *m, trace *t);
void trace_free(trace *t);

/* Text of the first difference; false if the traces agree. tolerance 0: bits, where a NaN equals a
 * NaN. */
bool trace_differs(const trace *a, const trace *b, double tolerance, char *text, size_t capacity);

/* ---- modes ---- */

enum { MODES = 8 };

/* The reference and MODES - 1 others, whose results must have its bits; other: a reference with
 * another kernel setting. */
void draw_modes(const program *p, mode modes[MODES], mode *other);
void print_mode(const mode *m);

/* Adds the mode to the table of what was met by how many seeds; prints the table. */
void count_mode(const mode *m, uint64_t seed);
void count_add(const char *name, uint64_t seeds);
void count_clear(void);
void count_send(int to);
void count_print(uint64_t seeds);
bool count_enough(uint64_t seeds);

/* ---- shrinking ---- */

/* A smaller program that fails in the same way; `fails` is asked for each try. */
void shrink_program(program *p, bool (*fails)(const program *p, void *ctx), void *ctx);

/* The same program without op i of graph g, whose results others read from new inputs. False where
 * that cannot be. */
bool program_without(program *p, int g, int i);

#endif
