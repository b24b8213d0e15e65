/* work.h - what emulated libraries share with the emulated runtime: streams, failures, counts. */
#ifndef WEIR_TEST_EMULATOR_WORK_H
#define WEIR_TEST_EMULATOR_WORK_H

#include <cuda_runtime_api.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMULATE_EXPORTED __attribute__((visibility("default")))

/* ---- exported by the emulated plugin ---- */

/* Queues fn(a copy of the n bytes at `arguments`). */
EMULATE_EXPORTED cudaError_t emulate_work(cudaStream_t stream, void (*fn)(const void *),
                                          const void *arguments, size_t n);

/* Counts a call of a library's function; returns the status that it must return at once, or 0. The
 * name is kept. */
EMULATE_EXPORTED int emulate_call(const char *function);

/* Counts an object that a library has created (1) or destroyed (-1). */
EMULATE_EXPORTED void emulate_hold(int by);

/* The thread's current card. */
EMULATE_EXPORTED int emulate_current(void);

/* ---- the same, called from a library that the plugin has opened ---- */

#define EMULATE_HIDDEN __attribute__((visibility("hidden")))

EMULATE_HIDDEN cudaError_t emulate_work_in_plugin(cudaStream_t stream, void (*fn)(const void *),
                                                  const void *arguments, size_t n);

/* Without an open plugin nothing is counted, nothing fails, and card 0 is current. */
EMULATE_HIDDEN int  emulate_call_in_plugin(const char *function);
EMULATE_HIDDEN void emulate_hold_in_plugin(int by);
EMULATE_HIDDEN int  emulate_current_in_plugin(void);

/* At the beginning of a library's function: counts the call and returns if it must fail. */
#define EMULATE_CALL(status)                                                                       \
    do {                                                                                           \
        const int injected_ = emulate_call_in_plugin(__func__);                                    \
        if (injected_ != 0)                                                                        \
            return (status)injected_;                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
