/* inject.h - all that tests may ask of the emulated card besides CUDA: failures, queues, engines.
 *
 * The emulated plugin and libraries export these, so that they are found by dlsym. */
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

/* The nth call of the function from now on fails, once, with the error; nth 0: none will. "*" is
 * any function, "kernel" the running of one. */
EMULATE_API void emulate_fail(const char *function, long nth, cudaError_t error);

EMULATE_API long   emulate_failed(void);                    /* how many planted errors were met */
EMULATE_API long   emulate_calls(const char *function);     /* how often it has been called */
EMULATE_API size_t emulate_queued(void);                    /* works that have not run */
EMULATE_API void   emulate_recover(void);                   /* nothing planted, no error left */
EMULATE_API void   emulate_seed(uint64_t seed);             /* draws the same orders from here on */
EMULATE_API size_t emulate_allocated(void);                 /* bytes of the cards' memory */
/* Streams, events, graphs and pinned ranges that nobody has freed. */
EMULATE_API size_t emulate_handles(void);

/* Of the emulated cuDNN, which exports these itself. The nth call that may fail from now on has no
 * memory, once; 0: none will. */
EMULATE_API void emulate_dnn_fail(long nth);
EMULATE_API long emulate_dnn_live(void);                    /* descriptors */
EMULATE_API long emulate_dnn_ran(int i);                    /* how often engine i was executed */

#ifdef __cplusplus
}
#endif

#endif
