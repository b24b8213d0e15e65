/* fake_nccl.cpp - an emulated NCCL, stricter than the real one: what would hang a card or add what
 * does not belong together is refused, with a reason (fake_nccl.h).
 *
 * Ranks are threads of one process, each with a card. A group of calls is a unit: a work item of
 * the stream that arrives, and a wait until the other ranks' units have what it needs. Nothing
 * moves before the streams run, as late as they like. Ranks whose units wait for one another in a
 * circle are found as soon as the last one arrives. */
#include "device/cuda/runtime/nccl_api.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fake_nccl.h"
#include "promise.h"
#include "work.h"

namespace {

enum kind { SEND, RECV, REDUCE };

struct call {
    kind           what;
    const void    *from;
    void          *to;
    size_t         count;
    ncclDataType_t type;
    int            peer;
    bool           done;
};

/* The calls of a group, on the stream as one work item. */
struct unit {
    ncclComm          *comm;
    std::vector<call>  calls;
    cudaStream_t       stream;
    uint64_t           promise;
};

struct world {
    int                  ranks, joined;
    bool                 broken;
    std::vector<int>     card;          /* of each rank; -1: it has not joined */
    std::vector<unit *>  now;           /* the unit of each rank that has arrived, or NULL */
};

struct guard {
    pthread_mutex_t *const lock;
    guard(pthread_mutex_t *l) : lock(l) { pthread_mutex_lock(lock); }
    ~guard() { pthread_mutex_unlock(lock); }
};

pthread_mutex_t               lock = PTHREAD_MUTEX_INITIALIZER;     /* of all that follows */
pthread_cond_t                joined = PTHREAD_COND_INITIALIZER;
std::map<uint64_t, world *>   worlds;
std::set<const ncclComm *>    live;
uint64_t                      ids;
char                          refusal[256];

/* The group of the calling thread. */
thread_local int                 depth;
thread_local ncclResult_t        group_failed;
thread_local std::vector<unit *> group;

}

struct ncclComm {
    world       *w;
    int          rank;
    bool         gone;          /* aborted or destroyed */
    bool         has_stream;
    cudaStream_t stream;        /* of all its units */
    int          unfinished;    /* units */
};

namespace {

__attribute__((format(printf, 2, 3)))
ncclResult_t refuse(ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(refusal, sizeof refusal, format, args);
    va_end(args);
    return result;
}

size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclUint8:   return 1;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
    }
    return 0;
}

/* ---- what arrived units do to each other; the card's lock is held, too ---- */

void finish(unit *u)
{
    world *const w = u->comm->w;

    if (w->now[u->comm->rank] == u)
        w->now[u->comm->rank] = NULL;
    u->comm->unfinished--;
    emulate_promises_in_plugin()->keep_in_work(u->promise);
    delete u;
}

/* What a world cannot do breaks it: streams go on, and every later call fails. */
void break_world(world *w)
{
    w->broken = true;
    for (int r = 0; r < w->ranks; r++)
        if (w->now[r])
            finish(w->now[r]);
}

/* Adds from the last rank to the first: another order than Weir's. */
template <class T, class A> void add(const world *w, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        A sum = 0;
        for (int r = w->ranks; r-- > 0;)
            sum = (A)(sum + (A)((const T *)w->now[r]->calls[0].from)[i]);
        for (int r = 0; r < w->ranks; r++)
            ((T *)w->now[r]->calls[0].to)[i] = (T)sum;
    }
}

/* All ranks are at an all_reduce. */
bool reduce(world *w)
{
    const call &first = w->now[0]->calls[0];

    for (int r = 1; r < w->ranks; r++) {
        const call &its = w->now[r]->calls[0];
        if (its.count != first.count || its.type != first.type) {
            refuse(ncclInvalidUsage, "ncclAllReduce of %zu elements of type %d on rank 0 and of "
                   "%zu of type %d on rank %d", first.count, (int)first.type, its.count,
                   (int)its.type, r);
            return false;
        }
    }
    switch (first.type) {
    case ncclUint8:   add<uint8_t, uint8_t>(w, first.count); break;
    case ncclInt32:   add<uint32_t, uint32_t>(w, first.count); break;
    case ncclInt64:   add<uint64_t, uint64_t>(w, first.count); break;
    case ncclFloat32: add<float, float>(w, first.count); break;
    case ncclFloat64: add<double, double>(w, first.count); break;
    }
    for (int r = 0; r < w->ranks; r++)
        w->now[r]->calls[0].done = true;
    return true;
}

call *receiver_of(const world *w, int from, const call &c)
{
    if (w->now[c.peer])
        for (call &its : w->now[c.peer]->calls)
            if (its.what == RECV && its.peer == from && !its.done)
                return &its;
    return NULL;
}

/* Moves what both sides have; false if they do not fit together. */
bool move(world *w, int from)
{
    for (call &c : w->now[from]->calls) {
        call *const to = c.what == SEND && !c.done ? receiver_of(w, from, c) : NULL;
        if (!to)
            continue;
        if (to->count != c.count || to->type != c.type) {
            refuse(ncclInvalidUsage, "rank %d sends %zu elements of type %d where rank %d receives "
                   "%zu of type %d", from, c.count, (int)c.type, c.peer, to->count, (int)to->type);
            return false;
        }
        memcpy(to->to, c.from, c.count * bytes_of(c.type));
        c.done = to->done = true;
    }
    return true;
}

bool is_reduce(const unit *u)
{
    return u && u->calls[0].what == REDUCE;
}

bool is_done(const unit *u)
{
    return std::all_of(u->calls.begin(), u->calls.end(), [](const call &c) { return c.done; });
}

/* Could the unit of rank r end if ranks that `may` hold a new unit sooner or later? */
bool may_end(const world *w, int r, const std::vector<bool> &may)
{
    for (const call &c : w->now[r]->calls) {
        if (c.done)
            continue;
        for (int other = 0; other < w->ranks; other++) {
            const bool needed = c.what == REDUCE ? other != r && !is_reduce(w->now[other])
                                                 : other == c.peer;
            if (needed && !may[other])
                return false;
        }
    }
    return true;
}

/* True if some units wait for each other in a circle. */
bool is_stuck(const world *w)
{
    std::vector<bool> may(w->ranks);
    bool              more = true;

    while (more) {
        more = false;
        for (int r = 0; r < w->ranks; r++)
            if (!may[r] && (!w->now[r] || may_end(w, r, may)))
                more = may[r] = true;
    }
    return std::find(may.begin(), may.end(), false) != may.end();
}

/* Performs what the arrived units allow; false if that breaks the world. */
bool perform(world *w)
{
    if (std::all_of(w->now.begin(), w->now.end(), is_reduce) && !reduce(w))
        return false;
    for (int r = 0; r < w->ranks; r++)
        if (w->now[r] && !is_reduce(w->now[r]) && !move(w, r))
            return false;
    for (int r = 0; r < w->ranks; r++)
        if (w->now[r] && is_done(w->now[r]))
            finish(w->now[r]);
    if (!is_stuck(w))
        return true;
    refuse(ncclInvalidUsage, "the calls of some ranks wait for each other: another order, or sends "
           "and receives that are not in one group");
    return false;
}

/* The work item of a unit. */
void arrive(const void *argument)
{
    unit *const   u = *(unit *const *)argument;
    world *const  w = u->comm->w;
    const guard   held(&lock);

    if (w->broken || u->comm->gone)
        return finish(u);
    w->now[u->comm->rank] = u;
    if (!perform(w))
        break_world(w);
}

/* ---- queueing ---- */

/* Queues a unit; it is gone if that fails. */
ncclResult_t queue(unit *u)
{
    const emulate_promises *const p = emulate_promises_in_plugin();

    u->promise = p->make();
    const uint64_t promise = u->promise;
    const cudaStream_t stream = u->stream;
    pthread_mutex_lock(&lock);
    u->comm->unfinished++;
    pthread_mutex_unlock(&lock);
    if (emulate_work_in_plugin(stream, arrive, &u, sizeof u) == cudaSuccess)
        return p->wait(stream, promise) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
    pthread_mutex_lock(&lock);
    u->comm->unfinished--;
    pthread_mutex_unlock(&lock);
    p->keep(promise);
    delete u;
    return ncclUnhandledCudaError;
}

ncclResult_t check_comm(const ncclComm *c, cudaStream_t stream)
{
    if (!live.count(c) || c->gone)
        return refuse(ncclInvalidArgument, "the communicator was aborted or destroyed");
    if (c->w->broken)
        return refuse(ncclRemoteError, "the ranks of the communicator have called what does not "
                      "belong together");
    if (c->has_stream && c->stream != stream)
        return refuse(ncclInvalidUsage, "one communicator on two streams");
    return ncclSuccess;
}

ncclResult_t check(const ncclComm *c, const call &a, cudaStream_t stream)
{
    const guard        held(&lock);
    const ncclResult_t r = check_comm(c, stream);

    if (r != ncclSuccess)
        return r;
    if (bytes_of(a.type) == 0)
        return refuse(ncclInvalidArgument, "no type %d", (int)a.type);
    if (a.what != REDUCE && (a.peer < 0 || a.peer >= c->w->ranks || a.peer == c->rank))
        return refuse(ncclInvalidArgument, "rank %d has no peer %d", c->rank, a.peer);
    for (const unit *u : group)
        if (u->comm == c && (a.what == REDUCE || is_reduce(u)))
            return refuse(ncclInvalidUsage, "an ncclAllReduce with other calls in one group");
    return ncclSuccess;
}

ncclResult_t check_memory(const call &a)
{
    const emulate_promises *const p = emulate_promises_in_plugin();
    const size_t                  n = a.count * bytes_of(a.type);

    if (!p)
        return refuse(ncclInvalidUsage, "no emulated card is open");
    if ((a.what == RECV || p->on_card(a.from, n)) && (a.what == SEND || p->on_card(a.to, n)))
        return ncclSuccess;
    const guard held(&lock);
    return refuse(ncclInvalidArgument, "%zu bytes that are not in one allocation of a card", n);
}

unit *unit_of(ncclComm *c, cudaStream_t stream)
{
    for (unit *u : group)
        if (u->comm == c)
            return u;
    group.push_back(new unit{c, {}, stream, 0});
    pthread_mutex_lock(&lock);
    c->stream = stream;
    c->has_stream = true;
    pthread_mutex_unlock(&lock);
    return group.back();
}

/* Queues the units of the group, or drops them after a failure. */
ncclResult_t end_group(void)
{
    ncclResult_t              r = group_failed;
    const std::vector<unit *> units = group;

    group.clear();
    group_failed = ncclSuccess;
    for (unit *u : units)
        if (r == ncclSuccess)
            r = queue(u);
        else
            delete u;
    return r;
}

ncclResult_t add_call(ncclComm *c, const call &a, cudaStream_t stream)
{
    ncclResult_t r = check(c, a, stream);

    if (r == ncclSuccess)
        r = check_memory(a);
    if (r == ncclSuccess)
        unit_of(c, stream)->calls.push_back(a);
    else
        group_failed = r;
    return depth > 0 ? r : end_group();
}

/* Ends the communicator and returns the promise that it leaves, or 0. */
uint64_t end_comm(ncclComm *c)
{
    unit *const u = c->w->now[c->rank];

    c->gone = true;
    live.erase(c);
    if (!u)
        return 0;
    const uint64_t promise = u->promise;
    c->w->now[c->rank] = NULL;
    c->unfinished--;
    delete u;
    return promise;
}

}

extern "C" {

const char *emulate_nccl_refusal(void)
{
    static char said[sizeof refusal];
    const guard held(&lock);

    strcpy(said, refusal);
    refusal[0] = '\0';
    return said;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSuccess            ? "no error"
           : r == ncclInvalidArgument ? "invalid argument"
           : r == ncclInvalidUsage    ? "invalid usage"
                                      : "emulated error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    EMULATE_CALL(ncclResult_t);
    const guard held(&lock);

    ids++;
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &ids, sizeof ids);
    worlds[ids] = NULL;
    return ncclSuccess;
}

/* Returns when all ranks are there. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    EMULATE_CALL(ncclResult_t);
    const int   card = emulate_current_in_plugin();
    const guard held(&lock);
    uint64_t    number;

    memcpy(&number, id.internal, sizeof number);
    if (!worlds.count(number))
        return refuse(ncclInvalidArgument, "an id that was never made");
    if (!worlds[number])
        worlds[number] = new world{ranks, 0, false, std::vector<int>(ranks, -1),
                                   std::vector<unit *>(ranks)};
    world *const w = worlds[number];
    if (ranks != w->ranks || rank < 0 || rank >= ranks || w->card[rank] >= 0)
        return refuse(ncclInvalidArgument, "rank %d of %d has joined, or there are others", rank,
                      ranks);
    if (std::count(w->card.begin(), w->card.end(), card) > 0) {
        refuse(ncclInvalidUsage, "two ranks on card %d", card);
        w->broken = true;
    }
    w->card[rank] = card;
    w->joined++;
    pthread_cond_broadcast(&joined);
    while (w->joined < w->ranks)
        pthread_cond_wait(&joined, &lock);
    if (w->broken)
        return ncclInvalidUsage;
    *comm = new ncclComm{w, rank, false, false, NULL, 0};
    live.insert(*comm);
    emulate_hold_in_plugin(1);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    EMULATE_CALL(ncclResult_t);
    pthread_mutex_lock(&lock);
    ncclResult_t r = ncclSuccess;
    if (!live.count(c))
        r = refuse(ncclInvalidArgument, "the communicator was aborted or destroyed");
    else if (c->unfinished > 0)
        r = refuse(ncclInvalidUsage, "rank %d has %d units that are not finished", c->rank,
                   c->unfinished);
    else
        (void)end_comm(c);
    pthread_mutex_unlock(&lock);
    if (r == ncclSuccess)
        emulate_hold_in_plugin(-1);
    return r;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    EMULATE_CALL(ncclResult_t);
    pthread_mutex_lock(&lock);
    const bool     was = live.count(c) > 0;
    const uint64_t promise = was ? end_comm(c) : 0;
    pthread_mutex_unlock(&lock);
    if (!was)
        return ncclInvalidArgument;
    emulate_hold_in_plugin(-1);
    if (promise)
        emulate_promises_in_plugin()->keep(promise);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    EMULATE_CALL(ncclResult_t);
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    EMULATE_CALL(ncclResult_t);
    if (depth == 0) {
        const guard held(&lock);
        return refuse(ncclInvalidUsage, "ncclGroupEnd without a group");
    }
    return --depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    EMULATE_CALL(ncclResult_t);
    return add_call(c, {SEND, from, NULL, count, type, peer, false}, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    EMULATE_CALL(ncclResult_t);
    return add_call(c, {RECV, NULL, to, count, type, peer, false}, stream);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    EMULATE_CALL(ncclResult_t);
    (void)op;
    return add_call(c, {REDUCE, from, to, count, type, -1, false}, stream);
}

}
