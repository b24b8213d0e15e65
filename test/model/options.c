/* options.c - options that say 0, and defaults that are written out. */
#include "check.h"
#include "weir.h"

/* Two steps of a parameter (1, -2) with the gradients (0.5, 0.25) and (-1, 2), by PyTorch 2.13. */
static void two_steps(weir_device *d, weir_optim *o, double a, double b)
{
    static const double first[] = {1, -2}, grads[2][2] = {{0.5, 0.25}, {-1, 2}};
    weir_tensor *const  w = weir_param(d, weir_1d(WEIR_F64, 2), "w"),
                *const  g = weir_input(d, weir_1d(WEIR_F64, 2));
    double              end[2] = {NAN, NAN};

    CHECK_OK(weir_write(w, first, sizeof first));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_write(g, grads[i], sizeof grads[i]));
        CHECK_OK(weir_optim_update(o, &(weir_pair){w, g}, 1));
    }
    CHECK_OK(weir_read(w, end, sizeof end));
    CHECK_NEAR(end[0], a, 1e-12);
    CHECK_NEAR(end[1], b, 1e-12);
    weir_optim_free(o);
    weir_release(w);
    weir_release(g);
}

CASE(zero_can_be_said)
{
    weir_device *const   d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_adam_options    adam = weir_adam_options_default();
    weir_rmsprop_options rms = weir_rmsprop_options_default();
    weir_adagrad_options ada = weir_adagrad_options_default();

    adam.beta1 = adam.eps = 0;
    adam.beta2 = 0.9;
    two_steps(d, weir_adam_new(d, 0.1, &adam), 1.02453996981545, -2.23688140019582);
    const weir_adam_options zero = {.beta1 = WEIR_ZERO, .beta2 = 0.9, .eps = WEIR_ZERO};
    two_steps(d, weir_adam_new(d, 0.1, &zero), 1.02453996981545, -2.23688140019582);
    two_steps(d, weir_adam_new(d, 0.1, &(weir_adam_options){.beta2 = WEIR_ZERO}),
              0.928947370131579, -2.15855262728618);
    rms.alpha = rms.eps = 0;
    two_steps(d, weir_rmsprop_new(d, 0.1, &rms), 1, -2.2);
    ada.eps = 0;
    two_steps(d, weir_adagrad_new(d, 0.1, &ada), 0.989442719099992, -2.19922778767137);
    weir_device_close(d);
}

/* The options of a ..._default function do what {0} does. */
CASE(written_defaults_are_the_defaults)
{
    const weir_adam_options       adam = weir_adam_options_default();
    const weir_rmsprop_options    rms = weir_rmsprop_options_default();
    const weir_adagrad_options    ada = weir_adagrad_options_default();
    const weir_batch_norm_options bn = weir_batch_norm_options_default();
    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    two_steps(d, weir_adam_new(d, 0.1, NULL), 0.936610354240565, -2.18214657125711);
    two_steps(d, weir_adam_new(d, 0.1, &adam), 0.936610354240565, -2.18214657125711);
    two_steps(d, weir_rmsprop_new(d, 0.1, NULL), 0.895323081911337, -3.99235376535125);
    two_steps(d, weir_rmsprop_new(d, 0.1, &rms), 0.895323081911337, -3.99235376535125);
    two_steps(d, weir_adagrad_new(d, 0.1, NULL), 0.989442719111992, -2.19922778762644);
    two_steps(d, weir_adagrad_new(d, 0.1, &ada), 0.989442719111992, -2.19922778762644);
    CHECK(bn.eps == 1e-5 && bn.momentum == 0.1 && !bn.train && bn.exact);
    weir_device_close(d);
}

/* Running statistics that momentum 0 leaves alone; norms with eps 0, by PyTorch. */
CASE(norms_take_zero)
{
    static const double values[] = {1, 2, 3, 7};
    weir_device *const  d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    const weir_desc     two = weir_1d(WEIR_F64, 2);
    weir_tensor *const  x = weir_input(d, weir_2d(WEIR_F64, 2, 2)),
                *const  scale = weir_param(d, two, "scale"),
                *const  bias = weir_param(d, two, "bias"),
                *const  mean = weir_state(d, two, "mean"), *const var = weir_state(d, two, "var");
    weir_batch_norm_options o = weir_batch_norm_options_default();
    double                  y[4], seen[2];

    o.momentum = 0;
    o.train = true;
    CHECK_OK(weir_write(x, values, sizeof values));
    CHECK_OK(weir_write_fill(scale, 1));
    CHECK_OK(weir_write_fill(bias, 0));
    CHECK_OK(weir_write_fill(mean, 5));
    CHECK_OK(weir_write_fill(var, 4));
    CHECK_OK(weir_scope_begin(d));
    CHECK(weir_batch_norm(x, scale, bias, mean, var, &o));
    CHECK_OK(weir_read(mean, seen, sizeof seen));
    CHECK(seen[0] == 5 && seen[1] == 5);
    CHECK_OK(weir_read(weir_layer_norm(x, scale, bias, WEIR_ZERO), y, sizeof y));
    CHECK(y[0] == -1 && y[1] == 1 && y[2] == -1 && y[3] == 1);
    CHECK_OK(weir_read(weir_layer_norm(x, scale, bias, 0), y, sizeof y));
    CHECK(y[0] > -1 && y[1] < 1);
    CHECK(!weir_layer_norm(x, scale, bias, -1) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_release(scale);
    weir_release(bias);
    weir_release(mean);
    weir_release(var);
    weir_device_close(d);
}
