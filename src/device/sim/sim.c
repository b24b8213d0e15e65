/* sim.c - a device without arithmetic: its memory is address ranges, its kernels advance a clock.
 *
 * Invariants: `used` is the sum of the bytes of all live blocks, at most `capacity`. Addresses from
 * FIRST on are never accessed, and no system maps memory there, so an access faults at once.
 * Downloads return zeros. All ops but collectives (world.c) share one kernel without a workspace; a
 * call takes the time that the roofline of the device's rates gives. Callbacks are not called, as
 * there are no values to pass.
 */
#include "device/sim/sim.h"

#include <string.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/offload/swap.h"
#include "device/sim/spec.h"

/* Addresses with bit 52 set are mapped nowhere: user space ends at 2^47 on x86-64 (with 57-bit
 * addresses, where a program requested them, at 2^56) and at 2^52 on AArch64. */
#define FIRST ((uintptr_t)1 << 52)
#define LAST  ((uintptr_t)1 << 55)
#define ALIGN ((size_t)256)

static weir_status sim_count(int *n)
{
    *n = 1;
    return WEIR_OK;
}

static weir_status sim_open(weir_device *d, const char *text)
{
    weir_sim_spec spec;

    WEIR_TRY(weir_sim_spec_read(text, &spec));
    weir_sim *sim = weir_mem_zalloc(1, sizeof *sim);
    if (!sim)
        return WEIR_ERR_NOMEM;
    sim->rates = spec.rates;
    sim->network = spec.network;
    sim->capacity = (size_t)spec.capacity;
    sim->next = FIRST;
    d->impl = sim;
    return WEIR_OK;
}

static void sim_close(weir_device *d)
{
    weir_vec_free(&weir_sim_of(d)->tickets);
    weir_vec_free(&weir_sim_of(d)->slots);
    weir_mem_free(d->impl);
}

/* ---- memory ---- */

static weir_memory_limits sim_space(const weir_device *d)
{
    const weir_sim *sim = weir_sim_of(d);

    return (weir_memory_limits){.total = sim->capacity, .unused = sim->capacity - sim->used};
}

static weir_status sim_alloc(weir_device *d, size_t bytes, bool huge, void **p)
{
    weir_sim *sim = weir_sim_of(d);

    (void)huge;
    if (bytes > sim->capacity - sim->used)
        return weir_fail(WEIR_ERR_NOMEM, "device sim: %zu bytes wanted, but of the capacity of "
                         "%zu bytes only %zu are unused",
                         bytes, sim->capacity, sim->capacity - sim->used);
    if (sim->used == 0)
        sim->next = FIRST;
    if (bytes > LAST - sim->next)
        return weir_fail(WEIR_ERR_NOMEM, "device sim: its address space is used up");
    *p = (void *)sim->next;
    sim->next += (bytes + ALIGN - 1) & ~(ALIGN - 1);
    sim->used += bytes;
    return WEIR_OK;
}

static void sim_free(weir_device *d, void *p, size_t bytes)
{
    (void)p;
    weir_sim_of(d)->used -= bytes;
}

static weir_status sim_fill(weir_device *d, void *p, int byte, size_t n)
{
    (void)d;
    (void)p;
    (void)byte;
    (void)n;
    return WEIR_OK;
}

/* ---- time ---- */

static double sim_clock(const weir_device *d)
{
    return weir_sim_done(weir_sim_of(d));
}

/* The host waits for all work, so later work cannot begin earlier. */
static weir_status sim_sync(weir_device *d)
{
    weir_sim_of(d)->compute = sim_clock(d);
    return WEIR_OK;
}

/* The host waits for its copies. */
static weir_status sim_upload(weir_device *d, void *dev, const void *host, size_t n)
{
    (void)dev;
    (void)host;
    weir_sim_wait(d, weir_sim_copy_in(d, n, 0));
    return WEIR_OK;
}

static weir_status sim_download(weir_device *d, void *host, const void *dev, size_t n)
{
    (void)dev;
    memset(host, 0, n);
    weir_sim_wait(d, weir_sim_copy_out(d, n, 0));
    return WEIR_OK;
}

/* ---- measuring the arena ---- */

static weir_status sim_paint(weir_device *d, void *p, size_t n)
{
    weir_sim *sim = weir_sim_of(d);

    sim->lo = sim->top = (uintptr_t)p;
    sim->hi = sim->lo + n;
    return WEIR_OK;
}

static weir_status sim_painted(weir_device *d, const void *p, size_t n, size_t *end)
{
    weir_sim *sim = weir_sim_of(d);

    (void)p;
    (void)n;
    *end = sim->top - sim->lo;
    sim->lo = sim->hi = 0;
    return WEIR_OK;
}

/* ---- kernels ---- */

typedef struct timed {
    weir_device *dev;
    double       seconds;
} timed;

static weir_status run(const weir_kargs *k)
{
    const timed *t = k->state;
    weir_sim    *sim = weir_sim_of(t->dev);

    sim->compute += t->seconds;
    weir_sim_watch(sim, k, 0);
    return WEIR_OK;
}

static weir_status choose(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_spill_attr_of(c->op, c->attr))
        return weir_swap_choose(d, c, out);
    if (c->def->flags & WEIR_COLLECTIVE)
        return weir_sim_choose_collective(d, c, out);
    timed *const t = weir_mem_alloc(sizeof *t);
    if (!t)
        return WEIR_ERR_NOMEM;
    *t = (timed){d, weir_rates_seconds(&weir_sim_of(d)->rates, c)};
    *out = (weir_kernel){.run = run, .state = t, .destroy = weir_mem_free, .impl = "sim"};
    return WEIR_OK;
}

static const weir_choose_fn kernels[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = choose,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = choose,
#include "core/elementwise.def"
#undef ROW
};

/* ---- offload: a stream per direction; a prefetch begins once its slot has been written ---- */

/* Grows a list of times with zeros. */
static bool grow(weir_sim_times *times, uint64_t n)
{
    while (times->n < n)
        if (!weir_vec_push(times, 0))
            return false;
    return true;
}

static weir_status sim_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets)
{
    weir_sim *const sim = weir_sim_of(d);

    return bytes / WEIR_SPILL_ALIGN < UINT32_MAX && grow(&sim->tickets, tickets) &&
                   grow(&sim->slots, bytes / WEIR_SPILL_ALIGN + 1) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status sim_swap(weir_device *d, const weir_swap *c)
{
    weir_sim *const sim = weir_sim_of(d);
    double *const   slot = &sim->slots.at[c->slot / WEIR_SPILL_ALIGN];

    if (c->in)
        sim->tickets.at[c->ticket] = weir_sim_copy_in(d, c->bytes, *slot);
    else
        sim->tickets.at[c->ticket] = *slot = weir_sim_copy_out(d, c->bytes, 0);
    return WEIR_OK;
}

static weir_status sim_swap_wait(weir_device *d, weir_stream *s, uint32_t ticket)
{
    (void)s;
    weir_sim_wait(d, weir_sim_of(d)->tickets.at[ticket]);
    return WEIR_OK;
}

static weir_status sim_swap_settle(weir_device *d, weir_status so_far)
{
    (void)d;
    return so_far;
}

static weir_status sim_swap_speed(weir_device *d, double *out, double *in)
{
    *out = weir_sim_of(d)->rates.link_out;
    *in = weir_sim_of(d)->rates.link_in;
    return WEIR_OK;
}

/* ---- the device ---- */

static weir_rates sim_rates(const weir_device *d)
{
    return weir_sim_of(d)->rates;
}

static void sim_info(weir_device *d, weir_string *s)
{
    const weir_sim *sim = weir_sim_of(d);

    weir_string_add(s, "simulated: %.4g TFLOP/s, memory %.4g GB/s, link %.4g GB/s out and %.4g in, "
                    "%.4g us a call, %.4g a copy, %.4g GB\n", sim->rates.flops * 1e-12,
                    sim->rates.bytes * 1e-9, sim->rates.link_out * 1e-9, sim->rates.link_in * 1e-9,
                    sim->rates.call * 1e6, sim->rates.copy * 1e6, (double)sim->capacity * 1e-9);
    if (sim->network.world > 1)
        weir_string_add(s, "rank 0 of %d, %d a node; %.4g GB/s and %.4g us a message between "
                        "nodes, %.4g GB/s and %.4g us within one\n", sim->network.world,
                        sim->network.node, sim->network.wire * 1e-9, sim->network.alpha * 1e6,
                        sim->network.inner * 1e-9, sim->network.inner_alpha * 1e6);
}

const weir_device_ops weir_device_sim = {
    .name = "sim",
    .align = ALIGN,
    .host = false,
    .unreal = true,
    .count = sim_count,
    .open = sim_open,
    .close = sim_close,
    .alloc = sim_alloc,
    .free = sim_free,
    .space = sim_space,
    .fill = sim_fill,
    .upload = sim_upload,
    .download = sim_download,
    .sync = sim_sync,
    .paint = sim_paint,
    .painted = sim_painted,
    .clock = sim_clock,
    .rates = sim_rates,
    .join = weir_sim_join,
    .info = sim_info,
    .swap_reserve = sim_swap_reserve,
    .swap = sim_swap,
    .swap_wait = sim_swap_wait,
    .swap_settle = sim_swap_settle,
    .swap_speed = sim_swap_speed,
    .kernel = kernels,
};
