/* vec.c - growth of typed arrays: by doubling, from 8 elements. */
#include "core/vec.h"

#include <string.h>

#include "core/status.h"

bool weir_vec_grow_(void **at, uint32_t *cap, uint64_t n, size_t size)
{
    uint64_t capacity = *cap < 4 ? 8 : (uint64_t)*cap * 2;
    if (capacity < n)
        capacity = n;
    if (capacity > UINT32_MAX)
        capacity = UINT32_MAX;
    size_t bytes;
    if (n > UINT32_MAX || !weir_size_mul(capacity, size, &bytes)) {
        weir_fail(WEIR_ERR_NOMEM, "out of memory: an array of %llu elements wanted",
                  (unsigned long long)n);
        return false;
    }
    /* *at is really a T *; copying its bytes avoids an aliasing violation. */
    void *p;
    memcpy(&p, at, sizeof p);
    p = weir_mem_realloc(p, *cap * size, bytes);
    if (!p)
        return false;
    memcpy(at, &p, sizeof p);
    *cap = (uint32_t)capacity;
    return true;
}
