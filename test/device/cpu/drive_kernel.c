/* drive_kernel.c - runs a case of one CPU kernel in every way. */
#include "device/cpu/isa.h"
#include "device/kernel_case.h"

/* Copies of what a run writes: outputs, then mutated inputs. */
typedef struct kernel_copy {
    void  *at[WEIR_MAX_OUT + WEIR_MAX_IN], *own[WEIR_MAX_OUT + WEIR_MAX_IN];
    size_t bytes[WEIR_MAX_OUT + WEIR_MAX_IN];
    int    n;
} kernel_copy;

static kernel_copy kernel_copy_of(kernel_case *k)
{
    kernel_copy c = {.n = 0};
    for (int i = 0; i < k->nout + k->nin; i++) {
        const int in = i - k->nout;
        if (in >= 0 && (k->mutates >> in & 1) == 0)
            continue;
        c.at[c.n] = in < 0 ? k->dst[i] : k->src[in];
        c.bytes[c.n] = weir_shape_bytes(in < 0 ? &k->out[i].desc : &k->in[in].desc);
        c.own[c.n] = malloc(c.bytes[c.n] + 1);
        memcpy(c.own[c.n], c.at[c.n], c.bytes[c.n]);
        c.n++;
    }
    return c;
}

static void kernel_copy_free(kernel_copy *c)
{
    for (int i = 0; i < c->n; i++)
        free(c->own[i]);
}

/* Checks that nothing outside operands and scratch was written. */
static void kernel_zones(const kernel_case *k, void *work, const char *impl)
{
    zone_check(work, impl, "work buffer");
    for (int i = 0; i < k->nin; i++)
        zone_check(k->src[i], impl, "input");
    for (int i = 0; i < k->nout; i++)
        zone_check(k->dst[i], impl, "output");
}

enum { UNUSED = 0xff };

static void kernel_run_once(const kernel_case *k, const weir_call *call, const weir_kernel *kernel,
                            int threads)
{
    weir_threads *t = weir_threads_new(threads);
    void         *work = zone_new(kernel->work);
    memset(work, UNUSED, kernel->work);
    for (int i = 0; i < k->nout; i++)
        memset(k->dst[i], 0xa5, weir_shape_bytes(&k->out[i].desc));
    const weir_kargs args = {.call = call,
                             .src = k->src,
                             .dst = k->dst,
                             .work = kernel->work > 0 ? work : NULL,
                             .state = kernel->state,
                             .threads = t};
    CHECK_OK(kernel->run(&args));
    kernel_zones(k, work, kernel->impl);
    zone_check_used(work, kernel->work, UNUSED, kernel->impl);
    zone_free(work);
    weir_threads_free(t);
}

void kernel_run(kernel_case *k)
{
    weir_call   call = {.op = k->op, .nin = k->nin, .nout = k->nout, .in = k->in, .out = k->out,
                        .attr = k->attr, .attr_bytes = k->attr_bytes, .alias = -1};
    kernel_copy before = kernel_copy_of(k), first = {.n = 0};
    for (int isa = 0; isa <= (int)weir_cpu_isa_best(); isa++) {
        weir_kernel kernel = {0};
        setenv("WEIR_ISA", weir_cpu_isa_name((weir_isa)isa), 1);
        if (!CHECK_OK(k->choose(NULL, &call, &kernel)))
            break;
        for (int threads = 1; threads <= 3; threads++) {
            for (int i = 0; i < before.n; i++)
                memcpy(before.at[i], before.own[i], before.bytes[i]);
            kernel_run_once(k, &call, &kernel, threads);
            if (first.n == 0)
                first = kernel_copy_of(k);
            for (int i = 0; i < first.n; i++)
                CHECK_BITS(first.at[i], first.own[i], first.bytes[i]);
        }
        if (kernel.destroy)
            kernel.destroy(kernel.state);
    }
    unsetenv("WEIR_ISA");
#ifdef KERNEL_CHECK_GPU
    kernel_check_gpu(k, &call);
#endif
    kernel_copy_free(&before);
    kernel_copy_free(&first);
}
