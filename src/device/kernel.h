/* kernel.h - which kernel runs a call, decided once per (op, layouts, attributes) and then
 * frozen, so that the same call gives the same bits with the graph off, on, and in every plan. */
#ifndef WEIR_DEVICE_KERNEL_H
#define WEIR_DEVICE_KERNEL_H

#include "core/op.h"
#include "weir/device.h"

struct weir_kargs;

typedef struct weir_choice {
    weir_status (*run)(const struct weir_kargs *k);
    size_t      work;                   /* bytes of scratch a run needs */
    void       *state;                  /* prepared: primitives, loop bounds; NULL if none */
    void      (*destroy)(void *state);  /* NULL: state is not owned */
    const char *impl;                   /* static name for dumps: "c", "onednn", "openblas" */
} weir_choice;

/* Frees what a choice owns; one that was never made, all zero, is fine. */
static inline void weir_choice_drop(const weir_choice *c)
{
    if (c->destroy)
        c->destroy(c->state);
}

/* Fills *out for the call, or fails with ERR_NOKERNEL / ERR_NOMEM and leaves nothing behind.
 * Layouts of outputs are dense unless the op says otherwise. */
typedef weir_status (*weir_choose_fn)(weir_device *d, const weir_call *c, weir_choice *out);

typedef struct weir_choices {
    struct weir_choice_entry **slot;    /* open addressing, power of two */
    uint32_t                   n, cap;
} weir_choices;

/* The frozen choice for a call; made at first sight. Stays valid until the device closes. */
weir_status weir_choice_of(weir_device *d, const weir_call *c, const weir_choice **out);

void weir_choices_free(weir_choices *t);

#endif
