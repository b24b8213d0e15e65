/* work.h - lets emulated libraries queue work on emulated streams. */
#ifndef WEIR_TEST_EMULATOR_WORK_H
#define WEIR_TEST_EMULATOR_WORK_H

#include <cuda_runtime_api.h>

#include <stddef.h>

/* Queues fn(a copy of the n bytes at `arguments`); exported by the emulated plugin. */
extern "C" cudaError_t emulate_work(cudaStream_t stream, void (*fn)(const void *),
                                    const void *arguments, size_t n)
    __attribute__((visibility("default")));

/* The same, called from a library that the plugin has opened: finds the plugin. */
cudaError_t emulate_work_in_plugin(cudaStream_t stream, void (*fn)(const void *),
                                   const void *arguments, size_t n);

#endif
