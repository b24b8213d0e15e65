/* launcher.h - the ranks that a launcher has started, as its environment variables tell. */
#ifndef WEIR_DEVICE_COMM_LAUNCHER_H
#define WEIR_DEVICE_COMM_LAUNCHER_H

#include "core/status.h"

enum { WEIR_LAUNCHER_SPEC = 160 };      /* bytes of a spec, with its end */

/* Writes the spec of weir_comm_open whose ranks the launcher of this process has started; ""
 * without a launcher, or if this process is its only one. ERR_COMM if no transport joins them. */
weir_status weir_launcher_spec(char spec[WEIR_LAUNCHER_SPEC]);

#endif
