/* finetune.c - opens a network of digits from an ONNX file, trains it within a budget, and writes
 * it as an ONNX file again. Usage: finetune IN.onnx OUT.onnx [BUDGET [STEPS]], from the root of the
 * sources; examples/python/finetune.py writes a file to begin with. */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"
#include "weir.h"

typedef struct tuning {
    weir_device *dev;
    weir_onnx   *model;
    weir_optim  *optim;
    weir_step   *step;
    weir_tensor *x, *label, *loss;
} tuning;

/* What a step records: the file's nodes, the loss, gradients and updates. */
static weir_status record(void *context)
{
    tuning      *t = context;
    weir_tensor *scores;

    WEIR_TRY(weir_onnx_apply(t->model, 1, &t->x, 1, &scores));
    t->loss = weir_keep(weir_cross_entropy(scores, t->label));
    return weir_minimize(t->optim, t->loss);
}

static weir_status prepare(tuning *t, const char *path, const char *budget)
{
    weir_desc x;

    t->model = weir_onnx_open(t->dev, path, &(weir_onnx_options){.train = true});
    if (!t->model)
        return weir_error_status();
    WEIR_TRY(weir_onnx_input_desc(t->model, 0, &x));
    t->x = weir_input(t->dev, x);
    t->label = weir_input(t->dev, weir_1d(WEIR_I32, x.dim[0]));
    t->optim = weir_adamw_new(t->dev, 1e-3, NULL);
    t->step = weir_step_new(t->dev, record, t,
                            &(weir_step_options){.graph = true, .plan = {.budget = budget}});
    return t->x && t->label && t->optim && t->step ? WEIR_OK : weir_error_status();
}

static weir_status train(tuning *t, digits *d, size_t steps)
{
    weir_graph_stats s;
    float            loss = 0;

    for (size_t i = 0; i < steps; i++) {
        WEIR_TRY(digits_write_train(d, i, t->x, t->label));
        WEIR_TRY(weir_step_run(t->step));
    }
    WEIR_TRY(weir_read(t->loss, &loss, sizeof loss));
    WEIR_TRY(weir_graph_stats_of(weir_step_graph(t->step), &s));
    printf("loss %.4f after %zu steps in %zu bytes, %zu without a budget\n", (double)loss, steps,
           s.planned_peak_bytes, s.unbudgeted_peak_bytes);
    return WEIR_OK;
}

/* The forward part in evaluation is recorded for the file, and never run. */
static weir_status export(tuning *t, const char *path)
{
    weir_tensor *scores;

    weir_model_train(weir_onnx_model(t->model), false);
    weir_graph *const g = weir_graph_begin(t->dev);
    weir_status       s = weir_onnx_apply(t->model, 1, &t->x, 1, &scores);
    weir_keep(scores);
    s = s == WEIR_OK ? weir_graph_end(g, NULL) : s;
    if (s == WEIR_OK)
        s = weir_graph_bind(g, t->x, WEIR_ROLE_INPUT, weir_onnx_input_name(t->model, 0));
    if (s == WEIR_OK)
        s = weir_graph_bind(g, scores, WEIR_ROLE_OUTPUT, weir_onnx_output_name(t->model, 0));
    s = s == WEIR_OK ? weir_graph_save_onnx(g, path, NULL) : s;
    weir_graph_free(g);
    return s;
}

static weir_status tune(tuning *t, char **argv, const char *budget, size_t steps)
{
    digits d;

    WEIR_TRY(prepare(t, argv[1], budget));
    if (!digits_load("finetune", DIGITS_FILE, (size_t)weir_tensor_desc(t->x).dim[0], &d))
        return WEIR_ERR_IO;
    weir_status s = train(t, &d, steps);
    s = s == WEIR_OK ? export(t, argv[2]) : s;
    digits_free(&d);
    return s;
}

int main(int argc, char **argv)
{
    tuning t = {.dev = weir_device_open("cpu", NULL)};

    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: finetune IN.onnx OUT.onnx [BUDGET [STEPS]]\n");
        return 2;
    }
    const size_t      steps = argc > 4 ? (size_t)strtoull(argv[4], NULL, 10) : 100;
    const weir_status s = tune(&t, argv, argc > 3 ? argv[3] : "60%", steps);
    if (s != WEIR_OK)
        fprintf(stderr, "finetune: %s\n", weir_error());
    weir_step_free(t.step);
    weir_optim_free(t.optim);
    weir_release(t.x);
    weir_release(t.label);
    weir_onnx_free(t.model);
    weir_device_close(t.dev);
    return s == WEIR_OK ? 0 : 1;
}
