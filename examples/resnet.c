/* resnet.c - trains a ResNet on made-up images, as a benchmark of memory and time per step.
 *
 * An image is the 8x8 pattern of its class, enlarged, under noise: the loss falls from
 * ln(classes). The same command makes the same images everywhere, so two processes can be
 * compared (--dump). */
#include <stdio.h>

#include "compare.h"
#include "pattern.h"
#include "show.h"
#include "snapshot.h"
#include "weir.h"

typedef struct options {
    int         depth, size, batch, steps, classes, graph, threads;
    bool        cifar, quick;
    const char *dump;
} options;

typedef struct job {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *resnet;
    weir_optim  *sgd;
    weir_tensor *x, *y;         /* (batch,3,size,size), (batch) */
    weir_tensor *loss;          /* of the latest step */
    weir_step   *step;
    float       *images;
    int32_t     *labels;
} job;

static weir_status train_step(void *ctx)
{
    job *j = ctx;
    j->loss = weir_keep(weir_cross_entropy(weir_apply(j->resnet, j->x), j->y));
    return weir_minimize(j->sgd, j->loss);
}

static bool job_open(job *j, const options *o)
{
    const size_t pixels = (size_t)o->batch * 3 * (size_t)o->size * (size_t)o->size;

    j->dev = weir_device_open("cpu", &(weir_device_options){.threads = o->threads, .seed = 1});
    j->model = weir_model_new(j->dev);
    j->resnet = weir_resnet_new(j->model, o->depth, o->classes, o->cifar);
    j->sgd = weir_sgd_new(j->dev, 0.01, &(weir_sgd_options){.momentum = 0.9, .weight_decay = 1e-4});
    j->x = weir_input(j->dev, weir_4d(WEIR_F32, o->batch, 3, o->size, o->size));
    j->y = weir_input(j->dev, weir_1d(WEIR_I32, o->batch));
    j->step = weir_step_new(j->dev, train_step, j, &(weir_step_options){.graph = o->graph != 0});
    j->images = weir_host_alloc(pixels * sizeof *j->images);
    j->labels = weir_host_alloc((size_t)o->batch * sizeof *j->labels);
    return j->resnet && j->sgd && j->x && j->y && j->step && j->images && j->labels;
}

static void job_close(job *j)
{
    weir_host_free(j->images);
    weir_host_free(j->labels);
    weir_step_free(j->step);
    weir_release(j->x);
    weir_release(j->y);
    weir_optim_free(j->sgd);
    weir_model_free(j->model);
    weir_device_close(j->dev);
}

static weir_status train(job *j, const options *o)
{
    const pattern_shape shape = {(uint64_t)o->batch, (uint64_t)o->size, (uint64_t)o->classes};

    for (int i = 0; i < o->steps; i++) {
        float loss;
        pattern_batch((uint64_t)i, &shape, j->images, j->labels);
        WEIR_TRY(weir_write(j->x, j->images, weir_tensor_bytes(j->x)));
        WEIR_TRY(weir_write(j->y, j->labels, weir_tensor_bytes(j->y)));
        const double begin = show_ms();
        WEIR_TRY(weir_step_run(j->step));
        WEIR_TRY(weir_read(j->loss, &loss, sizeof loss));
        printf("step %3d  loss %.6f  %.1f ms\n", i, (double)loss, show_ms() - begin);
    }
    return WEIR_OK;
}

static weir_status run(job *j, const options *o, snapshot *end)
{
    compare_case c = {0};

    if (!job_open(j, o))
        return weir_error_status();
    WEIR_TRY(train(j, o));
    WEIR_TRY(snapshot_take(end, j->model, j->sgd, j->loss));
    WEIR_TRY(compare_peak(j->dev, j->step, &c));
    printf("peak %.3f MB", (double)c.measured / 1e6);
    if (c.planned)
        printf(", planned %.3f MB", (double)c.planned / 1e6);
    printf("\n");
    return WEIR_OK;
}

static void set_defaults(options *o)
{
    o->cifar = o->cifar || o->quick;
    o->depth = o->depth ? o->depth : o->quick ? 18 : 50;
    o->batch = o->batch ? o->batch : o->quick ? 4 : 8;
    o->size = o->size ? o->size : o->quick ? 16 : o->cifar ? 32 : 224;
    o->classes = o->classes ? o->classes : o->cifar ? 10 : 1000;
}

int main(int argc, char **argv)
{
    options           o = {.steps = 5, .graph = 1};
    const show_option table[] = {
        {"depth", SHOW_NUMBER, &o.depth, "18, 34, 50 or 101 (50; 18 with --quick)"},
        {"quick", SHOW_FLAG, &o.quick, "the smallest case: --cifar and few small images"},
        {"cifar", SHOW_FLAG, &o.cifar, "the network for 32 px images"},
        {"size", SHOW_NUMBER, &o.size, "pixels of a side (224; 32 with --cifar)"},
        {"batch", SHOW_NUMBER, &o.batch, "images of a step (8; 4 with --quick)"},
        {"steps", SHOW_NUMBER, &o.steps, "steps of training (5)"},
        {"classes", SHOW_NUMBER, &o.classes, "width of the output (1000; 10 with --cifar)"},
        {"graph", SHOW_SWITCH, &o.graph, "plan the step once, or compute call by call (on)"},
        {"threads", SHOW_NUMBER, &o.threads, "worker threads; 0: one per core (0)"},
        {"dump", SHOW_TEXT, &o.dump, "write all parameters, states and the loss to this file"},
    };
    int      status = 0;
    job      j = {0};
    snapshot end = {0};

    if (!show_options(argc, argv, "ResNet on made-up images", table, sizeof table / sizeof table[0],
                      &status))
        return status;
    set_defaults(&o);
    const weir_status s = run(&j, &o, &end);
    if (s != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    const bool good = s == WEIR_OK && (!o.dump || snapshot_write(&end, o.dump));
    snapshot_free(&end);
    job_close(&j);
    return !good;
}
