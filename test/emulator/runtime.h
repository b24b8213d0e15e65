/* runtime.h - what the files of the emulated CUDA runtime share.
 *
 * A stream is a queue of work items. Nothing runs until the program waits; then items run one at a
 * time, in an order that a seeded generator draws among those that the events allow. Handles are
 * numbers that are never reused, so the use of a freed one is detected. One lock guards all state;
 * it is released while a host function runs. */
#ifndef WEIR_TEST_EMULATOR_RUNTIME_H
#define WEIR_TEST_EMULATOR_RUNTIME_H

#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

/* ---- work items ---- */

/* Stands for all work of a stream up to number `seq`; satisfied if the stream is gone. Stream 0:
 * the signal `seq`, given by a node of a graph. */
struct emulate_mark {
    uint64_t stream, seq;
};

enum emulate_kind { KERNEL, COPY, FILL, HOST, RECORD, WAIT, WAIT_EVENT, REPLAY };

struct emulate_copy {
    char       *to;
    const char *from;
    size_t      to_pitch, from_pitch, width, height;    /* bytes; rows */
    bool        to_card, from_card;
};

struct emulate_work {
    emulate_kind kind;
    uint32_t     users;         /* references: a queue, nodes of graphs */
    union {
        struct {
            uint3 grid, block;
            void (*thread)(const void *arguments);
        } kernel;
        emulate_copy copy;      /* FILL: without `from` */
        struct {
            cudaHostFn_t call;
            void        *context;
        } host;
        uint64_t            event;      /* RECORD, WAIT_EVENT */
        emulate_mark        until;      /* WAIT */
        struct emulate_run *run;        /* REPLAY */
    };
    int byte;                           /* FILL */
    alignas(16) char more[];            /* a kernel's arguments; host bytes staged for a copy */
};

/* Creates an item with one reference and `bytes` of more. */
emulate_work *emulate_work_new(emulate_kind kind, size_t bytes);
void          emulate_work_drop(emulate_work *w);

/* ---- captured graphs ---- */

struct emulate_node {
    emulate_work    *work;
    std::vector<int> before, after;
    emulate_node(emulate_work *w) : work(w) {}
};

struct emulate_body {
    std::vector<emulate_node> nodes;
    ~emulate_body();
};

struct emulate_graph {
    std::shared_ptr<emulate_body> body;
};

struct emulate_exec {
    std::shared_ptr<emulate_body> body;
    emulate_mark                  last;     /* its launches run one after another */
};

/* One launch of a graph. */
struct emulate_run {
    std::shared_ptr<emulate_body> body;
    std::vector<int>              missing, ready;   /* predecessors of each node yet to run */
    std::vector<uint64_t>         signals;          /* of each node; 0: none */
    size_t                        left;
    ~emulate_run();
};

struct emulate_capture {
    uint64_t              id;
    cudaStreamCaptureMode mode;
    pthread_t             thread;
    uint64_t              origin;           /* stream */
    emulate_graph        *graph;
    bool                  invalid;
};

/* ---- streams and events ---- */

struct emulate_stream {
    uint64_t                   id;
    unsigned                   flags;
    int                        priority, card;
    std::deque<emulate_work *> queue;
    uint64_t                   pushed, done;
    bool                       busy;        /* one of its host functions is running */
    bool                       dying;       /* destroyed with work left */
    emulate_capture           *capture;     /* the capture that it takes part in, or NULL */
    std::vector<int>           frontier;    /* the nodes that its next node follows */
};

struct emulate_event {
    unsigned         flags;
    int              card;
    bool             recorded, captured, ended;     /* ended: its last record has run */
    emulate_mark     at;
    double           time;
    uint64_t         capture;               /* if captured: the capture; its nodes */
    std::vector<int> frontier;
};

extern std::unordered_map<uint64_t, emulate_stream *> emulate_streams;
extern std::unordered_map<uint64_t, emulate_event *>  emulate_events;
extern std::unordered_map<uint64_t, emulate_graph *>  emulate_graphs;
extern std::unordered_map<uint64_t, emulate_exec *>   emulate_execs;
extern std::set<emulate_capture *>                    emulate_captures;

enum { EMULATE_LEGACY = 1, EMULATE_PER_THREAD = 2 };    /* built-in streams */

uint64_t emulate_id(void);                  /* a new handle, a multiple of 16 */
uint64_t emulate_draw(uint64_t below);      /* a random number below `below` */

/* NULL if the handle is not a stream, or no longer one. */
emulate_stream *emulate_stream_of(cudaStream_t s);

template <class T> static inline T *emulate_find(const std::unordered_map<uint64_t, T *> &in,
                                                 const void *handle)
{
    const auto at = in.find((uint64_t)(uintptr_t)handle);
    return at == in.end() ? NULL : at->second;
}

/* Appends the item to the stream's queue or, during a capture, to the graph. Takes the
 * reference. */
emulate_mark emulate_push(emulate_stream *s, emulate_work *w);

bool        emulate_reached(emulate_mark m);
uint64_t    emulate_signal_new(void);
void        emulate_signal_give(uint64_t signal);
cudaError_t emulate_wait(emulate_mark m);   /* runs items of all streams until it is satisfied */
cudaError_t emulate_wait_all(void);
void        emulate_some(void);             /* runs a few items, perhaps none */
size_t      emulate_unfinished(void);       /* number of queued items */
void        emulate_forget(void);           /* drops all queued items, as a lost context does */

/* ---- capture ---- */

void             emulate_capture_add(emulate_stream *s, emulate_work *w);
emulate_capture *emulate_capture_of(uint64_t id);
/* Called by functions that captures forbid (by mode and thread): returns the error and invalidates
 * the captures. */
cudaError_t emulate_unsafe(void);
cudaError_t emulate_unsafe_on(emulate_stream *s);       /* also by captures of this stream */
cudaError_t emulate_implicit(emulate_stream *s);        /* work on a stream that others wait for */

/* ---- memory ---- */

bool emulate_on_card(const void *p, size_t bytes);      /* inside one allocation */
bool emulate_touches_card(const void *p);
bool emulate_pinned(const void *p, size_t bytes);
size_t emulate_pinned_ranges(void);
void        emulate_access(bool open);     /* guarded memory is accessible to running items */

/* ---- failures ---- */

struct emulate_point {
    const char    *name;
    long           calls;
    emulate_point *next;
};

/* Scope of an API function: takes the lock, counts the call, and knows if it must fail at once. */
struct emulate_entry {
    cudaError_t error;
    emulate_entry(emulate_point *p, bool always = false);
    ~emulate_entry();
    cudaError_t say(cudaError_t e) const;   /* remembers an error for cudaGetLastError */
};

#define EMULATE_ENTER                                                                              \
    static emulate_point point = {__func__, 0, NULL};                                              \
    const emulate_entry  entry(&point);                                                            \
    if (entry.error != cudaSuccess)                                                                \
        return entry.say(entry.error)

/* Loses the context: every later call fails with `e`. */
void        emulate_lose(cudaError_t e);
cudaError_t emulate_lost(void);
size_t      emulate_held(void);             /* objects of libraries */
/* The injected error of a kernel (point "kernel"), or success. */
cudaError_t emulate_kernel_failure(void);
void        emulate_unlock(void);
void        emulate_lock(void);

enum { EMULATE_MOST_CARDS = 16 };
int    emulate_cards(void);                 /* $WEIR_EMULATED_CARDS, default 1 */
int    emulate_card(void);                  /* the thread's current card */
int emulate_processors(void);               /* $WEIR_EMULATED_PROCESSORS, default 4 */
size_t emulate_bytes(void);                 /* $WEIR_EMULATED_BYTES, default 2 GiB */

#endif
