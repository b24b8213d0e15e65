/* isa.c - detects the processor's instruction set. */
#include "device/cpu/isa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 1, ecx bit 29; not every compiler's __builtin_cpu_supports knows the name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
}

weir_isa weir_cpu_isa_best(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return WEIR_ISA_BASE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return WEIR_ISA_AVX512;
    return WEIR_ISA_AVX2;
}
#else
weir_isa weir_cpu_isa_best(void)
{
    return WEIR_ISA_BASE;
}
#endif

const char *weir_cpu_isa_name(weir_isa isa)
{
    static const char *const name[WEIR_ISA_COUNT] = {"base", "avx2", "avx512"};
    return (unsigned)isa < WEIR_ISA_COUNT ? name[isa] : "?";
}

weir_isa weir_cpu_isa(void)
{
    const weir_isa best = weir_cpu_isa_best();
    const char *wanted = getenv("WEIR_ISA");
    for (unsigned i = 0; wanted && i < (unsigned)best; i++)
        if (strcmp(wanted, weir_cpu_isa_name((weir_isa)i)) == 0)
            return (weir_isa)i;
    return best;
}
