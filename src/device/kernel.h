/* kernel.h - which kernel runs a call, decided once per (op, layouts, attributes) and then
 * frozen, so that the same call gives the same bits with the graph off, on, and in every plan. */
#ifndef WEIR_DEVICE_KERNEL_H
#define WEIR_DEVICE_KERNEL_H

#include "core/op.h"
#include "weir/device.h"

struct weir_kargs;

typedef struct weir_kernel {
    weir_status (*run)(const struct weir_kargs *k);
    size_t      work;                   /* bytes of scratch a run needs */
    void       *state;                  /* prepared: primitives, loop bounds; NULL if none */
    void      (*destroy)(void *state);  /* NULL: state is not owned */
    const char *impl;                   /* static name for dumps: "c", "onednn", "openblas" */
} weir_kernel;

/* Frees what a choice owns; one that was never made, all zero, is fine. */
static inline void weir_kernel_drop(const weir_kernel *c)
{
    if (c->destroy)
        c->destroy(c->state);
}

/* Fills *out for the call, or fails with ERR_NOKERNEL / ERR_NOMEM and leaves nothing behind.
 * Layouts of outputs are dense unless the op says otherwise. */
typedef weir_status (*weir_choose_fn)(weir_device *d, const weir_call *c, weir_kernel *out);

typedef struct weir_kernel_cache {
    struct weir_kernel_entry **slot; /* open addressing, power of two */
    uint32_t                   n, cap;
} weir_kernel_cache;

/* The frozen choice for a call; made at first sight. Stays valid until the device closes. */
weir_status weir_kernel_of(weir_device *d, const weir_call *c, const weir_kernel **out);

void weir_kernel_cache_free(weir_kernel_cache *t);

#endif
