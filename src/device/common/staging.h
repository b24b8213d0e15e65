/* staging.h - tensors of any layout between the host and a device whose memory it cannot reach.
 *
 * The elements pass through a buffer of the host's, where they are put into the device's order: no
 * byte of the device's memory is taken, so that budgets hold while inputs are written. */
#ifndef WEIR_DEVICE_COMMON_STAGING_H
#define WEIR_DEVICE_COMMON_STAGING_H

#include "device/device.h"

/* to: row-major elements at `host` go where `l` says, from element 0 at `at` on; bytes between them
 * stay what they are. from: the other way. */
weir_status weir_staging_to(weir_device *d, const weir_layout *l, void *at, const void *host);
weir_status weir_staging_from(weir_device *d, const weir_layout *l, const void *at, void *host);

/* The buffer, which is as large as the largest tensor so far, goes. */
void weir_staging_free(weir_device *d);

#endif
