/* same_cases.c - runs cases of kernels on a card as well: results must have the CPU's bits.
 *
 * The card is the emulated one unless WEIR_PLUGINS names a folder with another plugin. Operands
 * begin at the beginning of a block, then one element later. */
#include "device/device.h"
#include "device/kernel.h"
#include "device/kernel_case.h"

enum { GUARD = 64, POISON = 0x5a };

static weir_device *card(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 0);
    return weir_device_open("cuda", NULL);
}

typedef struct memory {
    char  *block, *at;      /* the allocation; the operand within it */
    size_t capacity, bytes; /* sizes of the two */
} memory;

static bool memory_new(weir_device *d, const weir_layout *l, size_t skew, const void *from,
                       memory *m)
{
    void *p = NULL;

    m->bytes = from ? kernel_extent(l) : weir_shape_bytes(&l->desc);
    m->capacity = m->bytes + skew * weir_dtype_size(l->desc.dtype) + GUARD;
    if (!CHECK_OK(d->ops->alloc(d, m->capacity, false, &p)))
        return false;
    m->block = p;
    m->at = m->block + skew * weir_dtype_size(l->desc.dtype);
    CHECK_OK(d->ops->fill(d, m->block, POISON, m->capacity));
    if (from)
        CHECK_OK(d->ops->upload(d, m->at, from, m->bytes));
    return true;
}

/* Checks that the operand has these bits and that its surroundings are unchanged. */
static bool memory_check(weir_device *d, const memory *m, const void *want)
{
    unsigned char *const host = malloc(m->capacity);
    const size_t         skew = (size_t)(m->at - m->block);
    bool                 good = CHECK_OK(d->ops->download(d, host, m->block, m->capacity));

    good = CHECK_BITS(host + skew, want, m->bytes) && good;
    for (size_t i = 0; i < m->capacity; i++)
        if ((i < skew || i >= skew + m->bytes) && host[i] != POISON)
            good = check_that(false, __FILE__, __LINE__, "byte %lld of %zu was written",
                              (long long)i - (long long)skew, m->bytes);
    free(host);
    return good;
}

/* Allocates what a captured run draws with: seed 0 in device memory, and a position which, added to
 * the call's, is also 0. */
static bool draws_new(weir_device *d, memory *m)
{
    const weir_layout l = kernel_dense(weir_1d(WEIR_I64, 2));
    return memory_new(d, &l, 0, (const uint64_t[]){0, 77}, m);
}

static bool run_on(weir_device *d, const kernel_case *k, const weir_call *call, size_t skew,
                   bool recorded)
{
    memory             in[WEIR_MAX_IN] = {{0}}, out[WEIR_MAX_OUT] = {{0}}, work = {0};
    memory             draw = {0};
    void              *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    const weir_kernel *kernel = NULL;
    bool               good = CHECK_OK(weir_kernel_of(d, call, &kernel));

    for (int i = 0; i < k->nin; i++)
        good = memory_new(d, &k->in[i], skew, k->src[i], &in[i]) && good;
    for (int i = 0; i < k->nout; i++)
        good = memory_new(d, &k->out[i], skew, NULL, &out[i]) && good;
    for (int i = 0; i < k->nin; i++)
        src[i] = in[i].at;
    for (int i = 0; i < k->nout; i++)
        dst[i] = out[i].at;
    if (good) {
        const weir_layout l = kernel_dense(weir_1d(WEIR_U8, (int64_t)kernel->work));
        good = memory_new(d, &l, 0, NULL, &work);
        good = good && (!recorded || draws_new(d, &draw));
        const weir_kargs args = {.call = call,
                                 .src = src,
                                 .dst = dst,
                                 .work = work.at,
                                 .state = kernel->state,
                                 .threads = d->threads,
                                 .dev = d,
                                 .seed = recorded ? 99 : 0,
                                 .rng = recorded ? (uint64_t)-77 : 0,
                                 .draw = (const uint64_t *)(const void *)draw.at};
        good = good && CHECK_OK(kernel->run(&args));
    }
    for (int i = 0; i < k->nout && good; i++)
        good = memory_check(d, &out[i], k->dst[i]);
    for (int i = 0; i < k->nin; i++)
        d->ops->free(d, in[i].block, in[i].capacity);
    for (int i = 0; i < k->nout; i++)
        d->ops->free(d, out[i].block, out[i].capacity);
    d->ops->free(d, work.block, work.capacity);
    d->ops->free(d, draw.block, draw.capacity);
    return good;
}

void kernel_check_gpu(const kernel_case *k, const weir_call *call)
{
    weir_device *const d = card();

    if (!CHECK_OK(d ? WEIR_OK : weir_error_status()))
        return;
    const bool packs = weir_op_moves(k->op);
    const bool good = run_on(d, k, call, 0, packs) && run_on(d, k, call, packs ? 0 : 1, false);
    if (!good) {
        char text[WEIR_DESC_TEXT];
        printf("    op %d, first result %s\n", (int)k->op, weir_desc_text(&k->out[0].desc, text));
    }
    weir_device_close(d);
}
