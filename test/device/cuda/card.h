/* card.h - the emulated card, for tests of the CUDA device alone. */
#ifndef WEIR_TEST_DEVICE_CUDA_CARD_H
#define WEIR_TEST_DEVICE_CUDA_CARD_H

#include <dlfcn.h>
#include <stdlib.h>

#include "weir.h"

/* WEIR_TEST_PLUGINS: the folder of the emulated plugin. */
static inline weir_device *card_open(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    return weir_device_open("cuda", NULL);
}

/* A function that the emulator exports (inject.h); a card must be open. */
static inline void *card_function(const char *name)
{
    void *const lib = dlopen(WEIR_TEST_PLUGINS "/libweir_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return lib ? dlsym(lib, name) : NULL;
}

/* Number of calls of a runtime function so far. */
static inline long card_calls(const char *function)
{
    long (*calls)(const char *);
    *(void **)&calls = card_function("emulate_calls");
    return calls ? calls(function) : -1;
}

/* Makes the nth call of the function from now on fail, once. */
static inline void card_fail(const char *function, long nth)
{
    void (*fail)(const char *, long, int);
    *(void **)&fail = card_function("emulate_fail");
    if (fail)
        fail(function, nth, 701);       /* out of resources */
}

#endif
