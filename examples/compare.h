/* compare.h - one training with the graph off and on, compared side by side. */
#ifndef EXAMPLES_COMPARE_H
#define EXAMPLES_COMPARE_H

#include "snapshot.h"
#include "weir.h"

enum { COMPARE_OFF, COMPARE_ON, COMPARE_BOTH };

/* The results of one case; all 0 if it did not run. */
typedef struct compare_case {
    size_t   planned, measured;     /* peak, bytes; planned is 0 with the graph off */
    double   ms;                    /* of the median step */
    double   accuracy;              /* on the test set, per cent */
    snapshot end;                   /* of the training */
} compare_case;

/* Runs one case and fills c, with the help of the two functions below. */
typedef weir_status (*compare_fn)(void *ctx, bool graph, compare_case *c);

typedef struct compare_options {
    int         which;      /* COMPARE_OFF, COMPARE_ON or COMPARE_BOTH */
    int         batch;
    double      accuracy;   /* required, per cent */
    const char *dump;       /* the file for the bytes of the last case, or NULL */
} compare_options;

/* Runs the cases and prints a table: memory, speed, and whether parameters, states and loss have
 * the same bits. Returns true if no case failed (failures are printed), the accuracy was reached,
 * the bits are equal, and planned and measured peak are equal to the byte. */
bool compare(const compare_options *o, compare_fn run, void *ctx);

/* Fills measured (the most bytes that were live in blocks) or, for a planned step, planned and
 * measured (persistent bytes + the highest arena byte that changed in one more run, found by
 * canaries). */
weir_status compare_peak(weir_device *d, weir_step *step, compare_case *c);

/* Writes DIR/NAME-timeline.svg (live bytes over the plan) and DIR/NAME-addresses.svg (the address
 * map), and says so; does nothing with the graph off. */
weir_status compare_draw(const weir_step *step, const char *dir, const char *name);

#endif
