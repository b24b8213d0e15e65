/* rates.h - how fast a machine is, as a handful of numbers, and the time they give a call. */
#ifndef WEIR_DEVICE_RATES_H
#define WEIR_DEVICE_RATES_H

#include "core/op.h"

/* The machine by which the sample steps of the exchange format are timed, and steps exported. */
#define WEIR_FORMAT_FLOPS 10e12
#define WEIR_FORMAT_BYTES 600e9

/* Per second; call and copy in seconds. */
typedef struct weir_rates {
    double flops;               /* f32 operations */
    double bytes;               /* to and from the device's own memory */
    double link_out, link_in;   /* bytes to where values are swapped out, and from there */
    double call;                /* what a call costs at least */
    double copy;                /* what a copy over the link costs at least */
    double width;               /* elements that are computed at a time; 0: calls never overlap */
} weir_rates;

/* Seconds of a call (roofline: Williams, Waterman and Patterson 2009): the longer of computing and
 * moving its operands, and what every call costs. */
double weir_rates_seconds(const weir_rates *r, const weir_call *c);

#endif
