/* comm.h - communicators: several processes that train one model, and the collectives between them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A communicator joins `world` ranks, numbered from 0, each with a device of its own. A collective
 * is an operation like any other: recorded in a graph, run at once with the graph off, with a
 * gradient. All ranks must call the same collectives in the same order, with the same shapes.
 *
 * Sums. Elements are added in the order of ranks, whatever the transport and however a tensor is
 * cut into messages, so the bits of a sum depend on nothing but its operands: `serial` is
 * ((0 + x0) + x1) + ..., `tree` adds neighbours in pairs, so that W ranks which sum A operands
 * each, A a power of two, get what one gets that sums W A. With `engine` MPI or NCCL sums f32, f64,
 * i32, i64 and u8 itself (all_reduce), in an order that depends on ranks, sizes and its version; a
 * rank gets what that gives it. f16 and bf16 are summed in f32 and rounded once; integers wrap
 * around. With the other two every rank gets the same bits.
 *
 * Agreement. When the recording of a graph ends that has collectives of a communicator, its ranks
 * compare what they have recorded, call by call, before anything runs: operations, attributes,
 * shapes, types, order; and what bits depend on besides: threads, instruction set, versions of
 * libraries. If a rank differs, or fails in weir_graph_end, each gets an error that names the
 * first call or option in which they differ, and the ranks. Budgets and plans may differ, since
 * they change no bit, unless a plan rounds values. In every run each collective carries the number
 * of the graph and of the run: ranks that run another graph, or are at another run, learn it there.
 *
 * Failure. A collective that is not complete `timeout_s` seconds after a rank has begun it fails on
 * every living rank with ERR_COMM and a sentence that names the rank that is missing and the
 * collective, and where the missing rank is if it answers. So does one that other ranks call with
 * another shape, type or kind, or in another graph or run. The communicator
 * is broken then: later collectives fail at once. Nothing exits by itself.
 *
 * In a world of one rank collectives return their input, and graphs are as if they were not there.
 *
 * Ownership. You own a communicator, and close it after every graph that recorded a collective of
 * it, before its device. Results are borrowed from the innermost scope.
 *
 * Errors. NULL arguments: the status of the earlier mistake, else ERR_INVALID. A closed device is
 * ERR_DEVICE. ERR_NOMEM, and ERR_BUDGET with the graph off under a budget.
 *
 * Threads: a communicator belongs to the thread of its device. */
#ifndef WEIR_COMM_PUBLIC_H
#define WEIR_COMM_PUBLIC_H

#include "weir/base.h"
#include "weir/device.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_comm weir_comm;     /* one rank's end of a communicator */

/* How a communicator is opened; 0 and NULL mean the defaults. */
typedef struct weir_comm_options {
    double      timeout_s;  /* seconds that a collective may take; 0: 60 */
    const char *order;      /* of sums: "serial" (NULL, the default), "tree" or "engine" */
    /* What ranks must have in common: "graphs" (NULL, the default), or "collectives": the kinds,
     * types, sizes and order of collectives alone, for ranks that compute different things and for
     * machines of different types. Graphs with weir_send_to or weir_recv_from are always compared
     * so, and not at all without a collective of all ranks. */
    const char *agree;
} weir_comm_options;

/* Joins the communicator that spec describes, and returns once all ranks have; ERR_COMM if some are
 * missing after the timeout or 60 seconds, whichever is longer. options NULL: all defaults.
 *
 * "auto"                       the ranks that `weir launch`, torchrun (on one machine), or mpirun
 *                              or mpiexec of Open MPI or MPICH has started; without such a
 *                              launcher, or with one process, a world of one. $WEIR_COMM, if set,
 *                              is one of the specs below. On a simulated device: its world
 *                              (device.h), whatever the launcher; no other spec is possible there
 * "mpi:openmpi", "mpi:mpich"   MPI's ranks, whatever started them
 * "local:NAME,rank=R,world=W"  ranks on one machine, threads or processes, over shared memory. NAME
 *                              (letters, digits, - and _) is the same for all ranks and taken by
 *                              nobody else. For tests it injects faults: delay=K:MS waits MS
 *                              milliseconds before collective K (from 1), drop=K loses what this
 *                              rank sends in collective K, die=K stops this rank permanently before
 *                              collective K; wait=MS is the time that opening waits for others.
 * "nccl:SPEC"                  the ranks of one of the specs above, each with an NVIDIA card of its
 *                              own (d): NCCL, libnccl.so.2, moves what collectives of the card
 *                              read, and SPEC what ranks tell each other. ERR_COMM on all ranks if
 *                              one lacks the library, ERR_DEVICE if d is no card. On a card no
 *                              other spec has collectives (ERR_NOKERNEL)
 *
 * MPI comes by a plugin (libweir_mpi_openmpi.so, libweir_mpi_mpich.so): ERR_COMM without it. It is
 * started and finished here, on a thread of its own, unless the program has started it with
 * MPI_THREAD_SERIALIZED or more; so it cannot be opened again after it was closed.
 *
 * ERR_INVALID for another spec, order or `agree`; ERR_IO if the shared memory can't be made;
 * ERR_COMM for ranks of torchrun on several machines; ERR_DEVICE for ranks of simulated devices. */
WEIR_API weir_comm *weir_comm_open(const char *spec, weir_device *d,
                                   const weir_comm_options *options);

/* Leaves the communicator: other ranks learn it, and collectives of c, those of graphs too, fail
 * with ERR_COMM from now on. NULL and a second time are fine. */
WEIR_API void weir_comm_leave(weir_comm *c);

/* Leaves the communicator and frees it. NULL is fine. */
WEIR_API void weir_comm_close(weir_comm *c);

/* This rank, from 0, and the number of ranks; 0 and 1 of NULL. */
WEIR_API int weir_comm_rank(const weir_comm *c);
WEIR_API int weir_comm_world(const weir_comm *c);

/* The order of sums, "serial", "tree" or "engine"; NULL of NULL. */
WEIR_API const char *weir_comm_order(const weir_comm *c);

/* One line about the communicator that you free by weir_text_free: transport, rank, ranks, order,
 * and the memory in bytes that the transport holds beside the device's, outside any budget. */
WEIR_API char *weir_comm_text(const weir_comm *c);

/* What a communicator has done on this rank since it was opened, with what ranks exchange to agree
 * and to save; on a simulated device without that, by its clock. Collectives go one after another,
 * so waited_ms / wire_ms is the share of their time that no computing has hidden. */
typedef struct weir_comm_stats {
    uint64_t collectives;       /* that are done */
    uint64_t bytes;             /* of their elements, whatever was sent of them and how often */
    double   wire_ms;           /* in which one was under way, with the wait for late ranks */
    double   waited_ms;         /* in which the program waited for one */
} weir_comm_stats;

/* After weir_comm_leave the numbers of that moment; zeros in a world of one. */
WEIR_API weir_status weir_comm_stats_of(const weir_comm *c, weir_comm_stats *stats);

/* Times all_reduces of eight sizes and fits seconds = *constant_s + bytes * *per_byte_s: the
 * smallest gives the constant, the two largest the time per byte; neither is negative. All ranks
 * must call it, and get the same numbers: those of the slowest. In a world of one both are 0. Takes
 * some 0.1 s, on a link of 100 Mbit/s 2 s. Graphs that end later predict their collectives by them:
 * weir_graph_stats.exposed_predicted_ms. ERR_COMM; ERR_NOKERNEL for the ranks of spec "nccl:...",
 * whose cards are not timed. */
WEIR_API weir_status weir_comm_measure(weir_comm *c, double *constant_s, double *per_byte_s);

/* ---- host data, at once, even while a graph is being recorded ---- */

/* Copies the elements of a parameter, state or input of any shape and dtype, the same on all ranks,
 * from rank `root` to all others. ERR_INVALID
 * for a root that is no rank; ERR_STATE for the result of an operation or a tensor that was never
 * written; ERR_COMM. */
WEIR_API weir_status weir_comm_share(weir_comm *c, weir_tensor *t, int root);

/* Compares `bytes` bytes at data between all ranks: *equal is the same on all of them. ERR_COMM. */
WEIR_API weir_status weir_comm_equal(weir_comm *c, const void *data, size_t bytes, bool *equal);

/* Writes the `bytes` bytes at `mine` of every rank to all, rank by rank: world x bytes bytes. The
 * number of bytes is the same on all ranks. ERR_COMM. */
WEIR_API weir_status weir_comm_gather(weir_comm *c, const void *mine, size_t bytes, void *all);

/* ---- recorded collectives; of numbers: all types but bool (ERR_DTYPE) where they are summed ----
 *
 * They return NULL after a mistake, and fail with ERR_COMM when they run. Tensors of other devices
 * than the communicator's are ERR_DEVICE. A plan drops and repeats no call, and merges none but
 * those of weir_all_reduce_coalesced. */

/* The sum of all ranks' x, on all of them: same shape and dtype. */
WEIR_API weir_tensor *weir_all_reduce(weir_comm *c, weir_tensor *x);

/* The same for n tensors of any shapes, as if one by one, bit for bit in order serial and tree, but
 * neighbours of one dtype may share a message: sum[i] has the shape of x[i]; sum may be x. most:
 * the bytes that those of a message take together, at most; 0: the plan chooses, for the earliest
 * end of the last sum if weir_comm_measure has timed the ranks, else 1 MiB, as with the graph off.
 * (PyTorch: all_reduce_coalesced.) ERR_INVALID for NULL or a negative n; ERR_DEVICE, ERR_DTYPE. */
WEIR_API weir_status weir_all_reduce_coalesced(weir_comm *c, int n, weir_tensor *const *x,
                                               size_t most, weir_tensor **sum);

/* The sum of all ranks' x (n, ...), of which rank r gets the r-th part (n / world, ...) along axis
 * 0. ERR_SHAPE unless world divides n. */
WEIR_API weir_tensor *weir_reduce_scatter(weir_comm *c, weir_tensor *x);

/* All ranks' x (n, ...), one after another along axis 0: (world n, ...). Any dtype. ERR_SHAPE for a
 * scalar. */
WEIR_API weir_tensor *weir_all_gather(weir_comm *c, weir_tensor *x);

/* Rank root's x on all ranks; x has the same shape and dtype everywhere, any dtype. The gradient is
 * summed at the root, and 0 elsewhere. ERR_INVALID for a root that is no rank. */
WEIR_API weir_tensor *weir_broadcast_from(weir_comm *c, weir_tensor *x, int root);

/* Sends x, of any dtype, to rank `to`, which must receive it. Returns a token, a scalar f32 0: the
 * gradient of x arrives from the receiver when the gradient of the token is taken, so add the token
 * to the loss. ERR_INVALID for this rank itself or no rank. */
WEIR_API weir_tensor *weir_send_to(weir_comm *c, weir_tensor *x, int to);

/* The tensor of this desc that rank `from` sends. The gradient of the result is sent back if one
 * flows to `through`, a scalar f32 whose own gradient is 0: a parameter of one element, say. NULL:
 * nothing is sent back. ERR_INVALID for this rank itself or no rank; ERR_SHAPE unless `through` is
 * a scalar. */
WEIR_API weir_tensor *weir_recv_from(weir_comm *c, weir_desc desc, int from, weir_tensor *through);

#ifdef __cplusplus
}
#endif
#endif
