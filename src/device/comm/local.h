/* local.h - ranks on one machine: threads or processes over shared memory. */
#ifndef WEIR_DEVICE_COMM_LOCAL_H
#define WEIR_DEVICE_COMM_LOCAL_H

#include "device/comm/comm.h"

extern const weir_comm_ops weir_comm_local;

#endif
