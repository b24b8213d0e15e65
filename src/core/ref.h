/* ref.h - a reference count with its destructor, the first member of every shared object. */
#ifndef WEIR_CORE_REF_H
#define WEIR_CORE_REF_H

#include <stdint.h>

typedef struct weir_ref {
    uint32_t count;
    void   (*destroy)(struct weir_ref *self);   /* called when count reaches 0 */
} weir_ref;

static inline void *weir_ref_take(void *p)
{
    if (p)
        ((weir_ref *)p)->count++;
    return p;
}

static inline void weir_ref_drop(void *p)
{
    weir_ref *r = (weir_ref *)p;
    if (r && --r->count == 0)
        r->destroy(r);
}

#endif
