/* card.h - the emulated card for tests of the CUDA device alone. */
#ifndef WEIR_TEST_CUDA_CARD_H
#define WEIR_TEST_CUDA_CARD_H

#include <dlfcn.h>
#include <stdlib.h>

#include "weir.h"

/* WEIR_EMULATED: the folder of the emulated plugin. */
static inline weir_device *card_open(void)
{
    setenv("WEIR_PLUGINS", WEIR_EMULATED, 1);
    return weir_device_open("cuda", NULL);
}

/* A variable of the emulation's; a card must be open. */
static inline long *card_variable(const char *name)
{
    void *const lib = dlopen(WEIR_EMULATED "/libweir_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return lib ? (long *)dlsym(lib, name) : NULL;
}

#endif
