/* graph_file.c - graphs that are saved and loaded: every network in evaluation and in training,
 * equal bits and names, under a budget; names and roles; what a file cannot hold. */
#include "temp_folder.h"
#include "core/mem.h"

enum { CLASSES = 4, FIRST = 1, MORE = 2 };

#include "model/small_nets.h"

typedef struct job {
    const char *name;
    int64_t     batch, px, channels;
    bool        pixels, text;           /* as in nets/nets_step.c */
    weir_layer *(*make)(weir_model *m, int64_t px);
    const char *budget;                 /* of training, near the smallest; NULL: none */
} job;

static weir_layer *make_mlp(weir_model *m, int64_t px)
{
    return weir_mlp_new(m, 3, (const int64_t[]){3 * px * px, 16, CLASSES});
}

static weir_layer *make_lenet(weir_model *m, int64_t px)
{
    (void)px;
    return weir_lenet_new(m, CLASSES);
}

static weir_layer *make_digits(weir_model *m, int64_t px)
{
    (void)px;
    return weir_digits_cnn_new(m, CLASSES);
}

static weir_layer *make_resnet(weir_model *m, int64_t px)
{
    (void)px;
    return weir_resnet_new(m, 18, CLASSES, true);
}

/* A network with dropout, in a step that records loss and update, or logits alone. */
typedef struct net {
    const job   *job;
    weir_device *d;
    weir_model  *m;
    weir_layer  *layer, *drop;
    weir_optim  *optim;
    weir_tensor *x, *y, *out;
    weir_graph  *g;
} net;

static weir_tensor *logits(const net *n)
{
    weir_tensor *x = n->job->make == make_mlp ? weir_flatten(n->x) : n->x;

    return rows_of(weir_apply(n->drop, weir_apply(n->layer, x)), n->job->pixels);
}

static bool open_net(net *n, const job *j, bool train, const weir_plan_options *plan)
{
    const int64_t labels = j->batch * (j->pixels ? j->px * j->px : j->text ? j->px : 1);

    *n = (net){.job = j, .d = weir_device_open(check_device(), &(weir_device_options){
                                                   .threads = 1, .seed = 5})};
    n->m = weir_model_new(n->d);
    n->layer = j->make(n->m, j->px);
    n->drop = weir_dropout_new(n->m, 0.3);
    weir_model_train(n->m, train);
    n->x = weir_input(n->d, j->text ? weir_2d(WEIR_I32, j->batch, j->px)
                                    : weir_4d(WEIR_F32, j->batch, j->channels, j->px, j->px));
    n->y = weir_input(n->d, weir_1d(WEIR_I32, labels));
    n->optim = weir_adam_new(n->d, 0.01, NULL);
    n->g = weir_graph_begin(n->d);
    weir_tensor *const t = logits(n);
    n->out = weir_keep(train ? weir_cross_entropy(t, n->y) : t);
    return CHECK(n->out != NULL) && (!train || CHECK_OK(weir_minimize(n->optim, n->out))) &&
           CHECK_OK(weir_graph_end(n->g, plan)) &&
           CHECK_OK(weir_graph_bind(n->g, n->x, WEIR_ROLE_INPUT, "x")) &&
           (!train || CHECK_OK(weir_graph_bind(n->g, n->y, WEIR_ROLE_INPUT, "y"))) &&
           CHECK_OK(weir_graph_bind(n->g, n->out, WEIR_ROLE_OUTPUT, "out"));
}

static void close_net(net *n)
{
    weir_graph_free(n->g);
    weir_optim_free(n->optim);
    weir_release(n->x);
    weir_release(n->y);
    weir_model_free(n->m);
    weir_device_close(n->d);
}

/* Numbers of a batch that the step decides. */
static void write_batch(weir_tensor *t, int step)
{
    const size_t bytes = weir_tensor_bytes(t);
    const bool   whole = weir_tensor_desc(t).dtype == WEIR_I32;
    char *const  v = malloc(bytes);
    uint64_t     state = (uint64_t)step;

    CHECK_OR_RETURN(v != NULL);
    for (size_t i = 0; i < bytes / 4; i++) {
        const uint64_t r = weir_splitmix64(&state);
        const int32_t  class = (int32_t)(r % CLASSES);
        const float    real = (float)(r % 1000) / 500 - 1;
        memcpy(v + 4 * i, whole ? (const void *)&class : (const void *)&real, 4);
    }
    CHECK_OK(weir_write(t, v, bytes));
    free(v);
}

static void run_steps(weir_graph *g, bool train, int from, int to)
{
    for (int step = from; step < to; step++) {
        write_batch(weir_graph_tensor(g, "x"), step);
        if (train)
            write_batch(weir_graph_tensor(g, "y"), step + 100);
        CHECK_OK(weir_graph_run(g));
    }
}

static void same_tensor(const weir_binding *a, weir_tensor *t)
{
    const size_t bytes = weir_tensor_bytes(a->tensor);
    char *const  v = malloc(2 * bytes + 1);

    if (CHECK(v && t && weir_tensor_bytes(t) == bytes) &&
        CHECK_OK(weir_read(a->tensor, v, bytes)) && CHECK_OK(weir_read(t, v + bytes, bytes)) &&
        !CHECK_BITS(v, v + bytes, bytes))
        check_that(false, __FILE__, __LINE__, "%s differs", a->name);
    free(v);
}

/* Every tensor of both graphs has the same bits under the same name. */
static void same_graphs(weir_graph *a, weir_graph *b)
{
    const weir_binding *list;
    size_t              n;

    if (CHECK_OK(weir_graph_bindings(a, &list, &n)))
        for (size_t i = 0; i < n; i++)
            same_tensor(&list[i], weir_graph_tensor(b, list[i].name));
}

/* The next line of a picture that shows an instruction, as "[shape=box ...", into line. */
static const char *next_box(const char *at, char line[512])
{
    at = at ? strstr(at, "[shape=box") : NULL;
    snprintf(line, 512, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
    return at ? at + 1 : NULL;
}

/* Pictures of both graphs show the same instructions with the same names of calls: storages may
 * have other numbers. */
static void same_names(weir_graph *a, weir_graph *b)
{
    char *const text[] = {weir_graph_text(a, WEIR_TEXT_DOT), weir_graph_text(b, WEIR_TEXT_DOT)};
    const char *at[] = {text[0], text[1]};
    char        line[2][512];
    int         named = 0;

    do {
        for (int i = 0; i < 2; i++)
            at[i] = next_box(at[i], line[i]);
        if (!check_that(strcmp(line[0], line[1]) == 0, __FILE__, __LINE__, "%s is now %s", line[0],
                        line[1]))
            break;
        named += strchr(line[0], '/') != NULL;
    } while (at[0]);
    CHECK(named > 0);
    weir_text_free(text[0]);
    weir_text_free(text[1]);
}

/* Both graphs were recorded alike, training included. */
static void same_recordings(weir_graph *a, weir_graph *b)
{
    weir_graph_stats s = {0}, t = {0};
    char *const      text[] = {weir_graph_recorded(a), weir_graph_recorded(b)};

    CHECK_OK(weir_graph_stats_of(a, &s));
    CHECK_OK(weir_graph_stats_of(b, &t));
    CHECK(s.dropouts == t.dropouts && s.batch_statistics == t.batch_statistics &&
          s.trains == t.trains);
    CHECK(strcmp(weir_graph_remark(a), weir_graph_remark(b)) == 0);
    CHECK(text[0] && text[1] && strcmp(text[0], text[1]) == 0);
    weir_text_free(text[0]);
    weir_text_free(text[1]);
}

/* Runs the graph of the file on a device of its own with other numbers in it. */
static void continues(const char *path, weir_graph *first, bool train, const char *budget)
{
    /* Budgets are those of steps without guard zones. */
    const weir_device_options other = {.threads = 1, .seed = 99, .guard = budget ? -1 : 0};
    weir_device *const        d = weir_device_open(check_device(), &other);
    weir_graph *const g = weir_graph_load(d, path, &(weir_plan_options){.budget = budget});
    weir_graph_stats  s;
    size_t            peak;

    if (CHECK(g != NULL)) {
        run_steps(g, train, FIRST, FIRST + MORE - 1);
        write_batch(weir_graph_tensor(g, "x"), FIRST + MORE - 1);
        if (train)
            write_batch(weir_graph_tensor(g, "y"), FIRST + MORE - 1 + 100);
        CHECK_OK(weir_graph_measure(g, &peak));
        CHECK_OK(weir_graph_stats_of(g, &s));
        CHECK(peak == s.arena_bytes);
        CHECK(!budget || (s.planned_peak_bytes <= s.budget_bytes && s.budget_bytes > 0));
        same_graphs(first, g);
        same_recordings(first, g);
        if (!budget)
            same_names(first, g);
    } else {
        printf("%s\n", weir_error());
    }
    weir_graph_free(g);
    weir_device_close(d);
}

static void comes_back(const job *j, bool train)
{
    net    n;
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    if (open_net(&n, j, train, NULL)) {
        run_steps(n.g, train, 0, FIRST);
        if (CHECK_OK(weir_graph_save(n.g, f.file[0], NULL))) {
            run_steps(n.g, train, FIRST, FIRST + MORE);
            continues(f.file[0], n.g, train, NULL);
            if (j->budget)
                continues(f.file[0], n.g, train, train ? j->budget : "100%");
        }
    }
    close_net(&n);
    folder_remove(&f);
}

static const job jobs[] = {
    {"mlp", 3, 4, 3, false, false, make_mlp, "100%"},
    {"lenet", 16, 28, 1, false, false, make_lenet, "99%"},
    {"digits cnn", 16, 8, 1, false, false, make_digits, "70%"},
    {"resnet18", 16, 16, 3, false, false, make_resnet, "95%"},
    {"mobilenet_v2", 2, 32, 3, false, false, make_mobilenet, NULL},
    {"densenet121", 2, 32, 3, false, false, make_densenet, NULL},
    {"unet", 8, 16, 3, true, false, make_unet_upsample, "79%"},
    {"gpt", 2, 8, 0, false, true, make_gpt, "84%"},
    {"char_lstm", 2, 6, 0, false, true, make_lstm, "94%"},
};

CASE(evaluation_of_every_network)
{
    for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++) {
        check_doing = jobs[i].name;
        comes_back(&jobs[i], false);
    }
    check_doing = NULL;
}

CASE(training_of_every_network)
{
    for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++) {
        check_doing = jobs[i].name;
        comes_back(&jobs[i], true);
    }
    check_doing = NULL;
}

/* ---- names, roles and refusals ---- */

static weir_status twice(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int i = 0; i < 2; i++)
        ((float *)y->data)[i] = 2 * ((const float *)x->data)[i];
    return WEIR_OK;
}

CASE(callbacks_are_refused_by_name)
{
    static const weir_callback_def def = {.name = "twice", .forward = twice};
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 2));
    const weir_desc    out = weir_1d(WEIR_F32, 2);
    weir_tensor       *y;
    weir_graph *const  g = weir_graph_begin(d);

    CHECK_OK(weir_callback(&def, NULL, 1, &x, 1, &out, &y));
    weir_keep(y);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_save(g, "/nowhere/g", NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "calls 'twice', a function of the program");
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(names_and_roles)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const a = weir_state(d, weir_1d(WEIR_F32, 2), "s"),
                *const b = weir_state(d, weir_1d(WEIR_F32, 2), "s"),
                *const x = weir_input(d, weir_1d(WEIR_F32, 2)),
                *const rate = weir_input(d, weir_scalar(WEIR_F32));
    weir_graph *const   g = weir_graph_begin(d);
    const weir_binding *list;
    size_t              n;

    CHECK_STATUS(weir_graph_bindings(g, &list, &n), WEIR_ERR_STATE);
    weir_tensor *const y = weir_keep(weir_mul(weir_add(weir_add(a, b), x), rate));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_bindings(g, &list, &n));
    static const char *const want[] = {"s", "s.2", "input0", "input1", "output0"};
    CHECK_OR_RETURN(n == 5);
    for (int i = 0; i < 5; i++)
        CHECK(strcmp(list[i].name, want[i]) == 0);
    CHECK_OK(weir_graph_bind(g, b, WEIR_ROLE_INPUT, "given"));
    CHECK_OK(weir_graph_bind(g, y, WEIR_ROLE_OUTPUT, "100% of it\n"));
    CHECK_STATUS(weir_graph_bind(g, x, WEIR_ROLE_INPUT, "given"), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_bind(g, x, WEIR_ROLE_OUTPUT, "y"), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_bind(g, x, WEIR_ROLE_INPUT, "\xff"), WEIR_ERR_INVALID);
    CHECK(!weir_graph_tensor(g, "z"));
    CHECK_TEXT(weir_error(), "unknown tensor 'z' (expected given, input0, input1");

    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    const float v[2] = {1, 2}, three = 3;
    float       out[2];
    CHECK_OK(weir_write(a, v, sizeof v));
    CHECK_OK(weir_write(rate, &three, sizeof three));
    CHECK_OK(weir_graph_save(g, f.file[0], NULL));
    weir_graph *const l = weir_graph_load(d, f.file[0], NULL);
    CHECK_OR_RETURN(l != NULL);
    CHECK_STATUS(weir_graph_run(l), WEIR_ERR_STATE);    /* inputs have no values */
    CHECK_OK(weir_write(weir_graph_tensor(l, "given"), v, sizeof v));
    CHECK_OK(weir_write(weir_graph_tensor(l, "input0"), v, sizeof v));
    CHECK_OK(weir_graph_run(l));
    CHECK_OK(weir_read(weir_graph_tensor(l, "100% of it\n"), out, sizeof out));
    CHECK(out[0] == 9 && out[1] == 18);
    weir_graph_free(l);
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_release(x);
    weir_release(rate);
    weir_device_close(d);
    folder_remove(&f);
}

/* Results that the program named, and a path with signs that end a line of the file. */
CASE(names_of_results_and_odd_paths)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 2));
    weir_graph *const  g = weir_graph_begin(d);

    CHECK_OK(weir_name_scope_begin(d, "100% of \xc3\xa4"));
    weir_tensor *const h = weir_exp(x);
    CHECK_OK(weir_set_name(h, "hidden %41"));
    weir_tensor *const y = weir_keep(weir_sum(h, 0, false));
    CHECK_OK(weir_name_scope_end(d));
    CHECK_OK(weir_graph_end(g, &(weir_plan_options){.level = WEIR_LEVEL_RECORDED}));
    CHECK_OK(weir_graph_bind(g, y, WEIR_ROLE_OUTPUT, "y"));
    char *const       text = weir_graph_recorded(g);
    weir_graph *const l = text ? weir_graph_parse(d, text, strlen(text), &(weir_plan_options){
                                                      .level = WEIR_LEVEL_RECORDED}) : NULL;
    if (CHECK(l != NULL)) {
        char *const plan = weir_graph_text(l, WEIR_TEXT_GRAPH);
        CHECK_TEXT(plan, "100% of \xc3\xa4/exp");
        CHECK_TEXT(plan, ":hidden %41");
        weir_text_free(plan);
        same_recordings(g, l);
        same_names(g, l);
    }
    weir_graph_free(l);
    weir_text_free(text);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* A result that the program holds without having kept it, and a view of it. */
CASE(results_that_are_held_become_outputs)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 4));
    const float        v[4] = {1, 2, 3, 4};
    float              out[4];
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const h = weir_retain(weir_add(x, x)),
                *const part = weir_retain(weir_narrow(h, 0, 1, 2)),
                *const lost = weir_keep(weir_exp(h));

    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_bind(g, x, WEIR_ROLE_OUTPUT, "h"), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "is no result of the graph");
    CHECK_OK(weir_graph_bind(g, part, WEIR_ROLE_OUTPUT, "part"));
    CHECK_OK(weir_graph_bind(g, h, WEIR_ROLE_OUTPUT, "h"));
    CHECK_OK(weir_graph_bind(g, lost, WEIR_ROLE_OUTPUT, "e"));
    CHECK_STATUS(weir_graph_bind(g, h, WEIR_ROLE_OUTPUT, "part"), WEIR_ERR_INVALID);
    char *const       text = weir_graph_recorded(g);
    weir_graph *const l = text ? weir_graph_parse(d, text, strlen(text), NULL) : NULL;
    if (CHECK(l != NULL)) {
        CHECK_OK(weir_write(weir_graph_tensor(l, "input0"), v, sizeof v));
        CHECK_OK(weir_graph_run(l));
        CHECK_OK(weir_read(weir_graph_tensor(l, "h"), out, sizeof out));
        CHECK(out[0] == 2 && out[3] == 8);
        CHECK_OK(weir_read(weir_graph_tensor(l, "part"), out, 2 * sizeof *out));
        CHECK(out[0] == 4 && out[1] == 6);
    }
    weir_graph_free(l);
    weir_text_free(text);
    weir_graph_free(g);
    weir_release(h);
    weir_release(part);
    weir_release(x);
    weir_device_close(d);
}
