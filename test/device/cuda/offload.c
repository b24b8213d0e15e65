/* offload.c - tests of values that leave the card, to pinned memory, to the file, or to both: the
 * bits are those without offloading, planned peak = measured peak, in every captured run. */
#include "core/mem.h"
#include "device/cuda/card.h"
#include "check.h"
#include "graph/plan/plan.h"
#include "device/offload/spill_slots.h"

enum { ROWS = 32, WIDTH = 64, STEPS = 6 };

static bool hasty;      /* nothing is read: the device is closed while it works */

typedef struct outcome {
    float        loss[STEPS];
    float        weights[WIDTH * WIDTH];    /* of the first layer, after training */
    uint32_t     swaps;
    size_t       planned, measured;
    long         replays;
    bool         file;
} outcome;

static uint32_t swaps_of(const weir_graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->plan->n; i++)
        n += g->plan->instr[i].call.op == WEIR_OP_SPILL_OUT;
    return n;
}

static void write_data(weir_tensor *x, weir_tensor *y)
{
    float   at[ROWS * WIDTH];
    int32_t label[ROWS];

    check_floats(at, ROWS * WIDTH, -1, 1);
    for (int i = 0; i < ROWS; i++)
        label[i] = (int32_t)check_int(0, 9);
    CHECK_OK(weir_write(x, at, sizeof at));
    CHECK_OK(weir_write(y, label, sizeof label));
}

/* Trains an MLP with the options; pinned: value of WEIR_PINNED, or NULL. */
static outcome train(const weir_plan_options *options, const char *pinned)
{
    static const int64_t sizes[] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, 10};
    outcome              o = {.planned = 0};

    if (pinned)
        setenv("WEIR_PINNED", pinned, 1);
    else
        unsetenv("WEIR_PINNED");
    weir_device *const d = card_open();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = weir_mlp_new(m, 6, sizes);
    weir_optim *const  sgd = weir_sgd_new(d, 0.1, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, ROWS, WIDTH));
    weir_tensor *const y = weir_input(d, weir_1d(WEIR_I32, ROWS));
    check_random = 11;
    write_data(x, y);
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(net, x), y));
    CHECK_OK(weir_minimize(sgd, loss));
    if (CHECK_OK(weir_graph_end(g, options))) {
        o.swaps = swaps_of(g);
        o.planned = g->plan->arena;
        const long before = card_calls("cudaGraphLaunch");
        for (int i = 0; i < (hasty ? 1 : STEPS); i++) {
            write_data(x, y);
            CHECK_OK(weir_graph_run(g));
            if (!hasty)
                CHECK_OK(weir_read(loss, &o.loss[i], sizeof(float)));
        }
        o.replays = card_calls("cudaGraphLaunch") - before;
        o.file = d->spill != NULL;
        if (!hasty) {
            CHECK_OK(weir_read(weir_model_param(m, 0), o.weights, sizeof o.weights));
            CHECK_OK(weir_graph_measure(g, &o.measured));
        }
    }
    if (hasty)
        weir_device_close(d);
    weir_graph_free(g);
    weir_optim_free(sgd);
    weir_model_free(m);
    weir_release(x);
    weir_release(y);
    if (!hasty)
        weir_device_close(d);
    unsetenv("WEIR_PINNED");
    return o;
}

static void check_same(const outcome *a, const outcome *b)
{
    CHECK_BITS(a->loss, b->loss, sizeof a->loss);
    CHECK_BITS(a->weights, b->weights, sizeof a->weights);
}

CASE(pinned_memory_and_file)
{
    static const weir_plan_options swapping = {.budget = "95%", .policy = "capuchin:passive"};
    static const struct {
        const char *pinned;
        bool        file;
    } directions[] = {{NULL, false}, {"0", true}, {"65536", true}};

    const outcome plain = train(NULL, NULL);
    CHECK(plain.swaps == 0 && plain.replays == STEPS - 1 && !plain.file);
    CHECK(plain.measured == plain.planned);
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++) {
        const outcome o = train(&swapping, directions[i].pinned);
        CHECK(o.swaps > 1 && o.replays == STEPS - 1);
        CHECK(o.file == directions[i].file);
        CHECK(o.measured == o.planned && o.planned < plain.planned);
        check_same(&o, &plain);
    }
}

/* Parameters and momenta are offloaded too, if the budget requires it. */
CASE(budgets_down_to_the_smallest)
{
    const outcome plain = train(NULL, NULL);

    for (int percent = 90; percent >= 60; percent -= 10) {
        char text[16];
        snprintf(text, sizeof text, "%d%%", percent);
        const outcome o = train(&(weir_plan_options){.budget = text, .policy = "auto"}, NULL);
        CHECK(o.measured == o.planned);
        check_same(&o, &plain);
    }
}

/* Closing waits for copies to the file that are still running. */
CASE(closed_while_copies_go_on)
{
    static const weir_plan_options swapping = {.budget = "95%", .policy = "capuchin:passive"};

    hasty = true;
    const outcome o = train(&swapping, "0");
    hasty = false;
    CHECK(o.swaps > 1 && o.file);
}

CASE(speed_of_the_link)
{
    weir_device *const d = card_open();
    double             out = 0, in = 0;

    CHECK_OK(weir_device_spill_speed(d, &out, &in));
    CHECK(out > 0 && in > 0);
    weir_device_close(d);
}
