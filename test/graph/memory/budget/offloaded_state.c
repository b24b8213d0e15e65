/* offloaded_state.c - parameters and optimizer state in the spill file: the same bits as without a
 * budget, within a budget that they alone exceed; read, written, evaluated, saved and freed between
 * steps; failures on the way. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/hash.h"
#include "graph/fixture.h"

enum { WIDTH = 128, LAYERS = 4, BATCH = 4, CLASSES = 10 };

/* A network of square layers that is trained with momentum. */
typedef struct net {
    weir_device *d;
    weir_model  *m;
    weir_layer  *layer;
    weir_optim  *o;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
} net;

static weir_status record(void *ctx)
{
    net *const n = ctx;
    n->loss = weir_keep(weir_cross_entropy(weir_apply(n->layer, n->x), n->y));
    return n->loss ? weir_minimize(n->o, n->loss) : weir_error_status();
}

static void close_net(net *n)
{
    weir_step_free(n->step);
    weir_optim_free(n->o);
    weir_model_free(n->m);
    weir_release(n->x);
    weir_release(n->y);
    weir_device_close(n->d);
}

static weir_status open_net(net *n, const char *budget)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget}};
    int64_t                 sizes[LAYERS + 1];

    for (int i = 0; i < LAYERS; i++)
        sizes[i] = WIDTH;
    sizes[LAYERS] = CLASSES;
    const weir_device_options o = {.threads = 1, .seed = 3};
    *n = (net){.d = weir_device_open(check_device(), &o)};
    n->m = n->d ? weir_model_new(n->d) : NULL;
    n->layer = n->m ? weir_mlp_new(n->m, LAYERS + 1, sizes) : NULL;
    if (n->layer)
        n->o = weir_sgd_new(n->d, 0.05, &(weir_sgd_options){.momentum = 0.9});
    if (n->o)
        n->x = weir_input(n->d, weir_2d(WEIR_F32, BATCH, WIDTH));
    if (n->x)
        n->y = weir_input(n->d, weir_1d(WEIR_I32, BATCH));
    if (n->y)
        n->step = weir_step_new(n->d, record, n, &how);
    if (n->step)
        return WEIR_OK;
    close_net(n);
    return weir_error_status();
}

static weir_status step_net(net *n, int number)
{
    float   x[BATCH * WIDTH];
    int32_t y[BATCH];

    check_random = 77 + (uint64_t)number;
    check_floats(x, BATCH * WIDTH, -1, 1);
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)check_int(0, CLASSES - 1);
    WEIR_TRY(weir_write(n->x, x, sizeof x));
    WEIR_TRY(weir_write(n->y, y, sizeof y));
    return weir_step_run(n->step);
}

static uint64_t hash_of(uint64_t h, const weir_tensor *t)
{
    const size_t bytes = weir_tensor_bytes(t);
    void *const  data = malloc(bytes + 1);

    if (CHECK(data != NULL) && CHECK_OK(weir_read(t, data, bytes)))
        h = weir_hash_bytes(h, data, bytes);
    free(data);
    return h;
}

/* Loss, parameters and momentum. */
static uint64_t bits_of(const net *n)
{
    uint64_t h = hash_of(1, n->loss);

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        h = hash_of(h, weir_model_param(n->m, i));
    for (size_t i = 0; i < weir_optim_state_count(n->o); i++)
        h = hash_of(h, weir_optim_state(n->o, i));
    return h;
}

/* Returns the bytes of all parameters, guard zones included. */
static size_t bytes_of_params(const net *n)
{
    size_t sum = 0;

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        sum += fixture_bytes_taken(n->d, weir_tensor_bytes(weir_model_param(n->m, i)));
    return sum;
}

static uint32_t count_offloaded(const net *n)
{
    uint32_t offloaded = 0;

    for (size_t i = 0; i < weir_model_param_count(n->m); i++)
        offloaded += ((const weir_block *)weir_model_param(n->m, i)->block)->offloaded;
    for (size_t i = 0; i < weir_optim_state_count(n->o); i++)
        offloaded += ((const weir_block *)weir_optim_state(n->o, i)->block)->offloaded;
    return offloaded;
}

/* Records fingerprints after each of `steps` steps without a budget. */
static void plain_bits(int steps, uint64_t *bits)
{
    net n;

    CHECK_OR_RETURN(open_net(&n, NULL) == WEIR_OK);
    for (int i = 0; i < steps; i++) {
        CHECK_OK(step_net(&n, i));
        bits[i] = bits_of(&n);
    }
    close_net(&n);
}

CASE(trains_in_less_than_its_parameters)
{
    enum { STEPS = 20 };
    uint64_t         bits[STEPS];
    net              n;
    weir_graph_stats s;
    weir_memory      m;
    size_t           measured;
    char             budget[32];

    plain_bits(STEPS, bits);
    CHECK_OR_RETURN(open_net(&n, NULL) == WEIR_OK);
    snprintf(budget, sizeof budget, "%zu", bytes_of_params(&n) / 100 * 99);
    close_net(&n);
    CHECK_OR_RETURN(open_net(&n, budget) == WEIR_OK);
    for (int i = 0; i < STEPS; i++) {
        if (!CHECK_OK(step_net(&n, i)))
            break;
        if (i == 0 || i > 10)           /* reading does not prefetch the block */
            CHECK(bits_of(&n) == bits[i]);
        CHECK(count_offloaded(&n) > 0);
    }
    CHECK_OK(weir_graph_stats_of(weir_step_graph(n.step), &s));
    printf("    parameters %zu, whole %zu, budget %zu, planned %zu, %u away\n",
           bytes_of_params(&n), s.unbudgeted_peak_bytes, s.budget_bytes, s.planned_peak_bytes,
           count_offloaded(&n));
    CHECK(s.planned_peak_bytes <= s.budget_bytes && s.budget_bytes < bytes_of_params(&n));
    CHECK(s.planned_peak_bytes == s.persistent_bytes + s.arena_bytes);
    weir_device_memory(n.d, &m);
    CHECK(m.persistent == s.persistent_bytes);
    CHECK_OK(weir_graph_measure(weir_step_graph(n.step), &measured));
    CHECK(measured == s.arena_bytes);
    char *const plan = weir_graph_text(weir_step_graph(n.step), WEIR_TEXT_PLAN);
    CHECK_TEXT(plan, "bytes at home ");
    weir_text_free(plan);
    close_net(&n);
}

/* A step description does not show what the budget added: parameters are parameters. With several
 * streams, the order of ops may depend on the budget. */
CASE(stepfile_is_the_step_without_it)
{
    char *text[2];

    if (!check_on_cpu())
        return;
    for (int i = 0; i < 2; i++) {
        net n;
        CHECK_OR_RETURN(open_net(&n, i ? "50%" : NULL) == WEIR_OK);
        CHECK_OK(step_net(&n, 0));
        CHECK((count_offloaded(&n) > 0) == (i == 1));
        text[i] = weir_graph_text(weir_step_graph(n.step), WEIR_TEXT_STEPFILE);
        CHECK(text[i] && !strstr(text[i], "spill"));
        close_net(&n);
    }
    CHECK(text[0] && text[1] && strcmp(text[0], text[1]) == 0);
    weir_text_free(text[0]);
    weir_text_free(text[1]);
}

/* ---- between steps ---- */

/* Computes the logits of the current network by a graph with or without a budget. */
static weir_graph *record_logits(net *n, const char *budget, weir_tensor **y)
{
    weir_graph *g = weir_graph_begin(n->d);

    *y = weir_keep(weir_apply(n->layer, n->x));
    CHECK_OK(weir_graph_end(g, &(weir_plan_options){.budget = budget}));
    return g;
}

static uint64_t logits_at_once(net *n)
{
    CHECK_OK(weir_scope_begin(n->d));
    const uint64_t h = hash_of(1, weir_apply(n->layer, n->x));
    weir_scope_end(n->d);
    return h;
}

/* Evaluates in both ways; `out` receives six numbers per step. */
static void train_and_look(const char *budget, const char *evaluation, uint64_t out[][6])
{
    net          n;
    weir_graph  *g = NULL;
    weir_tensor *y = NULL;

    CHECK_OR_RETURN(open_net(&n, budget) == WEIR_OK);
    for (int i = 0; i < 4; i++) {
        weir_tensor *const p = weir_model_param(n.m, 2);
        CHECK_OK(step_net(&n, i));
        out[i][0] = bits_of(&n);
        if (i == 0)
            g = record_logits(&n, evaluation, &y);
        CHECK_OK(weir_graph_run(g));
        out[i][1] = hash_of(1, y);
        out[i][2] = i % 2 ? logits_at_once(&n) : 0;
        if (i == 1)
            CHECK_OK(weir_write_fill(p, 0.25));
        if (i == 2)
            CHECK_OK(weir_write_uniform(p, -0.1, 0.1));
        CHECK_OK(weir_graph_run(g));
        out[i][3] = hash_of(1, y);
        CHECK_OK(step_net(&n, 10 + i));
        out[i][4] = i % 2 ? 0 : logits_at_once(&n);
        CHECK_OK(step_net(&n, 20 + i));
        if (i == 2)                     /* written while offloaded */
            CHECK_OK(weir_write_fill(weir_optim_state(n.o, 0), 0));
        out[i][5] = bits_of(&n);
        CHECK(!budget || count_offloaded(&n) > 0);
    }
    weir_graph_free(g);
    close_net(&n);
}

CASE(evaluation_and_writing_between_steps)
{
    static const char *const evaluation[] = {NULL, "60%", "1MB"};
    uint64_t                 plain[4][6], within[4][6];

    train_and_look(NULL, NULL, plain);
    for (size_t i = 0; i < ARRAY_LENGTH(evaluation); i++) {
        memset(within, 0, sizeof within);
        train_and_look("50%", evaluation[i], within);
        CHECK_BITS(plain, within, sizeof plain);
    }
}

/* The budget belongs to the device and also holds with the graph off. */
CASE(budget_of_the_device)
{
    uint64_t bits[3];
    net      n;

    plain_bits(3, bits);
    CHECK_OR_RETURN(open_net(&n, NULL) == WEIR_OK);
    CHECK_OK(weir_device_set_budget(n.d, "50%"));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(step_net(&n, i));
        CHECK(bits_of(&n) == bits[i]);
    }
    CHECK_OK(weir_device_set_budget(n.d, "2MB"));
    const uint64_t once = logits_at_once(&n);
    CHECK_OK(step_net(&n, 3));
    CHECK(count_offloaded(&n) > 0 && once != logits_at_once(&n));
    CHECK_OK(step_net(&n, 4));
    close_net(&n);
    plain_bits(3, bits);
}

/* A value computed with the graph off keeps its bits when its parameter is offloaded, and is
 * recomputed from the prefetched parameter. */
CASE(values_made_from_what_goes_away)
{
    net          n;
    weir_tensor *kept;

    CHECK_OR_RETURN(open_net(&n, "50%") == WEIR_OK);
    CHECK_OK(step_net(&n, 0));
    CHECK_OK(weir_device_set_budget(n.d, "2MB"));
    weir_tensor *const p = weir_model_param(n.m, 2);
    CHECK_OK(weir_scope_begin(n.d));
    kept = weir_retain(weir_exp(p));
    weir_scope_end(n.d);
    const uint64_t before = hash_of(1, kept);
    CHECK_OK(step_net(&n, 1));
    CHECK(((const weir_block *)p->block)->offloaded);
    CHECK(hash_of(1, kept) == before);
    CHECK_OK(step_net(&n, 2));
    CHECK(hash_of(1, kept) == before);
    weir_release(kept);
    close_net(&n);
}

CASE(saved_and_loaded)
{
    uint64_t bits[4];
    net      a, b;

    plain_bits(4, bits);
    CHECK_OR_RETURN(open_net(&a, "50%") == WEIR_OK);
    CHECK_OR_RETURN(open_net(&b, "55%") == WEIR_OK);
    for (int i = 0; i < 3; i++)
        CHECK_OK(step_net(&a, i));
    CHECK_OK(step_net(&b, 9));
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < weir_model_param_count(a.m); i++) {
            const weir_tensor *from = k ? weir_optim_state(a.o, i) : weir_model_param(a.m, i);
            weir_tensor       *to = k ? weir_optim_state(b.o, i) : weir_model_param(b.m, i);
            const size_t       bytes = weir_tensor_bytes(from);
            void *const        data = malloc(bytes);
            CHECK_OK(weir_read(from, data, bytes));
            CHECK_OK(weir_write(to, data, bytes));
            free(data);
        }
    close_net(&a);
    CHECK_OK(step_net(&b, 3));
    CHECK(bits_of(&b) == bits[3]);
    close_net(&b);
}

/* Frees step, model, optimizer and device in different orders. */
CASE(freed_in_every_state)
{
    for (int way = 0; way < 4; way++) {
        net   n;
        float v[WIDTH * WIDTH];
        CHECK_OR_RETURN(open_net(&n, "50%") == WEIR_OK);
        for (int i = 0; i < way; i++)
            CHECK_OK(step_net(&n, i));
        weir_tensor *const p = weir_retain(weir_model_param(n.m, 2));
        CHECK(((const weir_block *)p->block)->offloaded == (way > 0));
        weir_step_free(n.step);
        n.step = NULL;
        if (way == 1) {
            CHECK_OK(weir_read(p, v, sizeof v));
            CHECK_OK(weir_write(p, v, sizeof v));
        }
        close_net(&n);
        if (way > 0)
            CHECK_STATUS(weir_read(p, v, sizeof v), WEIR_ERR_DEVICE);
        weir_release(p);
    }
}

CASE(an_address_that_was_given_away)
{
    if (!check_on_cpu())        /* addresses and spill file are those of the CPU */
        return;
    net     n;
    void   *at;
    int64_t stride[WEIR_MAX_DIMS];

    CHECK_OR_RETURN(open_net(&n, "50%") == WEIR_OK);
    CHECK_OK(step_net(&n, 0));
    const uint64_t bits = bits_of(&n);
    CHECK_OK(weir_tensor_memory(weir_model_param(n.m, 2), &at, stride));
    CHECK_STATUS(step_net(&n, 1), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "its address was given away");
    CHECK(bits == bits_of(&n));
    close_net(&n);
    /* before the plan: it stays on the device */
    CHECK_OR_RETURN(open_net(&n, "60%") == WEIR_OK);
    CHECK_OK(weir_tensor_memory(weir_model_param(n.m, 2), &at, stride));
    CHECK_OK(step_net(&n, 0));
    CHECK_OK(step_net(&n, 1));
    CHECK(count_offloaded(&n) > 0 &&
          !((const weir_block *)weir_model_param(n.m, 2)->block)->offloaded);
    close_net(&n);
}

/* ---- failures ---- */

/* Number of writes and reads that succeed before one fails; negative: none fails. */
typedef struct faulty {
    atomic_int writes, reads;
} faulty;

static ssize_t faulty_write(void *ctx, int fd, const void *p, size_t n, off_t at)
{
    errno = EIO;
    return atomic_fetch_sub(&((faulty *)ctx)->writes, 1) == 0 ? -1 : pwrite(fd, p, n, at);
}

static ssize_t faulty_read(void *ctx, int fd, void *p, size_t n, off_t at)
{
    errno = EIO;
    return atomic_fetch_sub(&((faulty *)ctx)->reads, 1) == 0 ? -1 : pread(fd, p, n, at);
}

/* Returns all tensors of the network. */
static weir_tensor *tensor_of(const net *n, size_t i)
{
    const size_t params = weir_model_param_count(n->m);
    return i < params ? weir_model_param(n->m, i) : weir_optim_state(n->o, i - params);
}

/* Each tensor has its value from before or after the step, or reports that it is lost. */
static void check_whole(const net *n, size_t tensors, const uint64_t *before,
                        const uint64_t *after, uint32_t *lost)
{
    static float v[WIDTH * WIDTH];

    for (size_t i = 0; i < tensors; i++) {
        weir_tensor *const t = tensor_of(n, i);
        const weir_status  status = weir_read(t, v, weir_tensor_bytes(t));
        if (status == WEIR_ERR_IO) {
            *lost += 1;
            continue;
        }
        const uint64_t h = weir_hash_bytes(1, v, weir_tensor_bytes(t));
        CHECK_OK(status);
        CHECK(h == before[i] || h == after[i]);
    }
}

CASE(input_and_output_fail)
{
    if (!check_on_cpu())        /* addresses and spill file are those of the CPU */
        return;
    enum { TENSORS = 4 * LAYERS, FAULTS = 30 };
    uint64_t bits[TENSORS][3], before[TENSORS], after[TENSORS];
    uint32_t lost = 0, failed = 0;
    net      n;

    CHECK_OR_RETURN(open_net(&n, NULL) == WEIR_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(step_net(&n, i));
        for (size_t k = 0; k < TENSORS; k++)
            bits[k][i] = hash_of(1, tensor_of(&n, k));
    }
    close_net(&n);
    for (size_t k = 0; k < TENSORS; k++) {
        before[k] = bits[k][1];
        after[k] = bits[k][2];
    }
    for (int i = 0; i < FAULTS; i++) {
        faulty                  f = {-1, -1};
        const weir_spill_system y = {.ctx = &f, .write = faulty_write, .read = faulty_read};
        CHECK_OR_RETURN(open_net(&n, "50%") == WEIR_OK);
        CHECK_OK(weir_spill_new(&(weir_spill_options){.system = &y}, &n.d->spill));
        CHECK_OK(step_net(&n, 0));
        CHECK_OK(step_net(&n, 1));
        atomic_store(i % 2 ? &f.writes : &f.reads, i / 2);
        const weir_status status = step_net(&n, 2);
        failed += status != WEIR_OK;
        CHECK(status == WEIR_OK || status == WEIR_ERR_IO);
        atomic_store(&f.writes, -1);
        atomic_store(&f.reads, -1);
        check_whole(&n, TENSORS, before, after, &lost);
        for (size_t k = 0; k < TENSORS; k++)
            CHECK_OK(weir_write_fill(tensor_of(&n, k), 0.01));
        CHECK_OK(step_net(&n, 3));
        close_net(&n);
    }
    printf("    %u runs of %d failed, %u values lost\n", failed, FAULTS, lost);
    CHECK(failed > FAULTS / 3 && lost > 0);
}

/* Each allocation of the first or of a later step fails once: a status, no leak, and the next step
 * works. */
static bool fails_once(int64_t nth, bool first, const uint64_t *bits)
{
    net n;

    if (!CHECK_OK(open_net(&n, "50%")))
        return false;
    if (!first) {
        CHECK_OK(step_net(&n, 0));
        CHECK_OK(weir_write_fill(weir_model_param(n.m, 2), 0.5));
    }
    weir_mem_fail_nth(nth, false);
    weir_status status = step_net(&n, 0);
    if (status == WEIR_OK && !first)
        status = weir_write_fill(weir_model_param(n.m, 2), 0.5);
    const bool failed = weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    if (status != WEIR_OK)
        CHECK(status == WEIR_ERR_NOMEM);
    else if (first)
        CHECK(bits_of(&n) == *bits);
    CHECK_OK(step_net(&n, 1));
    CHECK(count_offloaded(&n) > 0);
    close_net(&n);
    return failed;
}

CASE(fails_at_every_point)
{
    uint64_t bits[1];

    plain_bits(1, bits);
    for (int64_t nth = 0; fails_once(nth, true, bits); nth += 1 + nth / (check_full() ? 6 : 2))
        ;
    for (int64_t nth = 0; fails_once(nth, false, bits); nth++)
        ;
}
