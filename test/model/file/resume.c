/* resume.c - a training that is saved and loaded has the bits of one that was never interrupted. */
#include "core/mem.h"
#include "temp_folder.h"

enum { BATCH = 4, IN = 6, OUT = 3, FIRST = 3, STEPS = 7 };

/* A training with dropout, a schedule, and a loss scaler. */
typedef struct training {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *fc1, *norm, *drop, *fc2;
    weir_optim  *optim;
    weir_scaler *scaler;
    weir_tensor *x, *y, *count;
    weir_step   *step;
    bool         micro;         /* gradients are added up over two losses */
} training;

enum { SGD, ADAM, ADAGRAD, RMSPROP, KINDS };

static weir_optim *optim_new(weir_device *d, int kind)
{
    switch (kind) {
    case SGD:
        return weir_sgd_new(d, 0.05, &(weir_sgd_options){.momentum = 0.9, .dampening = 0.1});
    case ADAM:
        return weir_adam_new(d, 0.01, NULL);
    case ADAGRAD:
        return weir_adagrad_new(d, 0.05, &(weir_adagrad_options){.lr_decay = 0.1,
                                                                .initial_accumulator = 0.5});
    default:
        return weir_rmsprop_new(d, 0.01, &(weir_rmsprop_options){.momentum = 0.5,
                                                                .centered = true});
    }
}

static weir_status one_step(void *ctx)
{
    training    *t = ctx;
    weir_tensor *h = weir_apply(t->drop, weir_relu(weir_apply(t->norm, weir_apply(t->fc1, t->x))));
    weir_tensor *loss = weir_cross_entropy(weir_apply(t->fc2, h), t->y);

    WEIR_TRY(weir_increment(t->count, 1));
    WEIR_TRY(weir_lr_cosine(weir_optim_lr(t->optim, WEIR_F32), t->count, 0.05, 0.001, STEPS));
    if (!t->micro)
        return weir_minimize(t->optim, loss);
    WEIR_TRY(weir_optim_accumulate(t->optim, loss));
    return weir_optim_apply(t->optim);
}

static bool begin(training *t, int kind, bool graph, uint64_t seed)
{
    *t = (training){.dev = weir_device_open(check_device(), &(weir_device_options){.threads = 1,
                                                                                  .seed = seed})};
    t->model = weir_model_new(t->dev);
    t->fc1 = weir_linear_new(t->model, "fc1", IN, 8, true);
    t->norm = weir_batch_norm_new(t->model, "bn", 8);
    t->drop = weir_dropout_new(t->model, 0.5);
    t->fc2 = weir_linear_new(t->model, "fc2", 8, OUT, true);
    t->optim = optim_new(t->dev, kind);
    t->scaler = weir_scaler_new(t->dev, &(weir_scaler_options){.interval = 2});
    t->micro = kind == SGD;
    t->x = weir_input(t->dev, weir_2d(WEIR_F32, BATCH, IN));
    t->y = weir_input(t->dev, weir_1d(WEIR_I32, BATCH));
    t->count = weir_state(t->dev, weir_scalar(WEIR_F64), "count");
    t->step = weir_step_new(t->dev, one_step, t, &(weir_step_options){.graph = graph});
    return CHECK_OK(weir_write_fill(t->count, 0)) &&
           CHECK_OK(weir_optim_set_scaler(t->optim, t->scaler)) && CHECK(t->step != NULL);
}

static void end(training *t)
{
    weir_step_free(t->step);
    weir_release(t->count);
    weir_release(t->x);
    weir_release(t->y);
    weir_optim_free(t->optim);
    weir_scaler_free(t->scaler);
    weir_model_free(t->model);
    weir_device_close(t->dev);
}

/* Steps [from, to), each on data that its number decides. */
static void steps(training *t, int from, int to)
{
    float   x[BATCH * IN];
    int32_t y[BATCH];

    for (int step = from; step < to; step++) {
        uint64_t state = (uint64_t)step;
        for (int i = 0; i < BATCH * IN; i++)
            x[i] = (float)(weir_splitmix64(&state) % 1000) / 500 - 1;
        for (int i = 0; i < BATCH; i++)
            y[i] = (int32_t)(weir_splitmix64(&state) % OUT);
        CHECK_OK(weir_write(t->x, x, sizeof x));
        CHECK_OK(weir_write(t->y, y, sizeof y));
        CHECK_OK(weir_step_run(t->step));
    }
}

static weir_run run_of(training *t, int64_t step)
{
    return (weir_run){.model = t->model, .optim = t->optim, .scaler = t->scaler,
                      .tensors = &t->count, .tensor_count = 1, .step = step};
}

/* Two runs hold the same bits if they save the same file. */
static void same_file(const char *a, const char *b)
{
    static char x[1 << 16], y[1 << 16];
    FILE *const f = fopen(a, "rb"), *const g = fopen(b, "rb");
    CHECK_OR_RETURN(f && g);
    const size_t n = fread(x, 1, sizeof x, f), m = fread(y, 1, sizeof y, g);
    CHECK(n == m && n > 1000 && n < sizeof x && CHECK_BITS(x, y, n));
    fclose(f);
    fclose(g);
}

/* warm: the process that resumes has made a step of its own before, so states and graph exist. */
static void resumes(int kind, bool graph, bool warm)
{
    training a, b;
    folder   f;
    CHECK_OR_RETURN(folder_make(&f));

    CHECK_OR_RETURN(begin(&a, kind, graph, 3));
    steps(&a, 0, FIRST);
    weir_run run = run_of(&a, FIRST);
    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    steps(&a, FIRST, STEPS);
    run.step = STEPS;
    CHECK_OK(weir_run_save(&run, f.file[1], NULL));
    end(&a);

    CHECK_OR_RETURN(begin(&b, kind, graph, 99));
    if (warm)
        steps(&b, 0, 1);
    run = run_of(&b, 0);
    CHECK_OK(weir_run_load(&run, f.file[0]));
    CHECK(run.step == FIRST);
    CHECK_OK(weir_run_save(&run, f.file[2], NULL));
    same_file(f.file[0], f.file[2]);
    steps(&b, (int)run.step, STEPS);
    run.step = STEPS;
    CHECK_OK(weir_run_save(&run, f.file[2], NULL));
    same_file(f.file[1], f.file[2]);

    weir_load_counts counts;
    CHECK_OK(weir_model_load(b.model, f.file[0], &(weir_load_options){.counts = &counts}));
    CHECK(counts.loaded == 8 && counts.unexpected == 0);
    end(&b);
    folder_remove(&f);
}

CASE(resumed_training_has_equal_bits)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int way = 0; way < 4; way++)
            resumes(kind, way & 1, way & 2);
}

/* A file from before the first update resets the states of a run that has made some. */
CASE(a_run_before_its_first_step)
{
    training a;
    folder   f;
    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OR_RETURN(begin(&a, ADAGRAD, true, 3));
    weir_run run = run_of(&a, 0);

    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    steps(&a, 0, STEPS);
    run.step = STEPS;
    CHECK_OK(weir_run_save(&run, f.file[1], NULL));
    CHECK_OK(weir_run_load(&run, f.file[0]));
    CHECK(run.step == 0);
    steps(&a, 0, STEPS);
    run.step = STEPS;
    CHECK_OK(weir_run_save(&run, f.file[2], NULL));
    same_file(f.file[1], f.file[2]);
    end(&a);
    folder_remove(&f);
}

CASE(other_runs_are_refused)
{
    training a, b;
    folder   f;
    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OR_RETURN(begin(&a, ADAM, false, 3) && begin(&b, SGD, false, 4));
    weir_run run = run_of(&a, 5), other = run_of(&b, 1);

    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    CHECK_STATUS(weir_run_load(&other, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "'adam m v', the run's is 'sgd momentum updates'");
    run.scaler = NULL;
    CHECK_STATUS(weir_run_load(&run, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "3 unexpected");
    CHECK_OK(weir_model_save(a.model, f.file[1], NULL));
    CHECK_STATUS(weir_run_load(&run, f.file[1]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "is no file of run_save: it lacks weir_step");
    run.step = -1;
    CHECK_STATUS(weir_run_save(&run, f.file[1], NULL), WEIR_ERR_INVALID);
    CHECK(other.step == 1);
    end(&a);
    end(&b);
    folder_remove(&f);
}

/* ---- a reader of batches ---- */

/* Nine samples of a CSV file, three to a batch. */
static weir_batches *nine(weir_data *d, uint64_t seed)
{
    return weir_batches_new(d, 3, &(weir_batches_options){.shuffle = true, .seed = seed});
}

static void take(weir_batches *b, float x[6])
{
    CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x}));
}

/* The file with the first `from` of its head turned into `to`, of the same length. */
static void patch(const char *path, const char *from, const char *to)
{
    static char  all[1 << 16];
    FILE *const  f = fopen(path, "r+b");
    const size_t n = f ? fread(all, 1, sizeof all, f) : 0, length = strlen(from);
    size_t       at = 0;

    while (at + length <= n && memcmp(all + at, from, length) != 0)
        at++;
    if (CHECK(at + length <= n)) {
        memcpy(all + at, to, length);
        CHECK(fseek(f, 0, SEEK_SET) == 0 && fwrite(all, 1, n, f) == n);
    }
    if (f)
        fclose(f);
}

/* Loading that fails late leaves the reader where it was, batch 2 of epoch 1; then it succeeds. */
static void readers_place_that_stays(weir_run *run, const char *path)
{
    weir_batches_state at;

    for (int64_t n = 0; n < 1000; n++) {
        weir_mem_fail_nth(n, true);
        const weir_status s = weir_run_load(run, path);
        weir_mem_fail_nth(-1, false);
        if (s == WEIR_OK)
            break;
        CHECK_OK(weir_batches_get_state(run->batches, &at));
        CHECK(at.epoch == 1 && at.batch == 2);
    }
    CHECK_OK(weir_batches_get_state(run->batches, &at));
    CHECK(at.epoch == 1 && at.batch == 1);
}

CASE(a_run_keeps_its_readers_place)
{
    training a;
    folder   f;
    float    want[6], got[6];
    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OR_RETURN(begin(&a, SGD, false, 3));
    weir_data *const d = weir_data_csv(
        file_text(&f, 2, "1,2,0\n3,4,0\n5,6,0\n7,8,0\n9,8,0\n7,6,0\n5,4,0\n3,2,0\n1,0,0\n"), NULL);
    weir_batches *const b = nine(d, 5), *const other = nine(d, 5), *const wrong = nine(d, 6);
    weir_run            run = run_of(&a, 2);

    CHECK_OK(weir_run_save(&run, f.file[1], NULL));
    run.batches = b;
    for (int i = 0; i < 4; i++)
        take(b, want);
    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    take(b, want);
    run.batches = other;
    CHECK_OK(weir_run_load(&run, f.file[0]));
    take(other, got);
    CHECK_BITS(want, got, sizeof got);

    run.step = 7;
    run.batches = wrong;
    CHECK_STATUS(weir_run_load(&run, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "does not fit: batches_set_state: the state has seed 5");
    run.batches = NULL;
    CHECK_STATUS(weir_run_load(&run, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "has the place of a reader of batches, but the run has no reader");
    run.batches = other;
    CHECK_STATUS(weir_run_load(&run, f.file[1]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "has no place of a reader of batches");
    CHECK(run.step == 7);

    readers_place_that_stays(&run, f.file[0]);

    patch(f.file[0], "weir_batches_shuffle\":\"1", "weir_batches_shuffle\":\"2");
    CHECK_STATUS(weir_run_load(&run, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "weir_batches_shuffle is 2, not 0 or 1");
    patch(f.file[0], "weir_batches_epoch\":\"1", "weir_batches_epoch\":\"x");
    CHECK_STATUS(weir_run_load(&run, f.file[0]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "weir_batches_epoch is 'x', no whole number of 64 bits");
    weir_batches_free(wrong);
    weir_batches_free(other);
    weir_batches_free(b);
    weir_data_free(d);
    end(&a);
    folder_remove(&f);
}

/* Every allocation of loading a run fails in turn, while the optimiser has no states yet. */
CASE(failing_memory_resumes_nothing)
{
    training a;
    bool     good = false;
    int      refused = 0;
    folder   f;
    CHECK_OR_RETURN(folder_make(&f));
    CHECK_OR_RETURN(begin(&a, SGD, false, 3));
    steps(&a, 0, FIRST);
    weir_run run = run_of(&a, FIRST);
    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    end(&a);

    for (int64_t n = 0; !good && n < 400; n++) {
        CHECK_OR_RETURN(begin(&a, SGD, false, 9));
        run = run_of(&a, 0);
        CHECK_OK(weir_run_save(&run, f.file[1], NULL));
        weir_mem_fail_nth(n, false);
        const weir_status s = weir_run_load(&run, f.file[0]);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (!good && s != WEIR_OK) {
            CHECK(s == WEIR_ERR_NOMEM && run.step == 0 && weir_device_random(a.dev).seed == 9);
            refused++;
        } else {
            CHECK(s == WEIR_OK && run.step == FIRST);
        }
        CHECK_OK(weir_run_load(&run, f.file[0]));
        CHECK_OK(weir_run_save(&run, f.file[2], NULL));
        same_file(f.file[0], f.file[2]);
        end(&a);
    }
    CHECK(good && refused > 20);
    folder_remove(&f);
}

/* A file of format 1, kept from the first version that wrote it: it stays readable. */
CASE(format_1_is_read)
{
    weir_device *d = weir_device_open(check_device(), NULL);
    weir_model  *m = weir_model_new(d);
    weir_optim  *o = weir_sgd_new(d, 1, &(weir_sgd_options){.momentum = 0.5});
    weir_run     run = {.model = m, .optim = o};
    float        w[4], momentum[4];

    CHECK(weir_linear_new(m, "fc", 2, 2, true) != NULL);
    CHECK_OK(weir_run_load(&run, WEIR_TEST_DIR "/data/run-format1.safetensors"));
    CHECK(run.step == 41 && weir_device_random(d).seed == 7 &&
          weir_device_random(d).position == 1);
    CHECK_OK(weir_read(weir_model_param(m, 0), w, sizeof w));
    CHECK(weir_optim_state_count(o) == 1);
    CHECK_OK(weir_read(weir_optim_state(o, 0), momentum, sizeof momentum));
    CHECK_NEAR(w[3], 0.875, 0);
    CHECK_NEAR(momentum[3], 0.5, 0);
    weir_optim_free(o);
    weir_model_free(m);
    weir_device_close(d);
}
