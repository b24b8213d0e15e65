/* spec.h - the machine that a simulated device models. */
#ifndef WEIR_DEVICE_SIM_SPEC_H
#define WEIR_DEVICE_SIM_SPEC_H

#include "device/network.h"
#include "device/rates.h"

/* The machine, as the text after "sim:" describes it. */
typedef struct weir_sim_spec {
    weir_rates rates;
    double     capacity;        /* bytes */
    double     world, node;     /* as network has them */
    weir_network network;
} weir_sim_spec;

/* Parses the text; NULL stands for the preset "format". Fails with ERR_INVALID. */
weir_status weir_sim_spec_read(const char *text, weir_sim_spec *spec);

#endif
