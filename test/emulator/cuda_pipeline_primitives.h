/* cuda_pipeline_primitives.h - the host's stand-in for CUDA's: asynchronous copies to shared
 * memory.
 *
 * Copies are made as late as possible, when their thread waits for their group: a kernel that reads
 * earlier gets the old contents. */
#ifndef WEIR_TEST_EMULATOR_CUDA_PIPELINE_PRIMITIVES_H
#define WEIR_TEST_EMULATOR_CUDA_PIPELINE_PRIMITIVES_H

#include <stdio.h>
#include <stdlib.h>

enum { LATE_THREADS = 1024, LATE_COPIES = 64 };

/* A thread's copies that have not been waited for, and the groups that it has closed. */
struct late_copies {
    struct {
        void       *to;
        const void *from;
        size_t      bytes;
        unsigned    group;
    } of[LATE_COPIES];
    int      count;
    unsigned groups;
};
static late_copies late[LATE_THREADS];

static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes)
{
    late_copies *const l = &late[threadIdx.x];
    if (l->count == LATE_COPIES || (uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) {
        fprintf(stderr, "emulated kernel: copy %d of %zu bytes from %p to %p\n", l->count, bytes,
                from, to);
        abort();
    }
    l->of[l->count++] = {to, from, bytes, l->groups};
}

static inline void __pipeline_commit(void)
{
    late[threadIdx.x].groups++;
}

static inline void __pipeline_wait_prior(size_t later)
{
    late_copies *const l = &late[threadIdx.x];
    const unsigned     end = l->groups - (unsigned)later;
    int                left = 0;
    for (int i = 0; i < l->count; i++)
        if ((int)(l->of[i].group - end) < 0)
            memcpy(l->of[i].to, l->of[i].from, l->of[i].bytes);
        else
            l->of[left++] = l->of[i];
    l->count = left;
}

#endif
