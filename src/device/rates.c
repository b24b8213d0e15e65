/* rates.c - the roofline model of a call. */
#include "device/rates.h"

double weir_rates_seconds(const weir_rates *r, const weir_call *c)
{
    if (c->def->flags & WEIR_COLLECTIVE)
        return 0;
    const double compute = weir_call_flops(c) / r->flops, move = weir_call_bytes(c) / r->bytes;

    return r->call + (compute > move ? compute : move);
}
