/* splitmix.c - the public function of SplitMix64. */
#include "core/splitmix.h"

uint64_t weir_splitmix64(uint64_t *state)
{
    return weir_splitmix_next(state);
}
