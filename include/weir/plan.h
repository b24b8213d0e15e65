/* plan.h - memory plans for training steps that are described in a file, not recorded: for cards
 * one does not have and graphs of other systems. SPDX-License-Identifier: Apache-2.0
 *
 * The format of graphs and plans is JSON: tensors with bytes and kind, operations in a valid order
 * with time, inputs, outputs, workspace; a plan is a list of actions with offsets: compute, free,
 * swap_out, swap_in, host_free, encode, decode. Reading needs jansson when the library is built;
 * weir_stepfile_read says so if it was missing. */
#ifndef WEIR_PLAN_PUBLIC_H
#define WEIR_PLAN_PUBLIC_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_stepfile weir_stepfile;

/* A described step. The file is trusted in nothing: ERR_IO with place and reason. You own it. */
WEIR_API weir_stepfile *weir_stepfile_read(const char *path);
WEIR_API void          weir_stepfile_free(weir_stepfile *o);

typedef struct weir_stepfile_options {
    const char *budget;         /* as in weir_plan_options; "%" of whole_bytes */
    const char *policy;         /* as in weir_plan_options */
    const char *placement;      /* as in weir_plan_options */
    size_t      alignment;      /* of offsets, a power of two up to 2^30; 0: 1 */
    uint64_t    moves;          /* of the search; 0: by the step's size */
    double      link_out, link_in;  /* GB/s to the host and back; 0: no swapping */
    double      memory;         /* GB/s of packing and unpacking; 0: 600 */
    const char *cache;          /* as in weir_plan_options */
    char      **explain;        /* NULL, or where to put what the plan does with each tensor, why,
                                 * and what it costs: a table */
    char      **picture;        /* likewise, as SVG: live bytes over time, and the three streams;
                                 * both texts are yours (weir_text_free), NULL without a plan */
} weir_stepfile_options;

typedef struct weir_stepfile_plan_stats {
    size_t         tensors, operations;
    size_t         resident_bytes; /* of what lives before and after the step */
    size_t         whole_bytes; /* planned peak without a budget, addresses included: in the given
                                 * order, all kept, in place where that is allowed. 100 % */
    size_t         budget_bytes;
    size_t         live_bytes;  /* peak of the plan: live bytes */
    size_t         peak_bytes;  /* and addresses: what must be within the budget */
    const char    *placement;   /* strategy that found the addresses; NULL: there are none */
    size_t         floor_bytes; /* proven: no plan does with less */
    size_t         recomputed;  /* operations that run again */
    size_t         out_bytes, in_bytes; /* copied to the host and back */
    double         step_ms, extra_ms;   /* of all operations once; what the plan takes more */
    double         least_extra_ms; /* proven: no plan within the budget has less; may be INFINITY */
    weir_cache_use cache;
    double         proven_extra_ms; /* policy optimal: least of recomputation alone; 0: nothing */
} weir_stepfile_plan_stats;

/* The policies that plans can be made by, one a line: its name, then what may follow a colon
 * behind it ("auto:swap"), separated by spaces. You own the text (weir_text_free). */
WEIR_API char *weir_policy_names(void);

/* A plan as JSON within the budget; you own the text (weir_text_free). NULL with ERR_BUDGET if none
 * was found: stats (may be NULL) then tells of the smallest one met. */
WEIR_API char *weir_stepfile_plan(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_stepfile_plan_stats *stats);

/* What a plan, written by anybody, comes to on one compute and two copy streams. */
typedef struct weir_stepfile_check_stats {
    double time_ms;             /* of the step: until the last stream ends */
    double base_ms;             /* of all operations once, without a wait */
    double compute_ms;          /* of all that run */
    double stall_ms;            /* in which compute waits for inputs or memory */
    double compress_ms;         /* of packing, masks and unpacking */
    size_t recomputed;          /* operations that run again */
    size_t peak_bytes;          /* end of the highest byte range */
    size_t live_bytes;          /* most live bytes at a time */
    size_t out_bytes, in_bytes; /* copied to the host and back */
    size_t host_bytes;          /* most there at a time */
} weir_stepfile_check_stats;

/* Judges the plan in a file by a replay that shares nothing with the planner. Of the options only
 * rates count (links of 12 GB/s where they are 0). The file is trusted in nothing: ERR_IO with
 * place and reason where it is no plan, ERR_INVALID where the plan is wrong. */
WEIR_API weir_status weir_stepfile_check(const weir_stepfile *o, const char *path,
                                         const weir_stepfile_options *options,
                                         weir_stepfile_check_stats   *verdict);

/* Name and version of the solver that policy optimal uses into text; false: why there is none. */
WEIR_API bool weir_highs_version(char *text, size_t bytes);

/* Plans for budgets from whole_bytes down in steps of 1/32 of it, until one does not fit.
 * options->policy: several, separated by commas; NULL: every one. options->budget is NULL. You own
 * the curve: weir_sweep_free. NULL on failure. */
typedef struct weir_sweep weir_sweep;
WEIR_API weir_sweep      *weir_stepfile_sweep(const weir_stepfile         *o,
                                              const weir_stepfile_options *options);
WEIR_API void        weir_sweep_free(weir_sweep *c);

typedef enum weir_sweep_format {
    WEIR_SWEEP_TABLE,
    WEIR_SWEEP_CSV,
    WEIR_SWEEP_SVG
} weir_sweep_format;

/* Budgets against extra time; you own the text (weir_text_free). */
WEIR_API char *weir_sweep_text(const weir_sweep *c, weir_sweep_format form);

/* ---- offsets alone ---- */

/* The placements by which offsets can be found, "auto, life, ...". The text lasts. */
WEIR_API const char *weir_placement_names(void);

/* Memory that is needed from time lower up to, not including, time upper, of any clock. */
typedef struct weir_buffer {
    int64_t lower, upper;
    size_t  size;
    size_t  offset;             /* the answer */
} weir_buffer;

typedef struct weir_place_options {
    /* The lowest height is looked for; one within the capacity is low enough. 0: none is given. */
    size_t capacity;
    /* One of weir_placement_names; NULL: "auto". Greedy orders, named by what goes first, take the
     * lowest gap, or the tightest one with "-best"; "tstack" is two-ended. */
    const char *strategy;
    size_t      alignment;      /* of offsets, a power of two up to 2^30; 0: 1 */
    uint64_t    nodes;          /* of the exact search, at most; 0: by the number of buffers */
} weir_place_options;

typedef struct weir_place_stats {
    size_t      buffers;
    size_t      live_bytes;     /* largest sum of sizes at one time: no height is below */
    size_t      height_bytes;   /* end of the highest buffer */
    const char *strategy;       /* that found the offsets */
    uint64_t    nodes;          /* of the exact search */
    bool        lowest;         /* proven: no placement is lower, or none is within the capacity */
} weir_place_stats;

/* Offsets such that buffers that are needed at the same time lie apart. ERR_BUDGET if none within
 * the capacity was found: the offsets are then the lowest met. options and stats may be NULL. */
WEIR_API weir_status weir_place_buffers(weir_buffer *buffers, size_t n,
                                        const weir_place_options *options,
                                        weir_place_stats *stats);

/* The same for text: lines of values with commas between, the first line names the columns, of
 * which lower, upper and size are read. The result is the text with a column offset (one that it
 * has is replaced); you own it (weir_text_free). The text is trusted in nothing: ERR_IO with line
 * and reason. NULL on failure. */
WEIR_API char *weir_place_csv(const char *text, size_t bytes, const weir_place_options *options,
                              weir_place_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
