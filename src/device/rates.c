/* rates.c - the roofline model of a call. */
#include "device/rates.h"

double weir_rates_seconds(const weir_rates *r, const weir_call *c)
{
    const double compute = weir_call_flops(c) / r->flops, move = weir_call_bytes(c) / r->bytes;

    return r->call + (compute > move ? compute : move);
}
