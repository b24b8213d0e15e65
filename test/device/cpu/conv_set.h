/* conv_set.h - a convolution's operands for all three passes, and their expected values by plain
 * loops in double. */
#ifndef WEIR_TEST_DEVICE_CPU_CONV_SET_H
#define WEIR_TEST_DEVICE_CPU_CONV_SET_H

#include "device/cpu/drive.h"

typedef struct geometry {
    int64_t n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, groups;
} geometry;

static inline int64_t out_size(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d)
{
    return (in + 2 * p - d * (k - 1) - 1) / s + 1;
}

/* The operands of all three passes. */
typedef struct set {
    geometry g;
    int64_t  oh, ow;
    operand  x, w, b, y, dy, dx, dw, db;
} set;

static inline set set_of(weir_dtype t, geometry g)
{
    set s = {.g = g,
             .oh = out_size(g.h, g.kh, g.sh, g.ph, g.dh),
             .ow = out_size(g.w, g.kw, g.sw, g.pw, g.dw)};
    s.x = operand_of(weir_4d(t, g.n, g.c, g.h, g.w));
    s.dx = operand_of(weir_4d(t, g.n, g.c, g.h, g.w));
    s.w = operand_of(weir_4d(t, g.o, g.c / g.groups, g.kh, g.kw));
    s.dw = operand_of(weir_4d(t, g.o, g.c / g.groups, g.kh, g.kw));
    s.b = operand_of(weir_1d(t, g.o));
    s.db = operand_of(weir_1d(t, g.o));
    s.y = operand_of(weir_4d(t, g.n, g.o, s.oh, s.ow));
    s.dy = operand_of(weir_4d(t, g.n, g.o, s.oh, s.ow));
    operand_random(&s.x);
    operand_random(&s.w);
    operand_random(&s.b);
    operand_random(&s.dy);
    return s;
}

static inline void set_free(set *s)
{
    operand *const all[] = {&s->x, &s->w, &s->b, &s->y, &s->dy, &s->dx, &s->dw, &s->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        operand_free(all[i]);
}

static inline double *value(const operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
    const int64_t *const s = o->layout.stride;
    return &o->value[i0 * s[0] + i1 * s[1] + i2 * s[2] + i3 * s[3]];
}

static inline void expect_pixel(set *s, int64_t n, int64_t o, int64_t oh, int64_t ow)
{
    const geometry *const g = &s->g;
    const int64_t         cg = g->c / g->groups, c0 = o / (g->o / g->groups) * cg;
    const double          dy = *value(&s->dy, n, o, oh, ow);
    double                sum = s->b.value[o];
    s->db.value[o] += dy;
    for (int64_t kh = 0; kh < g->kh; kh++)
        for (int64_t kw = 0; kw < g->kw; kw++) {
            const int64_t ih = oh * g->sh - g->ph + kh * g->dh,
                          iw = ow * g->sw - g->pw + kw * g->dw;
            if (ih < 0 || ih >= g->h || iw < 0 || iw >= g->w)
                continue;
            for (int64_t c = 0; c < cg; c++) {
                const double x = *value(&s->x, n, c0 + c, ih, iw), w = *value(&s->w, o, c, kh, kw);
                sum += x * w;
                *value(&s->dx, n, c0 + c, ih, iw) += dy * w;
                *value(&s->dw, o, c, kh, kw) += dy * x;
            }
        }
    *value(&s->y, n, o, oh, ow) = sum;
}

static inline void expect(set *s)
{
    for (int64_t n = 0; n < s->g.n; n++)
        for (int64_t o = 0; o < s->g.o; o++)
            for (int64_t oh = 0; oh < s->oh; oh++)
                for (int64_t ow = 0; ow < s->ow; ow++)
                    expect_pixel(s, n, o, oh, ow);
}

static inline weir_conv2d_attr attr_of(const geometry *g)
{
    return (weir_conv2d_attr){.stride = {g->sh, g->sw},
                              .pad = {g->ph, g->pw},
                              .pad_end = {g->ph, g->pw},
                              .dilation = {g->dh, g->dw},
                              .groups = g->groups};
}

#endif
