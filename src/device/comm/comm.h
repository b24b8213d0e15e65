/* comm.h - the table of functions of a transport between ranks, and one rank's end of it.
 *
 * All functions are called by the wire thread (wire.h) only. They never wait: exchange posts
 * messages and test moves them on. Messages between two ranks arrive in the order in which they
 * were posted. */
#ifndef WEIR_DEVICE_COMM_COMM_H
#define WEIR_DEVICE_COMM_COMM_H

#include "device/collective.h"

/* A message to or from a peer. */
typedef struct weir_move {
    void  *at;
    size_t bytes;       /* above 0; the receiver's and the sender's are the same */
    int    peer;
    bool   done;        /* set by test: sent, or received */
} weir_move;

/* Control words, which overtake messages and may be lost. */
enum { WEIR_NOTE_WORDS = 11 };

typedef struct weir_comm_link {
    const struct weir_comm_ops *ops;
    int                         rank, world;    /* open may set them */
    double                      deadline;       /* of open, by weir_now() */
    uint64_t                    moved;          /* raised by test whenever it has moved something */
    void                       *impl;
} weir_comm_link;

typedef struct weir_comm_ops {
    const char *name;
    /* Returns when all ranks are there, or fails with ERR_COMM at the deadline. spec: the text
     * after "name:", or "". */
    weir_status (*open)(weir_comm_link *l, const char *spec);
    /* orderly: all other ranks have said that they leave. */
    void        (*close)(weir_comm_link *l, bool orderly);
    /* Posts messages, once the previous ones are done; the lists stay valid until then. */
    weir_status (*exchange)(weir_comm_link *l, weir_move *send, int ns, weir_move *recv, int nr);
    /* *done: all of them have been sent and received. Otherwise *peer is a rank that is waited for.
     * Fails with ERR_COMM if a message has another size than expected. */
    weir_status (*test)(weir_comm_link *l, bool *done, int *peer);
    /* Begins the transport's own all_reduce of the job, which test then moves on; *has is false
     * where it has none for the type. NULL: it has none. */
    weir_status (*reduce)(weir_comm_link *l, const weir_collective *job, bool *has);
    void        (*note)(weir_comm_link *l, int to, const uint64_t word[WEIR_NOTE_WORDS]);
    bool        (*noted)(weir_comm_link *l, int *from, uint64_t word[WEIR_NOTE_WORDS]);
    /* Called before collective number n (from 1): faults that the spec asks for; NULL: none. False:
     * this rank is to stop permanently. */
    bool        (*begin)(weir_comm_link *l, uint64_t n);
    size_t      (*overhead)(const weir_comm_link *l);   /* bytes of memory that the link holds */
    size_t      bytes;  /* of this table: a plugin's must be the same */
    bool        waits;  /* it may be closed in order only when all ranks leave */
} weir_comm_ops;

#endif
