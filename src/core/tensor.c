/* tensor.c - tensor handles: creation, references, queries. */
#include "core/tensor.h"

#include "core/mem.h"
#include "core/status.h"

/* The block is released before the device, which must outlive it. */
static void tensor_destroy(weir_ref *self)
{
    weir_tensor *t = (weir_tensor *)self;
    weir_ref_drop(t->tape);
    weir_ref_drop(t->block);
    weir_ref_drop(t->dev);
    weir_mem_free(t->name);
    weir_mem_free(t);
}

weir_tensor *weir_tensor_make(weir_device *dev, const weir_layout *layout, int64_t offset,
                              void *block)
{
    weir_tensor *t = weir_mem_alloc(sizeof *t);
    if (!t)
        return NULL;
    *t = (weir_tensor){
        .ref = {1, tensor_destroy},
        .dev = weir_ref_take(dev),
        .layout = *layout,
        .offset = offset,
        .block = weir_ref_take(block),
    };
    return t;
}

void weir_tensor_leave(weir_tensor *t, const char *gone)
{
    weir_ref_drop(t->tape);
    t->tape = NULL;
    weir_ref_drop(t->block);
    t->block = NULL;
    t->gone = gone;
}

weir_status weir_tensor_check_there(const char *who, const weir_tensor *t)
{
    char text[WEIR_DESC_TEXT];

    if (t->block)
        return WEIR_OK;
    weir_desc_text(&t->layout.desc, text);
    return t->gone ? weir_fail(WEIR_ERR_STATE, "%s: %s %s", who, text, t->gone)
                   : weir_fail(WEIR_ERR_STATE, "%s: the elements of %s are not kept", who, text);
}

weir_desc weir_tensor_desc(const weir_tensor *t)
{
    if (t)
        return t->layout.desc;
    weir_fail_null("weir_tensor_desc", "t");
    return (weir_desc){.ndim = 0};
}

size_t weir_tensor_bytes(const weir_tensor *t)
{
    if (t)
        return weir_shape_bytes(&t->layout.desc);
    weir_fail_null("weir_tensor_bytes", "t");
    return 0;
}

weir_device *weir_tensor_device(const weir_tensor *t)
{
    if (t)
        return t->dev;
    weir_fail_null("weir_tensor_device", "t");
    return NULL;
}

bool weir_tensor_needs_grad(const weir_tensor *t)
{
    return t && t->needs_grad;
}
