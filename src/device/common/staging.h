/* staging.h - transfers tensors of any layout between the host and a device whose memory the host
 * cannot address.
 *
 * The elements pass through a host buffer, in which they are put into the device's order. No device
 * memory is needed, so budgets hold while inputs are written. */
#ifndef WEIR_DEVICE_COMMON_STAGING_H
#define WEIR_DEVICE_COMMON_STAGING_H

#include "device/device.h"

/* to: writes the row-major elements at `host` to device memory as `l` describes, with element 0 at
 * `at`; the bytes between them keep their values. from: the reverse. */
weir_status weir_staging_to(weir_device *d, const weir_layout *l, void *at, const void *host);
weir_status weir_staging_from(weir_device *d, const weir_layout *l, const void *at, void *host);

/* Frees the buffer, which is as large as the largest tensor so far. */
void weir_staging_free(weir_device *d);

#endif
