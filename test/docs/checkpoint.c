/* checkpoint.c - the same step four ways: plain, weir_checkpoint, weir_checkpoint_sequential, and
 * regions for the planner. All losses are equal to the bit; the step peaks differ. */
#include <stdio.h>
#include <string.h>

#include "weir.h"

enum { BATCH = 512, WIDTH = 32, BLOCKS = 8 };

typedef enum how { PLAIN, CHECKPOINT, SEQUENTIAL, REGIONS } how;

/* Linear, tanh, dropout. Its parameters are read through ctx. */
typedef struct block {
    weir_layer *linear, *dropout;
} block;

static weir_status apply_block(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const block *b = ctx;
    out[0] = weir_apply(b->dropout, weir_tanh(weir_apply(b->linear, in[0])));
    return out[0] ? WEIR_OK : weir_error_status();
}

static weir_status apply_blocks(weir_device *dev, block *blocks, how way, weir_tensor *x,
                                weir_tensor **y)
{
    weir_checkpoint_fn fn[BLOCKS];
    void              *ctx[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        fn[i] = apply_block;
        ctx[i] = &blocks[i];
    }
    if (way == SEQUENTIAL)
        return weir_checkpoint_sequential(BLOCKS, fn, ctx, 4, x, y);
    for (int i = 0; i < BLOCKS; i++, x = *y) {
        if (way == REGIONS && i % 2 == 0)
            WEIR_TRY(weir_region_begin(dev));
        if (way == CHECKPOINT)
            WEIR_TRY(weir_checkpoint(apply_block, &blocks[i], 1, &x, 1, y));
        else
            WEIR_TRY(apply_block(&blocks[i], &x, y));
        if (way == REGIONS && i % 2 == 1)
            WEIR_TRY(weir_region_end(dev));
    }
    return WEIR_OK;
}

/* What one of the four ways makes. */
typedef struct job {
    weir_device *dev;
    weir_model  *net;
    weir_optim  *sgd;
    weir_tensor *x;
    weir_graph  *step;
} job;

static weir_status train(job *j, how way)
{
    static const char *const name[] = {"plain", "checkpoint", "sequential", "regions"};
    weir_tensor             *y;
    block                    blocks[BLOCKS];
    weir_graph_stats         stats;
    float                    value;

    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].linear = weir_linear_new(j->net, "linear", WIDTH, WIDTH, true);
        blocks[i].dropout = weir_dropout_new(j->net, 0.1);
    }
    WEIR_TRY(weir_write_normal(j->x, 0, 1));
    j->step = weir_graph_begin(j->dev);
    WEIR_TRY(apply_blocks(j->dev, blocks, way, j->x, &y));
    weir_tensor *loss = weir_keep(weir_mse_loss(y, j->x));
    WEIR_TRY(weir_minimize(j->sgd, loss));
    WEIR_TRY(weir_graph_end(j->step, NULL));
    for (int i = 0; i < 5; i++)
        WEIR_TRY(weir_graph_run(j->step));
    WEIR_TRY(weir_read(loss, &value, sizeof value));
    WEIR_TRY(weir_graph_stats_of(j->step, &stats));
    printf("%-10s  loss %.9g  step peak %7zu bytes  %zu operations again\n", name[way],
           (double)value, stats.arena_bytes, stats.recomputed);
    return WEIR_OK;
}

int main(void)
{
    for (how way = PLAIN; way <= REGIONS; way++) {
        job j = {.dev = weir_device_open("cpu", &(weir_device_options){.seed = 3})};
        j.net = weir_model_new(j.dev);
        j.sgd = weir_sgd_new(j.dev, 0.05, NULL);
        j.x = weir_input(j.dev, weir_2d(WEIR_F32, BATCH, WIDTH));
        if (train(&j, way) != WEIR_OK)
            printf("%s\n", weir_error());
        weir_graph_free(j.step);
        weir_release(j.x);
        weir_optim_free(j.sgd);
        weir_model_free(j.net);
        weir_device_close(j.dev);
    }
}
