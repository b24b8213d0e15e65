/* ranks.c - checkpoints of all ranks: training that is resumed, by as many ranks or others, has the
 * bits of one that was never interrupted; a full disk or a dead rank on the way leaves the former
 * checkpoint; hostile manifests are refused. */
#include <dirent.h>
#include <errno.h>

#include "core/hash.h"
#include "model/file/crc32.h"
#include "model/file/replace.h"
#include "ranks.h"
#include "temp_folder.h"

enum { BATCH = 4, IN = 6, OUT = 3, FIRST = 3, STEPS = 6, PARTS = 4 };

/* What one rank trains. */
typedef struct training {
    weir_device *d;
    weir_model  *m;
    weir_layer  *fc1, *norm, *drop, *fc2;
    weir_optim  *o;
    weir_tensor *x, *y;
    weir_step   *step, *apply;  /* apply: NULL where a step is of one micro-batch */
    weir_run     run;
    bool         masks;
} training;

static weir_tensor *loss_of(const training *t)
{
    weir_tensor *h = weir_relu(weir_apply(t->norm, weir_apply(t->fc1, t->x)));

    return weir_cross_entropy(weir_apply(t->fc2, t->masks ? weir_apply(t->drop, h) : h), t->y);
}

static weir_status minimize(void *ctx)
{
    const training *const t = ctx;

    return weir_minimize(t->o, loss_of(t));
}

static weir_status accumulate(void *ctx)
{
    const training *const t = ctx;

    return weir_optim_accumulate(t->o, loss_of(t));
}

static weir_status apply_sums(void *ctx)
{
    const training *const t = ctx;

    return weir_optim_apply(t->o);
}

/* `per_rank` micro-batches a step. */
static bool begin(training *t, weir_device *d, weir_comm *c, int per_rank, bool masks)
{
    const weir_step_options how = {.graph = true};

    *t = (training){.d = d, .m = weir_model_new(d), .masks = masks};
    t->fc1 = weir_linear_new(t->m, "fc1", IN, 8, true);
    t->norm = weir_batch_norm_new(t->m, "bn", 8);
    t->drop = weir_dropout_new(t->m, 0.5);
    t->fc2 = weir_linear_new(t->m, "fc2", 8, OUT, true);
    t->o = weir_adam_new(d, 0.01, NULL);
    t->x = weir_input(d, weir_2d(WEIR_F32, BATCH, IN));
    t->y = weir_input(d, weir_1d(WEIR_I32, BATCH));
    t->step = weir_step_new(d, per_rank > 1 ? accumulate : minimize, t, &how);
    t->apply = per_rank > 1 ? weir_step_new(d, apply_sums, t, &how) : NULL;
    t->run = (weir_run){.model = t->m, .optim = t->o, .comm = c};
    const weir_parallel_options p = {.micro_batches = per_rank, .model = t->m};
    return CHECK_OK(weir_data_parallel(t->o, c, &p));
}

static void end(training *t)
{
    weir_step_free(t->step);
    weir_step_free(t->apply);
    weir_release(t->x);
    weir_release(t->y);
    weir_optim_free(t->o);
    weir_model_free(t->m);
}

/* Micro-batch `part` of a step. */
static void write_batch(const training *t, int64_t step, int part)
{
    float    x[BATCH * IN];
    int32_t  y[BATCH];
    uint64_t state = 100 * (uint64_t)step + (uint64_t)part;

    for (int i = 0; i < BATCH * IN; i++)
        x[i] = (float)(weir_splitmix64(&state) % 1000) / 500 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)(weir_splitmix64(&state) % OUT);
    CHECK_OK(weir_write(t->x, x, sizeof x));
    CHECK_OK(weir_write(t->y, y, sizeof y));
}

/* Steps up to `to`; this rank computes the micro-batches from `first` on. */
static void train(training *t, int64_t to, int first, int per_rank)
{
    for (; t->run.step < to; t->run.step++) {
        for (int j = 0; j < per_rank; j++) {
            write_batch(t, t->run.step, first + j);
            CHECK_OK(weir_step_run(t->step));
        }
        if (t->apply)
            CHECK_OK(weir_step_run(t->apply));
    }
}

static uint64_t bits_of_tensor(weir_tensor *t)
{
    char         data[4096];
    const size_t bytes = weir_tensor_bytes(t);

    return CHECK(bytes <= sizeof data) && CHECK_OK(weir_read(t, data, bytes))
               ? weir_hash_bytes(WEIR_HASH_SEED, data, bytes) : 0;
}

/* Of parameters and the optimiser's states; states: of the model's, too. */
static uint64_t bits_of(const training *t, bool states)
{
    uint64_t h = 0;

    for (size_t i = 0; i < weir_model_param_count(t->m); i++)
        h += bits_of_tensor(weir_model_param(t->m, i));
    for (size_t i = 0; i < weir_optim_state_count(t->o); i++)
        if (!strstr(weir_tensor_name(weir_optim_state(t->o, i)), ".sum"))
            h += bits_of_tensor(weir_optim_state(t->o, i));
    for (size_t i = 0; states && i < weir_model_state_count(t->m); i++)
        h += bits_of_tensor(weir_model_state(t->m, i));
    return h;
}

/* One start of a program on all ranks. */
typedef struct start {
    const char *load, *save;    /* paths, or NULL */
    int64_t     to;             /* it trains up to this step, */
    int64_t     save_at;        /* and saves at this one */
    bool        masks, states;
    int64_t     loaded;         /* the step that was loaded */
    uint64_t    bits[RANKS_MOST];
} start;

static void start_body(rank *r)
{
    start *const s = r->job;
    const int    per_rank = PARTS / r->world;
    training     t;

    CHECK_OR_RETURN(r->c != NULL);
    if (begin(&t, r->d, r->c, per_rank, s->masks)) {
        if (s->load && CHECK_OK(weir_run_load(&t.run, s->load)) && r->rank == 0)
            s->loaded = t.run.step;
        if (s->save) {
            train(&t, s->save_at, r->rank * per_rank, per_rank);
            CHECK_OK(weir_run_save(&t.run, s->save, NULL));
        }
        train(&t, s->to, r->rank * per_rank, per_rank);
        s->bits[r->rank] = bits_of(&t, s->states);
    }
    end(&t);
}

static void start_on(start *s, int world, const char *order)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.order = order}};

    ranks_run(all, world, &o, start_body, s);
}

static int files_in(const char *path)
{
    DIR *const d = opendir(path);
    int        n = 0;

    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void remove_all(const folder *f)
{
    DIR *const d = opendir(f->path);
    char       path[512];

    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    CHECK(rmdir(f->path) == 0);
}

/* Each rank has its own random stream again. */
CASE(as_many_ranks_go_on)
{
    for (int world = 2; world <= 4; world += 2) {
        folder f;
        CHECK_OR_RETURN(folder_make(&f));
        start whole = {.save = f.file[0], .save_at = FIRST, .to = STEPS, .states = true,
                       .masks = true};
        start rest = {.load = f.file[0], .to = STEPS, .states = true, .masks = true};

        start_on(&whole, world, world == 4 ? "tree" : NULL);
        CHECK(files_in(f.path) == 1 + world);
        start_on(&rest, world, world == 4 ? "tree" : NULL);
        CHECK(rest.loaded == FIRST);
        CHECK(whole.bits[0] == whole.bits[1]);  /* running statistics, too */
        for (int r = 0; r < world; r++)
            CHECK(rest.bits[r] == whole.bits[r]);
        remove_all(&f);
    }
}

/* Saved by `from` ranks, resumed by `to`, in the order in which both have the same bits. */
static void other_world(int from, int to)
{
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    start whole = {.save = f.file[0], .save_at = FIRST, .to = STEPS};
    start rest = {.load = f.file[0], .to = STEPS};
    start_on(&whole, from, NULL);
    start_on(&rest, to, NULL);
    CHECK(rest.loaded == FIRST);
    for (int r = 0; r < to; r++)
        CHECK(rest.bits[r] == whole.bits[0]);
    remove_all(&f);
}

CASE(another_number_of_ranks_goes_on)
{
    other_world(4, 1);
    other_world(1, 4);
}

/* The first was written by two ranks in C, the other by Python, which had read the first. */
CASE(checkpoints_of_c_and_python_are_one_format)
{
    for (int world = 1; world <= 2; world++) {
        start c = {.load = WEIR_TEST_DIR "/data/ranks-c.safetensors", .states = true};
        start python = {.load = WEIR_TEST_DIR "/data/ranks-python.safetensors", .states = true};

        start_on(&c, world, NULL);
        start_on(&python, world, NULL);
        CHECK(c.loaded == FIRST && python.loaded == FIRST);
        for (int r = 0; r < world; r++)
            CHECK(python.bits[r] == c.bits[r]);
        CHECK(world == 1 || c.bits[0] != c.bits[1]);    /* the statistics are each rank's own */
    }
}

/* A second checkpoint replaces the first, parts and all; or keeps it as .bak. */
static void twice_body(rank *r)
{
    const char *const path = r->job;
    training          t;

    CHECK_OR_RETURN(r->c != NULL);
    if (begin(&t, r->d, r->c, 1, false)) {
        for (int i = 1; i <= 3; i++) {
            train(&t, i, r->rank, 1);
            CHECK_OK(weir_run_save(&t.run, path, NULL));
        }
        for (int i = 4; i <= 6; i++) {
            train(&t, i, r->rank, 1);
            CHECK_OK(weir_run_save(&t.run, path, &(weir_save_options){.keep_previous = true}));
        }
    }
    end(&t);
}

CASE(former_parts_are_removed)
{
    rank   all[RANKS_MOST];
    folder f;
    char   bak[96];

    CHECK_OR_RETURN(folder_make(&f));
    ranks_run(all, 2, NULL, twice_body, f.file[0]);
    CHECK(files_in(f.path) == 2 * 3);
    snprintf(bak, sizeof bak, "%s.bak", f.file[0]);
    start last = {.load = f.file[0], .to = 0}, previous = {.load = bak, .to = 0};
    start_on(&last, 2, NULL);
    start_on(&previous, 1, NULL);
    CHECK(last.loaded == 6 && previous.loaded == 5);
    remove_all(&f);
}

/* ---- failures ---- */

/* The disk of one thread is full from its call number `at` on. */
static _Thread_local struct {
    bool on;
    int  at, calls;
} full;

static bool is_full(void)
{
    errno = ENOSPC;
    return full.on && full.calls++ >= full.at;
}

static int full_create(const char *path)
{
    return is_full() ? -1 : weir_disk_system.create(path);
}

static ssize_t full_write(int fd, const void *from, size_t n)
{
    return is_full() ? -1 : weir_disk_system.write(fd, from, n);
}

static int full_fsync(int fd)
{
    (void)fd;
    return is_full() ? -1 : 0;
}

static int full_rename(const char *from, const char *to)
{
    return is_full() ? -1 : weir_disk_system.rename(from, to);
}

typedef struct faulty_disk {
    const char *path;
    int         rank, at;
    bool        reached;        /* the save made that many calls */
} faulty_disk;

static void full_body(rank *r)
{
    faulty_disk *const f = r->job;
    training           t;

    CHECK_OR_RETURN(r->c != NULL);
    if (begin(&t, r->d, r->c, 1, false)) {
        train(&t, 1, r->rank, 1);
        CHECK_OK(weir_run_save(&t.run, f->path, NULL));
        train(&t, 2, r->rank, 1);
        full.on = r->rank == f->rank;
        full.at = f->at;
        full.calls = 0;
        rank_note(r, weir_run_save(&t.run, f->path, NULL));
        if (full.on)
            f->reached = full.calls > full.at;
        full.on = false;
        train(&t, 3, r->rank, 1);       /* the training goes on */
        CHECK_OK(weir_run_save(&t.run, f->path, NULL));
    }
    end(&t);
}

/* Each call to the disk in turn, on each rank: a full disk is the failure of all ranks, names the
 * rank, and leaves the former checkpoint. */
CASE(a_full_disk_is_a_failure_of_all_ranks)
{
    weir_disk disk = weir_disk_system;

    disk.create = full_create;
    disk.write = full_write;
    disk.fsync = full_fsync;
    disk.rename = full_rename;
    weir_disk_in_use = &disk;
    for (int culprit = 0; culprit < 2; culprit++) {
        bool reached = true;
        for (int at = 0; reached; at++) {
            rank   all[RANKS_MOST];
            folder f;
            CHECK_OR_RETURN(folder_make(&f));
            faulty_disk job = {.path = f.file[0], .rank = culprit, .at = at};
            ranks_run(all, 2, NULL, full_body, &job);
            reached = job.reached && at < 40;
            for (int r = 0; r < 2 && job.reached; r++) {
                CHECK_STATUS(all[r].status, WEIR_ERR_IO);
                CHECK_TEXT(all[r].error, "No space left on device");
                CHECK_TEXT(all[r].error, r == culprit ? "run_save" : "has failed");
            }
            CHECK(job.reached || at > 3);
            CHECK(files_in(f.path) == 3);
            remove_all(&f);
        }
    }
    weir_disk_in_use = &weir_disk_system;
}

/* A run of one layer. */
static weir_run layer_begin(weir_device *d, weir_comm *c, int64_t step)
{
    weir_model *const m = weir_model_new(d);

    weir_linear_new(m, "fc1", IN, 8, true);
    return (weir_run){.model = m, .comm = c, .step = step};
}

typedef struct dying {
    const char *path;
    int64_t     step;
} dying;

static void dying_body(rank *r)
{
    const dying *const s = r->job;

    CHECK_OR_RETURN(r->c != NULL);
    weir_run l = layer_begin(r->d, r->c, s->step);
    rank_note(r, weir_run_save(&l, s->path, NULL));
    weir_model_free(l.model);
}

/* Loads in this process alone; the step, or -1. */
static int64_t load_alone(const char *path)
{
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    weir_run           l = layer_begin(d, NULL, 0);

    const int64_t step = weir_run_load(&l, path) == WEIR_OK ? l.step : -1;
    weir_model_free(l.model);
    weir_device_close(d);
    return step;
}

/* A rank that stops before any exchange of a save: the others get an error, and a checkpoint loads,
 * the former one unless the new one was complete. */
CASE(a_dead_rank_leaves_a_checkpoint)
{
    for (int culprit = 0; culprit < 3; culprit += 2) {
        bool died = true;
        for (int at = 1; died && at < 20; at++) {
            rank   all[RANKS_MOST];
            folder f;
            char   fault[16];
            CHECK_OR_RETURN(folder_make(&f));
            dying first = {f.file[0], 1}, second = {f.file[0], 2};
            ranks_run(all, 3, NULL, dying_body, &first);
            ranks_options o = {.comm = {.timeout_s = 0.3}};
            snprintf(fault, sizeof fault, ",die=%d", at);
            o.faults[culprit] = fault;
            ranks_run(all, 3, &o, dying_body, &second);
            died = all[culprit].status != WEIR_OK;
            for (int r = 0; r < 3 && died; r++) {
                CHECK_STATUS(all[r].status, WEIR_ERR_COMM);
                CHECK_TEXT(all[r].error, culprit == 0 ? "rank 0 " : "rank 2 ");
            }
            const int64_t step = load_alone(f.file[0]);
            CHECK(step == 2 || (died && step == 1));
            CHECK(died || at > 5);
            remove_all(&f);
        }
    }
}

static void differ_body(rank *r)
{
    const char *const path = r->job;

    CHECK_OR_RETURN(r->c != NULL);
    weir_run l = layer_begin(r->d, r->c, r->rank);
    CHECK_STATUS(weir_run_save(&l, path, NULL), WEIR_ERR_COMM);
    CHECK_TEXT(weir_error(), "rank 0 is at step 0, rank 1 at step 1");
    l.step = 4;
    if (r->rank == 1)
        weir_linear_new(l.model, "fc2", 8, 8, true);
    CHECK_STATUS(weir_run_save(&l, path, NULL), WEIR_ERR_COMM);
    CHECK_TEXT(weir_error(), "rank 0 has 2 tensors, rank 1 4");
    CHECK_STATUS(weir_run_save(&l, r->rank == 1 ? "" : path, NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "is no path of a file");
    CHECK_STATUS(weir_run_load(&l, path), WEIR_ERR_IO);     /* nothing has been written */
    weir_model_free(l.model);
}

CASE(ranks_must_save_the_same)
{
    rank   all[RANKS_MOST];
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    ranks_run(all, 2, NULL, differ_body, f.file[0]);
    CHECK(files_in(f.path) == 0);
    remove_all(&f);
}

/* ---- hostile files ---- */

/* Replaces the first `from` in the file, or its byte number `at` if from is NULL, by `to`, which is
 * as long. */
static bool damage(const char *path, const char *from, size_t at, const char *to)
{
    char        text[1 << 14];
    FILE *const f = fopen(path, "rb+");
    size_t      n = f ? fread(text, 1, sizeof text, f) : 0;

    for (size_t i = 0; from && i + strlen(from) <= n; i++)
        if (memcmp(text + i, from, strlen(from)) == 0) {
            at = i;
            from = NULL;
        }
    const bool done = f && !from && at + strlen(to) <= n && fseek(f, (long)at, SEEK_SET) == 0 &&
                      fwrite(to, 1, strlen(to), f) == strlen(to);
    return (!f || fclose(f) == 0) && done;
}

/* part: of the checkpoint, or the manifest itself if it is -1. */
static void check_damage(int part, const char *from, size_t at, const char *to, const char *text)
{
    rank   all[RANKS_MOST];
    folder f;
    char   path[128];

    CHECK_OR_RETURN(folder_make(&f));
    dying job = {f.file[0], 7};
    ranks_run(all, 2, NULL, dying_body, &job);
    snprintf(path, sizeof path, part < 0 ? "%s" : "%s.1.%d.part", f.file[0], part);
    CHECK(load_alone(f.file[0]) == 7);
    CHECK(to ? damage(path, from, at, to) : unlink(path) == 0);
    CHECK(load_alone(f.file[0]) == -1);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), text);
    remove_all(&f);
}

CASE(damaged_parts_and_hostile_manifests_are_refused)
{
    check_damage(0, NULL, 100, "\x01\x02", "has the checksum ");
    check_damage(1, NULL, 3, "\x7f", "has the checksum ");
    check_damage(1, NULL, 0, NULL, "cannot be opened");
    check_damage(-1, "\"weir_ranks\":\"2\"", 0, "\"weir_ranks\":\"0\"", "of 0 ranks, not 1 to");
    check_damage(-1, "\"weir_ranks\":\"2\"", 0, "\"weir_ranks\":\"9\"", "lacks weir_part.2");
    check_damage(-1, "\"weir_ranks\":\"2\"", 0, "\"weir_ranks\":\"x\"", "no whole number");
    check_damage(-1, "\"0.1.0.part\"", 0, "\"/.1.0.part\"", "'/.1.0.part' is no name of a part");
    check_damage(-1, "\"0.1.1.part\"", 0, "\"0.1.0.part\"", "the manifest says");
    check_damage(-1, "\"weir_part_bytes.0\"", 0, "\"weir_part_bytes.7\"",
                 "lacks weir_part_bytes.0");
    check_damage(-1, "\"weir_format\":\"1\"", 0, "\"weir_format\":\"2\"", "reads format 1");
}

CASE(the_checksum_is_that_of_zlib)
{
    weir_crc32 c;

    weir_crc32_begin(&c);
    CHECK(weir_crc32_value(&c) == 0);
    weir_crc32_add(&c, "1234", 4);
    weir_crc32_add(&c, "56789", 5);
    CHECK(weir_crc32_value(&c) == 0xcbf43926u);     /* the check value of the catalogue of CRCs */
    weir_crc32_begin(&c);
    weir_crc32_add(&c, "The quick brown fox jumps over the lazy dog", 43);
    CHECK(weir_crc32_value(&c) == 0x414fa339u);
}
