/* blame.h - where a rank is, and which rank is to blame, as words that ranks exchange. */
#ifndef WEIR_DEVICE_COMM_BLAME_H
#define WEIR_DEVICE_COMM_BLAME_H

#include "device/comm/comm.h"

/* Where a rank is: the header of a collective, and what a rank answers that is asked. All words are
 * equal on the ranks of one collective. */
typedef struct weir_rank_place {
    uint64_t number;            /* of the collective, or of the last one; 1 of sends and receives */
    uint64_t what;              /* weir_rank_what; 0: between collectives */
    uint64_t count;             /* elements */
    uint64_t graph, run;        /* 0: none, or a send or receive */
} weir_rank_place;

enum { WEIR_RANK_WORDS = sizeof(weir_rank_place) / sizeof(uint64_t) };

_Static_assert(WEIR_NOTE_WORDS == 1 + 2 * WEIR_RANK_WORDS, "a note holds a word and two places");

typedef enum weir_blame_reason {
    WEIR_SILENT = 1,            /* the culprit does not answer */
    WEIR_BEHIND,                /* it answers, and is at an earlier collective */
    WEIR_LOST,                  /* its messages have not arrived */
    WEIR_LEFT,                  /* it has closed its communicator */
    WEIR_DIFFERS                /* it calls another collective */
} weir_blame_reason;

/* Why a communicator is broken. */
typedef struct weir_blame {
    weir_blame_reason why;
    int               culprit, teller;
    weir_rank_place   mine, its;    /* where teller and culprit are; its: 0: not known */
} weir_blame;

/* What a collective is, in one word: kind, type, purpose, order and root. A send and its receive
 * are one. */
uint64_t weir_rank_what(const weir_collective *job, weir_sum_order order);

/* A blame as a note, whose first byte is `kind`; the failure that such a note tells of. */
void        weir_blame_write(const weir_blame *b, uint64_t kind, uint64_t word[WEIR_NOTE_WORDS]);
weir_status weir_fail_told(const uint64_t word[WEIR_NOTE_WORDS], double timeout);

/* Fails with ERR_COMM and the sentence for the blame. */
weir_status weir_fail_blame(const weir_blame *b, double timeout);

#endif
