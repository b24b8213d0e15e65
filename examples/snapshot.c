/* snapshot.c - reads all tensors of a training into one buffer. */
#include "snapshot.h"

#include <stdio.h>
#include <string.h>

/* The i-th tensor of a training; NULL after the last one. */
static const weir_tensor *tensor_at(const weir_model *m, const weir_optim *o,
                                    const weir_tensor *loss, size_t i)
{
    const size_t params = weir_model_param_count(m), states = weir_model_state_count(m);
    const size_t moments = weir_optim_state_count(o);

    if (i < params)
        return weir_model_param(m, i);
    if (i < params + states)
        return weir_model_state(m, i - params);
    if (i < params + states + moments)
        return weir_optim_state(o, i - params - states);
    return i == params + states + moments ? loss : NULL;
}

weir_status snapshot_take(snapshot *s, const weir_model *m, const weir_optim *o,
                          const weir_tensor *loss)
{
    const weir_tensor *t;
    size_t             used = 0;

    *s = (snapshot){0};
    for (size_t i = 0; (t = tensor_at(m, o, loss, i)); i++)
        s->bytes += weir_tensor_bytes(t);
    s->at = weir_host_alloc(s->bytes);
    if (!s->at)
        return weir_error_status();
    for (size_t i = 0; (t = tensor_at(m, o, loss, i)); i++) {
        WEIR_TRY(weir_read(t, s->at + used, weir_tensor_bytes(t)));
        used += weir_tensor_bytes(t);
    }
    return WEIR_OK;
}

bool snapshot_equal(const snapshot *a, const snapshot *b)
{
    return a->bytes == b->bytes && memcmp(a->at, b->at, a->bytes) == 0;
}

void snapshot_free(snapshot *s)
{
    weir_host_free(s->at);
    *s = (snapshot){0};
}

bool snapshot_write(const snapshot *s, const char *path)
{
    FILE *f = fopen(path, "wb");
    bool  good = f && fwrite(s->at, 1, s->bytes, f) == s->bytes;
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "%s: could not be written\n", path);
    return good;
}
