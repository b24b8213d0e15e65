/* promise.h - waits of a stream for what an emulated library does later: NCCL's for other ranks.
 *
 * A stream that waits for a promise runs nothing else. As long as there is one, works that cannot
 * run are not taken for a deadlock: another thread may keep it. */
#ifndef WEIR_TEST_EMULATOR_PROMISE_H
#define WEIR_TEST_EMULATOR_PROMISE_H

#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exported by the emulated plugin. */
typedef struct emulate_promises {
    uint64_t (*make)(void);
    /* Makes the stream wait; fails for an unknown stream, and for one that is being captured. */
    cudaError_t (*wait)(cudaStream_t stream, uint64_t promise);
    void (*keep)(uint64_t promise);
    void (*keep_in_work)(uint64_t promise);     /* called by a work item */
    int (*on_card)(const void *p, size_t bytes);        /* inside an allocation of a card? */
} emulate_promises;

__attribute__((visibility("default"))) const emulate_promises *emulate_promises_of(void);

/* The same, called from a library that the plugin has opened. */
__attribute__((visibility("hidden"))) const emulate_promises *emulate_promises_in_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
