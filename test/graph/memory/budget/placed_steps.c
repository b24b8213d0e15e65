/* placed_steps.c - recorded training steps have aligned addresses with every placement, with a
 * budget and without. $WEIR_TEST_COUNT: rounds. */
#include "graph/fixture.h"
#include "graph/placed.h"

typedef struct recorded {
    weir_device *d;
    weir_model  *m;
    weir_optim  *o;
    weir_tensor *x, *y;
    weir_graph  *g;
} recorded;

static void close_recorded(recorded *r)
{
    weir_graph_free(r->g);
    weir_optim_free(r->o);
    weir_model_free(r->m);
    weir_release(r->x);
    weir_release(r->y);
    weir_device_close(r->d);
}

/* Plans a training step of a small residual network on the device: offsets are multiples of 64
 * bytes on the CPU, of 256 on the simulated GPU. */
static weir_status open_recorded(recorded *r, const char *device, const weir_plan_options *o)
{
    const weir_device_options one = {.threads = 1, .seed = 3};

    *r = (recorded){.d = weir_device_open(device, &one)};
    CHECK(r->d != NULL);
    r->m = weir_model_new(r->d);
    weir_layer *const net = weir_resnet_cifar_new(r->m, 8, 10);
    r->o = weir_sgd_new(r->d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    r->x = weir_input(r->d, weir_4d(WEIR_F32, 3, 3, 16, 16));
    r->y = weir_input(r->d, weir_1d(WEIR_I32, 3));
    CHECK_OK(weir_write_fill(r->x, 0.5));
    CHECK_OK(weir_write_fill(r->y, 3));
    r->g = weir_graph_begin(r->d);
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(net, r->x), r->y));
    CHECK_OK(weir_minimize(r->o, loss));
    return weir_graph_end(r->g, o);
}

static void check_recorded(const char *device, const weir_plan_options *o)
{
    const size_t     unit = strcmp(device, "cpu") == 0 ? 64 : 256;
    recorded         r;
    weir_graph_stats s;
    size_t           measured = 0;

    const weir_status status = open_recorded(&r, device, o);
    if (status == WEIR_OK) {
        const weir_plan *const p = r.g->plan;
        const bool good = CHECK(well_placed(p->items.at, p->items.n, unit, p->arena));
        CHECK_OK(weir_graph_run(r.g));
        CHECK_OK(weir_graph_measure(r.g, &measured));
        CHECK_OK(weir_graph_stats_of(r.g, &s));
        if (!CHECK(measured == s.arena_bytes) || !good)
            printf("    %s: %s, %s by %s: measured %zu, planned %zu\n", device,
                   o->policy ? o->policy : "auto", o->budget ? o->budget : "no budget",
                   o->placement, measured, s.arena_bytes);
    } else {
        CHECK_STATUS(status, WEIR_ERR_BUDGET);
    }
    close_recorded(&r);
}

/* Every placement, without a budget and with one; policies take turns. */
CASE(recorded_steps_by_every_placement)
{
    static const char *const device[] = {"cpu", "sim"};
    static const char *const budget[] = {NULL, "90%", "75%", "60%"};
    static const char *const policy[] = {"dtr", "auto:recompute", "checkpoint", "sublinear",
                                         "recycle", "mincut", "vdnn:conv", "checkpoint:offload"};
    const int n = rounds(24);

    for (int i = 0; i < n; i++) {
        const int k = i / (int)ARRAY_LENGTH(placers);
        check_recorded(device[k % 2],
                       &(weir_plan_options){.placement = placers[i % (int)ARRAY_LENGTH(placers)],
                                            .budget = budget[(i + k + 1) % 4],
                                            .policy = policy[(i + k) % (int)ARRAY_LENGTH(policy)]});
    }
}
