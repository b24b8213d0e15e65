/* vec.h - growable typed arrays addressed by 32-bit index. */
#ifndef WEIR_CORE_VEC_H
#define WEIR_CORE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mem.h"

/* WEIR_VEC(int) v = {0}; weir_vec_push(&v, 3); v.at[0]; weir_vec_free(&v); */
#define WEIR_VEC(T)                                                                                \
    struct {                                                                                       \
        T       *at;                                                                               \
        uint32_t n, cap;                                                                           \
    }

/* Grows the capacity to at least n elements of `size` bytes, which are more than it has; on failure
 * returns false (ERR_NOMEM remembered) and leaves the array as it was. */
bool weir_vec_grow_(void **at, uint32_t *cap, uint64_t n, size_t size);

/* The same for any n. */
static inline bool weir_vec_reserve_(void **at, uint32_t *cap, uint64_t n, size_t size)
{
    return n <= *cap || weir_vec_grow_(at, cap, n, size);
}

#define weir_vec_reserve(v, count)                                                                 \
    weir_vec_reserve_((void **)&(v)->at, &(v)->cap, (uint64_t)(count), sizeof *(v)->at)

/* Appends; false if memory runs out. */
#define weir_vec_push(v, ...)                                                                      \
    ((v)->n < (v)->cap || weir_vec_reserve((v), (uint64_t)(v)->n + 1)                              \
         ? ((v)->at[(v)->n++] = (__VA_ARGS__), true)                                               \
         : false)

#define weir_vec_free(v)                                                                           \
    (weir_mem_free((v)->at), (v)->at = NULL, (v)->n = 0, (v)->cap = 0)

#endif
