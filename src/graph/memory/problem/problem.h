/* problem.h - a training step as the planner sees it: ops (mem ops) in a valid order and the
 * tensors (mem tensors) that they read and make.
 *
 * A temporary tensor is made by one op and read by later ones. A resident tensor (parameter,
 * optimizer state, input) exists before and after the step. Resident memory that no plan would
 * offload is not listed as tensors; `resident` counts its bytes. An op may run again to recompute
 * its outputs, but only before op `rerun_before`, the first op that overwrites a resident tensor
 * that it reads. Bytes are bytes on the device, times are seconds. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H
#define WEIR_GRAPH_MEMORY_PROBLEM_PROBLEM_H

#include "core/phase.h"
#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_TENSOR UINT32_MAX
#define WEIR_NO_OP  UINT32_MAX

/* Entries [first, first + n) of weir_mem_problem.refs. */
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
    weir_index_range in, out; /* tensors, without duplicates */
    weir_index_range pairs;   /* (input, output), ...: outputs that may be made in place */
    weir_index_range masked;  /* subset of `in`: a mask is enough to read them */
    weir_index_range changes; /* subset of `in`: resident tensors overwritten in place */
    uint32_t n_write_only;    /* the last n_write_only of `in`: the first run updates them, no run
                               * reads them (running statistics) */
    uint32_t rerun_before;    /* an op; from there on, running this op again gives wrong results */
    uint32_t region;          /* number of the region marked for recomputation; 0: none */
    uint8_t  kind, phase;     /* weir_op_class, weir_phase */
} weir_mem_op;

typedef struct weir_mem_tensor {
    size_t           bytes;        /* rounded up to the device's alignment */
    size_t           packed, mask; /* bytes of its lossless compressed form, of its mask; 0: none */
    uint32_t         producer;     /* its op; WEIR_NO_OP: resident */
    weir_index_range uses;         /* the ops that read it, in ascending order */
    bool             output;       /* must be on the device when the step ends */
} weir_mem_tensor;

typedef struct weir_mem_problem {
    WEIR_VEC(weir_mem_op)     ops;
    WEIR_VEC(weir_mem_tensor) tensors;
    WEIR_VEC(uint32_t)        refs;
    size_t                    resident; /* bytes always on the device and not among `tensors` */
    double                    time;     /* seconds of all ops, each run once */
    double link_out, link_in;           /* bytes per second to the host and back; 0: no link */
    double copy_latency;                /* seconds that any copy takes besides its bytes */
    double copy_interference; /* fraction of a copy's time by which it delays compute, 0 to 1 */
    double pack_bandwidth;    /* bytes read and written per second of compression; 0: none */
} weir_mem_problem;

/* The description of one op for weir_mem_problem_add_op, which copies the arrays and drops
 * duplicates in `in` and `out`. Fields are those of weir_mem_op. */
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

/* Build a problem: add tensors and ops one by one, each tensor before the ops that name it, then
 * call weir_mem_problem_end, which fills `uses` and `time`. The problem owns its vectors. All three
 * return false if memory runs out. */
bool weir_mem_problem_add_tensor(weir_mem_problem *p, size_t bytes, size_t packed, bool output);
bool weir_mem_problem_add_op(weir_mem_problem *p, const weir_mem_op_def *def);
bool weir_mem_problem_end(weir_mem_problem *p);

/* Makes *settled a copy of the step in which every resident tensor stays on the device: their bytes
 * are added to `resident`, and there is no link. Resident tensors must come last in `tensors`, so
 * that the others keep their numbers. Returns false, with *settled freed, if memory runs out. */
bool weir_mem_problem_pin_residents(const weir_mem_problem *p, weir_mem_problem *settled);
void weir_mem_problem_free(weir_mem_problem *p);

/* Returns the bytes of a mask: one bit for each 4-byte float. */
static inline size_t weir_mask_bytes(size_t bytes)
{
    return (bytes / 4 + 7) / 8;
}

/* Returns the class of an op by its name ("conv...", "matmul", "linear", ...). */
weir_op_class weir_op_class_of(const char *name);

/* Returns the numbers of a range; valid until the problem changes. */
static inline const uint32_t *weir_refs(const weir_mem_problem *p, weir_index_range r)
{
    return p->refs.at + r.first;
}

/* Returns whether the tensor exists before the step. */
static inline bool weir_mem_tensor_is_resident(const weir_mem_problem *p, uint32_t tensor)
{
    return p->tensors.at[tensor].producer == WEIR_NO_OP;
}

/* Returns whether the range contains x. */
static inline bool weir_among(const weir_mem_problem *p, weir_index_range r, uint32_t x)
{
    for (uint32_t i = 0; i < r.n; i++)
        if (p->refs.at[r.first + i] == x)
            return true;
    return false;
}

#endif
