/* work.cpp - the plugin's side of work.h. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate.h"

namespace {

struct call {
    void (*fn)(const void *);
    alignas(16) char arguments[EMULATE_WORK_BYTES];
};

}

cudaError_t emulate_work(cudaStream_t stream, void (*fn)(const void *), const void *arguments,
                         size_t n)
{
    call c = {fn, {}};

    if (n > sizeof c.arguments) {
        fprintf(stderr, "emulated library: %zu bytes of arguments\n", n);
        abort();
    }
    memcpy(c.arguments, arguments, n);
    return emulate_launch(dim3(1), dim3(1), stream, [c]() { c.fn(c.arguments); });
}
