/* optim.h - an optimiser: a method, its options, and the states of each parameter.
 * Defined in optim.c, accumulate.c, optim_states.c, micro_batches.c
 * and parallel.c. */
#ifndef WEIR_MODEL_OPTIM_H
#define WEIR_MODEL_OPTIM_H

#include "model/model.h"

enum { WEIR_F32_RATE, WEIR_F64_RATE, WEIR_RATES };

enum { WEIR_PARTS = 3 };        /* state tensors of a parameter, at most */

typedef struct weir_slot {
    weir_tensor *param;         /* referenced */
    weir_tensor *state[WEIR_PARTS]; /* as the method names them, NULL: unused. In optim.states */
    weir_tensor *sum;           /* of gradients not applied yet, or none. Listed there too. With
                                 * levels: partial sums (levels, elements), see
                                 * weir_accumulate_tree */
    bool         equal;         /* data parallelism: all ranks had the same elements */
} weir_slot;

/* The functions and facts in which optimisers differ. */
typedef struct weir_method {
    const char *name;
    const char *part[WEIR_PARTS];       /* names of a parameter's states */
    bool        counts;                 /* reads the number of steps */
    int         own;                    /* the part that counts a parameter's updates, or 0 */
    bool      (*uses)(const weir_optim *o, int part);       /* NULL: uses all parts */
    weir_status (*update)(const weir_optim *o, const weir_slot *s, weir_tensor *grad,
                          weir_tensor *lr);
} weir_method;

struct weir_optim {
    weir_device         *dev;           /* borrowed */
    const weir_method   *method;
    weir_sgd_options     sgd;           /* each read by its method alone */
    weir_adam_options    adam;
    weir_adagrad_options adagrad;
    weir_rmsprop_options rmsprop;
    double               first;         /* initial value of states */
    double               clip_norm, clip_value;     /* 0: gradients are not limited */
    weir_scaler         *scaler;        /* of losses, borrowed; or NULL */
    weir_model          *model;         /* whose batch statistics are gathered, borrowed; or NULL */
    weir_comm           *comm;          /* of the ranks that train the model, borrowed; or NULL */
    /* Sums gradients over the ranks and scales them; NULL: there is nothing to do. out may be
     * pairs. */
    weir_status        (*reduce)(weir_optim *o, const weir_pair *pairs, size_t n, weir_pair *out);
    int64_t              micro_batches; /* that each rank accumulates for an update */
    size_t               bucket;        /* bytes of gradients that are summed as one */
    weir_dtype           wire;          /* type in which gradients are sent; f32: their own */
    int                  levels;        /* of partial sums of micro-batches, in order tree; 0: they
                                         * are added one after another */
    weir_tensor         *summed;        /* with levels: scalar f64 in states, counts micro-batches
                                         * since the last update */
    double               rate;
    weir_tensor         *lr[WEIR_RATES]; /* scalar inputs, one per type of parameter */
    weir_tensor         *step;          /* if counted: scalar f64, also the first of states */
    weir_list            slots, states; /* of slot, of weir_tensor (referenced) */
    size_t              *place;         /* [places] number + 1 of slots by parameter */
    size_t               places;        /* a power of two, or 0 */
    bool                 torn;          /* a failure left some sums of gradients without others */
};

/* A state tensor named PARAM.PART, `value` everywhere, owned by the optimiser. */
weir_tensor *weir_optim_state_new(weir_optim *o, weir_desc desc, const char *param,
                                  const char *part, double value);

/* ---- parts of a step ---- */

/* The gradients of a loss, scaled if there is a scaler. */
weir_status weir_optim_backward(const weir_optim *o, weir_tensor *loss, const weir_pair **pairs,
                                size_t *n);

/* Performs the updates of a step; pairs has the gradients of weir_backward and is overwritten. */
weir_status weir_optim_finish(weir_optim *o, weir_pair *pairs, size_t n);

/* Calls fn in a scope of its own, so that gradients are freed here instead of at the end of the
 * caller's step. */
weir_status weir_optim_in_scope(weir_optim *o, weir_status (*fn)(weir_optim *, weir_tensor *),
                                weir_tensor *loss);

/* Micro-batches of all ranks in a step. */
int64_t weir_optim_micro_batches(const weir_optim *o);

/* Ends a micro-batch, whose draws end with it, or (last) the last one of a step, which skips those
 * of the other ranks as well; nothing without data parallelism. */
weir_status weir_optim_end_part(const weir_optim *o, bool last);

/* Moves a position of the random stream that some rank had between two steps to this rank's. */
weir_random weir_optim_random(const weir_optim *o, weir_random random);

/* ---- the states of a parameter ---- */

/* The desc of a parameter's sum of gradients. */
weir_desc weir_optim_sum_desc(const weir_optim *o, const weir_tensor *param);

/* The slot of a parameter: find returns NULL before the first update, slot creates it (NULL after
 * a failure). */
weir_slot *weir_optim_find(const weir_optim *o, const weir_tensor *param);
weir_slot *weir_optim_slot(weir_optim *o, weir_tensor *param);

/* ---- for files ---- */

/* A state that a parameter has, or will have after its first update. */
typedef struct weir_part {
    const char  *name;          /* static: "momentum" */
    weir_desc    desc;
    weir_tensor *tensor;        /* borrowed; NULL: not made yet */
} weir_part;

/* Writes the parameter's states into part and returns their number. Sums of gradients are not among
 * them. */
int weir_optim_parts(const weir_optim *o, const weir_tensor *param, weir_part part[WEIR_PARTS]);

/* Makes the states of a parameter, with their sum if `sum`, unless they exist. */
weir_status weir_optim_make(weir_optim *o, weir_tensor *param, bool sum);

/* Writes the method's name and its states' names into buf, "adam m v": files with other ones do not
 * fit. */
#define WEIR_METHOD_TEXT 80
void weir_optim_method(const weir_optim *o, char buf[WEIR_METHOD_TEXT]);

#endif
