/* plan.h - memory plans for training steps that a file describes: for cards that are not at hand
 * and for graphs of other systems. SPDX-License-Identifier: Apache-2.0
 *
 * Step files and plans are JSON. A step lists tensors with bytes and kind, and operations in a
 * valid order with time, inputs, outputs and workspace; a plan is a list of actions with offsets:
 * compute, free, swap_out, swap_in, host_free, encode, decode. Reading needs a library built with
 * jansson; without it weir_stepfile_read fails with a sentence that says so.
 *
 * Errors. ERR_IO for a file or text that cannot be read, with place and reason; ERR_INVALID for an
 * option that makes no sense; ERR_BUDGET if nothing fits; ERR_CANCELLED if the option `progress`
 * says so; ERR_NOMEM. Functions that return a
 * pointer return NULL then.
 *
 * Ownership. Step files, sweeps and texts are yours; functions that take one only read it, so
 * several threads may share a step file. options and stats may be NULL. */
#ifndef WEIR_PLAN_PUBLIC_H
#define WEIR_PLAN_PUBLIC_H

#include "weir/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A described step in memory. */
typedef struct weir_stepfile weir_stepfile;

/* Reads the description of a step. Everything in the file is checked: ERR_IO with place and reason.
 * You own it. */
WEIR_API weir_stepfile *weir_stepfile_read(const char *path);
WEIR_API void          weir_stepfile_free(weir_stepfile *o);

/* How a described step is planned; {0} is the default. Texts are only read during the call. */
typedef struct weir_stepfile_options {
    const char *budget;         /* as in weir_plan_options; "%" of whole_bytes; NULL: no limit */
    const char *policy;         /* as in weir_plan_options; NULL: "auto" */
    const char *placement;      /* as in weir_plan_options; NULL: "auto" */
    size_t      alignment;      /* of offsets, a power of two up to 2^30; 0: 1 */
    uint64_t    moves;          /* limit of the search; 0: by the step's size */
    double      link_out, link_in;  /* GB/s to the host and back; 0: no offloading */
    double      memory;         /* GB/s of compression and decompression; 0: 600 */
    const char *cache;          /* as in weir_plan_options; NULL: $WEIR_PLAN_CACHE */
    weir_progress_fn progress;  /* called while planning; NULL: none */
    void            *progress_context;  /* passed on to it */
    char      **explain;        /* NULL, or receives a table: the decision for each tensor, its
                                 * reason and its cost */
    char      **picture;        /* NULL, or receives an SVG: live bytes over time, and the three
                                 * streams. You own both texts (weir_text_free); NULL without a
                                 * plan */
} weir_stepfile_options;

/* Numbers of a step and its plan. */
typedef struct weir_stepfile_plan_stats {
    size_t         tensors, operations; /* in the description */
    size_t         resident_bytes; /* of tensors that live before and after the step */
    size_t         whole_bytes; /* planned peak without a budget, after placement: in the given
                                 * order, all kept, in place where that is allowed. 100 % */
    size_t         budget_bytes; /* the limit; 0: none */
    size_t         live_bytes;  /* largest sum of live bytes in the plan */
    size_t         peak_bytes;  /* peak after placement: what the budget limits */
    const char    *placement;   /* strategy that found the offsets; NULL: no offsets */
    size_t         floor_bytes; /* proven lower bound on the peak of any plan */
    size_t         recomputed;  /* operations that run again */
    size_t         out_bytes, in_bytes; /* copied to the host and back */
    double         step_ms, extra_ms;   /* all operations once; the time that the plan adds */
    double         least_extra_ms; /* proven lower bound within the budget; may be INFINITY */
    weir_cache_use cache;       /* of the option `cache` */
    double         proven_extra_ms; /* policy optimal: bound for recomputation alone; 0: none */
} weir_stepfile_plan_stats;

/* All policies, one a line: the name, then its variants, which are written behind a colon
 * ("auto:swap"), separated by spaces. You own the text (weir_text_free). */
WEIR_API char *weir_policy_names(void);

/* A plan within the budget as JSON; you own the text (weir_text_free). NULL with ERR_BUDGET if no
 * plan was found: stats (may be NULL) then describes the smallest plan that the search met. */
WEIR_API char *weir_stepfile_plan(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_stepfile_plan_stats *stats);

/* Time and memory of a plan from any source, on one compute stream and two copy streams. */
typedef struct weir_stepfile_check_stats {
    double time_ms;             /* of the step: until the last stream ends */
    double base_ms;             /* of all operations once, without a wait */
    double compute_ms;          /* of all operations that run, repeats included */
    double stall_ms;            /* in which compute waits for inputs or memory */
    double compress_ms;         /* of packing, masks and unpacking */
    size_t recomputed;          /* operations that run again */
    size_t peak_bytes;          /* end of the highest byte range */
    size_t live_bytes;          /* largest sum of live bytes */
    size_t out_bytes, in_bytes; /* copied to the host and back */
    size_t host_bytes;          /* largest sum of bytes on the host */
} weir_stepfile_check_stats;

/* Checks the plan in a file by a replay that shares no code with the planner. Of the options only
 * the rates are read (a link of 0 counts as 12 GB/s). Everything in the file is checked: ERR_IO
 * with place and reason if it holds no plan, ERR_INVALID if the plan is wrong. */
WEIR_API weir_status weir_stepfile_check(const weir_stepfile *o, const char *path,
                                         const weir_stepfile_options *options,
                                         weir_stepfile_check_stats   *verdict);

/* Writes name and version of the solver of policy optimal into the `bytes` bytes at text, cut to
 * fit. False without a solver: text then says why. */
WEIR_API bool weir_highs_version(char *text, size_t bytes);

/* Plans for budgets from whole_bytes down, in steps of 1/32 of it, until a budget does not fit.
 * options->policy: policies separated by commas; NULL: all. options->budget is NULL. You own the
 * sweep: weir_sweep_free. NULL on failure. */
typedef struct weir_sweep weir_sweep;
WEIR_API weir_sweep      *weir_stepfile_sweep(const weir_stepfile         *o,
                                              const weir_stepfile_options *options);
WEIR_API void        weir_sweep_free(weir_sweep *c);

/* Forms of a sweep's text. */
typedef enum weir_sweep_format {
    WEIR_SWEEP_TABLE,           /* aligned columns for people */
    WEIR_SWEEP_CSV,             /* a line for each budget and policy */
    WEIR_SWEEP_SVG              /* a picture */
} weir_sweep_format;

/* Budgets against extra time; you own the text (weir_text_free). */
WEIR_API char *weir_sweep_text(const weir_sweep *c, weir_sweep_format form);

/* ---- the largest batch ---- */

/* Plans a step for a batch of this size, in samples: WEIR_OK if it fits, ERR_BUDGET or ERR_NOMEM if
 * it does not; any other status ends the search. */
typedef weir_status (*weir_batch_fn)(void *ctx, int64_t batch);

/* Finds what the step of such a batch needs, as weir_graph_end_needs does. ERR_BUDGET or ERR_NOMEM:
 * too much to tell; any other status ends the search. */
typedef weir_status (*weir_batch_needs_fn)(void *ctx, int64_t batch, weir_graph_needs *needs);

/* A search for the largest batch that fits. */
typedef struct weir_batch_search {
    weir_batch_fn       fits;   /* costs most; usually one to three calls with `needs` */
    weir_batch_needs_fn needs;  /* NULL: unknown; every batch that is tried is planned */
    void               *ctx;    /* passed on to both */
    size_t              limit;  /* bytes that the needs are compared with; read with `needs` */
    int64_t             first;  /* the first batch that is tried, in samples */
    int64_t             most;   /* the largest batch allowed */
    double              within; /* the share, below 1, by which the answer may be too small; 0: none
                                 */
} weir_batch_search;

/* Finds the largest batch from 1 to most that fits. *batch is one that `fits` accepted. *batch + 1,
 * unless it is above most, was refused: `fits` said so, or its floor_bytes prove that no plan is
 * within the limit. (With `within`, the smallest batch known to be refused is at most that share
 * above *batch.) A planner may refuse one batch and accept a larger one; the search does not look
 * for these.
 *
 * With `needs`, secants through the bytes of two batches estimate the largest whose smallest plan
 * is within the limit, and the largest that the floor allows, usually in four to seven calls;
 * `fits` then settles what lies between. Without, the batch is doubled from `first`, and then the
 * interval halved.
 *
 * Fails as the callback that ended the search; *batch is then the largest that was accepted, 0 if
 * none was. If no batch fits, it fails as `fits` did for a batch of 1. ERR_INVALID unless
 * 1 <= first <= most < INT64_MAX and 0 <= within < 1. */
WEIR_API weir_status weir_largest_batch(const weir_batch_search *search, int64_t *batch);

/* ---- offsets alone ---- */

/* The names of all placements, separated by ", ". Static. */
WEIR_API const char *weir_placement_names(void);

/* Memory that is live from time lower up to, not including, time upper, in any unit. */
typedef struct weir_buffer {
    int64_t lower, upper;       /* lower < upper */
    size_t  size;               /* bytes */
    size_t  offset;             /* the result: bytes from the beginning of the arena */
} weir_buffer;

/* Of a placement; {0} is the default. */
typedef struct weir_place_options {
    /* Bytes. The search looks for the lowest height and stops at one within the capacity. 0: no
     * limit. */
    size_t capacity;
    /* One of weir_placement_names; NULL: "auto". Greedy placements are named by their order;
     * they take the lowest gap, those in "-best" the tightest; "tstack" is two-ended. */
    const char *strategy;
    size_t      alignment;      /* of offsets, a power of two up to 2^30; 0: 1 */
    uint64_t    nodes;          /* limit of the exact search; 0: by the number of buffers */
} weir_place_options;

/* What a placement found. */
typedef struct weir_place_stats {
    size_t      buffers;        /* number of them */
    size_t      live_bytes;     /* largest sum of sizes at one time: no height is below */
    size_t      height_bytes;   /* end of the highest buffer */
    const char *strategy;       /* that found the offsets */
    uint64_t    nodes;          /* of the exact search */
    bool        lowest;         /* proven: no placement is lower, or none is within the capacity */
} weir_place_stats;

/* Sets the offsets of n buffers so that those which are live at the same time do not overlap.
 * ERR_BUDGET if no placement within the capacity was found: the offsets are then the lowest found.
 * options and stats may be NULL. */
WEIR_API weir_status weir_place_buffers(weir_buffer *buffers, size_t n,
                                        const weir_place_options *options,
                                        weir_place_stats *stats);

/* The same for `bytes` bytes of CSV text: the first line names the columns, of which lower, upper
 * and size are read. The result is the text with a column offset, added or replaced; you own it
 * (weir_text_free). Everything in the text is checked: ERR_IO with line and reason. NULL on
 * failure. */
WEIR_API char *weir_place_csv(const char *text, size_t bytes, const weir_place_options *options,
                              weir_place_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
