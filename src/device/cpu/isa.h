/* isa.h - the instruction set of our own kernels, and how one source file serves three of them.
 *
 * A file NAME_isa.c is compiled once per set with -DWEIR_ISA=base|avx2|avx512 and suffixes its
 * exports by WEIR_ISA_NAME; NAME.c declares all three and indexes a WEIR_ISA_TABLE by
 * weir_cpu_isa() when a kernel is selected. All sets give the same bits, so the choice affects
 * speed only. */
#ifndef WEIR_DEVICE_CPU_ISA_H
#define WEIR_DEVICE_CPU_ISA_H

typedef enum weir_isa { WEIR_ISA_BASE, WEIR_ISA_AVX2, WEIR_ISA_AVX512, WEIR_ISA_COUNT } weir_isa;

/* The best set this processor and its operating system support. */
weir_isa weir_cpu_isa_best(void);

/* The set to use: the best one, or a lesser one named by the environment
 * (WEIR_ISA=base|avx2|avx512). */
weir_isa weir_cpu_isa(void);

/* "base", "avx2", "avx512". */
const char *weir_cpu_isa_name(weir_isa isa);

/* fn_base, fn_avx2 or fn_avx512, inside a file compiled with -DWEIR_ISA. */
#define WEIR_ISA_PASTE_(fn, isa) fn##_##isa
#define WEIR_ISA_PASTE(fn, isa)  WEIR_ISA_PASTE_(fn, isa)
#define WEIR_ISA_NAME(fn)        WEIR_ISA_PASTE(fn, WEIR_ISA)

/* Initialiser of an array [WEIR_ISA_COUNT] of the variants of fn. Except on x86-64 only the base
 * variant is built, and weir_cpu_isa returns nothing else. */
#if defined(__x86_64__)
#define WEIR_ISA_TABLE(fn)                                                                         \
    {                                                                                              \
        [WEIR_ISA_BASE] = fn##_base, [WEIR_ISA_AVX2] = fn##_avx2, [WEIR_ISA_AVX512] = fn##_avx512  \
    }
#else
#define WEIR_ISA_TABLE(fn)                                                                         \
    {                                                                                              \
        [WEIR_ISA_BASE] = fn##_base, [WEIR_ISA_AVX2] = fn##_base, [WEIR_ISA_AVX512] = fn##_base    \
    }
#endif

#endif
