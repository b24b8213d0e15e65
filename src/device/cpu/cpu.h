/* cpu.h - the CPU as a device. */
#ifndef WEIR_DEVICE_CPU_CPU_H
#define WEIR_DEVICE_CPU_CPU_H

#include "device/device.h"

extern const weir_device_ops weir_device_cpu;

#endif
