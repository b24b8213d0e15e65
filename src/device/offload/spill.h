/* spill.h - a file that values are copied to and from while kernels run.
 *
 * Copies are started, and awaited by the tickets they give. There are two queues, out and in, each
 * with a thread of its own and each in order; a copy waits for earlier ones of the other queue that
 * touch the same bytes of the file. A slot is where a value lies in the file: an offset, a multiple
 * of WEIR_SPILL_ALIGN; slots in use at once do not overlap. One thread uses a store, and the memory
 * of a copy is left alone until its ticket has been awaited.
 *
 * The file is invisible (unlinked, mode 0600), its room is taken before anything is written, and
 * what is read is checked against checksums kept in memory. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_H
#define WEIR_DEVICE_OFFLOAD_SPILL_H

#include "core/text.h"
#include "device/offload/spill_io.h"
#include "weir/base.h"

typedef enum weir_spill_mover {
    WEIR_SPILL_ANY,         /* io_uring where the kernel has it, else threads */
    WEIR_SPILL_THREADS      /* pwrite and pread */
} weir_spill_mover;

typedef struct weir_spill_options {
    const char              *dir;       /* NULL or "": $WEIR_SPILL_DIR, else $TMPDIR, else /tmp */
    size_t                   bytes;     /* room to begin with */
    double                   out_limit; /* bytes per second; 0: as fast as it goes */
    double                   in_limit;
    bool                     lz4;       /* compress what shrinks below 3/4; needs LZ4 */
    weir_spill_mover         mover;
    const weir_spill_system *system;    /* NULL: the system's; for tests */
} weir_spill_options;

typedef struct weir_spill weir_spill;

/* A store with its file. ERR_IO with folder, bytes wanted and bytes free where there is no room. */
weir_status weir_spill_new(const weir_spill_options *o, weir_spill **s);

/* Waits for all copies and lets the file go. NULL is fine. */
void weir_spill_free(weir_spill *s);

/* Room for `bytes` in all from now on; what slots hold stays. Waits for copies under way. A failure
 * leaves the store as it was. */
weir_status weir_spill_reserve(weir_spill *s, size_t bytes);

/* Start a copy of n bytes at p to or from the slot. They fail, and start nothing, where slot or
 * size make no sense; a full queue is waited for. */
weir_status weir_spill_out(weir_spill *s, size_t slot, const void *p, size_t n, uint64_t *ticket);
weir_status weir_spill_in(weir_spill *s, size_t slot, void *p, size_t n, uint64_t *ticket);

/* Waits until the copy is done and tells how it went; ticket 0 was never one and is done. */
weir_status weir_spill_wait(weir_spill *s, uint64_t ticket);

/* Waits until nothing is under way. Gives `so_far` if that is a failure, else the first failure
 * that nobody has waited for; all such are forgotten. */
weir_status weir_spill_settle(weir_spill *s, weir_status so_far);

/* Places for the tickets of a plan, numbered from 0: at least n of them; waits as settle does. */
weir_status weir_spill_tickets(weir_spill *s, uint32_t n);
uint32_t    weir_spill_places(const weir_spill *s);
uint64_t   *weir_spill_ticket(weir_spill *s, uint32_t i);

/* Bytes of memory that the store holds now: below 128 KiB, 1/4096 of the file and 8 for a ticket,
 * but for the staging: buffers that values pass through on their way, 0 without LZ4. */
size_t weir_spill_memory(const weir_spill *s);
size_t weir_spill_staging(const weir_spill *s);

/* Of the file; its descriptor; how copies are made; copies finished so far. */
size_t      weir_spill_bytes(const weir_spill *s);
int         weir_spill_file(const weir_spill *s);
const char *weir_spill_backend(const weir_spill *s);
uint64_t    weir_spill_finished(weir_spill *s, bool in);

/* Bytes per second out and in, of a store of its own with these options: a few MB are written and
 * read. The system's file cache takes part, as it does in a run. */
weir_status weir_spill_measure(const weir_spill_options *o, double *out, double *in);

/* Adds the line of weir_info_text. */
void weir_spill_info(weir_string *text, const char *dir);

#endif
