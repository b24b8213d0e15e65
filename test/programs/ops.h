/* ops.h - the kinds of operations a program is made of: how each is drawn and how it is played. */
#ifndef WEIR_TEST_PROGRAM_OPS_H
#define WEIR_TEST_PROGRAM_OPS_H

#include "programs/program.h"

enum { MAX_KEPT = 64, MAX_CHAIN = 4 };

typedef struct world world;

/* The part of a network behind a checkpoint, or of a callback: what its function sees. */
typedef struct part {
    const op    *o;
    weir_tensor *param;
} part;

/* One graph of a running program. */
typedef struct stage {
    world       *w;
    int          g;
    weir_step   *step;
    weir_graph  *raw;
    weir_tensor *value[MAX_VALUES];         /* during the step function */
    weir_tensor *kept[MAX_KEPT];
    int          nkept, runs;
    int          casts, quiet, regions;     /* scopes that are open */
    part         part[MAX_OPS];
} stage;

/* A running program. */
struct world {
    const program *p;
    const mode    *m;
    weir_device   *d;
    weir_model    *model;
    weir_tensor   *leaf[MAX_LEAVES];
    weir_layer    *layer[MAX_LAYERS];
    weir_optim    *optim[MAX_OPTIMS];
    weir_scaler   *scaler[MAX_OPTIMS];
    stage          stage[MAX_GRAPHS];
};

weir_status world_open(world *w, const program *p, const mode *m);
void        world_close(world *w);
weir_status world_add_leaf(world *w, int i);
weir_status write_leaf(world *w, int i, uint64_t seed);
weir_status world_add_layer(world *w, int i);
weir_status world_add_optim(world *w, int i);

/* Operation o in the step function of the stage; its results become values. */
weir_status play_op(stage *s, const op *o);

/* All operations, then ends the scopes that are still open. */
weir_status play_graph(void *stage_);

/* ---- drawing ---- */

/* Types, as bits. */
enum { REAL = 1, HALF = 2, WHOLE = 4, BOOL = 8, FLOAT = REAL | HALF, ANY = 15 };

typedef struct info {
    bool live;      /* may be read by what comes next */
    bool grad;      /* a gradient flows through it */
    bool alias;     /* a view of a leaf's own elements */
    bool changes;   /* of a leaf that operations write in the step */
} info;

typedef struct maker {
    program *p;
    world    w;         /* where each operation is tried while it is drawn: recorded, never run */
    int      g;
    graph   *to;
    dice     r;
    info     of[MAX_VALUES];
    int      since;     /* the first value after the last update */
} maker;

/* A value or leaf of one of the types with `least` to `most` axes; INT_MIN without one. */
int  pick(maker *m, int types, int least, int most);

/* The same, or a new leaf of that kind. */
int  pick_or_leaf(maker *m, int types, int least, int most);
int  new_leaf(maker *m, leaf_kind kind, weir_desc desc, leaf_data data, double lo, double hi);
int  new_real(maker *m, leaf_kind kind, weir_desc desc);       /* in [-1, 1) */
int  new_param(maker *m, int ndim, const int64_t *dim);        /* of the program's type */
int  any_param(maker *m, int ndim, const int64_t *dim);        /* or an existing one */

weir_desc desc_of(const maker *m, int ref);
bool      grad_of(const maker *m, int ref);
int       type_bit(weir_dtype t);
int64_t   elements(const weir_desc *d);
int64_t   size_draw(maker *m);                                 /* of one axis */

/* Tries the operation and adds it: its first value, or INT_MIN if it was refused. */
int emit(maker *m, op *o);
int emit_named(maker *m, const char *name, int a, int b);
int as_type(maker *m, int ref, weir_dtype t);
int calm(maker *m, int ref);                                   /* small again */

int *op_in(op *o, int ref);                                    /* one more input */

enum {
    VIEW = 1,           /* results may be views of the first input */
    JUMP = 2,           /* not continuous */
    COPIES = 4,         /* keeps no input for a gradient */
    EFFECT = 8,         /* is kept for its side effect, though nothing reads its result */
    LAST = 16,          /* changes parameters: values computed before have no gradient afterwards */
    OWN = 32            /* states among its inputs are its own to change */
};

typedef struct op_def {
    const char  *name;
    int          weight;
    bool       (*draw)(maker *m, op *o);    /* NULL: drawn by name only */
    weir_status (*play)(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out);
    int          flags;
} op_def;

extern const op_def ops_plain[], ops_shape[], ops_net[], ops_state[], ops_train[];
extern const int    ops_plain_n, ops_shape_n, ops_net_n, ops_state_n, ops_train_n;

const op_def *op_of(int kind);
int           op_named(const char *name);
int           op_count(void);

/* The status of one result. */
static inline weir_status one(weir_tensor *t, weir_tensor **out)
{
    *out = t;
    return t ? WEIR_OK : weir_error_status();
}

#endif
