/* spec.h - the machine that a simulated device stands for. */
#ifndef WEIR_DEVICE_SIM_SPEC_H
#define WEIR_DEVICE_SIM_SPEC_H

#include "device/rates.h"

/* The machine described by the text after "sim:". */
typedef struct weir_sim_spec {
    weir_rates rates;
    double     capacity;        /* bytes */
} weir_sim_spec;

/* NULL stands for the preset "format". */
weir_status weir_sim_spec_read(const char *text, weir_sim_spec *spec);

#endif
