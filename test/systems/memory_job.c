/* memory_job.c - a program whose memory fails: three training steps, graph on or off.
 *
 * Usage: memory_job graph|eager whole|run. "whole" counts calls from the opening of the device,
 * "run" those of the third step. Prints "M malloc, P mmap, T thread, B bytes: STATUS SENTENCE".
 * Ends with 0 whatever the status. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "weir.h"

/* The preloaded library's functions, or NULL. */
static void (*faults_begin)(void);
static long (*faults_end)(const char *name);

typedef struct job {
    weir_device *d;
    weir_model  *m;
    weir_layer  *conv, *fc;
    weir_optim  *o;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
} job;

static weir_status one_step(void *ctx)
{
    job *const   j = ctx;
    weir_tensor *h = weir_relu(weir_apply(j->conv, j->x));

    j->loss = weir_keep(weir_cross_entropy(weir_apply(j->fc, weir_flatten(h)), j->y));
    return weir_minimize(j->o, j->loss);
}

static weir_status train(job *j, bool graph, bool late)
{
    if (!late && faults_begin)
        faults_begin();
    j->d = weir_device_open("cpu", NULL);
    if (!j->d)
        return weir_error_status();
    j->m = weir_model_new(j->d);
    j->conv = weir_conv2d_new(j->m, "conv", 8, 8, 3, &(weir_conv2d_options){.pad = {1, 1}}, true);
    j->fc = weir_linear_new(j->m, "fc", 8 * 8 * 8, 10, true);
    j->o = weir_sgd_new(j->d, 0.1, NULL);
    j->x = weir_input(j->d, weir_4d(WEIR_F32, 4, 8, 8, 8));
    j->y = weir_input(j->d, weir_1d(WEIR_I32, 4));
    j->step = weir_step_new(j->d, one_step, j, &(weir_step_options){.graph = graph});
    if (!j->step)
        return weir_error_status();
    weir_status s = weir_write_fill(j->x, 0.5);
    s = s == WEIR_OK ? weir_write_fill(j->y, 1) : s;
    for (int i = 0; i < 3 && s == WEIR_OK; i++) {
        if (late && i == 2 && faults_begin)
            faults_begin();
        s = weir_step_run(j->step);
    }
    return s;
}

int main(int argc, char **argv)
{
    job j = {0};
    if (argc != 3)
        return 2;
    *(void **)&faults_begin = dlsym(RTLD_DEFAULT, "memory_faults_begin");
    *(void **)&faults_end = dlsym(RTLD_DEFAULT, "memory_faults_end");
    const weir_status s = train(&j, strcmp(argv[1], "graph") == 0, strcmp(argv[2], "run") == 0);
    if (faults_end)
        printf("%ld malloc, %ld mmap, %ld thread, %ld bytes: ", faults_end("malloc"),
               faults_end("mmap"), faults_end("thread"), faults_end("bytes"));
    printf("%s %s\n", weir_status_text(s), s == WEIR_OK ? "" : weir_error());
    weir_step_free(j.step);
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.o);
    weir_model_free(j.m);
    weir_device_close(j.d);
    return 0;
}
