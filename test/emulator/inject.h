/* inject.h - what tests may ask of the emulated card besides CUDA: failures, queues, engines.
 *
 * The emulated plugin and libraries export these functions, which tests find by dlsym. */
#ifndef WEIR_TEST_EMULATOR_INJECT_H
#define WEIR_TEST_EMULATOR_INJECT_H

#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

#include "dnn_engines.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EMULATE_API __attribute__((visibility("default")))

/* Makes the nth call of the function from now on fail, once or with all that follow it, with the
 * error; nth 0: none. "*" is any function of the runtime, "kernel" the execution of one. A function
 * of cuBLASLt, cuDNN, NVRTC or the driver returns the number as a status of its own. */
EMULATE_API void emulate_fail(const char *function, long nth, cudaError_t error);
EMULATE_API void emulate_fail_from(const char *function, long nth, cudaError_t error);

EMULATE_API long   emulate_failed(void);                    /* injected errors so far */
EMULATE_API long   emulate_calls(const char *function);     /* calls of the function so far */
/* The ith function that was called so far, NULL past the last. */
EMULATE_API const char *emulate_function(int i);
EMULATE_API long   emulate_legacy(void);                    /* items given to the default stream */
EMULATE_API size_t emulate_queued(void);                    /* work items that have not run */
EMULATE_API void   emulate_recover(void);                   /* removes injections and errors */
EMULATE_API void   emulate_seed(uint64_t seed);             /* makes the orders reproducible */
EMULATE_API size_t emulate_allocated(void);                 /* bytes of the cards' memory */
/* Streams, events, graphs, pinned ranges and objects of libraries that have not been freed. */
EMULATE_API size_t emulate_handles(void);

/* Functions of the emulated cuDNN, exported by it. The nth call that may fail, from now on, runs
 * out of memory, once; 0: none. */
EMULATE_API void emulate_dnn_fail(long nth);
EMULATE_API long emulate_dnn_live(void);                    /* descriptors */
EMULATE_API long emulate_dnn_ran(int i);                    /* executions of engine i */

#ifdef __cplusplus
}
#endif

#endif
