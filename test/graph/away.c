/* away.c - parameters and optimiser state that live in the spill file: the same bits as without a
 * budget, in a budget that they alone exceed; looked at, written, evaluated, saved and freed between
 * steps; failures half way. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/attr.h"
#include "device/spill.h"
#include "lab.h"
#include "model/model.h"
#include "check.h"
#include "core/hash.h"

enum { WIDTH = 128, LAYERS = 8, BATCH = 4, CLASSES = 10 };

/* A network of square layers that is trained with momentum. */
typedef struct net {
    weir_device *d;
    weir_model  *m;
    weir_layer  *layer;
    weir_optim  *o;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
} net;

static weir_status record(void *ctx)
{
    net *const n = ctx;
    n->loss = weir_keep(weir_cross_entropy(weir_apply(n->layer, n->x), n->y));
    return n->loss ? weir_minimize(n->o, n->loss) : weir_error_status();
}

static void close_net(net *n)
{
    weir_step_free(n->step);
    weir_optim_free(n->o);
    weir_model_free(n->m);
    weir_release(n->x);
    weir_release(n->y);
    weir_device_close(n->d);
}

static weir_status open_net(net *n, const char *budget)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget}};
    int64_t                 sizes[LAYERS + 1];

    for (int i = 0; i < LAYERS; i++)
        sizes[i] = WIDTH;
    sizes[LAYERS] = CLASSES;
    *n = (net){.d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 3})};
    n->m = n->d ? weir_model_new(n->d) : NULL;
    n->layer = n->m ? weir_mlp_new(n->m, LAYERS + 1, sizes) : NULL;
    if (n->layer)
        n->o = weir_sgd_new(n->d, 0.05, &(weir_sgd_options){.momentum = 0.9});
    if (n->o)
        n->x = weir_input(n->d, weir_2d(WEIR_F32, BATCH, WIDTH));
    if (n->x)
        n->y = weir_input(n->d, weir_1d(WEIR_I32, BATCH));
    if (n->y)
        n->step = weir_step_new(n->d, record, n, &how);
    if (n->step)
        return WEIR_OK;
    close_net(n);
    return weir_error_status();
}

static weir_status step_net(net *n, int number)
{
    float   x[BATCH * WIDTH];
    int32_t y[BATCH];

    check_random = 77 + (uint64_t)number;
    check_floats(x, BATCH * WIDTH, -1, 1);
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)check_int(0, CLASSES - 1);
    WEIR_TRY(weir_write(n->x, x, sizeof x));
    WEIR_TRY(weir_write(n->y, y, sizeof y));
    return weir_step_run(n->step);
}

static uint64_t hash_of(uint64_t h, const weir_tensor *t)
{
    const size_t bytes = weir_tensor_bytes(t);
    void *const  data = malloc(bytes + 1);

    if (CHECK(data != NULL) && CHECK_OK(weir_read(t, data, bytes)))
        h = weir_hash_bytes(h, data, bytes);
    free(data);
    return h;
}

/* Loss, parameters and momentum. */
static uint64_t bits_of(const net *n)
{
    uint64_t h = hash_of(1, n->loss);

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        h = hash_of(h, weir_model_param(n->m, i));
    for (size_t i = 0; i < weir_optim_state_count(n->o); i++)
        h = hash_of(h, weir_optim_state(n->o, i));
    return h;
}

static size_t bytes_of_params(const net *n)
{
    size_t sum = 0;

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        sum += weir_tensor_bytes(weir_model_param(n->m, i));
    return sum;
}

static uint32_t away_of(const net *n)
{
    uint32_t away = 0;

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        away += ((const weir_block *)weir_model_param(n->m, i)->block)->away;
    for (size_t i = 0; i < weir_optim_state_count(n->o); i++)
        away += ((const weir_block *)weir_optim_state(n->o, i)->block)->away;
    return away;
}

/* Fingerprints after each of `steps` steps without a budget. */
static void plain_bits(int steps, uint64_t *bits)
{
    net n;

    CHECK_OR_RETURN(open_net(&n, NULL) == WEIR_OK);
    for (int i = 0; i < steps; i++) {
        CHECK_OK(step_net(&n, i));
        bits[i] = bits_of(&n);
    }
    close_net(&n);
}

CASE(trains_in_less_than_its_parameters)
{
    enum { STEPS = 20 };
    uint64_t         bits[STEPS];
    net              n;
    weir_graph_stats s;
    weir_memory      m;
    size_t           measured;

    plain_bits(STEPS, bits);
    CHECK_OR_RETURN(open_net(&n, "40%") == WEIR_OK);
    for (int i = 0; i < STEPS; i++) {
        if (!CHECK_OK(step_net(&n, i)))
            break;
        if (i == 0 || i > 10)           /* reading moves nothing */
            CHECK(bits_of(&n) == bits[i]);
        CHECK(away_of(&n) > 0);
    }
    CHECK_OK(weir_graph_stats_of(weir_step_graph(n.step), &s));
    printf("    parameters %zu, whole %zu, budget %zu, planned %zu, %u away\n",
           bytes_of_params(&n), s.unbudgeted_peak_bytes, s.budget_bytes, s.planned_peak_bytes,
           away_of(&n));
    CHECK(s.planned_peak_bytes <= s.budget_bytes && s.budget_bytes < 2 * bytes_of_params(&n));
    CHECK(s.planned_peak_bytes == s.persistent_bytes + s.arena_bytes);
    weir_device_memory(n.d, &m);
    CHECK(m.persistent == s.persistent_bytes);
    CHECK_OK(weir_graph_measure(weir_step_graph(n.step), &measured));
    CHECK(measured == s.arena_bytes);
    close_net(&n);
}
