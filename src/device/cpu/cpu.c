/* cpu.c - the CPU as a device: host memory, plain copies, and the table of its kernels. */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/resources.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/half_inputs.h"
#include "device/cpu/amx.h"
#include "device/cpu/context.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas.h"
#include "device/cpu/kernels.h"
#include "device/cpu/model.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/swap.h"
#include "device/cpu/kernels/widen.h"

#define CHUNK ((size_t)1 << 20)     /* bytes one task of a fill or copy handles */

static weir_status cpu_count(int *n)
{
    *n = 1;
    return WEIR_OK;
}

static weir_status cpu_open(weir_device *d, const char *spec)
{
    if (spec)
        return weir_fail(WEIR_ERR_INVALID, "weir_device_open: device cpu takes no options, not "
                                           "':%s'",
                         spec);
    weir_cpu *cpu = weir_mem_zalloc(1, sizeof *cpu);
    if (!cpu)
        return WEIR_ERR_NOMEM;
    cpu->isa = weir_cpu_isa();
    cpu->amx = weir_cpu_amx();
    cpu->memory = weir_limits_memory().total;
    d->impl = cpu;
    return WEIR_OK;
}

static void cpu_close(weir_device *d)
{
    weir_cpu *cpu = d->impl;
    weir_cpu_blas_close(cpu->blas);
    weir_cpu_onednn_close(cpu->onednn);
    weir_mem_free(cpu);
}

static weir_memory_limits cpu_space(const weir_device *d)
{
    (void)d;
    return weir_limits_memory();
}

/* Systems that overcommit would kill the process at the first touch, so requests for more than the
 * machine, or the cgroup, has fail here. */
static weir_status cpu_alloc(weir_device *d, size_t bytes, bool huge, void **p)
{
    const size_t memory = weir_cpu_of(d)->memory;

    if (bytes > memory)
        return weir_fail(WEIR_ERR_NOMEM, "device cpu: %zu bytes wanted, the machine has %zu", bytes,
                         memory);
    *p = weir_mem_pages(bytes, huge);
    return *p ? WEIR_OK : WEIR_ERR_NOMEM;
}

static void cpu_free(weir_device *d, void *p, size_t bytes)
{
    (void)d;
    weir_mem_pages_free(p, bytes);
}

/* A copy, or a fill (from NULL), divided into chunks. */
typedef struct transfer {
    char       *to;
    const char *from;
    int         byte;
    size_t      n;
} transfer;

static void transfer_chunk(void *ctx, int64_t task)
{
    const transfer *t = ctx;
    const size_t at = (size_t)task * CHUNK;
    const size_t n = t->n - at < CHUNK ? t->n - at : CHUNK;
    if (t->from)
        memcpy(t->to + at, t->from + at, n);
    else
        memset(t->to + at, t->byte, n);
}

static weir_status transfer_run(weir_device *d, transfer t)
{
    weir_parallel(d->threads, (int64_t)(t.n / CHUNK + (t.n % CHUNK > 0)), transfer_chunk, &t);
    return WEIR_OK;
}

static weir_status cpu_fill(weir_device *d, void *p, int byte, size_t n)
{
    return transfer_run(d, (transfer){.to = p, .byte = byte, .n = n});
}

static weir_status cpu_copy(weir_device *d, void *to, const void *from, size_t n)
{
    return transfer_run(d, (transfer){.to = to, .from = from, .n = n});
}

static weir_status cpu_sync(weir_device *d)
{
    (void)d;
    return WEIR_OK;
}

/* Byte i of the canary pattern; adjacent bytes differ. */
static unsigned char canary(size_t i)
{
    return (unsigned char)(((i + 1) * 0x9E3779B97F4A7C15u) >> 56);
}

static weir_status cpu_paint(weir_device *d, void *p, size_t n)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)p)[i] = canary(i);
    return WEIR_OK;
}

static weir_status cpu_painted(weir_device *d, const void *p, size_t n, size_t *end)
{
    (void)d;
    while (n > 0 && ((const unsigned char *)p)[n - 1] == canary(n - 1))
        n--;
    *end = n;
    return WEIR_OK;
}

static double cpu_clock(const weir_device *d)
{
    return weir_now() - d->opened;
}

/* Estimates until times are measured: two cores of a server, a file on its disk. */
static weir_rates cpu_rates(const weir_device *d)
{
    (void)d;
    return (weir_rates){.flops = 1.5e11, .bytes = 1.5e10, .link_out = 1e9, .link_in = 1e9,
                        .call = 2e-6, .copy = 1e-4};
}

static void cpu_info(weir_device *d, weir_string *s)
{
    static const char units[] = "by the processor's units";
    char              model[WEIR_CPU_MODEL];

    weir_cpu_model(model);
    weir_string_add(s, "instruction set %s (best here: %s)%s%s\n",
                    weir_cpu_isa_name(weir_cpu_of(d)->isa),
                    weir_cpu_isa_name(weir_cpu_isa_best()), *model ? ", " : "", model);
    weir_cpu_amx_info(&weir_cpu_of(d)->amx, s);
    weir_cpu_onednn_info(s);
    weir_string_add(s, "products of halves: bf16 %s, f16 %s\n",
                    weir_onednn_multiplies(WEIR_BF16) || weir_gemm_bf16() ? units : "in f32",
                    weir_onednn_multiplies(WEIR_F16) ? units : "in f32");
    weir_cpu_blas_info(s);
}

static const weir_choose_fn kernels[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = weir_cpu_##id,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = weir_cpu_elementwise,
#include "core/elementwise.def"
#undef ROW
};

/* Products and convolutions by own code, by OpenBLAS, by oneDNN. */
static weir_status cpu_other(weir_device *d, const weir_call *c, int i, weir_kernel *out)
{
    weir_cpu *const      cpu = weir_cpu_of(d);
    const weir_openblas *blas;

    *out = (weir_kernel){0};
    if (c->op != WEIR_OP_MATMUL && c->op != WEIR_OP_LINEAR && c->op != WEIR_OP_CONV2D &&
        c->op != WEIR_OP_CONV2D_GRAD_X && c->op != WEIR_OP_CONV2D_GRAD_W)
        return WEIR_OK;
    WEIR_TRY(weir_cpu_blas(d, &blas));
    if ((i == WEIR_GEMM_OPENBLAS && !blas) || (i == WEIR_GEMM_ONEDNN && !weir_onednn_present()))
        return WEIR_OK;
    cpu->want = i;
    const weir_status status = kernels[c->op](d, c, out);
    cpu->want = WEIR_GEMM_ANY;
    if (status != WEIR_OK)
        *out = (weir_kernel){0};
    return status == WEIR_ERR_NOMEM ? status : WEIR_OK;
}

const weir_device_ops weir_device_cpu = {
    .name = "cpu",
    .align = 64,
    .host = true,
    .spill_slots = true,
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .space = cpu_space,
    .fill = cpu_fill,
    .upload = cpu_copy,
    .download = cpu_copy,
    .sync = cpu_sync,
    .paint = cpu_paint,
    .painted = cpu_painted,
    .clock = cpu_clock,
    .rates = cpu_rates,
    .info = cpu_info,
    .swap_reserve = weir_cpu_swap_reserve,
    .swap = weir_cpu_swap,
    .swap_wait = weir_cpu_swap_wait,
    .swap_settle = weir_cpu_swap_settle,
    .swap_speed = weir_cpu_swap_speed,
    .kernel = kernels,
    .widens = weir_widens,
    .rounds = weir_rounds,
    .narrows = weir_cpu_narrows,
    .other = cpu_other,
};
