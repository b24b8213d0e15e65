/* random.h - random programs over a few states: element-wise calls, reductions, views, casts,
 * updates, draws. The generator alone decides, so the same seed makes the same program, graph off
 * or on. */
#ifndef WEIR_TEST_GRAPH_RANDOM_H
#define WEIR_TEST_GRAPH_RANDOM_H

#include "fixture.h"

enum { RANDOM_STATES = 4, RANDOM_ROWS = 6, RANDOM_COLS = 5, RANDOM_VALUES = 160 };

typedef struct random_program {
    weir_device *d;
    weir_tensor *state[RANDOM_STATES], *lr;
    weir_tensor *value[RANDOM_VALUES];      /* (rows, cols) each; states first */
    int          n;
    weir_tensor *kept[RANDOM_VALUES];
    int          nkept;
} random_program;

static inline void random_open(random_program *p)
{
    const weir_desc desc = weir_2d(WEIR_F32, RANDOM_ROWS, RANDOM_COLS);

    *p = (random_program){.d = fixture_open()};
    for (int i = 0; i < RANDOM_STATES; i++) {
        p->state[i] = i % 2 ? weir_param(p->d, desc, "p") : weir_state(p->d, desc, "s");
        CHECK_OK(weir_write_uniform(p->state[i], -1, 1));
    }
    p->lr = weir_input(p->d, weir_scalar(WEIR_F32));
    CHECK_OK(weir_write_fill(p->lr, 0.25));
}

static inline void random_close(random_program *p)
{
    for (int i = 0; i < RANDOM_STATES; i++)
        weir_release(p->state[i]);
    weir_release(p->lr);
    weir_device_close(p->d);
}

/* A value, more often a late one. */
static inline weir_tensor *random_value(const random_program *p)
{
    const int64_t a = check_int(0, p->n - 1), b = check_int(0, p->n - 1);
    return p->value[a > b ? a : b];
}

static inline weir_tensor *random_turned(weir_tensor *x)
{
    return weir_reshape(weir_transpose(x, NULL), 2, (int64_t[]){RANDOM_ROWS, RANDOM_COLS});
}

/* One more (rows, cols) value. Nothing grows: tanh and small factors. */
static inline weir_tensor *random_call(random_program *p)
{
    weir_tensor *a = random_value(p), *b = random_value(p);

    switch (check_int(0, 17)) {
    case 0:  return weir_add(weir_affine(a, 0.5, 0.01), b);
    case 1:  return weir_tanh(weir_add(a, b));
    case 2:  return weir_mul(weir_tanh(a), weir_tanh(b));
    case 3:  return weir_relu(weir_sub(a, b));
    case 4:  return weir_add(a, weir_tanh(weir_sum(b, 1, true)));
    case 5:  return weir_sub(a, weir_amax(b, 2, true));
    case 6:  return random_turned(a);
    case 7:  return weir_copy(a);
    case 8:  return weir_dropout(weir_tanh(a), 0.25);
    case 9:
        return weir_mul(a, weir_fill(p->d, weir_scalar(WEIR_F32), (double)check_int(0, 2) / 2));
    case 10: return weir_uniform(p->d, weir_tensor_desc(a), -1, 1);
    case 11: return weir_tanh(weir_matmul(weir_matmul_t(a, b, false, true), b));
    case 12: return weir_max(a, weir_neg(b));
    case 13: return weir_add(a, weir_broadcast_to(weir_mean(b, 2, true), weir_tensor_desc(a)));
    case 14: return weir_sub(a, weir_fill(p->d, weir_scalar(WEIR_F32), 0));
    case 15: return weir_cast(weir_cast(weir_tanh(a), WEIR_BF16), WEIR_F32);
    case 16: return weir_cast(weir_relu(weir_cast(weir_tanh(b), WEIR_F16)), WEIR_F32);
    default: return weir_square(weir_tanh(a));
    }
}

static inline void random_update(random_program *p)
{
    weir_tensor *s = p->state[check_int(0, RANDOM_STATES - 1)];

    if (check_int(0, 1))
        CHECK_OK(weir_increment(s, 0.125));
    else
        CHECK_OK(weir_sgd_update(s, weir_tanh(weir_copy(random_value(p))), NULL, p->lr, NULL));
}

/* `calls` random calls in the current scope; some results are kept. Updates are among the first
 * half of them. The second begins from the states again: its gradient reads what no update changes.
 */
static inline void random_body(random_program *p, int calls)
{
    p->n = p->nkept = 0;
    for (int i = 0; i < RANDOM_STATES; i++)
        p->value[p->n++] = p->state[i];
    for (int i = 0; i < calls; i++) {
        if (i == calls / 2)
            p->n = RANDOM_STATES;
        if (i < calls / 2 && check_int(0, 3) == 0)
            random_update(p);
        weir_tensor *t = random_call(p);
        CHECK_OR_RETURN(t != NULL);
        p->value[p->n++] = t;
        if (check_int(0, 9) == 0)
            p->kept[p->nkept++] = weir_keep(t);
    }
    weir_tensor *loss = weir_sum(random_value(p), 0, false), *grad[2];
    if (weir_tensor_needs_grad(loss)) {
        CHECK_OK(weir_gradients(loss, 2, (weir_tensor *[]){p->state[1], p->state[3]}, grad));
        for (int i = 0; i < 2; i++)
            if (grad[i])
                CHECK_OK(weir_sgd_update(p->state[1 + 2 * i], grad[i], NULL, p->lr, NULL));
    }
    p->kept[p->nkept++] = weir_keep(loss);
}

#endif
