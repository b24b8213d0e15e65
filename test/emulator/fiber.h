/* fiber.h - runs a kernel at once. `draw` determines the order in which its threads begin. */
#ifndef WEIR_TEST_EMULATOR_FIBER_H
#define WEIR_TEST_EMULATOR_FIBER_H

#include <cuda_runtime_api.h>

#include <stdint.h>

void emulate_run_kernel(uint3 grid, uint3 block, void (*thread)(const void *arguments),
                        const void *arguments, uint64_t draw);

#endif
