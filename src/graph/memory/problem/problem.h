/* problem.h - a training step as a planner sees it: ops in a valid order, tensors of memory
 * between them.
 *
 * A tensor is a tensor. A temporary one is made by one op and read by later ones. A resident one
 * (parameter, state, input) is there before the step and after it; those that are not tensors,
 * because nobody would move them, count in `resident`. An op may be run again to make its tensors
 * anew, but only before `until`: the first op that overwrites something resident which it
 * reads. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H
#define WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H

#include "core/phase.h"
#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_TENSOR UINT32_MAX
#define WEIR_NO_OP  UINT32_MAX

/* Entries [first, first + n) of problem.refs. */
typedef struct weir_index_range {
    uint32_t first, n;
} weir_index_range;

typedef enum weir_op_class { /* what an op is, for policies that look at layers */
                             WEIR_OP_CLASS_OTHER,
                             WEIR_OP_CLASS_CONV,
                             WEIR_OP_CLASS_MATMUL
} weir_op_class;

typedef struct weir_mem_op {
    double           time;    /* seconds of one run */
    size_t           work;    /* bytes of workspace while it runs */
    weir_index_range in, out; /* tensors, each once */
    weir_index_range pairs;   /* read, made, ...: the made one may take over the read one */
    weir_index_range masked;  /* of `in`: a mask of it is enough */
    weir_index_range changes; /* of `in`: resident tensors overwritten in place */
    uint32_t n_write_only;    /* the last so many of `in` are changed by the first run and read by
                                 * none (running statistics) */
    uint32_t rerun_before;    /* number of the op from which on running it again is wrong */
    uint32_t region;          /* that the program marked to be made anew; 0: none */
    uint8_t  kind, phase;     /* weir_op_class, weir_phase */
} weir_mem_op;

typedef struct weir_mem_tensor {
    size_t           bytes;        /* aligned */
    size_t           packed, mask; /* bytes of its lossless packed form, of its mask; 0: none */
    uint32_t         producer;     /* op; WEIR_NO_OP: resident */
    weir_index_range uses;         /* ops that read it, ascending */
    bool             output;       /* must be there when the step ends */
} weir_mem_tensor;

typedef struct weir_mem_problem {
    WEIR_VEC(weir_mem_op)     ops;
    WEIR_VEC(weir_mem_tensor) tensors;
    WEIR_VEC(uint32_t)        refs;
    size_t                    resident; /* bytes that are always there and are no tensors */
    double                    time;     /* of all ops once */
    double link_out, link_in;           /* bytes per second to the host and back; 0: no swapping */
    double copy_latency;                /* seconds that a copy takes at least */
    double copy_interference; /* share of a copy's time that it takes from the compute stream */
    double pack_bandwidth;    /* bytes per second, read and written, of packing; 0: none */
} weir_mem_problem;

/* What an op is built from; arrays are copied, numbers that repeat in `in` and `out` once. */
typedef struct weir_mem_op_def {
    double          time;
    size_t          work;
    uint32_t        rerun_before, region;
    weir_op_class   kind;
    weir_phase      phase;
    uint32_t        nin, nout, npairs, nmasked, nchanges;
    uint32_t        n_write_only;
    const uint32_t *in, *out, *pairs, *masked, *changes;
} weir_mem_op_def;

/* A problem is built tensor by tensor and op by op; weir_mem_problem_end fills uses, masks and
 * `time`. All return false when memory is short. */
bool weir_mem_problem_add_tensor(weir_mem_problem *p, size_t bytes, size_t packed, bool output);
bool weir_mem_problem_add_op(weir_mem_problem *p, const weir_mem_op_def *def);
bool weir_mem_problem_end(weir_mem_problem *p);

/* The same step with all resident tensors always there: no tensors. They must be the last ones, so
 * that the others keep their numbers. */
bool weir_mem_problem_pin_residents(const weir_mem_problem *p, weir_mem_problem *settled);
void weir_mem_problem_free(weir_mem_problem *p);

/* One bit for every float. */
static inline size_t weir_mask_bytes(size_t bytes)
{
    return (bytes / 4 + 7) / 8;
}

/* What the name of an operation says about its work. */
weir_op_class weir_op_class_of(const char *name);

static inline const uint32_t *weir_refs(const weir_mem_problem *p, weir_index_range r)
{
    return p->refs.at + r.first;
}

static inline bool weir_mem_tensor_is_resident(const weir_mem_problem *p, uint32_t tensor)
{
    return p->tensors.at[tensor].producer == WEIR_NO_OP;
}

/* Is x among the numbers of the range? */
static inline bool weir_among(const weir_mem_problem *p, weir_index_range r, uint32_t x)
{
    for (uint32_t i = 0; i < r.n; i++)
        if (p->refs.at[r.first + i] == x)
            return true;
    return false;
}

#endif
