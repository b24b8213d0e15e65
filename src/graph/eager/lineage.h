/* lineage.h - which call made each value, and from what, so that it can be evicted and recomputed.
 *
 * An origin stands for the elements of one block. It is either made by a call that is remembered as
 * its recompute record, or constant: memory of the user's, or what cannot be recomputed. A value is
 * held if a handle outside the lineage has its block. References:
 *
 *     made and held             block -> origin; the origin only knows the block
 *     made and not held         the origin owns a block, if the value is on the device
 *     constant                  origin -> block: its readers keep it
 *     each                      record -> origins it reads; origin -> its record
 *
 * So a record stays as long as another value may have to be recomputed from its outputs, and
 * records that no value needs are freed. A record without outputs does not exist.
 *
 * The memory of a made value that is not held stays only while it is wanted: while a held value is
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
    uint32_t                      refs;   /* its uses, and, if it is made, its block when held */
    weir_block                   *block;  /* NULL: neither held nor on the device */
    bool                          owned;  /* references block */
    struct weir_recompute_record *record; /* NULL: constant */
    int                           out;    /* which output of it */
    uint32_t                      slot;   /* in the lineage's list */
    uint32_t                      locks;  /* > 0: must stay where it is */
    double                        used;   /* the time of its last use */
    weir_use                     *uses;
    struct weir_lineage          *lineage;
} weir_origin;

/* A union-find class of connected records with evicted values. */
typedef struct weir_class {
    uint32_t           refs;        /* records and classes below */
    struct weir_class *up;          /* referenced; NULL: this is the root */
    double             seconds;     /* of all records in it */
    uint64_t           visit;
} weir_class;

/* A remembered call: everything needed to recompute the same bits. */
typedef struct weir_recompute_record {
    weir_op           op;
    const weir_opdef *def;
    int               nin, nout, outs; /* outs: outputs that have an origin */
    uint32_t          depth;           /* 1 + the largest depth of what it reads */
    bool              evicted;         /* an output was evicted */
    bool              asked;           /* about to run again */
    uint64_t          seed, rng;
    double            seconds; /* of a run, estimated */
    uint64_t          visit;
    weir_class *class; /* referenced; NULL: none */
    struct weir_recompute_record *next_dying;
    weir_origin                  *out[WEIR_MAX_OUT]; /* not referenced; NULL: not needed */
    weir_layout                  *in_layout, *out_layout;
    void                         *attr;
    size_t                        attr_bytes;
    weir_use                      use[];
} weir_recompute_record;

typedef struct weir_lineage {
    void                  *owner;
    WEIR_VEC(weir_origin *) origins;
    WEIR_VEC(weir_recompute_record *) stack;  /* room for all records: no traversal allocates */
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

/* Does a handle outside hold the made value? */
static inline bool weir_origin_held(const weir_origin *o)
{
    return o->block && !o->owned;
}

/* May the value be evicted? */
static inline bool weir_origin_evictable(const weir_origin *o)
{
    return o->record && o->locks == 0 && weir_origin_there(o);
}

/* Records that the call c made the blocks of out[] from those of in[]. Values at the end of too
 * long a chain of calls stay constant. ERR_NOMEM changes nothing. */
weir_status weir_lineage_note(weir_lineage *l, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out, uint64_t rng, double now);

/* Evicts a made value. */
void weir_origin_evict(weir_origin *o);

/* Is o wanted (see above), as far as a bounded traversal sees? */
bool weir_origin_wanted(const weir_origin *o);

/* Makes a held value that is on the device constant. */
void weir_origin_cut(weir_origin *o);

/* The last handle of a made value is freed, and its memory with it unless it is wanted. */
void weir_origin_orphaned(weir_origin *o);

/* Note that an output of the record was evicted; that all of them are on the device again. */
void weir_recompute_record_evicted(weir_lineage *l, weir_recompute_record *m);
void weir_recompute_record_restored(weir_recompute_record *m);

/* Seconds to recompute the evicted values around o: ancestors, both directions, by classes. */
double weir_origin_above(const weir_origin *o);
double weir_origin_around(const weir_origin *o);
double weir_origin_class(const weir_origin *o);

/* Pushes the records that read o and that this traversal has not visited. */
void weir_origin_push_readers(const weir_origin *o);

/* Frees the lineage; held blocks stay, as constants that it no longer knows. */
void weir_lineage_free(weir_lineage *l);

#endif
