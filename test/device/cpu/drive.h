/* drive.h - calls kernels directly: a bare CPU device, hand-made calls, operands in guard zones. */
#ifndef WEIR_TEST_DEVICE_CPU_DRIVE_H
#define WEIR_TEST_DEVICE_CPU_DRIVE_H

#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "device/cpu/context.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas.h"
#include "device/cpu/kernels.h"
#include "device/zone.h"
#include "half.h"

typedef struct drive {
    weir_device d;
    weir_cpu    cpu;
    int         runs; /* how often a call is made */
} drive;

/* Sets the environment variable for later selections; NULL removes it. */
static inline void drive_env(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static inline bool drive_open(drive *v, int threads)
{
    *v = (drive){.cpu = {.isa = weir_cpu_isa()}, .runs = 2};
    v->d.impl = &v->cpu;
    v->d.threads = weir_threads_new(threads);
    return CHECK(v->d.threads != NULL);
}

static inline void drive_close(drive *v)
{
    weir_cpu_blas_close(v->cpu.blas);
    weir_cpu_onednn_close(v->cpu.onednn);
    weir_threads_free(v->d.threads);
}

/* A dense operand: its elements as doubles, in memory order, and in their type, between guard
 * zones. */
typedef struct operand {
    weir_layout layout;
    int64_t     n;
    double     *value;
    void       *data;
    size_t      bytes;
} operand;

enum {
    DRIVE_POISON = 0xa5,
    DRIVE_SCRATCH = 0x7f /* huge numbers, so that reading them is noticed */
};

static inline operand operand_of(weir_desc desc)
{
    operand o = {.layout = {.desc = desc}};
    weir_shape_dense(&o.layout);
    o.n = weir_shape_count(&desc);
    o.bytes = weir_shape_bytes(&desc);
    o.value = calloc((size_t)o.n + 1, sizeof *o.value);
    o.data = zone_new(o.bytes);
    memset(o.data, DRIVE_POISON, o.bytes);
    return o;
}

/* Small multiples of 1/8, exact in every type, so that sums are exact in f32 as long as they are
 * short, and a result in a half is the exact sum rounded once. */
static inline void operand_random(operand *o)
{
    for (int64_t i = 0; i < o->n; i++) {
        o->value[i] = (double)check_int(-16, 16) / 8;
        element_set(o->layout.desc.dtype, o->data, i, o->value[i]);
    }
}

static inline double operand_at(const operand *o, int64_t i)
{
    return element_get(o->layout.desc.dtype, o->data, i);
}

/* The value that element i should have, in its type. */
static inline double operand_expected(const operand *o, int64_t i)
{
    const weir_dtype t = o->layout.desc.dtype;
    return weir_is_half(t) ? half_round(o->value[i], t) : o->value[i];
}

static inline void operand_free(operand *o)
{
    free(o->value);
    zone_free(o->data);
}

/* True if the elements are within tol of the expected ones; halves must equal them. */
static inline bool operand_check(const operand *o, double tol, const char *what)
{
    const double most = weir_is_half(o->layout.desc.dtype) ? 0 : tol;
    int64_t      bad = -1;
    for (int64_t i = o->n - 1; i >= 0; i--) {
        const double want = operand_expected(o, i);
        if (!(fabs(operand_at(o, i) - want) <= most * fmax(1, fabs(want))))
            bad = i;
    }
    return check_that(bad < 0, __FILE__, __LINE__, "%s: element %lld is %.9g, not %.9g", what,
                      (long long)bad, bad < 0 ? 0 : operand_at(o, bad),
                      bad < 0 ? 0 : operand_expected(o, bad));
}

/* A call made several times: the first results, and the guard zones of all operands. */
typedef struct drive_call {
    const weir_call   *call;
    const weir_kernel *kernel;
    const operand     *in, *out;
    void              *work;
    void              *first[2];
    const char        *what;
} drive_call;

/* True if nothing outside operands and scratch was written. */
static inline bool drive_zones(const drive_call *c)
{
    char buffer[32];
    bool good = zone_check(c->work, c->what, "work buffer");
    for (int i = 0; i < c->call->nin + c->call->nout; i++) {
        const int out = i - c->call->nin;
        snprintf(buffer, sizeof buffer, "%s %d", out < 0 ? "input" : "output", out < 0 ? i : out);
        good &= zone_check(out < 0 ? c->in[i].data : c->out[out].data, c->what, buffer);
    }
    return good;
}

/* One of several runs; returns false to end them. */
static inline bool drive_once(const drive_call *c, const weir_kargs *k, int run)
{
    for (int i = 0; i < c->call->nout; i++)
        memset(c->out[i].data, DRIVE_POISON, c->out[i].bytes);
    if (!CHECK_OK(c->kernel->run(k)) || !drive_zones(c))
        return false;
    for (int i = 0; i < c->call->nout; i++) {
        if (run == 0)
            memcpy(c->first[i], c->out[i].data, c->out[i].bytes);
        else if (!check_that(memcmp(c->out[i].data, c->first[i], c->out[i].bytes) == 0, __FILE__,
                             __LINE__, "%s: run %d differs from the first in output %d", c->what,
                             run + 1, i))
            return false;
    }
    return true;
}

/* Runs a selected call. Nothing is restored in between, as inputs are only read. */
static inline void drive_runs(drive *v, drive_call *c, void **src, void **dst)
{
    c->work = zone_new(c->kernel->work);
    memset(c->work, DRIVE_SCRATCH, c->kernel->work);
    const weir_kargs k = {.call = c->call,
                          .src = src,
                          .dst = dst,
                          .work = c->kernel->work ? c->work : NULL,
                          .state = c->kernel->state,
                          .threads = v->d.threads};
    for (int i = 0; i < c->call->nout; i++)
        c->first[i] = malloc(c->out[i].bytes + 1);
    for (int run = 0; run < v->runs && drive_once(c, &k, run); run++)
        ;
    zone_check_used(c->work, c->kernel->work, DRIVE_SCRATCH, c->what);
    for (int i = 0; i < c->call->nout; i++)
        free(c->first[i]);
    zone_free(c->work);
}

/* Selects a kernel and runs it v->runs times on the operands: each run must give the same bits and
 * write nothing outside operands and scratch. impl (may be NULL) receives the implementation's
 * name; what (may be NULL) names the call. */
static inline weir_status drive_named(drive *v, weir_choose_fn choose, weir_op op, int nin,
                                      operand *in, int nout, operand *out, const void *attr,
                                      size_t attr_bytes, char impl[64], const char *what)
{
    weir_layout inl[4], outl[2];
    void       *src[4], *dst[2];
    char        text[256];
    for (int i = 0; i < nin; i++)
        inl[i] = in[i].layout, src[i] = in[i].data;
    for (int i = 0; i < nout; i++)
        outl[i] = out[i].layout, dst[i] = out[i].data;
    const weir_call   call = {.op = op,
                              .nin = nin,
                              .nout = nout,
                              .in = inl,
                              .out = outl,
                              .attr = attr,
                              .attr_bytes = attr_bytes,
                              .alias = -1};
    weir_kernel       kernel;
    const weir_status status = choose(&v->d, &call, &kernel);
    if (status != WEIR_OK)
        return status;
    snprintf(text, sizeof text, "%s%s%s, %d threads", what ? what : "", what ? ": " : "",
             kernel.impl, weir_threads_count(v->d.threads));
    check_doing = text;
    drive_runs(v,
               &(drive_call){.call = &call, .kernel = &kernel, .in = in, .out = out, .what = text},
               src, dst);
    check_doing = NULL;
    if (impl)
        snprintf(impl, 64, "%s", kernel.impl);
    if (kernel.destroy)
        kernel.destroy(kernel.state);
    return WEIR_OK;
}

static inline weir_status drive_run(drive *v, weir_choose_fn choose, weir_op op, int nin,
                                    operand *in, int nout, operand *out, const void *attr,
                                    size_t attr_bytes, char impl[64])
{
    return drive_named(v, choose, op, nin, in, nout, out, attr, attr_bytes, impl, NULL);
}

#endif
