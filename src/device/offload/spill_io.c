/* spill_io.c - pieces through an io_uring by its bare system calls, or by pwrite and pread.
 *
 * A ring of our own needs no library: two mapped arrays, whose heads and tails are published with
 * release and acquire (Axboe, "Efficient IO with io_uring", 2019). Whatever it refuses - no such
 * system call, none allowed, no memory for a submission - is done by pwrite and pread instead. */
#include "device/offload/spill_io.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "core/env.h"

#ifdef WEIR_IO_URING
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

static size_t at_once(const weir_spill_io *io, const weir_spill_chunk *p)
{
    const size_t most = io->system->most;
    return most > 0 && most < p->left ? most : p->left;
}

/* What a transfer returned: bytes, or -errno. False when it is to be asked for again. */
static bool account(const weir_spill_io *io, weir_spill_chunk *p, int64_t got)
{
    if (got > 0) {
        p->at += got;
        p->left -= (size_t)got;
        p->offset += (uint64_t)got;
    } else if (got == 0) {
        p->error = io->out ? EIO : ENODATA;
    } else if (got != -EINTR && got != -EAGAIN) {
        p->error = (int)-got;
    }
    return p->left == 0 || p->error != 0;
}

static int64_t transfer(const weir_spill_io *io, const weir_spill_chunk *p)
{
    const weir_spill_system *s = io->system;
    const size_t             n = at_once(io, p);
    const off_t              at = (off_t)p->offset;
    const ssize_t            got = io->out
                                       ? s->write ? s->write(s->ctx, io->fd, p->at, n, at)
                                                  : weir_env_get()->pwrite(io->fd, p->at, n, at)
                                       : s->read ? s->read(s->ctx, io->fd, p->at, n, at)
                                                 : weir_env_get()->pread(io->fd, p->at, n, at);
    return got < 0 ? -(int64_t)errno : got;
}

#ifdef WEIR_IO_URING

static int enter(const weir_spill_ring *r, unsigned submit, unsigned wait)
{
    return (int)syscall(__NR_io_uring_enter, r->fd, submit, wait,
                        wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static void ring_close(weir_spill_ring *r)
{
    if (r->entries)
        weir_env_get()->munmap(r->entries, r->entries_bytes);
    if (r->shared)
        weir_env_get()->munmap(r->shared, r->shared_bytes);
    if (r->fd >= 0)
        weir_env_get()->close(r->fd);
    *r = (weir_spill_ring){.fd = -1};
}

static void *map(const weir_spill_ring *r, size_t bytes, off_t what)
{
    void *const at = weir_env_get()->mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_POPULATE, r->fd,
                          what);
    return at == MAP_FAILED ? NULL : at;
}

/* Kernels from 5.6: one mapping for both queues, and reads and writes without an iovec. */
static bool ring_open(weir_spill_ring *r)
{
    const unsigned         needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_RW_CUR_POS;
    struct io_uring_params p = {0};

    *r = (weir_spill_ring){.fd = (int)syscall(__NR_io_uring_setup, WEIR_SPILL_DEPTH, &p)};
    if (r->fd < 0)
        return false;
    const size_t sq = p.sq_off.array + p.sq_entries * sizeof(unsigned),
                 cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    r->shared_bytes = sq > cq ? sq : cq;
    r->entries_bytes = p.sq_entries * sizeof(struct io_uring_sqe);
    if ((p.features & needed) == needed) {
        r->shared = map(r, r->shared_bytes, IORING_OFF_SQ_RING);
        r->entries = map(r, r->entries_bytes, (off_t)IORING_OFF_SQES);
    }
    if (!r->shared || !r->entries) {
        ring_close(r);
        return false;
    }
    char *const base = r->shared;
    r->sq_tail = (unsigned *)(void *)(base + p.sq_off.tail);
    r->sq_mask = (unsigned *)(void *)(base + p.sq_off.ring_mask);
    r->sq_array = (unsigned *)(void *)(base + p.sq_off.array);
    r->cq_head = (unsigned *)(void *)(base + p.cq_off.head);
    r->cq_tail = (unsigned *)(void *)(base + p.cq_off.tail);
    r->cq_mask = (unsigned *)(void *)(base + p.cq_off.ring_mask);
    r->cqes = base + p.cq_off.cqes;
    return true;
}

/* Hands piece i to the kernel; where that fails it stays with us. */
static void submit(weir_spill_io *io, unsigned i)
{
    weir_spill_ring  *r = &io->ring;
    weir_spill_chunk *p = &io->chunk[i];
    const unsigned    tail = *r->sq_tail, at = tail & *r->sq_mask;

    ((struct io_uring_sqe *)r->entries)[at] = (struct io_uring_sqe){
        .opcode = io->out ? IORING_OP_WRITE : IORING_OP_READ,
        .fd = io->fd,
        .off = p->offset,
        .addr = (uintptr_t)p->at,
        .len = (unsigned)at_once(io, p),
        .user_data = i};
    r->sq_array[at] = at;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
    int got;
    do
        got = enter(r, 1, 0);
    while (got < 0 && errno == EINTR);
    p->busy = got == 1;
    if (!p->busy)
        __atomic_store_n(r->sq_tail, tail, __ATOMIC_RELEASE);
}

/* Takes one completion, waiting for it. */
static void reap(weir_spill_io *io)
{
    weir_spill_ring *r = &io->ring;
    const unsigned   head = *r->cq_head;

    while (head == __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE))
        if (enter(r, 0, 1) < 0 && errno != EINTR)
            sched_yield();
    const struct io_uring_cqe *c = (const struct io_uring_cqe *)r->cqes + (head & *r->cq_mask);
    const unsigned             i = (unsigned)c->user_data;
    const int64_t              got = c->res;
    __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
    io->chunk[i].busy = false;
    if (!account(io, &io->chunk[i], got))
        submit(io, i);
}

#else

static void ring_close(weir_spill_ring *r)
{
    (void)r;
}

static bool ring_open(weir_spill_ring *r)
{
    *r = (weir_spill_ring){.fd = -1};
    return false;
}

static void submit(weir_spill_io *io, unsigned i)
{
    (void)io;
    (void)i;
}

static void reap(weir_spill_io *io)
{
    (void)io;
}

#endif

void weir_spill_io_open(weir_spill_io *io, int fd, bool out, const weir_spill_system *system,
                        bool ring)
{
    *io = (weir_spill_io){.fd = fd, .out = out, .system = system, .ring = {.fd = -1}};
    if (ring && !system->write && !system->read && weir_env_get() == &weir_env_system)
        (void)ring_open(&io->ring);
}

void weir_spill_io_close(weir_spill_io *io)
{
    ring_close(&io->ring);
}

void weir_spill_io_begin(weir_spill_io *io, unsigned i, void *p, size_t n, uint64_t offset)
{
    io->chunk[i] = (weir_spill_chunk){.at = p, .left = n, .offset = offset};
    if (n > 0 && io->ring.fd >= 0)
        submit(io, i);
}

int weir_spill_io_end(weir_spill_io *io, unsigned i)
{
    weir_spill_chunk *p = &io->chunk[i];

    while (p->busy)
        reap(io);
    while (p->left > 0 && p->error == 0)
        (void)account(io, p, transfer(io, p));
    return p->error;
}
