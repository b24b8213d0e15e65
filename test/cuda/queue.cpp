/* queue.cpp - how the fake driver reaches the emulated streams of the plugin. */
#include <vector>

#include "emulate.h"

/* Runs `run` with a copy of what `launch` points to, in its turn on the stream. */
extern "C" __attribute__((visibility("default"))) int
emulate_queue(void *stream, void (*run)(const void *launch), const void *launch, size_t bytes)
{
    /* Of 16 bytes each, so that it is aligned as it was. */
    std::vector<ulonglong2> copy((bytes + sizeof(ulonglong2) - 1) / sizeof(ulonglong2));

    memcpy(copy.data(), launch, bytes);
    return emulate_launch(dim3(1), dim3(1), (cudaStream_t)stream, [=]() { run(copy.data()); });
}
