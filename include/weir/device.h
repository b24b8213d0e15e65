/* device.h - open a device, ask what it is and what it holds, seed it, watch it work.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: a device and everything made on it belong to one thread at a time; different devices
 * may be used by different threads at once. Kernels use the device's own worker threads. */
#ifndef WEIR_DEVICE_PUBLIC_H
#define WEIR_DEVICE_PUBLIC_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_device weir_device;

typedef struct weir_device_options {
    int      threads;   /* worker threads; 0: WEIR_THREADS, else one per available core */
    uint64_t seed;      /* of the random stream; 0: 1 */
    const char *spill_dir;  /* where values go that a budget swaps out; NULL: $WEIR_SPILL_DIR, else
                             * $TMPDIR, else /tmp */
    int      guard;     /* 1: guard zones, below; -1: none; 0: $WEIR_GUARD, else none */
} weir_device_options;

/* Guard zones are for finding a kernel, a library's or a callback of your own, that writes outside
 * what it was given. Every parameter, state, input, result and kernel workspace lies between two
 * zones of 256 bytes with a known pattern, which is looked at before and after each call that is
 * given that memory, recorded or not; behind a workspace as many bytes again as it has, within
 * 4 KiB and 1 MiB, belong to its zone. What was written there fails the call or run with ERR_DEVICE
 * and a sentence: the operation and its place in the plan, the operand, how many bytes, on which
 * side, at which offsets. The device goes on, with the pattern mended; what lies beyond may be
 * spoilt. Zones count as memory does: planned = measured peak and budgets include them, bits stay,
 * and a step takes longer. "sim", which has no memory, has none; "cuda" refuses to be opened with
 * them.
 * WEIR_GUARD is 0 or 1; anything else is an error of weir_device_open. */

/* Opens a device by name. You own the result: weir_device_close. options may be NULL.
 *
 * "cpu" computes. "sim:..." only moves a clock on, by the numbers that a machine is known for:
 * programs run on it as on a machine one does not have, memory plans and capacity included, but
 * every value reads as zeros. What follows the colon is a preset (format laptop p100 v100
 * rtx2080ti h200), numbers, or a preset and then numbers, separated by commas; "sim" alone is
 * "sim:format":
 *
 *     sim:v100    sim:p100,capacity=12GB
 *     sim:flops=14e12,memory=900e9,link=12e9,capacity=16GB,call=5e-6
 *     cuda                an NVIDIA card, the first; cuda:1 the second
 *
 * "cuda" is a library of its own, opened when it is first asked for (libweir_cuda.so, from the
 * folder $WEIR_PLUGINS, else where libweir is, else where the system looks).
 *
 * Of sim, flops, memory and link are operations and bytes a second (link: or link_out and
 * link_in), call and copy the seconds that each call and each copy over the link cost at least. */
WEIR_API weir_device *weir_device_open(const char *name, const weir_device_options *options);

/* How many devices of a kind the machine has: 1 "cpu", 1 "sim", as many "cuda" as it has cards that
 * can be used. -1, with a sentence (weir_error), if that cannot be told, because there is no such
 * library or no driver. */
WEIR_API int weir_device_count(const char *name);

/* Closes the device: everything made on it that nobody retained is freed, retained handles stay
 * valid only for weir_release and for the error "the device is closed". NULL is fine. */
WEIR_API void weir_device_close(weir_device *d);

/* Restarts the random stream (initialisers, dropout) at `seed`, position 0. */
WEIR_API weir_status weir_device_seed(weir_device *d, uint64_t seed);

typedef struct weir_memory {
    size_t   persistent;       /* parameters, state, inputs, kept outputs: bytes now live */
    size_t   live;             /* all live blocks outside the arena, persistent ones included */
    size_t   live_peak;        /* the most `live` has been since weir_device_reset_peak */
    size_t   pool;             /* held from the system for blocks, free ones included */
    size_t   arena;            /* arena shared by all graphs of the device; 0 before a run */
    size_t   total, unused;    /* of the machine; of that, what nobody has */
    uint64_t core_allocations; /* calls of the library's own host allocation, whole process */
    uint64_t evicted;          /* under a budget, graph off: values that lost their memory */
    uint64_t recomputed;       /* and calls that were run again, since the device was opened */
} weir_memory;

/* Bytes and counts at this moment; reset_peak makes live_peak what is live now. */
WEIR_API void weir_device_memory(const weir_device *d, weir_memory *m);
WEIR_API void weir_device_reset_peak(weir_device *d);

/* Waits until everything that was asked of the device so far has been done: what runs on a card is
 * queued only, and a clock is to be read between two of these. A failure on the way is told here,
 * or by whatever is read next. */
WEIR_API weir_status weir_device_sync(weir_device *d);

/* Seconds since it was opened: simulated ones on "sim". */
WEIR_API double weir_device_clock(const weir_device *d);

/* Worker threads of the device. */
WEIR_API int weir_device_threads(const weir_device *d);

/* Version, instruction sets, libraries found and chosen (with OpenBLAS's core type), threads,
 * devices, optional parts; several lines. You own the text: weir_text_free. NULL when memory is
 * short. */
WEIR_API char *weir_info_text(weir_device *d);

/* Recording as a switch of the device (SINGA's SetBufferFlag, GetBufferFlag, ExecBuffOps): on
 * begins an anonymous graph or goes on recording it; off stops recording; exec plans it at first
 * and runs it; reset (ResetGraph) forgets it. Switching on after an exec begins a new graph. */
WEIR_API weir_status weir_device_set_buffering(weir_device *d, bool on);
WEIR_API bool        weir_device_buffering(const weir_device *d);
WEIR_API weir_status weir_device_exec(weir_device *d);
WEIR_API weir_status weir_device_reset_graph(weir_device *d);

/* The budget (see weir_plan_options) of graphs that are planned from now on and name none of their
 * own; NULL: none. At most 31 characters.
 *
 * With the graph off a budget of bytes (not a share) holds from now on as well: live bytes, kernel
 * workspaces included, never exceed it. When memory is to be taken that would, results are dropped
 * and made anew when somebody reads them, with the same bits (Kirisame et al. 2021). What a result
 * is made from stays alive with it, in a copy if it is overwritten meanwhile. ERR_BUDGET where one
 * call with all it needs does not fit: the call has not happened, and nothing is lost. */
WEIR_API weir_status weir_device_set_budget(weir_device *d, const char *budget);

/* Which result goes first with the graph off: "dtr" (or NULL; the default: seconds to make it and
 * its neighbours that are gone, per byte and per second unused), "dtr:eq" (neighbours kept as
 * classes: cheaper), "dtr:local" (without neighbours), "dtr:lru" (used longest ago), "dtr:size"
 * (the largest), "dtr:msps" (seconds to make it per byte). */
WEIR_API weir_status weir_device_set_policy(weir_device *d, const char *policy);

/* Profiling of graph runs (SINGA's SetVerbosity, SetSkipIteration, PrintTimeProfiling). level 0:
 * nothing; 1: forward, backward and update time; 2: each operation as well, with bytes, GB/s,
 * GFLOP/s and share. The first `skip` runs of a graph are not counted (default 5). The text is a
 * table of the graph run last; you own it. */
WEIR_API void  weir_device_set_verbosity(weir_device *d, int level);
WEIR_API void  weir_device_set_skip(weir_device *d, int runs);
WEIR_API char *weir_device_profile_text(weir_device *d);

/* Timed events of every operation, graph on and off, from start to stop. The text is
 * Chrome/Perfetto trace JSON; you own it. */
WEIR_API weir_status weir_device_trace_start(weir_device *d);
WEIR_API char       *weir_device_trace_stop(weir_device *d);

#ifdef __cplusplus
}
#endif
#endif
