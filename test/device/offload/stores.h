/* stores.h - opens offload stores for tests, one for each kind of transfer. */
#ifndef WEIR_TEST_DEVICE_OFFLOAD_STORES_H
#define WEIR_TEST_DEVICE_OFFLOAD_STORES_H

#include "check.h"
#include "device/offload/spill.h"

enum { MIB = 1 << 20, SLOT = 64 << 10 };

static const weir_spill_mover movers[] = {WEIR_SPILL_ANY, WEIR_SPILL_THREADS};
enum { MOVERS = sizeof movers / sizeof *movers };

static weir_spill *open_with(weir_spill_options o)
{
    weir_spill *s;
    CHECK_OK(weir_spill_new(&o, &s));
    return s;
}

#endif
