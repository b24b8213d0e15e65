/* lineage.h - how values came about, so that they can be dropped and made anew: who was made by
 * which call from whom.
 *
 * An origin stands for the elements of one block. It is either made - by a call that is remembered,
 * its making - or constant: memory of the user's, or what cannot be made again. Who refers to whom:
 *
 *     made, somebody outside holds the block     block -> origin; the origin only knows the block
 *     made, nobody outside does                  the origin owns a block, if the value is there
 *     constant                                   origin -> block: its readers keep it
 *     each                                       making -> origins it reads; origin -> its making
 *
 * So what made a value stays while another value may have to be made from it, and makings that
 * nobody can need are freed. A making without outputs does not exist.
 *
 * The memory of a value that nobody outside holds stays only while it is wanted: while a value that
 * somebody holds is gone and would be made from it, by way of others that are gone. */
#ifndef WEIR_GRAPH_EAGER_LINEAGE_H
#define WEIR_GRAPH_EAGER_LINEAGE_H

#include "core/tensor.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "device/device.h"

struct weir_recompute_record;
struct weir_origin;

/* One input of a making. */
typedef struct weir_use {
    struct weir_origin           *of; /* referenced */
    struct weir_recompute_record *by;
    struct weir_use              *next, **at; /* in the list of all uses of `of` */
    int64_t                       offset;     /* of element 0 in the block, in elements */
} weir_use;

typedef struct weir_origin {
    uint32_t                      refs;   /* its uses; if it is made, its block outside as well */
    weir_block                   *block;  /* NULL: nobody outside holds it, and it is not there */
    bool                          owned;  /* references block */
    struct weir_recompute_record *record; /* NULL: constant */
    int                           out;    /* which output of it */
    uint32_t                      slot;   /* in the lineage's list */
    uint32_t                      locks;  /* > 0: must stay where it is */
    double                        used;   /* when it was used last */
    weir_use                     *uses;
    struct weir_lineage          *lineage;
} weir_origin;

/* A set of makings that touch each other and whose values are gone (union-find). */
typedef struct weir_class {
    uint32_t           refs;        /* makings and classes below */
    struct weir_class *up;          /* referenced; NULL: this stands for all */
    double             seconds;     /* of all makings in it */
    uint64_t           visit;
} weir_class;

/* A remembered call: all that it needs to give the same bits again. */
typedef struct weir_recompute_record {
    weir_op           op;
    const weir_opdef *def;
    int               nin, nout, outs; /* outs: outputs that have an origin */
    uint32_t          depth;           /* 1 + the most of what it reads */
    bool              evicted;         /* a value of it was dropped */
    bool              asked;           /* about to run again */
    uint64_t          seed, rng;
    double            seconds; /* what a run takes, estimated */
    uint64_t          visit;
    weir_class *class; /* referenced; NULL: of none */
    struct weir_recompute_record *next_dying;
    weir_origin                  *out[WEIR_MAX_OUT]; /* not referenced; NULL: nobody can need it */
    weir_layout                  *in_layout, *out_layout;
    void                         *attr;
    size_t                        attr_bytes;
    weir_use                      use[];
} weir_recompute_record;

typedef struct weir_lineage {
    void                  *owner;
    WEIR_VEC(weir_origin *) origins;
    WEIR_VEC(weir_recompute_record *) stack;  /* room for every making: walks never need memory */
    uint32_t                          records;
    uint64_t                          visits;
    bool                              classes; /* to be kept */
    weir_recompute_record            *dying;
    bool                              draining;
} weir_lineage;

static inline bool weir_origin_there(const weir_origin *o)
{
    return o->block && o->block->data;
}

/* Does somebody outside hold the made value? */
static inline bool weir_origin_held(const weir_origin *o)
{
    return o->block && !o->owned;
}

/* May its memory be taken away? */
static inline bool weir_origin_evictable(const weir_origin *o)
{
    return o->record && o->locks == 0 && weir_origin_there(o);
}

/* Remembers that the call c made the blocks of out[] from those of in[]. Values that lie too many
 * calls deep stay constant. Nothing has happened on failure. */
weir_status weir_lineage_note(weir_lineage *l, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out, uint64_t rng, double now);

/* Takes the memory of a made value away. */
void weir_origin_evict(weir_origin *o);

/* Is o wanted (see above), as far as a short walk sees? */
bool weir_origin_wanted(const weir_origin *o);

/* A made value whose block is held outside becomes constant: it is there. */
void weir_origin_cut(weir_origin *o);

/* The last handle of a made value goes, and its memory with it unless it is wanted. */
void weir_origin_orphaned(weir_origin *o);

/* A value of the making was dropped; all of them are there again. */
void weir_recompute_record_evicted(weir_lineage *l, weir_recompute_record *m);
void weir_recompute_record_restored(weir_recompute_record *m);

/* Seconds that the values around o which are gone took, as far as asked. */
double weir_origin_above(const weir_origin *o);
double weir_origin_around(const weir_origin *o);
double weir_origin_class(const weir_origin *o);

/* Pushes the makings that read o and have not been visited in this walk. */
void weir_origin_push_readers(const weir_origin *o);

/* Forgets everything; blocks that are held stay, as constants that nobody knows. */
void weir_lineage_free(weir_lineage *l);

#endif
