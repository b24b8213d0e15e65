/* spill_copy.h - one copy between memory and its slot in a spill file, block by block. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_COPY_H
#define WEIR_DEVICE_OFFLOAD_SPILL_COPY_H

#include "device/offload/spill_io.h"
#include "weir/base.h"

#define WEIR_SPILL_BLOCK ((size_t)256 << 10)    /* bytes of an uncompressed block */

/* The table's entry of a block. bytes 0: nothing was written, or writing failed; sum is then 0 or
 * the errno of that failure, which later reads report as the reason. */
typedef struct weir_spill_block {
    uint64_t sum;
    uint64_t bytes;                 /* in the file; fewer than the block has: compressed */
} weir_spill_block;

typedef enum weir_spill_fault {
    WEIR_SPILL_FINE, WEIR_SPILL_SYSTEM, WEIR_SPILL_EMPTY, WEIR_SPILL_CHANGED
} weir_spill_fault;

typedef struct weir_spill_copy {
    char            *at;
    size_t           n, slot;
    weir_spill_fault fault;         /* result of the copy */
    int              error;         /* errno, if fault is WEIR_SPILL_SYSTEM; if it is EMPTY, that
                                     * of the write that failed before, or 0 */
    size_t           where;         /* file offset of the block that failed */
} weir_spill_copy;

/* Resources for copies in one direction. */
typedef struct weir_spill_copier {
    bool          in;
    weir_spill_io io;
    char         *packed;           /* [WEIR_SPILL_DEPTH * WEIR_SPILL_BLOCK]; NULL without LZ4 */
    void         *packer;           /* LZ4's tables */
} weir_spill_copier;

/* lz4: compress blocks that shrink; ERR_INVALID if Weir was built without LZ4. A zeroed copier may
 * be closed. */
weir_status weir_spill_copier_open(weir_spill_copier *q, bool lz4);
void        weir_spill_copier_close(weir_spill_copier *q);

/* Bytes of memory that the copier holds, its io included; and how many of them are staging
 * buffers. */
size_t weir_spill_copier_memory(const weir_spill_copier *q);
size_t weir_spill_copier_staging(const weir_spill_copier *q);

/* "found" or "not found". */
const char *weir_spill_lz4(void);

/* Performs the copy and fills c->fault, error, where. table: indexed by offset /
 * WEIR_SPILL_ALIGN. */
void weir_spill_copy_run(weir_spill_copier *q, weir_spill_block *table, weir_spill_copy *c);

#endif
