/* tensor_name.c - names of tensors: that of the block if they cover it, else their own. */
#include "graph/ir/tensor_name.h"

#include "core/status.h"
#include "core/text.h"
#include "device/memory/block.h"

bool weir_tensor_is_whole(const weir_tensor *t)
{
    const weir_block *b = t->block;

    return t->offset == 0 && weir_shape_bytes(&t->layout.desc) == b->bytes &&
           weir_shape_is_dense(&t->layout);
}

const char *weir_tensor_name(const weir_tensor *t)
{
    if (!t)
        return "";
    const weir_block *const b = t->block;
    const char *const name = t->name ? t->name : b && weir_tensor_is_whole(t) ? b->name : NULL;

    return name ? name : "";
}

weir_status weir_set_name(weir_tensor *t, const char *name)
{
    if (!t)
        return weir_fail_null("weir_set_name", "t");
    WEIR_TRY(weir_device_check(t->dev, "weir_set_name"));
    WEIR_TRY(weir_tensor_check_there("weir_set_name", t));
    const char *const c = name ? weir_text_control(name) : NULL;
    if (c)
        return weir_fail(WEIR_ERR_INVALID, "weir_set_name: the name has the control character "
                         "%d at %d", *c, (int)(c - name));
    char *const copy = name && *name ? weir_mem_strdup(name) : NULL;
    if (name && *name && !copy)
        return WEIR_ERR_NOMEM;
    char **const place = weir_tensor_is_whole(t) ? &((weir_block *)t->block)->name : &t->name;
    weir_mem_free(*place);
    *place = copy;
    return WEIR_OK;
}
