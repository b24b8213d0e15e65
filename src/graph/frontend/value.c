/* value.c - creates parameters, states and inputs, and copies data between host and tensors.
 *
 * Host data is row-major. Where the tensor's layout differs, a copy kernel converts. */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/fused.h"
#include "core/status.h"
#include "core/tensor.h"
#include "device/call.h"
#include "device/memory/block.h"
#include "device/common/staging.h"
#include "graph/eager/evict.h"
#include "graph/ir/tensor_name.h"
#include "graph/ops/op.h"

static weir_tensor *make_own(weir_device *d, const weir_desc *desc, const char *name,
                             weir_kind kind)
{
    WEIR_VISIT(d, "making a tensor", NULL);
    if (weir_shape_check(weir_kind_name[kind], desc) != WEIR_OK)
        return NULL;
    weir_layout l = {.desc = *desc};
    weir_shape_dense(&l);
    weir_block  *b = weir_block_new(d, weir_shape_bytes(desc), kind);
    weir_tensor *t = b ? weir_tensor_make(d, &l, 0, b) : NULL;
    if (b) {
        b->desc = *desc;
        b->shaped = true;
    }
    weir_ref_drop(b);
    if (t && name && *name) {
        ((weir_block *)t->block)->name = weir_mem_strdup(name);
        if (!((weir_block *)t->block)->name) {
            weir_release(t);
            return NULL;
        }
    }
    return t;
}

weir_tensor *weir_input(weir_device *d, weir_desc desc)
{
    return make_own(d, &desc, NULL, WEIR_KIND_INPUT);
}

weir_tensor *weir_state(weir_device *d, weir_desc desc, const char *name)
{
    return make_own(d, &desc, name, WEIR_KIND_STATE);
}

weir_tensor *weir_param(weir_device *d, weir_desc desc, const char *name)
{
    if (!weir_is_any_float(desc.dtype))
        return WEIR_FAIL_NULL(WEIR_ERR_DTYPE, "weir_param '%s': a parameter is a float, not %s",
                              name ? name : "", weir_dtype_name(desc.dtype));
    weir_tensor *t = make_own(d, &desc, name, WEIR_KIND_PARAM);
    if (t) {
        t->leaf = ++d->leaves;
        t->needs_grad = t->trainable = true;
    }
    return t;
}

/* Gives t a number as a leaf of the tape, if it has none. */
static weir_status number_leaf(const char *who, weir_tensor *t)
{
    char text[WEIR_DESC_TEXT];

    if (t->gone)
        return weir_tensor_check_there(who, t);
    if (!weir_tensor_is_float(t))
        return weir_fail(WEIR_ERR_DTYPE, "%s: only floats have a gradient, the tensor '%s' is %s",
                         who, weir_tensor_name(t), weir_desc_text(&t->layout.desc, text));
    if (t->tape)
        return weir_fail(WEIR_ERR_INVALID, "%s: %s is the result of a call that a gradient flows "
                         "through; detach it first", who, weir_desc_text(&t->layout.desc, text));
    if (t->leaf == 0)
        t->leaf = ++t->dev->leaves;
    return WEIR_OK;
}

weir_status weir_tensor_set_needs_grad(weir_tensor *t, bool on)
{
    WEIR_VISIT_OF(t, "weir_tensor_set_needs_grad", "t");
    WEIR_TRY(number_leaf("weir_tensor_set_needs_grad", t));
    t->needs_grad = on;
    return WEIR_OK;
}

weir_status weir_tensor_set_trainable(weir_tensor *t, bool on)
{
    WEIR_VISIT_OF(t, "weir_tensor_set_trainable", "t");
    WEIR_TRY(number_leaf("weir_tensor_set_trainable", t));
    t->trainable = on;
    t->needs_grad |= on;
    return WEIR_OK;
}

/* ---- data ---- */

static weir_status check_size(const char *who, const weir_tensor *t, const void *data, size_t bytes)
{
    char text[WEIR_DESC_TEXT];

    if (!t || !data)
        return weir_fail_null(who, t ? "data" : "the tensor");
    WEIR_TRY(weir_device_check(t->dev, who));
    if (bytes != weir_shape_bytes(&t->layout.desc))
        return weir_fail(WEIR_ERR_SHAPE, "%s: tensor '%s' %s has %zu bytes, not %zu", who,
                         weir_tensor_name(t), weir_desc_text(&t->layout.desc, text),
                         weir_shape_bytes(&t->layout.desc), bytes);
    return WEIR_OK;
}

/* Fails unless t is a parameter, state or input: results must not be written from outside. */
static weir_status check_writable(const char *who, const weir_tensor *t)
{
    const weir_block *b = t->block;

    WEIR_TRY(weir_tensor_check_there(who, t));
    if (b->kind > WEIR_KIND_INPUT)
        return weir_fail(WEIR_ERR_STATE, "%s: the tensor is the result of an operation; only "
                         "parameters, states and inputs can be written", who);
    return WEIR_OK;
}

static void *element0(const weir_tensor *t)
{
    return (char *)((weir_block *)t->block)->data +
           (size_t)t->offset * weir_dtype_size(t->layout.desc.dtype);
}

/* Copies between two layouts of the same desc, on a device whose kernels can access host memory.
 * `operand`: which of the copy's operands, 0 or 1, is tensor t. */
static weir_status convert(const weir_tensor *t, int operand, const weir_layout *from, void *src,
                           weir_layout *to, void *dst)
{
    const weir_call c = {
        .op = WEIR_OP_COPY, .def = &weir_op_copy, .nin = 1, .nout = 1, .in = from, .out = to,
        .alias = -1};
    return weir_run_raw(t->dev, &c, &src, &dst, operand, t->block);
}

/* Allocates the block's memory if it has none. If t is a view and nothing has been written yet,
 * sets the rest of the block to zero. */
static weir_status touch(const weir_tensor *t)
{
    weir_block *b = t->block;

    WEIR_TRY(weir_tensor_is_whole(t) ? weir_block_touch_whole(b) : weir_block_touch(b));
    if (!b->written && weir_shape_bytes(&t->layout.desc) < b->bytes)
        WEIR_TRY(t->dev->ops->fill(t->dev, b->data, 0, b->bytes));
    return WEIR_OK;
}

/* Completes a write of t: notes the change. After a failure, a whole block that was offloaded keeps
 * its value in the spill file. */
static weir_status written(const char *who, const weir_tensor *t, bool was_offloaded,
                           weir_status status)
{
    weir_block *b = t->block;

    weir_block_changed(b, who);
    if (status == WEIR_OK)
        b->written = true;
    else if (was_offloaded && weir_tensor_is_whole(t))
        weir_block_offload_clean(b);
    return status;
}

static weir_status write_there(weir_tensor *t, const void *data, size_t bytes)
{
    weir_layout host = {.desc = t->layout.desc};
    void       *src;

    weir_shape_row_major(&host.desc, host.stride);
    if (bytes == 0)
        return WEIR_OK;
    if (memcmp(host.stride, t->layout.stride, sizeof host.stride) == 0)
        return t->dev->ops->upload(t->dev, element0(t), data, bytes);
    if (!t->dev->ops->host)
        return weir_staging_to(t->dev, &t->layout, element0(t), data);
    memcpy(&src, &data, sizeof src);    /* the copy kernel only reads it */
    return convert(t, 1, &host, src, &t->layout, element0(t));
}

weir_status weir_write(weir_tensor *t, const void *data, size_t bytes)
{
    WEIR_TRY(check_size("weir_write", t, data, bytes));
    WEIR_VISIT(t->dev, "weir_write", weir_error_status());
    WEIR_TRY(check_writable("weir_write", t));
    weir_block *const b = t->block;
    WEIR_TRY(weir_evict_overwrite(b));
    const bool offloaded = b->offloaded;
    WEIR_TRY(touch(t));
    return written("weir_write", t, offloaded, write_there(t, data, bytes));
}

/* Reads t, whose block is in device memory. */
static weir_status read_there(const weir_tensor *t, void *data, size_t bytes)
{
    weir_layout host = {.desc = t->layout.desc}, from = t->layout;

    weir_shape_row_major(&host.desc, host.stride);
    WEIR_TRY(t->dev->ops->sync(t->dev));
    if (memcmp(host.stride, from.stride, sizeof host.stride) == 0)
        return t->dev->ops->download(t->dev, data, element0(t), bytes);
    if (!t->dev->ops->host)
        return weir_staging_from(t->dev, &from, element0(t), data);
    return convert(t, 0, &from, element0(t), &host, data);
}

weir_status weir_read(const weir_tensor *t, void *data, size_t bytes)
{
    WEIR_TRY(check_size("weir_read", t, data, bytes));
    WEIR_VISIT(t->dev, "weir_read", weir_error_status());
    WEIR_TRY(weir_tensor_check_there("weir_read", t));
    weir_block *b = t->block;
    if (b->owner)
        return weir_fail(WEIR_ERR_STATE,
                         "weir_read: the value is recorded, not computed: end and run "
                         "the graph first");
    if (!b->written && b->never)
        return weir_fail(WEIR_ERR_STATE, "weir_read: the tensor '%s' %s", weir_tensor_name(t),
                         b->never);
    if (!b->written && bytes > 0) {
        const char *const name = weir_tensor_name(t), *const quote = *name ? "'" : "";
        return weir_fail(WEIR_ERR_STATE, b->kind == WEIR_KIND_OUTPUT
                         ? "weir_read: the graph that makes the value%s%s%s%s has not run yet"
                         : "weir_read: the tensor%s%s%s%s has never been written",
                         *name ? " " : "", quote, name, quote);
    }
    if (bytes == 0)
        return WEIR_OK;
    const bool offloaded = b->offloaded;
    if (offloaded)
        WEIR_TRY(weir_block_touch(b));
    WEIR_TRY(weir_evict_hold(b));
    const weir_status status = read_there(t, data, bytes);
    weir_evict_release(b);
    if (offloaded)                   /* reading all parameters in turn needs memory for one */
        weir_block_offload_clean(b);
    return status;
}

/* Runs a call without inputs that writes the whole tensor. */
static weir_status generate(const char *who, weir_tensor *t, weir_op op, const void *attr,
                            size_t bytes)
{
    WEIR_VISIT_OF(t, who, "the tensor");
    WEIR_TRY(check_writable(who, t));
    weir_block *b = t->block;
    if (!weir_tensor_is_whole(t))
        return weir_fail(WEIR_ERR_INVALID, "%s: the tensor is a view", who);
    WEIR_TRY(weir_evict_overwrite(b));
    const bool offloaded = b->offloaded;
    WEIR_TRY(touch(t));
    weir_layout     out = t->layout;
    const weir_call c = {.op = op, .def = weir_opdef_of(op), .nout = 1, .out = &out, .attr = attr,
                         .attr_bytes = bytes, .alias = -1};
    void *dst = element0(t);
    return written(who, t, offloaded,
                   weir_shape_count(&out.desc) > 0 ? weir_run_raw(t->dev, &c, NULL, &dst, 0, b)
                                                   : WEIR_OK);
}

weir_status weir_write_fill(weir_tensor *t, double value)
{
    const weir_fill_attr a = {.value = value};
    return generate("weir_write_fill", t, WEIR_OP_FILL, &a, sizeof a);
}

static weir_status draw(const char *who, weir_tensor *t, weir_op op, double s, double u)
{
    const weir_ew_attr a = {s, u};

    if (t && !weir_is_any_float(t->layout.desc.dtype))
        return weir_fail(WEIR_ERR_DTYPE, "%s: random numbers are floats, not %s", who,
                         weir_dtype_name(t->layout.desc.dtype));
    if (t)
        WEIR_TRY(weir_draw_check(who, op, t->layout.desc.dtype, s, u));
    return generate(who, t, op, &a, sizeof a);
}

weir_status weir_write_uniform(weir_tensor *t, double lo, double hi)
{
    return draw("weir_write_uniform", t, WEIR_OP_UNIFORM, lo, hi);
}

weir_status weir_write_normal(weir_tensor *t, double mean, double stddev)
{
    return draw("weir_write_normal", t, WEIR_OP_NORMAL, mean, stddev);
}

/* ---- direct access to memory ---- */

weir_status weir_tensor_make_state(weir_tensor *t)
{
    char text[WEIR_DESC_TEXT];

    WEIR_VISIT_OF(t, "weir_tensor_make_state", "t");
    WEIR_TRY(weir_tensor_check_there("weir_tensor_make_state", t));
    weir_block       *b = t->block;
    const char *const why =
        b->owner || b->kind == WEIR_KIND_OUTPUT ? "is the result of a graph, which writes it itself"
        : t->tape ? "is the result of a call that a gradient flows through"
        : !weir_tensor_is_whole(t) ? "is a view" : NULL;
    if (why)
        return weir_fail(WEIR_ERR_STATE, "weir_tensor_make_state: %s %s; copy it first",
                         weir_desc_text(&t->layout.desc, text), why);
    WEIR_TRY(weir_evict_fix(b));
    if (b->kind > WEIR_KIND_INPUT)
        weir_block_persist(b, WEIR_KIND_STATE);
    return WEIR_OK;
}

/* Allocates memory, set to zero, if the tensor has none. Parameters, states and inputs count as
 * written from now on; an output counts only once its graph has run. */
static weir_status settle(weir_tensor *t)
{
    weir_block *b = t->block;

    WEIR_TRY(weir_evict_fix(b));
    WEIR_TRY(weir_evict_overwrite(b));
    WEIR_TRY(weir_block_touch(b));
    b->shared = true;
    if (!b->written)
        WEIR_TRY(t->dev->ops->fill(t->dev, b->data, 0, b->bytes));
    b->written |= b->kind <= WEIR_KIND_INPUT;
    WEIR_TRY(t->dev->ops->sync(t->dev));
    weir_block_look(b);
    return WEIR_OK;
}

weir_status weir_tensor_memory(weir_tensor *t, void **data, int64_t stride[WEIR_MAX_DIMS])
{
    char text[WEIR_DESC_TEXT];

    if (!t || !data || !stride)
        return weir_fail_null("weir_tensor_memory", !t ? "t" : !data ? "data" : "stride");
    *data = NULL;
    WEIR_VISIT(t->dev, "weir_tensor_memory", weir_error_status());
    WEIR_TRY(weir_tensor_check_there("weir_tensor_memory", t));
    if (!t->dev->ops->host)
        return weir_fail(WEIR_ERR_DEVICE, "weir_tensor_memory: the host cannot reach memory of "
                         "device %s", t->dev->ops->name);
    if (((const weir_block *)t->block)->owner)
        return weir_fail(WEIR_ERR_STATE, "weir_tensor_memory: %s is recorded in a graph, not "
                         "computed: weir_keep it before weir_graph_end",
                         weir_desc_text(&t->layout.desc, text));
    WEIR_TRY(settle(t));
    *data = element0(t);
    for (int i = 0; i < t->layout.desc.ndim; i++)
        stride[i] = t->layout.stride[i];
    return WEIR_OK;
}
