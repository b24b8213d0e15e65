/* lineage.h - which call computed each value, and from what, so that values can be evicted and
 * recomputed.
 *
 * An origin stands for the elements of one block. It is computed (a recompute record remembers the
 * call) or constant: memory of the user, or a value that cannot be recomputed. A value is held if a
 * handle outside the lineage has its block. References:
 *
 *     computed, held            block -> origin; the origin's pointer to the block is weak
 *     computed, not held        origin -> block, while the value is on the device
 *     constant                  origin -> block, while a record reads it
 *     all                       record -> origins that it reads; origin -> its record
 *
 * So a record lives as long as another value may have to be recomputed from its outputs. A record
 * has at least one output.
 *
 * A computed value that is not held keeps its memory only while it is wanted: while a held value is
 * evicted and would be recomputed from it, directly or through other evicted values. */
#ifndef WEIR_GRAPH_EAGER_LINEAGE_H
#define WEIR_GRAPH_EAGER_LINEAGE_H

#include "core/tensor.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "device/device.h"

struct weir_recompute_record;
struct weir_origin;

/* One input of a record. */
typedef struct weir_use {
    struct weir_origin           *of; /* referenced */
    struct weir_recompute_record *by;
    struct weir_use              *next, **at; /* in the list of all uses of `of` */
    int64_t                       offset;     /* of element 0 in the block, in elements */
} weir_use;

typedef struct weir_origin {
    uint32_t                      refs;   /* uses; if computed and held, the block counts as one */
    weir_block                   *block;  /* NULL: neither held nor on the device */
    bool                          owned;  /* references block */
    struct weir_recompute_record *record; /* NULL: constant */
    int                           out;    /* number of the record's output */
    uint32_t                      slot;   /* index in lineage.origins */
    uint32_t                      locks;  /* > 0: must not be evicted */
    double                        used;   /* time of its last use, on the clock of evict.now */
    weir_use                     *uses;
    struct weir_lineage          *lineage;
} weir_origin;

/* A union-find class of connected records with evicted outputs. */
typedef struct weir_class {
    uint32_t           refs;        /* records and classes that point to it */
    struct weir_class *up;          /* referenced; NULL: this is the root */
    double             seconds;     /* of all records in it */
    uint64_t           visit;
} weir_class;

/* A remembered call: everything needed to recompute its outputs bit for bit. */
typedef struct weir_recompute_record {
    weir_op           op;
    const weir_opdef *def;
    int               nin, nout, outs; /* outs: outputs that have an origin */
    uint32_t          depth;           /* 1 + the largest depth of what it reads */
    bool              evicted;         /* an output was evicted */
    bool              asked;           /* will run again: a frame waits for it */
    uint64_t          seed, rng;
    double            seconds; /* of a run, estimated */
    uint64_t          visit;
    weir_class *class; /* referenced; NULL: none */
    struct weir_recompute_record *next_dying;
    weir_origin                  *out[WEIR_MAX_OUT]; /* weak; NULL: no longer needed */
    weir_layout                  *in_layout, *out_layout;
    void                         *attr;
    size_t                        attr_bytes;
    weir_use                      use[];
} weir_recompute_record;

typedef struct weir_lineage {
    void                  *owner;
    WEIR_VEC(weir_origin *) origins;
    WEIR_VEC(weir_recompute_record *) stack;  /* of traversals, with capacity for all records */
    uint32_t                          records;
    uint64_t                          visits;
    bool                              classes; /* classes are maintained */
    weir_recompute_record            *dying;
    bool                              draining;
} weir_lineage;

static inline bool weir_origin_there(const weir_origin *o)
{
    return o->block && o->block->data;
}

/* Does a handle outside the lineage hold the computed value? */
static inline bool weir_origin_held(const weir_origin *o)
{
    return o->block && !o->owned;
}

/* May the value be evicted? */
static inline bool weir_origin_evictable(const weir_origin *o)
{
    return o->record && o->locks == 0 && weir_origin_there(o);
}

/* Remembers that call c, run at time `now`, computed the blocks of out[] from those of in[]. Values
 * at the end of a chain of calls that is too long become constant. Fails with ERR_NOMEM, and
 * changes nothing then. */
weir_status weir_lineage_note(weir_lineage *l, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out, uint64_t rng, double now);

/* Evicts a computed value: frees its memory. */
void weir_origin_evict(weir_origin *o);

/* Is o wanted (see above)? Visits a bounded number of records; false if none of them wants it. */
bool weir_origin_wanted(const weir_origin *o);

/* Makes a held value that is on the device constant. */
void weir_origin_cut(weir_origin *o);

/* Call when the last handle of a computed value is freed; frees its memory unless it is wanted. */
void weir_origin_orphaned(weir_origin *o);

/* Call when an output of the record was evicted, and when all are on the device again. */
void weir_recompute_record_evicted(weir_lineage *l, weir_recompute_record *m);
void weir_recompute_record_restored(weir_recompute_record *m);

/* Seconds to recompute the evicted values connected with o: ancestors; ancestors and descendants;
 * the sum over o's neighbouring classes, an estimate of the second. */
double weir_origin_above(const weir_origin *o);
double weir_origin_around(const weir_origin *o);
double weir_origin_class(const weir_origin *o);

/* Pushes the records that read o and that the current traversal has not visited. */
void weir_origin_push_readers(const weir_origin *o);

/* Frees the lineage. Held blocks stay and are unlinked from it. */
void weir_lineage_free(weir_lineage *l);

#endif
