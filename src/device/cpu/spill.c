/* spill.c - SPILL_OUT, SPILL_IN, SPILL_WAIT: copies between the arena and the device's spill file.
 *
 * The first two start a copy and return; what they name must stay where it is until the third has
 * waited. */
#include "core/attr.h"
#include "core/status.h"
#include "device/cpu/kernels.h"

/* The place of the call's ticket: a plan has made it, a kernel that is run alone has none. */
static uint64_t *ticket_of(const weir_kargs *k)
{
    const weir_spill_attr *const a = k->call->attr;

    if (k->spill && a->ticket < weir_spill_places(k->spill))
        return weir_spill_ticket(k->spill, (uint32_t)a->ticket);
    (void)weir_call_fail(WEIR_ERR_STATE, k->call, "runs in a plan only");
    return NULL;
}

static size_t slot_of(const weir_kargs *k)
{
    const weir_spill_attr *const a = k->call->attr;
    return (a->home ? 0 : k->passing) + a->slot;
}

static weir_status out_run(const weir_kargs *k)
{
    const weir_spill_attr *const a = k->call->attr;
    uint64_t *const              ticket = ticket_of(k);

    return ticket ? weir_spill_out(k->spill, slot_of(k), k->src[0], a->bytes, ticket)
                  : weir_error_status();
}

static weir_status in_run(const weir_kargs *k)
{
    const weir_spill_attr *const a = k->call->attr;
    uint64_t *const              ticket = ticket_of(k);

    return ticket ? weir_spill_in(k->spill, slot_of(k), k->dst[0], a->bytes, ticket)
                  : weir_error_status();
}

static weir_status wait_run(const weir_kargs *k)
{
    const uint64_t *const ticket = ticket_of(k);
    return ticket ? weir_spill_wait(k->spill, *ticket) : weir_error_status();
}

/* The operand is all of its memory, as large as the attributes say. */
static weir_status choose(const weir_call *c, const weir_layout *l,
                          weir_status (*run)(const weir_kargs *), weir_choice *out)
{
    const weir_spill_attr *const a = c->attr;

    if (c->attr_bytes != sizeof *a || a->ticket >= UINT32_MAX)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no attributes, or no ticket");
    if (l && (!weir_shape_is_dense(l) || weir_shape_bytes(&l->desc) != a->bytes))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%zu bytes do not fill a copy of %zu",
                              weir_shape_bytes(&l->desc), (size_t)a->bytes);
    *out = (weir_choice){.run = run, .impl = "spill"};
    return WEIR_OK;
}

weir_status weir_cpu_spill_out(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    return choose(c, &c->in[0], out_run, out);
}

weir_status weir_cpu_spill_in(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    return choose(c, &c->out[0], in_run, out);
}

weir_status weir_cpu_spill_wait(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    return choose(c, NULL, wait_run, out);
}
