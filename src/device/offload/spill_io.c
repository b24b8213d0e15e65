/* spill_io.c - transfers through an io_uring, or by pwrite and pread.
 *
 * The ring (Axboe, "Efficient IO with io_uring", 2019) is set up with liburing, if found. Whatever
 * fails there - the system call is missing or forbidden, a submission finds no memory - is done by
 * pwrite and pread instead. */
#include "device/offload/spill_io.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "core/env.h"
#include "core/mem.h"

#ifdef WEIR_URING
#include <liburing.h>
#endif

static size_t at_once(const weir_spill_io *io, const weir_spill_chunk *p)
{
    const size_t most = io->system->most;
    return most > 0 && most < p->left ? most : p->left;
}

/* Accounts for the result of a transfer: bytes or -errno. False if it has to be repeated. */
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

#ifdef WEIR_URING

static void ring_close(weir_spill_ring *r)
{
    if (r->fd >= 0)
        io_uring_queue_exit(r->uring);
    weir_mem_free(r->uring);
    *r = (weir_spill_ring){.fd = -1};
}

/* IORING_OP_READ and IORING_OP_WRITE, which need no iovec, exist from Linux 5.6 on. */
static weir_status ring_open(weir_spill_ring *r)
{
    struct io_uring_params p = {0};

    r->uring = weir_mem_zalloc(1, sizeof *r->uring);
    if (!r->uring)
        return WEIR_ERR_NOMEM;
    if (io_uring_queue_init_params(WEIR_SPILL_DEPTH, r->uring, &p) == 0)
        r->fd = r->uring->ring_fd;
    if (!(p.features & IORING_FEAT_RW_CUR_POS))
        ring_close(r);
    return WEIR_OK;
}

/* The two queues share one mapping; the submission entries have another. */
static size_t ring_memory(const weir_spill_ring *r)
{
    return r->fd >= 0 ? r->uring->sq.ring_sz + WEIR_SPILL_DEPTH * sizeof(struct io_uring_sqe) : 0;
}

/* Submits chunk i. If that fails, the chunk is transferred synchronously later, and its submission
 * entry, which stays in the ring, becomes a no-op. */
static void submit(weir_spill_io *io, unsigned i)
{
    weir_spill_chunk          *p = &io->chunk[i];
    const unsigned             n = (unsigned)at_once(io, p);
    struct io_uring_sqe *const e = io_uring_get_sqe(io->ring.uring);
    int                        got;

    if (!e)
        return;
    if (io->out)
        io_uring_prep_write(e, io->fd, p->at, n, p->offset);
    else
        io_uring_prep_read(e, io->fd, p->at, n, p->offset);
    e->user_data = i;
    do
        got = io_uring_submit(io->ring.uring);
    while (got == -EINTR);
    p->busy = got > 0;
    if (!p->busy) {
        io_uring_prep_nop(e);
        e->user_data = WEIR_SPILL_DEPTH;
    }
}

/* Waits for one completion and consumes it. */
static void reap(weir_spill_io *io)
{
    struct io_uring_cqe *c;

    while (io_uring_wait_cqe(io->ring.uring, &c) < 0)
        sched_yield();
    const unsigned i = (unsigned)c->user_data;
    const int64_t  got = c->res;
    io_uring_cqe_seen(io->ring.uring, c);
    if (i >= WEIR_SPILL_DEPTH)
        return;
    io->chunk[i].busy = false;
    if (!account(io, &io->chunk[i], got))
        submit(io, i);
}

#else

static void ring_close(weir_spill_ring *r)
{
    (void)r;
}

static weir_status ring_open(weir_spill_ring *r)
{
    (void)r;
    return WEIR_OK;
}

static size_t ring_memory(const weir_spill_ring *r)
{
    (void)r;
    return 0;
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

weir_status weir_spill_io_open(weir_spill_io *io, int fd, bool out,
                               const weir_spill_system *system, bool ring)
{
    *io = (weir_spill_io){.fd = fd, .out = out, .system = system, .ring = {.fd = -1}};
    if (ring && !system->write && !system->read && weir_env_get() == &weir_env_system)
        return ring_open(&io->ring);
    return WEIR_OK;
}

void weir_spill_io_close(weir_spill_io *io)
{
    ring_close(&io->ring);
}

size_t weir_spill_io_memory(const weir_spill_io *io)
{
    return ring_memory(&io->ring);
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
