/* parts.h - the random stream in parts of 2^32 blocks, as micro-batches use it: each draws in a
 * part of its own, wherever it is computed. */
#ifndef WEIR_GRAPH_FRONTEND_PARTS_H
#define WEIR_GRAPH_FRONTEND_PARTS_H

#include <stdint.h>

#define WEIR_PART_MASK UINT64_C(0xffffffff)

/* Where the part begins that is `parts` after the one of the position. */
static inline uint64_t weir_part_of(uint64_t position, uint64_t parts)
{
    return (position & ~WEIR_PART_MASK) + (parts << 32);
}

#endif
