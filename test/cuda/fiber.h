/* fiber.h - runs a launch at once. */
#ifndef WEIR_TEST_CUDA_FIBER_H
#define WEIR_TEST_CUDA_FIBER_H

#include <cuda_runtime_api.h>

#include <functional>

void emulate_run(dim3 grid, dim3 block, const std::function<void()> &thread);

#endif
