/* spill.h - the offload store: a file to and from which values are copied while kernels run.
 *
 * Starting a copy returns a ticket, by which it is awaited. There are two queues, out and in, each
 * served in order by its own thread; a copy waits for earlier copies of the other queue that touch
 * the same bytes of the file. A slot is the place of a value in the file: a byte offset, a multiple
 * of WEIR_SPILL_ALIGN; slots in use at the same time do not overlap. Several threads may start and
 * await copies at once, while one grows the file; the rest is for one thread. The memory of a copy
 * must not be touched until its ticket has been awaited.
 *
 * The file is invisible (unlinked, mode 0600), its disk blocks are allocated before anything is
 * written, and values are verified when read, by checksums kept in memory. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_H
#define WEIR_DEVICE_OFFLOAD_SPILL_H

#include "core/text.h"
#include "device/offload/spill_io.h"
#include "weir/base.h"

typedef enum weir_spill_mover {
    WEIR_SPILL_ANY,         /* io_uring if liburing was found when building and the kernel supports
                             * it, else threads */
    WEIR_SPILL_THREADS      /* pwrite and pread */
} weir_spill_mover;

typedef struct weir_spill_options {
    const char              *dir;       /* NULL or "": $WEIR_SPILL_DIR, else $TMPDIR, else /tmp */
    size_t                   bytes;     /* initial size of the file */
    double                   out_limit; /* bytes per second; 0: no limit */
    double                   in_limit;
    bool                     lz4;       /* compress values that shrink below 3/4; needs LZ4 */
    weir_spill_mover         mover;
    const weir_spill_system *system;    /* NULL: the system's; for tests */
} weir_spill_options;

typedef struct weir_spill weir_spill;

/* Creates a store with its file. Fails with ERR_IO and a sentence that names the folder, the bytes
 * wanted and the bytes free if the disk is full. The caller owns *s. */
weir_status weir_spill_new(const weir_spill_options *o, weir_spill **s);

/* Waits for all copies and closes the file, which deletes it. NULL is fine. */
void weir_spill_free(weir_spill *s);

/* Grows the file to `bytes`; slots keep their contents. Waits for running copies. A failure leaves
 * the store unchanged. */
weir_status weir_spill_reserve(weir_spill *s, size_t bytes);

/* Start a copy of n bytes at p to or from the slot. They fail with ERR_INVALID if the slot or size
 * is invalid, and wait while the queue is full. */
weir_status weir_spill_out(weir_spill *s, size_t slot, const void *p, size_t n, uint64_t *ticket);
weir_status weir_spill_in(weir_spill *s, size_t slot, void *p, size_t n, uint64_t *ticket);

/* Waits until the copy is done and returns its status; ticket 0 stands for no copy. */
weir_status weir_spill_wait(weir_spill *s, uint64_t ticket);

/* Waits for all copies. Returns `so_far` if that is a failure, else the first failure of a copy
 * that was never awaited; forgets all such failures. */
weir_status weir_spill_settle(weir_spill *s, weir_status so_far);

/* A table for the tickets of a plan, numbered from 0: grows it to n entries, after waiting as
 * settle does; its size; entry i. */
weir_status weir_spill_tickets(weir_spill *s, uint32_t n);
uint32_t    weir_spill_places(const weir_spill *s);
uint64_t   *weir_spill_ticket(weir_spill *s, uint32_t i);

/* Bytes of memory that the store holds: without staging less than 128 KiB + 1/4096 of the file + 8
 * per ticket. Of those, the staging buffers, which hold values during compression; 0 without
 * LZ4. */
size_t weir_spill_memory(const weir_spill *s);
size_t weir_spill_staging(const weir_spill *s);

/* Bytes of the file; its descriptor; "io_uring" or "threads"; copies finished so far. */
size_t      weir_spill_bytes(const weir_spill *s);
int         weir_spill_file(const weir_spill *s);
const char *weir_spill_backend(const weir_spill *s);
uint64_t    weir_spill_finished(weir_spill *s, bool in);

/* Measures bytes per second in both directions with a temporary store, by writing and reading a few
 * MB. The system's page cache takes part, as it does in a run. */
weir_status weir_spill_measure(const weir_spill_options *o, double *out, double *in);

/* Adds the line of weir_info_text. */
void weir_spill_info(weir_string *text, const char *dir);

#endif
