/* amx.c - finds AMX by cpuid and xgetbv, and asks Linux for permission (5.16 and later; see Linux's
 * Documentation/arch/x86/xstate.rst). oneDNN would ask at its first primitive; asked here, a
 * refusal is known and told: ENOSPC means that a thread's alternate signal stack is too small. */
#include "device/cpu/amx.h"

#include <errno.h>
#include <string.h>

#include "device/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 7, edx; leaf 1, ecx; components of xcr0, of which Linux gives the data on request. */
enum { BF16 = 22, TILES = 24, INT8 = 25, OSXSAVE = 27, TILE_CONFIG = 17, TILE_DATA = 18 };

static bool bit(unsigned word, int i)
{
    return word >> i & 1u;
}

static unsigned saved_components(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static void find(weir_amx *amx)
{
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    const unsigned saved = saved_components();
    amx->tiles = bit(d, TILES);
    amx->bf16 = amx->tiles && bit(d, BF16);
    amx->int8 = amx->tiles && bit(d, INT8);
    amx->saved = bit(saved, TILE_CONFIG) && bit(saved, TILE_DATA);
}
#else
static void find(weir_amx *amx)
{
    (void)amx;
}
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(WEIR_PORTABLE)
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST 0x1023          /* ARCH_REQ_XCOMP_PERM of asm/prctl.h */

static int ask(void)
{
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0 ? 0 : errno;
}
#else
static int ask(void)
{
    return ENOSYS;
}
#endif

weir_amx weir_cpu_amx(void)
{
    weir_amx amx = {0};

    find(&amx);
    if (amx.tiles && amx.saved)
        amx.refused = weir_cpu_isa() == WEIR_ISA_AVX512 ? ask() : ECANCELED;
    return amx;
}

void weir_cpu_amx_info(const weir_amx *amx, weir_string *s)
{
    weir_string_add(s, "AMX: ");
    if (!amx->tiles) {
        weir_string_add(s, "not shown by this processor\n");
        return;
    }
    weir_string_add(s, "tiles%s%s, ", amx->bf16 ? " of bf16" : "",
                    !amx->int8 ? "" : amx->bf16 ? " and int8" : " of int8");
    if (!amx->saved)
        weir_string_add(s, "which the system does not save\n");
    else if (amx->refused == ECANCELED)
        weir_string_add(s, "left out by WEIR_ISA\n");
    else if (amx->refused)
        weir_string_add(s, "permission refused: %s\n", strerror(amx->refused));
    else
        weir_string_add(s, "permitted\n");
}
