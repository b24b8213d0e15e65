/* kernel_probe.h - runs kernels of one call on random operands: do they give the same bits, and how
 * long does each take? For devices whose memory is the host's. */
#ifndef WEIR_DEVICE_KERNEL_PROBE_H
#define WEIR_DEVICE_KERNEL_PROBE_H

#include "device/device.h"

typedef struct weir_probe {
    weir_device     *dev;
    const weir_call *call;
    size_t           bytes[WEIR_MAX_IN];        /* of each input, from its first element on */
    char            *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT], *want[WEIR_MAX_OUT], *work;
    char            *memory;                    /* all of these; NULL: not opened */
    size_t           size;
} weir_probe;

/* Takes memory for operands in f32 and `work` bytes of scratch. Fails with ERR_NOMEM. */
weir_status weir_probe_open(weir_probe *p, weir_device *d, const weir_call *c, size_t work);
void        weir_probe_close(weir_probe *p);

/* Do both run and write the same bits? The order in which a kernel adds depends on shapes, not on
 * data, so random operands tell; addresses that are multiples of 64 and of 16 bytes are tried. */
bool weir_probe_equal(weir_probe *p, const weir_kernel *a, const weir_kernel *b);

/* Seconds of one run; infinite if it fails. */
double weir_probe_seconds(weir_probe *p, const weir_kernel *k);

#endif
