/* train.c - weir train: a model from an ONNX file, trained on arrays in files of NumPy. */
#include "tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_BATCH = 32 };

typedef struct training {
    const tool_options *o;
    weir_device        *d;
    weir_onnx          *model;
    weir_optim         *optim;
    weir_step          *step;
    weir_tensor        *x, *y, *loss;
    void               *data, *labels;      /* rows of x and y, owned */
    int64_t             rows;
} training;

/* ---- what a step does ---- */

static weir_tensor *loss_of(const training *t, weir_tensor *out)
{
    const char *const how = t->o->loss;

    if (strcmp(how, "mse") == 0)
        return weir_mse_loss(out, t->y);
    return strcmp(how, "bce") == 0 ? weir_bce_logits_loss(out, t->y)
                                   : weir_cross_entropy(out, t->y);
}

static weir_status record(void *context)
{
    training    *t = context;
    weir_tensor *out;

    WEIR_TRY(weir_onnx_apply(t->model, 1, &t->x, 1, &out));
    t->loss = weir_keep(loss_of(t, out));
    return weir_minimize(t->optim, t->loss);
}

static weir_optim *optimiser(const tool_options *o, weir_device *d, double lr)
{
    const char *const name = o->optim;

    if (strcmp(name, "adamw") == 0)
        return weir_adamw_new(d, lr, NULL);
    if (strcmp(name, "adam") == 0)
        return weir_adam_new(d, lr, NULL);
    if (strcmp(name, "rmsprop") == 0)
        return weir_rmsprop_new(d, lr, NULL);
    if (strcmp(name, "adagrad") == 0)
        return weir_adagrad_new(d, lr, NULL);
    return weir_sgd_new(d, lr, &(weir_sgd_options){.momentum = 0.9});
}

/* ---- data ---- */

/* What the model gives for an input of the shape x; in evaluation, as states must not change. */
static bool output_desc(const training *t, weir_desc x, weir_desc *out)
{
    weir_tensor *const in = weir_input(t->d, x);
    weir_tensor       *y = NULL;
    bool               good = in && weir_write_fill(in, 0) == WEIR_OK &&
                weir_scope_begin(t->d) == WEIR_OK;

    weir_model_train(weir_onnx_model(t->model), false);
    if (good) {
        good = weir_onnx_apply(t->model, 1, &in, 1, &y) == WEIR_OK;
        *out = weir_tensor_desc(y);
        good = weir_scope_end(t->d) == WEIR_OK && good;
    }
    weir_model_train(weir_onnx_model(t->model), true);
    weir_release(in);
    return good;
}

static bool has_free_axis(const weir_desc *d)
{
    for (int i = 0; i < d->ndim; i++)
        if (d->dim[i] < 0)
            return true;
    return false;
}

/* The rows of a batch of a model that takes any number of them. */
static int64_t batch_of(const tool_options *o, int64_t rows)
{
    if (o->batch)
        return o->batch;
    return rows < USUAL_BATCH ? rows : USUAL_BATCH;
}

/* Reads the arrays; makes tensors for a batch of their rows. */
static int read_data(training *t)
{
    const tool_options *const o = t->o;
    weir_desc                 x = {.ndim = 0}, y, out, all;
    int64_t                   labels;

    /* Sizes that the model does not know are those of the array, but for the rows of a batch. */
    if (weir_onnx_input_desc(t->model, 0, &x) != WEIR_OK && !has_free_axis(&x))
        return tool_failed(o);
    if (x.ndim < 1 || weir_onnx_input_count(t->model) != 1)
        return tool_say(o, TOOL_FAILED, "trains models of one input with a batch of rows");
    all = x;
    int code = tool_npy_rows(o, o->data, &all, &t->data);
    t->rows = all.dim[0];
    all.dim[0] = x.dim[0] >= 0 ? x.dim[0] : batch_of(o, t->rows);
    x = all;
    if (code == TOOL_DONE && !output_desc(t, x, &out))
        return tool_failed(o);
    if (code == TOOL_DONE)
        code = tool_npy_labels(o, o->labels, out, &y, &t->labels);
    labels = code == TOOL_DONE ? y.dim[0] : t->rows;
    if (code == TOOL_DONE && labels != t->rows)
        return tool_say(o, TOOL_FAILED, "'%s' has %" PRId64 " rows, '%s' %" PRId64, o->data,
                        t->rows, o->labels, labels);
    if (code == TOOL_DONE && (t->rows < x.dim[0] || x.dim[0] < 1))
        return tool_say(o, TOOL_FAILED, "'%s' has %" PRId64 " rows, a batch %" PRId64, o->data,
                        t->rows, x.dim[0]);
    if (code != TOOL_DONE)
        return code;
    y.dim[0] = x.dim[0];
    t->x = weir_input(t->d, x);
    t->y = weir_input(t->d, y);
    return t->x && t->y ? TOOL_DONE : tool_failed(o);
}

/* Rows of batch number i: one after the other, behind the last the first again. */
static weir_status write_batch(const training *t, weir_tensor *to, const char *rows, int64_t i)
{
    const int64_t batch = weir_tensor_desc(to).dim[0];
    const size_t  row = weir_tensor_bytes(to) / (size_t)batch;
    char *const   buffer = malloc(weir_tensor_bytes(to) + 1);

    for (int64_t k = 0; buffer && k < batch; k++)
        memcpy(buffer + (size_t)k * row, rows + (size_t)((i * batch + k) % t->rows) * row, row);
    const weir_status s = buffer ? weir_write(to, buffer, weir_tensor_bytes(to)) : WEIR_ERR_NOMEM;
    free(buffer);
    return s;
}

/* ---- the command ---- */

static int open_all(training *t)
{
    const tool_options *const o = t->o;
    const weir_device_options with = {.threads = (int)o->threads, .spill_dir = o->spill_dir};
    const weir_onnx_options   how = {.dims = o->dims, .frozen = o->frozen, .train = true};
    char                     *end = NULL;
    const double              lr = strtod(o->lr, &end);

    if (*end || !(lr >= 0))
        return tool_say(o, TOOL_USAGE, "--lr must be a number from 0 on, not '%s'", o->lr);
    t->d = weir_device_open(o->device, &with);
    t->model = t->d ? weir_onnx_open(t->d, o->file, &how) : NULL;
    if (!t->model)
        return tool_failed(o);
    const size_t folded = weir_onnx_folded(t->model);
    if (folded > 0)
        fprintf(stderr, "weir train: %zu convolution%s a bias and nothing is a BatchNormalization: "
                "if the exporter folded it, the model trains without; export it for training\n",
                folded, folded == 1 ? " has" : "s have");
    const int code = read_data(t);
    if (code != TOOL_DONE)
        return code;
    t->optim = optimiser(o, t->d, lr);
    t->step = weir_step_new(t->d, record, t, &(weir_step_options){
        .graph = true, .plan = {.budget = o->budget, .policy = o->policy, .cache = o->cache}});
    return t->optim && t->step ? TOOL_DONE : tool_failed(o);
}

static int train(training *t)
{
    const int64_t steps = t->o->steps, each = steps > 10 ? steps / 10 : 1;
    float         loss = 0;

    for (int64_t i = 0; i < steps; i++) {
        if (write_batch(t, t->x, t->data, i) != WEIR_OK ||
            write_batch(t, t->y, t->labels, i) != WEIR_OK || weir_step_run(t->step) != WEIR_OK ||
            weir_read(t->loss, &loss, sizeof loss) != WEIR_OK)
            return tool_failed(t->o);
        if (!tool_quiet(t->o) && (i == 0 || (i + 1) % each == 0))
            printf("step %" PRId64 ": loss %.6g\n", i + 1, (double)loss);
    }
    return TOOL_DONE;
}

static int finish(const training *t)
{
    weir_graph_stats s;
    tool_json        j;

    if (t->o->out && weir_onnx_save(t->model, t->o->out) != WEIR_OK)
        return tool_failed(t->o);
    if (weir_graph_stats_of(weir_step_graph(t->step), &s) != WEIR_OK)
        return tool_failed(t->o);
    if (!tool_quiet(t->o))
        printf("%zu bytes planned, %zu of them for the step; %zu without a budget\n",
               s.planned_peak_bytes, s.arena_bytes, s.unbudgeted_peak_bytes);
    if (!t->o->json)
        return TOOL_DONE;
    if (!tool_json_begin(&j, t->o))
        return TOOL_FAILED;
    tool_json_text(&j, "file", t->o->file);
    tool_json_count(&j, "steps", (uint64_t)t->o->steps);
    tool_json_count(&j, "planned_peak_bytes", s.planned_peak_bytes);
    tool_json_count(&j, "arena_bytes", s.arena_bytes);
    tool_json_count(&j, "unbudgeted_peak_bytes", s.unbudgeted_peak_bytes);
    return tool_json_end(&j);
}

int tool_train(const tool_options *o)
{
    training t = {.o = o};

    if (!o->file || !o->data || !o->labels)
        return tool_say(o, TOOL_USAGE, "needs a model and arrays: weir train MODEL.onnx --data "
                        "X.npy --labels Y.npy");
    int code = open_all(&t);
    code = code == TOOL_DONE ? train(&t) : code;
    code = code == TOOL_DONE ? finish(&t) : code;
    weir_step_free(t.step);
    weir_optim_free(t.optim);
    weir_release(t.x);
    weir_release(t.y);
    weir_onnx_free(t.model);
    weir_device_close(t.d);
    free(t.data);
    free(t.labels);
    return code;
}
