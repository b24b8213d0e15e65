/* device.h - open, describe, seed, budget, profile and trace a device.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: a device and everything made on it belong to one thread at a time; different devices
 * may be used by different threads at once. A call that overlaps with one of another thread on the
 * same device fails with ERR_STATE (weir_release: the handle is leaked; weir_device_close,
 * weir_graph_free and weir_step_free: nothing is freed). Kernels use the device's own worker
 * threads.
 *
 * fork: a child of a process that has opened a device can open none and use none (ERR_STATE); what
 * it closes or releases stays as it is. A child that does not call Weir, or calls exec, is safe.
 *
 * Errors. A device that is NULL fails with the status of the earlier mistake, else ERR_INVALID; a
 * closed one with ERR_DEVICE. Functions that return text or a handle return NULL after a mistake;
 * text also if memory runs out (ERR_NOMEM). */
#ifndef WEIR_DEVICE_PUBLIC_H
#define WEIR_DEVICE_PUBLIC_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A CPU, a card or a simulated machine, with its memory, its random stream and its graphs. */
typedef struct weir_device weir_device;

/* How a device is opened; {0} is the default. */
typedef struct weir_device_options {
    int      threads;   /* worker threads; 0: $WEIR_THREADS, else one for each core that the
                         * process may use: affinity, and the CPU quota of its cgroup, rounded up */
    uint64_t seed;      /* of the random stream; 0: 1 */
    const char *spill_dir;  /* folder of the file for offloaded values; NULL: $WEIR_SPILL_DIR, else
                             * $TMPDIR, else /tmp */
    int      guard;     /* 1: guard zones, below; -1: no zones; 0: $WEIR_GUARD, else no zones */
} weir_device_options;

/* Guard zones find a kernel (of a library, or a callback of yours) that writes outside its
 * operands. Every parameter, state, input, result and kernel workspace lies between two zones of
 * 256 bytes with a known pattern. Each call, recorded or not, checks the zones of its operands
 * before and after it runs. The zone behind a workspace is longer by the size of the workspace, at
 * least 4 KiB and at most 1 MiB. A damaged zone fails the call or run with ERR_DEVICE and a
 * sentence: the operation and its place in the plan, the operand, how many bytes, on which side, at
 * which offsets. The pattern is restored and the device stays usable; memory beyond the zone may be
 * corrupted. Zones count as memory: planned and measured peaks and budgets include them. Results
 * keep their bits; a step takes longer. "sim" has no memory and so no zones; "cuda" refuses to open
 * with them. WEIR_GUARD is 0 or 1; weir_device_open refuses anything else. */

/* Opens a device by name. You own the result: weir_device_close. options may be NULL. NULL with
 * ERR_INVALID for a name, a number or an environment variable that makes no sense, ERR_DEVICE for
 * a device that is not there.
 *
 * "cpu" computes. "sim:..." only advances a clock, by the rates of a machine: programs run as they
 * would there, memory plans and capacity included, but every value reads as zeros. The colon is
 * followed by a preset (format laptop p100 v100 rtx2080ti h200), numbers, or a preset and then
 * numbers, separated by commas; "sim" alone is "sim:format":
 *
 *     sim:v100    sim:p100,capacity=12GB
 *     sim:flops=14e12,memory=900e9,link=12e9,capacity=16GB,call=5e-6
 *     cuda                an NVIDIA card, the first; cuda:1 the second
 *
 * "cuda" is a plugin, libweir_cuda.so, loaded at its first use from the folder $WEIR_PLUGINS, else
 * from libweir's folder, else from the system's library path.
 *
 * Numbers of sim: flops in operations per second; memory and link (or link_out and link_in) in
 * bytes per second; call and copy, the fewest seconds that a call and a copy over the link take.
 *
 * The machine may be one rank of a world, which weir_comm_open("auto") joins:
 *
 *     sim:v100,world=512,node=8,wire=3.1e9,alpha=20e-6,inner=12e9
 *
 * world: ranks; node: ranks on each node, a divisor, which share a link to other nodes of `wire`
 * bytes per second each way; alpha: seconds that a message between nodes takes besides; inner:
 * bytes per second of a rank within its node, where a message takes `copy` seconds besides. Not
 * said: 1 rank, 1 on a node, 3.1e9, 2e-5, the slower direction of the link. A collective takes what
 * these numbers give (docs/user/simulator.md), beside computing if the plan has started it before;
 * all other ranks are taken to do the same as this one, which is rank 0, at the same time. */
WEIR_API weir_device *weir_device_open(const char *name, const weir_device_options *options);

/* The number of devices of a kind: 1 for "cpu" and "sim", the number of usable cards for "cuda".
 * -1, with a sentence (weir_error), if plugin or driver is missing. */
WEIR_API int weir_device_count(const char *name);

/* Closes the device: ends its work and frees what it owns, which is the results of operations that
 * nobody retained, open scopes, the anonymous graph, the arena and the spill file. Does not free
 * what you own: inputs, parameters, states and retained results, graphs, steps, models, optimisers
 * and scalers. Each has a function that frees it, which is best called before the device closes. It
 * also works later, while calls that compute, run, read or write with such a handle fail with "the
 * device is closed" (ERR_DEVICE). NULL is fine. */
WEIR_API void weir_device_close(weir_device *d);

/* Restarts the random stream (initialisers, dropout) at `seed`, any number, position 0. */
WEIR_API weir_status weir_device_seed(weir_device *d, uint64_t seed);

/* Where the random stream of a device is: all that initialisers and dropout draw follows from these
 * two numbers. */
typedef struct weir_random {
    uint64_t seed;          /* weir_device_seed, or the option */
    uint64_t position;      /* of the next number that is drawn, in blocks of four */
} weir_random;

/* Returns where the stream is ({0} for a NULL or closed device); sets where it continues. With the
 * graph off and on, equal states give equal draws. */
WEIR_API weir_random weir_device_random(const weir_device *d);
WEIR_API weir_status weir_device_set_random(weir_device *d, weir_random random);

/* Memory of a device, in bytes, and counts. */
typedef struct weir_memory {
    size_t   persistent;       /* live bytes of parameters, states, inputs, kept outputs */
    size_t   live;             /* all live blocks outside the arena, persistent ones included */
    size_t   live_peak;        /* highest `live` since weir_device_reset_peak */
    size_t   pool;             /* taken from the system for blocks, free ones included */
    size_t   arena;            /* arena shared by all graphs of the device; 0 before a run */
    size_t   total, unused;    /* memory of the machine, or of the cgroup where that has less; free
                                * memory of it, file caches included */
    bool     grouped;          /* a cgroup limits `unused`, not the machine */
    size_t   auto_budget;      /* what the budget "auto" would be now; see weir_plan_options */
    size_t   reserved;         /* of `unused`: left free where no budget is named, for what the
                                * device's libraries load later; 0 but on cards */
    uint64_t core_allocations; /* host allocations by the library, in the whole process */
    uint64_t evicted;          /* graph off under a budget, since the device was opened: values */
    uint64_t recomputed;       /* evicted, calls run again */
} weir_memory;

/* Fills m with bytes and counts as they are now; reset_peak sets live_peak to `live`. */
WEIR_API void weir_device_memory(const weir_device *d, weir_memory *m);
WEIR_API void weir_device_reset_peak(weir_device *d);

/* Waits until all work given to the device is done. Calls on a card only queue work, so call this
 * before reading a clock. Returns the failure of queued work, as the next read would. */
WEIR_API weir_status weir_device_sync(weir_device *d);

/* Seconds since the device was opened; simulated seconds on "sim". */
WEIR_API double weir_device_clock(const weir_device *d);

/* The number of worker threads of the device. */
WEIR_API int weir_device_threads(const weir_device *d);

/* Version, instruction sets, libraries found and chosen (with OpenBLAS's core type), threads,
 * devices, optional parts; several lines. You own the text: weir_text_free. NULL if out of memory.
 */
WEIR_API char *weir_info_text(weir_device *d);

/* Recording as a switch of the device (SINGA's SetBufferFlag, GetBufferFlag, ExecBuffOps): on
 * begins an anonymous graph or resumes it; off pauses it; exec plans it once and runs it; reset
 * (ResetGraph) frees it. Switching on after an exec begins a new graph. While
 * another graph is being recorded (weir_graph_begin) off pauses that one and on resumes it. exec
 * fails as weir_graph_end and weir_graph_run do; ERR_STATE if there is no graph, or another one is
 * being recorded. */
WEIR_API weir_status weir_device_set_buffering(weir_device *d, bool on);
WEIR_API bool        weir_device_buffering(const weir_device *d);
WEIR_API weir_status weir_device_exec(weir_device *d);
WEIR_API weir_status weir_device_reset_graph(weir_device *d);

/* The default budget (see weir_plan_options) of graphs planned from now on; NULL: no budget.
 * Copied; at most 31 characters. ERR_INVALID for a text that is no budget.
 *
 * It is one for all graphs planned under it (weir_plan_options.shared_budget), until another one is
 * set.
 *
 * A budget in bytes (not a share) also holds with the graph off: live bytes, kernel workspaces
 * included, never exceed it. An allocation that would exceed it first evicts results; the next read
 * recomputes them with the same bits (Kirisame et al. 2021). The inputs of an evicted result stay
 * alive, in a copy if they are overwritten meanwhile. ERR_BUDGET if one call and its operands do
 * not fit: the call did not run, and nothing is lost. */
WEIR_API weir_status weir_device_set_budget(weir_device *d, const char *budget);

/* Has `progress` called with `context` while graphs of the device are planned (weir_graph_end,
 * weir_device_exec, the first weir_step_run); NULL: not any longer. Planning from measurements
 * during a run (profile_steps) is not reported. */
WEIR_API weir_status weir_device_set_progress(weir_device *d, weir_progress_fn progress,
                                              void *context);

/* Which result is evicted first with the graph off: "dtr" (or NULL, the default): fewest seconds to
 * recompute it and its evicted neighbours, per byte and per second since its last use; "dtr:eq":
 * the same with neighbours in equivalence classes, which is cheaper; "dtr:local": without
 * neighbours; "dtr:lru": least recently used; "dtr:size": largest; "dtr:msps": fewest seconds to
 * recompute it per byte (Kirisame et al. 2021). ERR_INVALID for any other name. */
WEIR_API weir_status weir_device_set_policy(weir_device *d, const char *policy);

/* Profiling of graph runs (SINGA's SetVerbosity, SetSkipIteration, PrintTimeProfiling). level 0:
 * off; 1: forward, backward and update time; 2: also each operation, with bytes, GB/s, GFLOP/s and
 * share. The first `runs` runs of a graph are not counted (default 5). The text is a table of the
 * graph that ran last; you own it (weir_text_free). */
WEIR_API void  weir_device_set_verbosity(weir_device *d, int level);
WEIR_API void  weir_device_set_skip(weir_device *d, int runs);
WEIR_API char *weir_device_profile_text(weir_device *d);

/* Records a timed event for every operation, graph on and off, from start to stop. The text is
 * trace JSON for Chrome and Perfetto; you own it (weir_text_free). ERR_STATE for a start in a trace
 * or a stop without one. */
WEIR_API weir_status weir_device_trace_start(weir_device *d);
WEIR_API char       *weir_device_trace_stop(weir_device *d);

#ifdef __cplusplus
}
#endif
#endif
