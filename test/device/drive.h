/* drive.h - calls kernels directly: a bare CPU device, hand-made calls, guarded memory. */
#ifndef WEIR_TEST_DRIVE_H
#define WEIR_TEST_DRIVE_H

#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/mem.h"
#include "device/cpu/cpu.h"
#include "device/cpu/kernels.h"

typedef struct drive {
    weir_device d;
    weir_cpu    cpu;
} drive;

/* Sets the environment variable for choices to come, NULL removes it. */
static inline void drive_env(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static inline bool drive_open(drive *v, int threads)
{
    *v = (drive){.cpu = {.isa = weir_cpu_isa()}};
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

/* A dense operand with its elements as doubles, in memory order, and as the dtype has them,
 * followed by a guard. */
typedef struct operand {
    weir_layout layout;
    int64_t     n;
    double     *value;
    void       *data;
    size_t      bytes;
} operand;

enum { DRIVE_GUARD = 64, DRIVE_POISON = 0xa5 };

static inline operand operand_of(weir_desc desc)
{
    operand o = {.layout = {.desc = desc}};
    weir_shape_dense(&o.layout);
    o.n = weir_shape_count(&desc);
    o.bytes = weir_shape_bytes(&desc);
    o.value = calloc((size_t)o.n + 1, sizeof *o.value);
    o.data = aligned_alloc(64, (o.bytes + DRIVE_GUARD + 63) & ~(size_t)63);
    memset(o.data, DRIVE_POISON, o.bytes + DRIVE_GUARD);
    return o;
}

/* Small multiples of 1/8, so that sums are exact in f32 as long as they are short. */
static inline void operand_random(operand *o)
{
    for (int64_t i = 0; i < o->n; i++) {
        o->value[i] = (double)check_int(-16, 16) / 8;
        if (o->layout.desc.dtype == WEIR_F32)
            ((float *)o->data)[i] = (float)o->value[i];
        else
            ((double *)o->data)[i] = o->value[i];
    }
}

static inline double operand_at(const operand *o, int64_t i)
{
    return o->layout.desc.dtype == WEIR_F32 ? (double)((float *)o->data)[i]
                                            : ((double *)o->data)[i];
}

static inline void operand_free(operand *o)
{
    free(o->value);
    free(o->data);
}

/* Elements near the expected ones in value, and the guard untouched. */
static inline bool operand_check(const operand *o, double tol, const char *what)
{
    int64_t bad = -1;
    for (int64_t i = o->n - 1; i >= 0; i--)
        if (!(fabs(operand_at(o, i) - o->value[i]) <= tol * fmax(1, fabs(o->value[i]))))
            bad = i;
    bool good =
        check_that(bad < 0, __FILE__, __LINE__, "%s: element %lld is %.9g, not %.9g", what,
                   (long long)bad, bad < 0 ? 0 : operand_at(o, bad), bad < 0 ? 0 : o->value[bad]);
    for (int i = 0; i < DRIVE_GUARD; i++)
        if (((unsigned char *)o->data)[o->bytes + (size_t)i] != DRIVE_POISON)
            good = check_that(false, __FILE__, __LINE__, "%s: wrote past the end", what);
    return good;
}

/* Chooses and runs the call twice on operands; the second run must give the same bits. impl (may be
 * NULL) receives the name of what ran. */
static inline weir_status drive_run(drive *v, weir_choose_fn choose, weir_op op, int nin,
                                    operand *in, int nout, operand *out, const void *attr,
                                    size_t attr_bytes, char impl[64])
{
    weir_layout inl[4], outl[2];
    void       *src[4], *dst[2];
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
    weir_choice       choice;
    const weir_status status = choose(&v->d, &call, &choice);
    if (status != WEIR_OK)
        return status;
    const size_t work_bytes = (choice.work + 63) & ~(size_t)63;
    char *const  work = aligned_alloc(64, work_bytes + DRIVE_GUARD);
    memset(work, 0x7f, work_bytes + DRIVE_GUARD); /* huge numbers: reading them shows */
    const weir_kargs k = {.call = &call,
                          .src = src,
                          .dst = dst,
                          .work = choice.work ? work : NULL,
                          .state = choice.state,
                          .threads = v->d.threads};
    CHECK_OK(choice.run(&k));
    for (int i = 0; i < nout; i++) {
        void *const first = malloc(out[i].bytes + 1);
        memcpy(first, out[i].data, out[i].bytes);
        memset(out[i].data, DRIVE_POISON, out[i].bytes);
        CHECK_OK(choice.run(&k));
        CHECK_BITS(out[i].data, first, out[i].bytes);
        free(first);
    }
    for (size_t i = choice.work; i < work_bytes + DRIVE_GUARD; i++)
        if (work[i] != 0x7f) {
            check_that(false, __FILE__, __LINE__, "%s wrote past its work buffer", choice.impl);
            break;
        }
    if (impl)
        snprintf(impl, 64, "%s", choice.impl);
    if (choice.destroy)
        choice.destroy(choice.state);
    free(work);
    return WEIR_OK;
}

#endif
