/* model.c - asks the processor for its name. */
#include "device/cpu/model.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaves 0x80000002 to 0x80000004 have 16 bytes each. */
void weir_cpu_model(char name[WEIR_CPU_MODEL])
{
    unsigned r[4];

    memset(name, 0, WEIR_CPU_MODEL);
    for (unsigned i = 0; i < 3; i++)
        if (__get_cpuid(0x80000002u + i, &r[0], &r[1], &r[2], &r[3]))
            memcpy(name + i * sizeof r, r, sizeof r);
}
#else
void weir_cpu_model(char name[WEIR_CPU_MODEL])
{
    memset(name, 0, WEIR_CPU_MODEL);
}
#endif
