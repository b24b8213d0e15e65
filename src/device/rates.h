/* rates.h - the speed of a machine as a few numbers, and the estimated time of a call. */
#ifndef WEIR_DEVICE_RATES_H
#define WEIR_DEVICE_RATES_H

#include "core/op.h"

/* The machine that sample and exported step files are timed for. */
#define WEIR_FORMAT_FLOPS 10e12
#define WEIR_FORMAT_BYTES 600e9

/* Operations and bytes per second; call and copy in seconds. */
typedef struct weir_rates {
    double flops;               /* f32 operations */
    double bytes;               /* to and from the device's own memory */
    double link_out, link_in;   /* bytes to the offload store, and back */
    double call;                /* least seconds of a call */
    double copy;                /* least seconds of a copy over the link */
    double width;               /* elements computed at a time; 0: calls never overlap */
} weir_rates;

/* Seconds of a call (roofline: Williams, Waterman and Patterson 2009): the longer of computing and
 * moving its operands, plus the fixed cost of a call. A collective takes none: its time is the
 * wire's. */
double weir_rates_seconds(const weir_rates *r, const weir_call *c);

#endif
