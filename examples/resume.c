/* resume.c - a training that may be killed at any time and goes on where it was.
 *
 * Images in the format of CIFAR-10, made up in the folder that is named, are read by two threads
 * with random resized crops. The rate follows half a cosine. After each epoch the model is
 * validated: top-1 and top-5 accuracy, the best weights in best.safetensors, and the end once
 * nothing has improved for PATIENCE epochs. run.safetensors has all that a second start needs to
 * compute the same bits; it is written every SAVE_EVERY steps, also inside an epoch. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show.h"
#include "weir.h"

enum { IMAGE = 32, CROP = 24, CHANNELS = 3, CLASSES = 10, RECORD = 1 + CHANNELS * IMAGE * IMAGE };
enum { TRAIN = 400, VALID = 100, BATCH = 32, PATIENCE = 3, SAVE_EVERY = 5, PATH = 512 };

typedef struct options {
    const char *folder;
    int         epochs, kill_at;    /* kill_at: be killed after this step; 0: never */
    int         graph;
} options;

typedef struct job {
    weir_device  *dev;
    weir_model   *model;
    weir_layer   *conv1, *norm1, *conv2, *norm2, *fc;
    weir_optim   *sgd;
    weir_data    *train_data, *valid_data;
    weir_batches *train, *valid;
    weir_tensor  *x, *y;                /* (32,3,24,24), (32) */
    weir_tensor  *valid_x;              /* (100,3,24,24) */
    weir_tensor  *count, *watch;        /* steps; best accuracy and epochs since then */
    weir_tensor  *loss, *scores;        /* of the latest step */
    weir_step    *learn, *look;
    int           epochs;
    char          best[PATH], saved[PATH];
} job;

/* ---- images ---- */

/* A class is a colour and a direction of stripes, under noise. */
static void make_image(unsigned char record[RECORD], uint64_t *random)
{
    const int label = (int)(weir_splitmix64(random) % CLASSES), shift = (int)(*random % 7);

    record[0] = (unsigned char)label;
    for (int i = 0; i < RECORD - 1; i++) {
        const int c = i / (IMAGE * IMAGE), row = i / IMAGE % IMAGE, column = i % IMAGE;
        const int along = label % 2 ? row : column;
        const int stripe = (along + shift) % 8 < 4 && c == label / 2 % CHANNELS;
        const int noise = (int)(weir_splitmix64(random) % 160);
        record[1 + i] = (unsigned char)(30 + 8 * (label / 6) + 18 * stripe + noise);
    }
}

/* Fills *path with FOLDER/NAME, n images that follow from the seed. */
static bool make_file(const char *folder, const char *name, int n, uint64_t seed, char path[PATH])
{
    unsigned char record[RECORD];

    snprintf(path, PATH, "%s/%s", folder, name);
    FILE *const f = fopen(path, "wb");
    bool        good = f;
    for (int i = 0; good && i < n; i++) {
        make_image(record, &seed);
        good = fwrite(record, sizeof record, 1, f) == 1;
    }
    if ((f && fclose(f) != 0) || !good)
        fprintf(stderr, "resume: %s cannot be written\n", path);
    return good;
}

static bool open_data(job *j, const char *folder)
{
    static const float mean[] = {0.35f, 0.35f, 0.35f}, std[] = {0.15f, 0.15f, 0.15f};
    const weir_augment varied = {.height = CROP, .width = CROP, .flip = 0.5, .mean = mean,
                                 .std = std, .scale = {0.3, 1}};
    const weir_augment whole = {.height = CROP, .width = CROP, .mean = mean, .std = std,
                                .scale = {1, 1}, .ratio = {1, 1}};
    char               path[2][PATH];

    if (!make_file(folder, "train.bin", TRAIN, 1, path[0]) ||
        !make_file(folder, "valid.bin", VALID, 2, path[1]))
        return false;
    const char *const train = path[0], *const valid = path[1];
    j->train_data = weir_data_cifar10(1, &train);
    j->valid_data = weir_data_cifar10(1, &valid);
    j->train = weir_batches_new(j->train_data, BATCH,
                                &(weir_batches_options){.shuffle = true, .seed = 1, .workers = 2,
                                                        .drop_last = true, .augment = &varied});
    j->valid = weir_batches_new(j->valid_data, VALID, &(weir_batches_options){.augment = &whole});
    if (j->train && j->valid)
        return true;
    fprintf(stderr, "resume: %s\n", weir_error());
    return false;
}

/* ---- the model ---- */

static weir_tensor *scores_of(const job *j, weir_tensor *x)
{
    x = weir_relu(weir_apply(j->norm1, weir_apply(j->conv1, x)));
    x = weir_relu(weir_apply(j->norm2, weir_apply(j->conv2, x)));
    return weir_apply(j->fc, weir_flatten(x));
}

static weir_status learn(void *ctx)
{
    job *const    j = ctx;
    const int64_t steps = (int64_t)j->epochs * (TRAIN / BATCH);

    weir_model_train(j->model, true);
    j->loss = weir_keep(weir_cross_entropy(scores_of(j, j->x), j->y));
    WEIR_TRY(weir_increment(j->count, 1));
    WEIR_TRY(weir_lr_cosine(weir_optim_lr(j->sgd, WEIR_F32), j->count, 0.02, 0, steps));
    return weir_minimize(j->sgd, j->loss);
}

static weir_status look(void *ctx)
{
    job *const j = ctx;

    WEIR_TRY(weir_no_grad_begin(j->dev));
    weir_model_train(j->model, false);
    j->scores = weir_keep(scores_of(j, j->valid_x));
    return weir_no_grad_end(j->dev);
}

/* What was not made is NULL, and NULL flows: the first step reports the first mistake. */
static void open_model(job *j, const options *o)
{
    const weir_conv2d_options half = {.stride = {2, 2}, .pad = {1, 1}};
    const weir_step_options   how = {.graph = o->graph};

    j->dev = weir_device_open("cpu", &(weir_device_options){.seed = 1});
    j->model = weir_model_new(j->dev);
    j->conv1 = weir_conv2d_new(j->model, "conv1", CHANNELS, 8, 3, &half, false);
    j->norm1 = weir_batch_norm_new(j->model, "norm1", 8);
    j->conv2 = weir_conv2d_new(j->model, "conv2", 8, 16, 3, &half, false);
    j->norm2 = weir_batch_norm_new(j->model, "norm2", 16);
    j->fc = weir_linear_new(j->model, "fc", 16 * (CROP / 4) * (CROP / 4), CLASSES, true);
    j->sgd = weir_sgd_new(j->dev, 0.02, &(weir_sgd_options){.momentum = 0.9});
    j->x = weir_input(j->dev, weir_4d(WEIR_F32, BATCH, CHANNELS, CROP, CROP));
    j->y = weir_input(j->dev, weir_1d(WEIR_I32, BATCH));
    j->valid_x = weir_input(j->dev, weir_4d(WEIR_F32, VALID, CHANNELS, CROP, CROP));
    j->count = weir_state(j->dev, weir_scalar(WEIR_F64), "count");
    j->watch = weir_state(j->dev, weir_1d(WEIR_F64, 2), "watch");
    j->learn = weir_step_new(j->dev, learn, j, &how);
    j->look = weir_step_new(j->dev, look, j, &how);
}

static void close_job(job *j)
{
    weir_tensor *const all[] = {j->x, j->y, j->valid_x, j->count, j->watch};

    weir_step_free(j->look);
    weir_step_free(j->learn);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_release(all[i]);
    weir_optim_free(j->sgd);
    weir_model_free(j->model);
    weir_device_close(j->dev);
    weir_batches_free(j->train);
    weir_batches_free(j->valid);
    weir_data_free(j->train_data);
    weir_data_free(j->valid_data);
}

/* ---- the training ---- */

static weir_status read_end(const job *j, bool *end)
{
    double watch[2];

    WEIR_TRY(weir_read(j->watch, watch, sizeof watch));
    *end = watch[1] >= PATIENCE;
    return WEIR_OK;
}

static weir_status validate(job *j, int64_t epoch)
{
    static float x[VALID * CHANNELS * CROP * CROP];
    float        scores[VALID * CLASSES];
    int32_t      y[VALID];
    double       top1, top5, watch[2];

    WEIR_TRY(weir_batches_next(j->valid, &(weir_batch){.x = x, .y = y}));
    WEIR_TRY(weir_write(j->valid_x, x, sizeof x));
    WEIR_TRY(weir_step_run(j->look));
    WEIR_TRY(weir_read(j->scores, scores, sizeof scores));
    WEIR_TRY(weir_topk_accuracy(scores, y, VALID, CLASSES, 1, &top1));
    WEIR_TRY(weir_topk_accuracy(scores, y, VALID, CLASSES, 5, &top5));
    WEIR_TRY(weir_read(j->watch, watch, sizeof watch));
    const bool better = top1 > watch[0];
    printf("epoch %2d  top-1 %.2f  top-5 %.2f%s\n", (int)epoch, top1, top5,
           better ? "  the best so far" : "");
    if (better)
        WEIR_TRY(weir_model_save(j->model, j->best, NULL));
    watch[1] = better ? 0 : watch[1] + 1;
    watch[0] = better ? top1 : watch[0];
    return weir_write(j->watch, watch, sizeof watch);
}

static weir_status one_step(job *j)
{
    static float x[BATCH * CHANNELS * CROP * CROP];
    int32_t      y[BATCH];

    WEIR_TRY(weir_batches_next(j->train, &(weir_batch){.x = x, .y = y}));
    WEIR_TRY(weir_write(j->x, x, sizeof x));
    WEIR_TRY(weir_write(j->y, y, sizeof y));
    return weir_step_run(j->learn);
}

static weir_status train(job *j, const options *o)
{
    weir_tensor *const own[] = {j->count, j->watch};
    weir_run           run = {.model = j->model, .optim = j->sgd, .tensors = own,
                              .tensor_count = 2, .batches = j->train};
    bool               end = false;

    WEIR_TRY(weir_write_fill(j->count, 0));
    WEIR_TRY(weir_write_fill(j->watch, 0));
    if (access(j->saved, F_OK) == 0) {
        WEIR_TRY(weir_run_load(&run, j->saved));
        printf("goes on after step %d\n", (int)run.step);
        WEIR_TRY(read_end(j, &end));
    }
    while (!end && weir_batches_epoch(j->train) < o->epochs) {
        const int64_t epoch = weir_batches_epoch(j->train);
        WEIR_TRY(one_step(j));
        run.step++;
        if (weir_batches_epoch(j->train) > epoch) {
            WEIR_TRY(validate(j, epoch));
            WEIR_TRY(read_end(j, &end));
        }
        if (run.step % SAVE_EVERY == 0 || weir_batches_epoch(j->train) > epoch)
            WEIR_TRY(weir_run_save(&run, j->saved, NULL));
        if (run.step == o->kill_at)
            raise(SIGKILL);
    }
    return WEIR_OK;
}

/* Validates the best weights once more. */
static weir_status report(job *j)
{
    double watch[2];

    WEIR_TRY(weir_read(j->watch, watch, sizeof watch));
    printf("best top-1 %.2f, %d epochs ago; its weights again:\n", watch[0], (int)watch[1]);
    WEIR_TRY(weir_model_load(j->model, j->best, NULL));
    return validate(j, weir_batches_epoch(j->train));
}

int main(int argc, char **argv)
{
    options           o = {.folder = "resume", .epochs = 12, .graph = 1};
    const show_option table[] = {
        {"folder", SHOW_TEXT, &o.folder, "of the images and the saved files (resume)"},
        {"epochs", SHOW_NUMBER, &o.epochs, "most passes over the images (12)"},
        {"kill-at", SHOW_NUMBER, &o.kill_at, "be killed after this step (0: never)"},
        {"graph", SHOW_SWITCH, &o.graph, "plan the steps once, or compute call by call (on)"},
    };
    int status = 0;
    job j = {0};

    if (!show_options(argc, argv, "trains, and goes on if it was killed", table,
                      sizeof table / sizeof table[0], &status))
        return status;
    (void)mkdir(o.folder, 0777);
    j.epochs = o.epochs;
    snprintf(j.best, sizeof j.best, "%s/best.safetensors", o.folder);
    snprintf(j.saved, sizeof j.saved, "%s/run.safetensors", o.folder);
    if (!open_data(&j, o.folder)) {
        close_job(&j);
        return 1;
    }
    open_model(&j, &o);
    weir_status s = train(&j, &o);
    s = s == WEIR_OK ? report(&j) : s;
    if (s != WEIR_OK)
        fprintf(stderr, "resume: %s\n", weir_error());
    close_job(&j);
    return s != WEIR_OK;
}
