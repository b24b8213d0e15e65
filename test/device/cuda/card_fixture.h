/* card_fixture.h - the card of the emulated plugin, as opposed to the runtime that the test
 * programs link. */
#ifndef WEIR_TEST_DEVICE_CUDA_CARD_FIXTURE_H
#define WEIR_TEST_DEVICE_CUDA_CARD_FIXTURE_H

#include <dlfcn.h>

#include "check.h"
#include "device/device.h"
#include "emulator/inject.h"
#include "weir.h"

typedef struct card_fixture {
    void   (*fail)(const char *function, long nth, cudaError_t error);
    void   (*fail_from)(const char *function, long nth, cudaError_t error);
    const char *(*function)(int i);
    long   (*failed)(void);
    long   (*calls)(const char *function);
    long   (*legacy)(void);
    size_t (*allocated)(void);
    size_t (*handles)(void);
    void   (*recover)(void);
    void   (*seed)(uint64_t seed);
} card_fixture;

static inline void *card_symbol(void *lib, const char *name)
{
    void *const p = dlsym(lib, name);
    CHECK(p != NULL);
    return p;
}

/* Opens the plugin unless it is open, and finds the functions of inject.h in it. */
static inline bool card_fixture_of(card_fixture *card)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    weir_device_close(weir_device_open("cuda", NULL));
    void *const lib = dlopen(WEIR_TEST_PLUGINS "/libweir_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (!CHECK(lib != NULL))
        return false;
    *(void **)&card->fail = card_symbol(lib, "emulate_fail");
    *(void **)&card->fail_from = card_symbol(lib, "emulate_fail_from");
    *(void **)&card->function = card_symbol(lib, "emulate_function");
    *(void **)&card->failed = card_symbol(lib, "emulate_failed");
    *(void **)&card->calls = card_symbol(lib, "emulate_calls");
    *(void **)&card->legacy = card_symbol(lib, "emulate_legacy");
    *(void **)&card->allocated = card_symbol(lib, "emulate_allocated");
    *(void **)&card->handles = card_symbol(lib, "emulate_handles");
    *(void **)&card->recover = card_symbol(lib, "emulate_recover");
    *(void **)&card->seed = card_symbol(lib, "emulate_seed");
    return true;
}

#endif
