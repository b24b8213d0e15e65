/* swap.c - the kernels that start and await offload copies. */
#include "device/offload/swap.h"

#include "core/attr.h"
#include "core/status.h"

/* The call's ticket. Plans make the table large enough; a call outside of a plan has no ticket. */
static weir_status ticket_of(const weir_kargs *k, uint32_t *ticket)
{
    const weir_spill_attr *const a = k->call->attr;

    if (!k->dev || a->ticket >= k->dev->tickets)
        return weir_call_fail(WEIR_ERR_STATE, k->call, "runs in a plan only");
    *ticket = (uint32_t)a->ticket;
    return WEIR_OK;
}

static weir_status copy(const weir_kargs *k, bool in, void *const *at)
{
    const weir_spill_attr *const a = k->call->attr;
    uint32_t ticket = 0;

    WEIR_TRY(ticket_of(k, &ticket));
    const weir_swap c = {.in = in,
                         .slot = (a->persistent ? 0 : k->dev->spill_slots_end) + a->slot,
                         .bytes = a->bytes,
                         .at = *at,
                         .ticket = ticket,
                         .stream = k->stream};
    return k->dev->ops->swap(k->dev, &c);
}

static weir_status out_run(const weir_kargs *k)
{
    return copy(k, false, k->src);
}

static weir_status in_run(const weir_kargs *k)
{
    return copy(k, true, k->dst);
}

static weir_status wait_run(const weir_kargs *k)
{
    uint32_t ticket = 0;

    WEIR_TRY(ticket_of(k, &ticket));
    return k->dev->ops->swap_wait(k->dev, k->stream, ticket);
}

/* The operand must be dense and exactly as large as the attributes say. */
weir_status weir_swap_choose(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_spill_attr *const a = c->attr;
    const bool wait = c->op == WEIR_OP_SPILL_WAIT, outwards = c->op == WEIR_OP_SPILL_OUT;
    const weir_layout *const l = outwards ? &c->in[0] : &c->out[0];

    (void)d;
    if (c->attr_bytes != sizeof *a || a->ticket >= WEIR_SWAP_NOW)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no attributes, or no ticket");
    if (!wait && (!weir_shape_is_dense(l) || weir_shape_bytes(&l->desc) != a->bytes))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%zu bytes do not fill a copy of %zu",
                              weir_shape_bytes(&l->desc), (size_t)a->bytes);
    *out = (weir_kernel){.run = wait ? wait_run : outwards ? out_run : in_run, .impl = "spill"};
    return WEIR_OK;
}
