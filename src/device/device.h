/* device.h - a device: a table of functions and kernels, a pool of blocks, one arena, a random
 * stream, and the selected kernels that graph off, graph on and every plan share. The functions of
 * its parts are declared in memory/, offload/ and kernel.h. */
#ifndef WEIR_DEVICE_DEVICE_H
#define WEIR_DEVICE_DEVICE_H

#include <pthread.h>

#include "core/op.h"
#include "core/ref.h"
#include "core/text.h"
#include "core/thread.h"
#include "core/trace.h"
#include "core/vec.h"
#include "device/memory/heap.h"
#include "device/offload/spill.h"
#include "device/rates.h"
#include "device/resources.h"
#include "weir/device.h"

/* The arguments of a kernel. The call that the kernel was selected for describes the operands. */
typedef struct weir_kargs {
    const weir_call *call;          /* layouts and attributes */
    void *const     *src;           /* [nin] address of element 0 of each input */
    void *const     *dst;           /* [nout] address of element 0 of each output */
    void            *work;          /* kernel.work bytes of scratch, aligned as the device aligns;
                                     * NULL if 0 */
    void            *state;         /* kernel.state */
    weir_threads    *threads;
    uint64_t         seed, rng;     /* random stream: seed, position of this call in blocks */
    /* NULL, or in device memory: a seed that replaces `seed` and a position that is added to rng,
     * so that captured launches can be replayed with other draws. */
    const uint64_t  *draw;
    struct weir_device *dev;
    struct weir_stream *stream;     /* where to launch; NULL: the device's first */
} weir_kargs;

/* The kernel selected for a call: see kernel.h. */
typedef struct weir_kernel {
    weir_status (*run)(const weir_kargs *k);
    size_t      work;                   /* bytes of scratch a run needs */
    void       *state;                  /* prepared: primitives, loop bounds; NULL if none */
    void      (*destroy)(void *state);  /* NULL: state is not owned */
    const char *impl;                   /* static name for dumps: "c", "onednn", "openblas" */
    /* Rows of output 0 (of axis 0) that a product computes at a time, with the bits of a call of
     * those rows alone; 0: all at once. */
    int64_t     rows;
} weir_kernel;

/* Frees the kernel's state; a zeroed kernel is fine. */
static inline void weir_kernel_drop(const weir_kernel *c)
{
    if (c->destroy)
        c->destroy(c->state);
}

/* Selects a kernel for the call into *out, or fails with ERR_NOKERNEL or ERR_NOMEM and leaves
 * nothing allocated. Output layouts are dense unless the op says otherwise. */
typedef weir_status (*weir_choose_fn)(weir_device *d, const weir_call *c, weir_kernel *out);

typedef struct weir_kernel_cache {
    struct weir_kernel_entry **slot; /* open addressing, power of two */
    uint32_t                   n, cap;
} weir_kernel_cache;

/* A stream of a device: work runs in the order in which it was queued. */
typedef struct weir_stream weir_stream;

/* A copy between device memory and a slot of the offload store. slot: byte offset, a multiple of
 * WEIR_SPILL_ALIGN. The copy begins once earlier work of `stream` and earlier copies of the same
 * bytes of the store are done. */
typedef struct weir_swap {
    bool         in;
    size_t       slot, bytes;
    void        *at;
    uint32_t     ticket;        /* names the copy to swap_wait; WEIR_SWAP_NOW: done on return */
    weir_stream *stream;        /* NULL: the device's first */
} weir_swap;

#define WEIR_SWAP_NOW UINT32_MAX

/* The launches of a run, captured once and queued as one (a CUDA graph). */
typedef struct weir_replay weir_replay;

/* Functions of an asynchronous device: calls return once their work is queued. */
typedef struct weir_device_streams {
    int (*count)(const weir_device *d);
    /* Stream 0 takes work that names no stream; transfers by the host wait for it. */
    weir_stream *(*stream)(const weir_device *d, int i);
    weir_status (*events)(weir_device *d, uint32_t n);      /* creates events 0..n-1 */
    weir_status (*signal)(weir_device *d, weir_stream *s, uint32_t event);
    weir_status (*await)(weir_device *d, weir_stream *s, uint32_t event);
    void        (*drain)(weir_device *d);   /* waits for all streams after a failed run */
    /* Waits for a call that has been queued, and for its copies. Fails with what went wrong on the
     * device until then; the sentence names the call. */
    weir_status (*check)(const weir_kargs *k);
    /* Called at the beginning of a run. *draw gets the pointer for kargs.draw, whose contents
     * become the device's seed and the position `base` once earlier work is done. */
    weir_status (*draws)(weir_device *d, uint64_t base, const uint64_t **draw);
    /* *may: whether runs are recorded at all. Fails with the error of earlier work that was only
     * queued now. */
    weir_status (*may_record)(weir_device *d, bool *may);
    /* Launches between record and recorded are captured, not run. If so_far is a failure, recorded
     * returns it and creates no replay; no failure of the captured launches is left behind. */
    weir_status (*record)(weir_device *d);
    weir_status (*recorded)(weir_device *d, weir_status so_far, weir_replay **r);
    weir_status (*replay)(weir_device *d, weir_replay *r);
    void        (*replay_free)(weir_device *d, weir_replay *r);
    /* Collectives on its streams (collective.h); NULL: it has none. */
    const struct weir_stream_comm_ops *comm;
} weir_device_streams;

enum { WEIR_KERNEL_OTHERS = 3 };

typedef struct weir_device_ops {
    const char *name;
    size_t      align;          /* bytes; of every block and arena offset; a power of two */
    bool        host;           /* its memory is host memory that programs may read and write */
    bool        unreal;         /* it has no memory, and its kernels write nothing */
    weir_status (*count)(int *n);           /* devices of this kind in the machine */
    size_t reserve; /* bytes of its memory that stay free where no budget is named, for what its
                     * libraries load later (memory/reserve.h) */
    bool spill_slots; /* parameters and states may stay in the offload store between steps */
    /* spec: the text after "name:", or NULL */
    weir_status (*open)(weir_device *d, const char *spec);
    void        (*close)(weir_device *d);
    weir_status (*alloc)(weir_device *d, size_t bytes, bool huge, void **p);
    void        (*free)(weir_device *d, void *p, size_t bytes);
    weir_memory_limits (*space)(const weir_device *d);
    weir_status (*fill)(weir_device *d, void *p, int byte, size_t n);      /* zeroing, canaries */
    weir_status (*upload)(weir_device *d, void *dev, const void *host, size_t n);
    weir_status (*download)(weir_device *d, void *host, const void *dev, size_t n);
    weir_status (*sync)(weir_device *d);    /* returns when all queued work is done */
    /* paint writes canaries to n bytes of the arena; painted returns the end of the last one that
     * has changed since, as an offset. */
    weir_status (*paint)(weir_device *d, void *p, size_t n);
    weir_status (*painted)(weir_device *d, const void *p, size_t n, size_t *end);
    double      (*clock)(const weir_device *d);     /* seconds at which all queued work is done */
    weir_rates  (*rates)(const weir_device *d);     /* estimates, before anything is measured */
    /* Opens the communicator of the simulated world of which the device is a rank, with sums in
     * order tree or serial; NULL if memory is short. NULL on devices that compute. */
    struct weir_comm *(*join)(weir_device *d, bool tree);
    void        (*info)(weir_device *d, struct weir_string *s); /* lines for weir_info_text */
    /* Grows the offload store to `bytes` and its table to `tickets` tickets; slots keep their
     * contents. */
    weir_status (*swap_reserve)(weir_device *d, size_t bytes, uint32_t tickets);
    weir_status (*swap)(weir_device *d, const weir_swap *copy);
    weir_status (*swap_wait)(weir_device *d, weir_stream *s, uint32_t ticket);
    /* Ends a step that may have copied: later work waits for any copy that still runs. Returns
     * so_far if that is a failure, else the first failure of a copy that was never awaited. */
    weir_status (*swap_settle)(weir_device *d, weir_status so_far);
    weir_status (*swap_speed)(weir_device *d, double *out, double *in);     /* bytes per second */
    const weir_device_streams *streams; /* NULL: the work of a call is done when it returns */
    const weir_choose_fn      *kernel;  /* [WEIR_OP_COUNT] */
    /* [WEIR_OP_COUNT] or NULL: the inputs (bit i) that the kernel of an operation in f32 reads as
     * f16 or bf16, too. It widens them as it loads, so the result has the same bits. */
    const uint32_t *widens;
    /* [WEIR_OP_COUNT] or NULL: the outputs (bit i) that the kernel of an operation in f32 writes as
     * f16 or bf16, too, rounded once. */
    const uint32_t *rounds;
    /* As widens for the kernel of an operation in a half type, whose weights may be f32: it rounds
     * them to the type of input 0 as it loads. */
    const uint32_t *narrows;
    /* Selects kernel i, from 1 to WEIR_KERNEL_OTHERS, that could take the place of the call's own
     * (kernel_table.h); out->run is NULL if there is no such kernel. NULL: no call has others.
     * Fails with ERR_NOMEM only. */
    weir_status (*other)(weir_device *d, const weir_call *c, int i, weir_kernel *out);
} weir_device_ops;

/* Size classes: multiples of the alignment up to 32 of them, then 32 per power of two (at most 3 %
 * larger than the request). A request takes a free block of its own class, or of one up to 1/16
 * larger, before it asks the system. */
#define WEIR_POOL_CLASSES 1920

/* A free block of device memory; the list node is host memory on every device. */
typedef struct weir_pool_free {
    struct weir_pool_free *next;
    void                  *p;
} weir_pool_free;

typedef struct weir_pool {
    weir_pool_free *head[WEIR_POOL_CLASSES];
    weir_pool_free *spare;           /* one node per live block, so that freeing cannot fail */
    size_t          live, live_peak; /* bytes of live blocks, by class size */
    size_t          persistent;      /* of those: parameters, states, inputs, outputs */
    size_t          held;            /* bytes taken from the system, free blocks included */
    size_t          limit;           /* of live; SIZE_MAX: no limit */
    weir_heap       heap;            /* under a limit: one range from which blocks are cut */
    bool            stale;           /* the heap is for an old limit: freed once it is empty */
    /* Under a limit. reclaim: makes live + bytes fit, or fails. drop_one: evicts one value; false
     * if none can be evicted. */
    weir_status (*reclaim)(weir_device *d, size_t bytes);
    bool        (*drop_one)(weir_device *d);
} weir_pool;

struct weir_block;

/* A range of device memory in which plans place their values: memory/arena.h. */
typedef struct weir_arena {
    char  *at;
    size_t bytes, used;             /* used: bytes of the largest plan so far */
    bool   budgeted;                /* a plan within a named budget has used it */
} weir_arena;

/* An arena that a graph keeps while the device uses another. */
typedef struct weir_held_arena {
    weir_arena              arena;
    size_t                  budget;   /* bytes that the whole device may take meanwhile; 0: any */
    bool                    offloads; /* values of the graph are in the offload store */
    struct weir_held_arena *next;
} weir_held_arena;

/* A slot of the offload store for a value that stays there between steps. */
typedef struct weir_spill_slot {
    size_t at, bytes;
    bool   taken;
} weir_spill_slot;

struct weir_device {
    weir_ref               ref; /* the user's handle, every block and tensor on it */
    const weir_device_ops *ops;
    void                  *impl; /* owned by the back end */
    bool                   closed;
    uintptr_t              visitor; /* the thread inside a call (weir_visit); 0: none */
    double                 opened; /* weir_now() at that time */
    weir_threads          *threads;
    weir_pool              pool;
    size_t                 guard; /* guard.h: bytes of each zone; 0: no zones */
    weir_kernel_cache      kernels;
    struct weir_kernel_table *table;    /* kernel_table.h; NULL: no kernel is timed */
    void (*table_info)(weir_device *d, weir_string *s); /* adds a line about it; NULL: none */
    uint64_t               seed, rng; /* random stream and the next free position, in blocks */
    uint64_t               leaves;    /* leaf tensors numbered so far: leaf in core/tensor.h */
    uint64_t               changes;   /* in-place changes so far: the clock of versions */
    weir_arena              arena;
    weir_held_arena        *held;       /* arenas that graphs keep for themselves; not owned */
    struct {
        char  *at;
        size_t bytes;
    } staging;                          /* staging.h: host memory, kept for the next transfer */
    weir_trace            *trace;       /* NULL unless events are being collected */
    char                  *spill_dir;   /* option spill_dir; NULL: the default folder */
    weir_spill            *spill;       /* the back end's; NULL until a value goes to a file */
    double                 spill_out, spill_in;     /* bytes per second; 0: not measured yet */
    uint32_t               tickets;     /* size of the ticket table; 0: nothing copied yet */
    /* Slots that stay between steps come first in the offload store; each plan's slots follow. */
    WEIR_VEC(weir_spill_slot) spill_slots;
    size_t   spill_slots_end, passing; /* bytes of the former; most bytes of any plan's slots */
    bool     checks;                   /* each call is waited for (streams->check) */
    uint64_t moves;                    /* counts changes of addresses and slots used by plans */
    /* State of src/graph for the device (scopes, tape switch, the graph being recorded). */
    void *session;
    void (*session_free)(void *session);
    void (*forget)(struct weir_block *b);   /* called when a block with an origin is freed */
    struct {
        uint32_t plans;                /* whose recording failed: launched one by one since */
        char    *why;                  /* the last such failure; NULL: none, or no memory for it */
    } unrecorded;
    uint64_t evicted, recomputed;      /* under a budget: blocks evicted, calls run again */
};

/* A library may compute other bits for an operand whose address is not a multiple of this many
 * bytes, so no pass may change whether an address is one. */
enum { WEIR_SEEN_ALIGN = 16 };

/* Fails for a closed or NULL device and in a forked process, with a sentence that begins with
 * `who`. */
weir_status weir_device_check(const weir_device *d, const char *who);

/* A public call that changes a device, from enter to leave. A thread that is inside already enters
 * again; any other gets ERR_STATE and does nothing. */
typedef struct weir_visit {
    weir_device *dev;       /* to leave; NULL: nothing was entered, or by an outer call */
} weir_visit;

/* Fails with ERR_STATE: another thread is inside a call. */
weir_status weir_device_fail_busy(const char *who);

/* Fails as weir_device_check does, too. */
static inline weir_status weir_device_enter(weir_visit *v, weir_device *d, const char *who)
{
    const uintptr_t me = (uintptr_t)pthread_self();
    uintptr_t       none = 0;

    if (!d || weir_threads_lost() || d->closed)
        return weir_device_check(d, who);
    if (__atomic_load_n(&d->visitor, __ATOMIC_RELAXED) == me)
        return WEIR_OK;
    if (!__atomic_compare_exchange_n(&d->visitor, &none, me, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return weir_device_fail_busy(who);
    v->dev = d;
    return WEIR_OK;
}

static inline void weir_device_leave(weir_visit *v)
{
    if (v->dev)
        __atomic_store_n(&v->dev->visitor, 0, __ATOMIC_RELEASE);
    v->dev = NULL;
}

/* Enters the device until the end of the function; returns `failed` if that fails. */
#define WEIR_VISIT(d, who, failed)                                                                 \
    weir_visit visit __attribute__((cleanup(weir_device_leave))) = {NULL};                         \
    if (weir_device_enter(&visit, d, who) != WEIR_OK)                                              \
        return failed

/* The same for the device of a tensor, graph or step that may be NULL, in functions that return a
 * status; `what` names it. */
#define WEIR_VISIT_OF(object, who, what)                                                           \
    if (!(object))                                                                                 \
        return weir_fail_null(who, what);                                                          \
    WEIR_VISIT((object)->dev, who, weir_error_status())

/* Fails with ERR_STATE: the process was forked (weir_threads_lost). */
weir_status weir_device_fail_forked(const char *who);

/* Bytes of all arenas that graphs keep, but for `own` (NULL: of all). */
static inline size_t weir_device_arenas_held(const weir_device *d, const weir_held_arena *own)
{
    size_t bytes = 0;

    for (const weir_held_arena *h = d->held; h; h = h->next)
        bytes += h == own ? 0 : h->arena.used;
    return bytes;
}

/* Reserves `blocks` positions of the random stream and returns the first. */
uint64_t weir_device_draw(weir_device *d, uint64_t blocks);

#endif
