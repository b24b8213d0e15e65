/* amx.h - AMX, the matrix units of Intel's Xeons since 2023: what this processor has, and Linux's
 * permission to use it, which a process must ask for before its first tile. */
#ifndef WEIR_DEVICE_CPU_AMX_H
#define WEIR_DEVICE_CPU_AMX_H

#include <stdbool.h>

#include "core/text.h"

typedef struct weir_amx {
    bool tiles;         /* the processor has the tiles, */
    bool bf16, int8;    /* ... and multiplies these in them */
    bool saved;         /* the system saves tiles when it switches threads */
    int  refused;       /* errno of the request; 0: permitted. Valid if tiles and saved */
} weir_amx;

/* Asks for permission, which holds for all threads of the process from now on, if the processor has
 * the units, the system saves them, and WEIR_ISA allows AVX-512. May be called again. */
weir_amx weir_cpu_amx(void);

/* Adds one line, newline included: what was found. */
void weir_cpu_amx_info(const weir_amx *amx, weir_string *s);

#endif
