/* dice.c - the random numbers that programs and modes are drawn from. */
#include "programs/program.h"

uint64_t dice_u64(dice *r)
{
    return weir_splitmix64(&r->state);
}

int64_t dice_int(dice *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(dice_u64(r) % (uint64_t)(hi - lo + 1));
}

double dice_real(dice *r, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(dice_u64(r) >> 11) * 0x1p-53);
}

bool dice_chance(dice *r, int percent)
{
    return dice_int(r, 0, 99) < percent;
}
