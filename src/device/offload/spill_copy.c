/* spill_copy.c - the blocks of a copy, up to WEIR_SPILL_DEPTH of them in flight: meanwhile the next
 * one is checksummed or compressed. A block's offset in the file is that of the uncompressed block.
 */
#include "device/offload/spill_copy.h"

#include <assert.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/offload/checksum.h"

#ifdef WEIR_LZ4
#include <lz4.h>
#endif

enum { DEPTH = WEIR_SPILL_DEPTH, BLOCK = WEIR_SPILL_BLOCK };

static_assert(BLOCK % WEIR_SPILL_ALIGN == 0, "blocks of a slot have entries of their own");

static weir_spill_block *entry(weir_spill_block *table, const weir_spill_copy *c, size_t begin)
{
    return &table[(c->slot + begin) / WEIR_SPILL_ALIGN];
}

static size_t block_bytes(const weir_spill_copy *c, size_t begin)
{
    return c->n - begin < BLOCK ? c->n - begin : BLOCK;
}

/* Records a failure; the first one counts. */
static void fail(weir_spill_copy *c, weir_spill_fault what, int error, size_t begin)
{
    if (c->fault != WEIR_SPILL_FINE)
        return;
    c->fault = what;
    c->error = error;
    c->where = c->slot + begin;
}

/* ---- LZ4 ---- */

#ifdef WEIR_LZ4

enum { SAMPLE = 64 << 10 };

/* Returns the compressed bytes of n, or 0 if they do not shrink. */
static size_t pack(const weir_spill_copier *q, const char *from, size_t n, char *to)
{
    const int got = LZ4_compress_fast_extState(q->packer, from, to, (int)n, (int)n - 1, 1);
    return got > 0 ? (size_t)got : 0;
}

/* True if a sample from the middle shrinks below three quarters. */
static bool worth_packing(const weir_spill_copier *q, const weir_spill_copy *c)
{
    const size_t n = c->n < SAMPLE ? c->n : SAMPLE;
    const size_t got = n > 0 && q->packed ? pack(q, c->at + (c->n - n) / 2, n, q->packed) : 0;
    return got > 0 && got < n - n / 4;
}

static bool unpack(const char *from, size_t n, char *to, size_t capacity)
{
    return LZ4_decompress_safe(from, to, (int)n, (int)capacity) == (int)capacity;
}

weir_status weir_spill_copier_open(weir_spill_copier *q, bool lz4)
{
    if (!lz4)
        return WEIR_OK;
    q->packed = weir_mem_alloc((size_t)DEPTH * BLOCK);
    q->packer = weir_mem_alloc((size_t)LZ4_sizeofState());
    return q->packed && q->packer ? WEIR_OK : WEIR_ERR_NOMEM;
}

static size_t packer_memory(const weir_spill_copier *q)
{
    return q->packed ? (size_t)LZ4_sizeofState() : 0;
}

const char *weir_spill_lz4(void)
{
    return "found";
}

#else

static size_t pack(const weir_spill_copier *q, const char *from, size_t n, char *to)
{
    (void)q, (void)from, (void)n, (void)to;
    return 0;
}

static bool worth_packing(const weir_spill_copier *q, const weir_spill_copy *c)
{
    (void)q, (void)c;
    return false;
}

static bool unpack(const char *from, size_t n, char *to, size_t capacity)
{
    (void)from, (void)n, (void)to, (void)capacity;
    return false;
}

weir_status weir_spill_copier_open(weir_spill_copier *q, bool lz4)
{
    (void)q;
    return lz4 ? weir_fail(WEIR_ERR_INVALID, "spill store: LZ4 was not found when Weir was built")
               : WEIR_OK;
}

static size_t packer_memory(const weir_spill_copier *q)
{
    (void)q;
    return 0;
}

const char *weir_spill_lz4(void)
{
    return "not found";
}

#endif

void weir_spill_copier_close(weir_spill_copier *q)
{
    weir_spill_io_close(&q->io);
    weir_mem_free(q->packed);
    weir_mem_free(q->packer);
}

size_t weir_spill_copier_memory(const weir_spill_copier *q)
{
    return packer_memory(q) + weir_spill_copier_staging(q) + weir_spill_io_memory(&q->io);
}

size_t weir_spill_copier_staging(const weir_spill_copier *q)
{
    return q->packed ? (size_t)DEPTH * BLOCK : 0;
}

/* ---- blocks ---- */

/* i: number of the chunk among those in flight. */
static void begin_out(weir_spill_copier *q, weir_spill_block *b, const weir_spill_copy *c,
                      size_t begin, unsigned i, bool packs)
{
    char        *from = c->at + begin, *const packed = packs ? q->packed + (size_t)i * BLOCK : NULL;
    const size_t n = block_bytes(c, begin), got = packs ? pack(q, from, n, packed) : 0;

    b->bytes = got > 0 ? got : n;
    from = got > 0 ? packed : from;
    b->sum = weir_checksum(from, b->bytes);
    weir_spill_io_begin(&q->io, i, from, b->bytes, c->slot + begin);
}

static void begin_in(weir_spill_copier *q, const weir_spill_block *b, weir_spill_copy *c,
                     size_t begin, unsigned i)
{
    const size_t n = block_bytes(c, begin);

    if (b->bytes == 0 || b->bytes > n || (b->bytes < n && !q->packed)) {
        fail(c, WEIR_SPILL_EMPTY, b->bytes == 0 ? (int)b->sum : 0, begin);
        weir_spill_io_begin(&q->io, i, NULL, 0, 0);
        return;
    }
    char *const to = b->bytes < n ? q->packed + (size_t)i * BLOCK : c->at + begin;
    weir_spill_io_begin(&q->io, i, to, b->bytes, c->slot + begin);
}

static void end_out(weir_spill_copier *q, weir_spill_copy *c, size_t begin, unsigned i)
{
    const int error = weir_spill_io_end(&q->io, i);
    if (error != 0)
        fail(c, WEIR_SPILL_SYSTEM, error, begin);
}

static void end_in(weir_spill_copier *q, const weir_spill_block *b, weir_spill_copy *c,
                   size_t begin, unsigned i)
{
    const size_t n = block_bytes(c, begin);
    const bool   packed = b->bytes < n;
    const int    error = weir_spill_io_end(&q->io, i);

    if (c->fault != WEIR_SPILL_FINE)
        return;
    const char *const got = packed ? q->packed + (size_t)i * BLOCK : c->at + begin;
    if (error != 0)
        fail(c, WEIR_SPILL_SYSTEM, error, begin);
    else if (weir_checksum(got, b->bytes) != b->sum ||
             (packed && !unpack(got, b->bytes, c->at + begin, n)))
        fail(c, WEIR_SPILL_CHANGED, 0, begin);
}

/* After a failure no further block begins; those in flight are awaited. */
static void move(weir_spill_copier *q, weir_spill_block *table, weir_spill_copy *c, bool packs)
{
    const size_t blocks = c->n / BLOCK + (c->n % BLOCK > 0);
    size_t       begun = 0;

    for (size_t k = 0; k < blocks + DEPTH; k++) {
        const unsigned i = (unsigned)(k % DEPTH);
        const size_t   old = (k - DEPTH) * BLOCK, next = k * BLOCK;
        if (k >= DEPTH && k - DEPTH < begun && q->in)
            end_in(q, entry(table, c, old), c, old, i);
        else if (k >= DEPTH && k - DEPTH < begun)
            end_out(q, c, old, i);
        if (k >= blocks || c->fault != WEIR_SPILL_FINE)
            continue;
        if (q->in)
            begin_in(q, entry(table, c, next), c, next, i);
        else
            begin_out(q, entry(table, c, next), c, next, i, packs);
        begun = k + 1;
    }
}

/* Marks the slot's blocks as unwritten; error: why, or 0. */
static void forget(weir_spill_block *table, const weir_spill_copy *c, int error)
{
    for (size_t begin = 0; begin < c->n; begin += BLOCK)
        *entry(table, c, begin) = (weir_spill_block){.sum = (uint64_t)error};
}

void weir_spill_copy_run(weir_spill_copier *q, weir_spill_block *table, weir_spill_copy *c)
{
    if (!q->in)
        forget(table, c, 0);
    move(q, table, c, !q->in && worth_packing(q, c));
    if (!q->in && c->fault != WEIR_SPILL_FINE)
        forget(table, c, c->error);
}
