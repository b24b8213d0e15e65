/* spill_io.h - moves several chunks between memory and a file at once: through an io_uring if
 * liburing was found when building and the kernel supports it, else one after another.
 *
 * A weir_spill_io is used by one thread. Short transfers are continued, interrupted ones repeated.
 */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_IO_H
#define WEIR_DEVICE_OFFLOAD_SPILL_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weir/base.h"

#define WEIR_SPILL_DEPTH 8                      /* chunks in flight */
#define WEIR_SPILL_ALIGN ((size_t)64 << 10)     /* bytes; slots begin at multiples of this */

/* The system calls of a store. Tests replace some of them; NULL: the system's. A store with a
 * replaced `write` or `read` does not use io_uring. */
typedef struct weir_spill_system {
    void   *ctx;
    ssize_t (*write)(void *ctx, int fd, const void *p, size_t n, off_t at);     /* as pwrite */
    ssize_t (*read)(void *ctx, int fd, void *p, size_t n, off_t at);            /* as pread */
    double  (*now)(void *ctx);                                                  /* seconds */
    void    (*pause)(void *ctx, double seconds);
    size_t  most;                   /* most bytes of one transfer; 0: no limit */
} weir_spill_system;

typedef struct weir_spill_chunk {
    char    *at;                    /* the rest to be moved */
    size_t   left;
    uint64_t offset;
    int      error;
    bool     busy;                  /* submitted to the ring */
} weir_spill_chunk;

/* An io_uring; fd < 0: not in use. */
typedef struct weir_spill_ring {
    int              fd;
    struct io_uring *uring;     /* owned */
} weir_spill_ring;

typedef struct weir_spill_io {
    int                      fd;
    bool                     out; /* memory to file */
    const weir_spill_system *system;
    weir_spill_ring          ring;
    weir_spill_chunk         chunk[WEIR_SPILL_DEPTH];
} weir_spill_io;

/* ring: try to set up an io_uring; io->ring.fd >= 0 afterwards if that succeeded. ERR_NOMEM if
 * memory runs out; a kernel without io_uring is no failure. */
weir_status weir_spill_io_open(weir_spill_io *io, int fd, bool out,
                               const weir_spill_system *system, bool ring);
void weir_spill_io_close(weir_spill_io *io);

/* Bytes of memory of its ring. */
size_t weir_spill_io_memory(const weir_spill_io *io);

/* Starts chunk i, which must not be in flight. */
void weir_spill_io_begin(weir_spill_io *io, unsigned i, void *p, size_t n, uint64_t offset);

/* Waits until chunk i has been moved. Returns 0 or an errno (ENODATA: the file ends before it). */
int weir_spill_io_end(weir_spill_io *io, unsigned i);

#endif
