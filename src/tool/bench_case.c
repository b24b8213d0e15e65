/* bench_case.c - a model in training on a device of its own: networks, synthetic data, the step,
 * equality.
 *
 * Data come from SplitMix64 (Steele, Lea and Flood 2014), weights from the device's random stream.
 * TOOL_SEED fixes both. */
#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct network {
    const char *name;
    int64_t     batch, classes;
    int64_t     channels, px; /* channels 0: x is (n, px), else (n, channels, px, px) */
    int         depth;        /* of a resnet, else 0 */
    unsigned    form;
    weir_layer *(*make)(weir_model *m, const struct network *n, int64_t px);
} network;

enum {
    SCALES = 1,     /* --image gives x another size */
    PIXELS = 2,     /* logits (n, classes, px, px): a class for each pixel */
    TEXT = 4,       /* x is (n, px) tokens below classes, a label for each; --length gives px */
    TREE = 8,       /* x is (n, px) tokens below TREE_VOCAB, a label for all; --length gives px */
    DEEP = 16,      /* --depth gives depth */
    ADAM = 32       /* trained with Adam, not SGD */
};

/* Up to this image size a resnet has the CIFAR stem and ten classes. */
enum { SMALL_IMAGE = 64, SMALL_CLASSES = 10 };

enum { TREE_VOCAB = 2000 };

static bool is_small(const network *n, int64_t px)
{
    return n->depth > 0 && px <= SMALL_IMAGE;
}

static int64_t classes_of(const network *n, int64_t px)
{
    return is_small(n, px) ? SMALL_CLASSES : n->classes;
}

static weir_layer *make_mlp(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_mlp_new(m, 4, (const int64_t[]){n->px, 1024, 1024, n->classes});
}

/* Six layers of width 8: almost no arithmetic, so that a step's time is the overhead of Weir. */
static weir_layer *make_tiny(weir_model *m, const network *n, int64_t px)
{
    (void)n;
    (void)px;
    return weir_mlp_new(m, 7, (const int64_t[]){8, 8, 8, 8, 8, 8, 8});
}

static weir_layer *make_cnn(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_digits_cnn_new(m, n->classes);
}

static weir_layer *make_lenet(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_lenet_new(m, n->classes);
}

static weir_layer *make_resnet(weir_model *m, const network *n, int64_t px)
{
    return weir_resnet_new(m, n->depth, classes_of(n, px), is_small(n, px));
}

static weir_layer *make_vgg(weir_model *m, const network *n, int64_t px)
{
    return weir_vgg16_new(m, n->classes, px);
}

static weir_layer *make_mobilenet(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_mobilenet_v2_new(m, n->classes);
}

static weir_layer *make_densenet(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_densenet121_new(m, n->classes);
}

static weir_layer *make_unet(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_unet_new(m, n->channels, n->classes, 64, false);
}

/* Six layers of width 384 and six heads, over bytes. */
static weir_layer *make_gpt(weir_model *m, const network *n, int64_t px)
{
    return weir_gpt_new(m, n->classes, px, 384, 6, 6);
}

static weir_layer *make_lstm(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_char_lstm_new(m, n->classes, 128, 1);
}

/* GPT-2 small, with an output layer that does not share the embedding's weights. */
static weir_layer *make_gpt2(weir_model *m, const network *n, int64_t px)
{
    return weir_gpt_new(m, n->classes, px, 768, 12, 12);
}

static weir_layer *make_deep(weir_model *m, const network *n, int64_t px)
{
    (void)px;
    return weir_resnet_cifar_new(m, n->depth, n->classes);
}

/* The sizes of Tai, Socher and Manning 2015 for sentiment. */
static weir_layer *make_tree(weir_model *m, const network *n, int64_t px)
{
    return weir_tree_lstm_new(m, TREE_VOCAB, 150, n->classes, px, WEIR_TREE_BALANCED);
}

static weir_layer *make_random_tree(weir_model *m, const network *n, int64_t px)
{
    return weir_tree_lstm_new(m, TREE_VOCAB, 150, n->classes, px, WEIR_TREE_RANDOM);
}

/* An LSTM, step by step. */
static weir_layer *make_chain(weir_model *m, const network *n, int64_t px)
{
    return weir_tree_lstm_new(m, TREE_VOCAB, 150, n->classes, px, WEIR_TREE_CHAIN);
}

#define NETWORKS(X)                                                                                \
    X("mlp", 128, 10, 0, 784, 0, 0, make_mlp)                                                      \
    X("cnn", 64, 10, 1, 8, 0, 0, make_cnn)                                                         \
    X("lenet", 64, 10, 1, 28, 0, 0, make_lenet)                                                    \
    X("resnet18", 16, 1000, 3, 224, 18, SCALES, make_resnet)                                       \
    X("resnet50", 16, 1000, 3, 224, 50, SCALES, make_resnet)                                       \
    X("resnet", 128, 10, 3, 32, 110, DEEP, make_deep)                                              \
    X("vgg16", 8, 1000, 3, 224, 0, SCALES, make_vgg)                                               \
    X("densenet121", 16, 1000, 3, 224, 0, SCALES, make_densenet)                                   \
    X("mobilenetv2", 16, 1000, 3, 224, 0, SCALES, make_mobilenet)                                  \
    X("unet", 2, 2, 3, 256, 0, SCALES | PIXELS, make_unet)                                         \
    X("tiny", 8, 8, 0, 8, 0, 0, make_tiny)                                                         \
    X("gpt", 8, 256, 0, 256, 0, TEXT, make_gpt)                                                    \
    X("gpt2", 4, 50257, 0, 512, 0, TEXT | ADAM, make_gpt2)                                         \
    X("lstm", 16, 128, 0, 32, 0, TEXT, make_lstm)                                                  \
    X("treelstm", 25, 5, 0, 32, 0, TREE, make_tree)                                                \
    X("randomtree", 25, 5, 0, 32, 0, TREE, make_random_tree)                                       \
    X("chainlstm", 25, 5, 0, 32, 0, TREE, make_chain)

#define NETWORK(...)    {__VA_ARGS__},
#define NAME(name, ...) ", " name

static const network networks[] = {NETWORKS(NETWORK)};

static const network *find(const char *name)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (strcmp(networks[i].name, name) == 0)
            return &networks[i];
    return NULL;
}

const char *tool_model_names(void)
{
    return &(NETWORKS(NAME))[2];
}

bool tool_model_scales(const char *name)
{
    const network *const n = find(name);
    return n && n->form & SCALES;
}

bool tool_model_is_text(const char *name)
{
    const network *const n = find(name);
    return n && n->form & (TEXT | TREE);
}

bool tool_model_is_deep(const char *name)
{
    const network *const n = find(name);
    return n && n->form & DEEP;
}

/* Draws data for `parts` tensors like t, one after another: floats uniform in [-1, 1) with 24 bits,
 * i32 uniform among the classes. Writes the first to t. The caller frees *data. */
static weir_status write_random(weir_tensor *t, int64_t parts, int64_t classes, uint64_t *state,
                                char **data)
{
    const size_t bytes = weir_tensor_bytes(t), n = bytes * (size_t)parts / sizeof(float);
    const bool   whole = weir_tensor_desc(t).dtype == WEIR_I32;
    void *const  v = *data = malloc(n * sizeof(float));
    if (!v)
        return WEIR_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const uint64_t z = weir_splitmix64(state);
        if (whole)
            ((int32_t *)v)[i] = (int32_t)(z % (uint64_t)classes);
        else
            ((float *)v)[i] = (float)(z >> 40) * 0x1p-23f - 1.0f;
    }
    return weir_write(t, v, bytes);
}

bool tool_simulated(const tool_options *o)
{
    return strncmp(o->device, "sim", 3) == 0;
}

static void free_data(tool_bench_case *t)
{
    free(t->x_data);
    free(t->y_data);
    t->x_data = t->y_data = NULL;
}

/* A simulated batch may be larger than this machine's memory; it has no elements to write. */
static weir_status write_data(tool_bench_case *t, const network *n, int64_t classes, bool simulated)
{
    uint64_t state = TOOL_SEED;

    if (simulated) {
        WEIR_TRY(weir_write_fill(t->x, 0));
        return weir_write_fill(t->y, 0);
    }
    WEIR_TRY(write_random(t->x, t->parts, n->form & TREE ? TREE_VOCAB : classes, &state,
                          &t->x_data));
    WEIR_TRY(write_random(t->y, t->parts, classes, &state, &t->y_data));
    if (t->parts == 1)
        free_data(t);
    return WEIR_OK;
}

/* The shape of x. */
static weir_desc input_of(const network *n, int64_t batch, int64_t px)
{
    if (n->form & (TEXT | TREE))
        return weir_2d(WEIR_I32, batch, px);
    return n->channels ? weir_4d(WEIR_F32, batch, n->channels, px, px)
                       : weir_2d(WEIR_F32, batch, px);
}

static int64_t labels_of(const network *n, int64_t batch, int64_t px)
{
    return n->form & PIXELS ? batch * px * px : n->form & TEXT ? batch * px : batch;
}

/* One row of logits for each label: pixels become rows. */
static weir_tensor *rows_of(weir_tensor *logits, bool pixels)
{
    if (!pixels || !logits)
        return logits;
    return weir_reshape(weir_transpose(logits, (const int[]){0, 2, 3, 1}), 2,
                        (const int64_t[]){-1, weir_tensor_desc(logits).dim[1]});
}

weir_status tool_bench_case_record(void *ctx)
{
    tool_bench_case *const t = ctx;
    weir_tensor *const loss = weir_cross_entropy(rows_of(weir_apply(t->net, t->x), t->pixels),
                                                 t->y);
    t->loss = weir_keep(loss);
    if (t->parts == 1)
        return weir_minimize(t->optim, t->loss);
    return weir_optim_accumulate(t->optim, weir_affine(loss, 1.0 / (double)t->parts, 0));
}

/* With micro-batches: updates by the sum of their gradients. */
static weir_status record_apply(void *ctx)
{
    const tool_bench_case *const t = ctx;
    return weir_optim_apply(t->optim);
}

weir_status tool_bench_case_step(tool_bench_case *t)
{
    const size_t x = weir_tensor_bytes(t->x), y = weir_tensor_bytes(t->y);

    for (int64_t i = 0; i < t->parts; i++) {
        if (t->parts > 1) {
            WEIR_TRY(weir_write(t->x, t->x_data + (size_t)i * x, x));
            WEIR_TRY(weir_write(t->y, t->y_data + (size_t)i * y, y));
        }
        WEIR_TRY(weir_step_run(t->step));
    }
    return t->apply ? weir_step_run(t->apply) : WEIR_OK;
}

static weir_dtype precision_of(const tool_options *o)
{
    const char *const p = o->precision ? o->precision : "f32";

    return strcmp(p, "bf16") == 0 ? WEIR_BF16 : strcmp(p, "f16") == 0 ? WEIR_F16 : WEIR_F32;
}

weir_plan_options tool_plan_options(const tool_options *o)
{
    return (weir_plan_options){.level = o->level ? atoi(o->level) : 0,
                               .disable = o->disable,
                               .budget = o->budget,
                               .policy = o->policy,
                               .placement = o->placement,
                               .measure = o->measure && *o->measure == 'y',
                               .cache = o->cache,
                               .profile_steps = (int)o->profile_steps};
}

weir_status tool_bench_case_fill(tool_bench_case *t, const tool_options *o)
{
    const network *const n = find(o->model);
    const int64_t        px = o->image ? o->image : o->length ? o->length : n->px;

    return write_data(t, n, classes_of(n, px), tool_simulated(o));
}

/* A simulated machine may be one rank of many. */
static weir_status join(tool_bench_case *t)
{
    const weir_parallel_options p = {.model = t->model, .micro_batches = t->parts};

    t->comm = weir_comm_open("auto", t->dev, NULL);
    if (!t->comm)
        return weir_error_status();
    return weir_comm_world(t->comm) > 1 ? weir_data_parallel(t->optim, t->comm, &p) : WEIR_OK;
}

/* On failure t keeps what was made before; tool_bench_case_close frees it. */
static weir_status build(tool_bench_case *t, const tool_options *o, bool graph)
{
    network net = *find(o->model);
    const network *const n = &net;
    const int64_t        px = o->image ? o->image : o->length ? o->length : n->px;
    net.depth = o->depth ? (int)o->depth : net.depth;
    t->batch = o->batch ? o->batch : n->batch;
    t->parts = o->micro ? o->micro : 1;
    t->image = n->form & SCALES ? px : 0;
    t->pixels = n->form & PIXELS;

    t->dev = weir_device_open(o->device,
                              &(weir_device_options){.threads = (int)o->threads,
                                                     .seed = TOOL_SEED,
                                                     .spill_dir = o->spill_dir,
                                                     .guard = !o->guard          ? 0
                                                              : *o->guard == 'y' ? 1 : -1});
    t->model = t->dev ? weir_model_new(t->dev) : NULL;
    t->net = t->model ? n->make(t->model, n, px) : NULL;
    if (!t->net)
        return weir_error_status();
    WEIR_TRY(weir_model_set_precision(t->model, precision_of(o)));
    t->x = weir_input(t->dev, input_of(n, t->batch / t->parts, px));
    t->y = weir_input(t->dev, weir_1d(WEIR_I32, labels_of(n, t->batch / t->parts, px)));
    t->optim = n->form & ADAM
                   ? weir_adam_new(t->dev, 0.0003, NULL)
                   : weir_sgd_new(t->dev, 0.01, &(weir_sgd_options){.momentum = 0.9});
    t->step = weir_step_new(t->dev, tool_bench_case_record, t,
                            &(weir_step_options){graph, tool_plan_options(o)});
    if (t->parts > 1)
        t->apply = weir_step_new(t->dev, record_apply, t, &(weir_step_options){graph, {0}});
    if (!t->x || !t->y || !t->optim || !t->step || (t->parts > 1 && !t->apply))
        return weir_error_status();
    if (tool_simulated(o))
        WEIR_TRY(join(t));
    return o->dry ? WEIR_OK : tool_bench_case_fill(t, o);
}

weir_status tool_bench_case_open(tool_bench_case *t, const tool_options *o, bool graph)
{
    *t = (tool_bench_case){0};
    const weir_status s = build(t, o, graph);
    if (s != WEIR_OK)
        tool_bench_case_close(t);
    return s;
}

void tool_bench_case_close(tool_bench_case *t)
{
    weir_step_free(t->step);
    weir_step_free(t->apply);
    free_data(t);
    weir_optim_free(t->optim);
    weir_release(t->x);
    weir_release(t->y);
    weir_model_free(t->model);
    weir_comm_close(t->comm);
    weir_device_close(t->dev);
    *t = (tool_bench_case){0};
}

weir_status tool_bench_case_limit(tool_bench_case *t, const char *budget, const char *policy,
                                  size_t whole, size_t *bytes)
{
    char        text[32];
    char       *end;
    const double share = strtod(budget, &end);

    if (end != budget && strcmp(end, "%") == 0 && share >= 0 && share <= 1000)
        snprintf(text, sizeof text, "%.0f", (double)whole * share / 100);
    else
        snprintf(text, sizeof text, "%s", budget);
    WEIR_TRY(weir_bytes(text, bytes));
    WEIR_TRY(weir_device_set_policy(t->dev, policy));
    return weir_device_set_budget(t->dev, text);
}

weir_status tool_bench_case_loss(const tool_bench_case *t, float *loss)
{
    return weir_read(t->loss, loss, sizeof *loss);
}

weir_status tool_bench_case_measure(tool_bench_case *t, weir_memory *m, size_t *arena)
{
    weir_graph *const g = weir_step_graph(t->step);
    *arena = 0;
    weir_device_reset_peak(t->dev);
    size_t applied = 0;
    WEIR_TRY(g ? weir_graph_measure(g, arena) : weir_step_run(t->step));
    if (t->apply && g)
        WEIR_TRY(weir_graph_measure(weir_step_graph(t->apply), &applied));
    else if (t->apply)
        WEIR_TRY(weir_step_run(t->apply));
    *arena = applied > *arena ? applied : *arena;
    weir_device_memory(t->dev, m);
    return WEIR_OK;
}

/* Clears *equal if the elements differ. */
static weir_status compare(const weir_tensor *a, const weir_tensor *b, bool *equal)
{
    const size_t bytes = weir_tensor_bytes(a);
    if (bytes != weir_tensor_bytes(b)) {
        *equal = false;
        return WEIR_OK;
    }
    char *const buffer = malloc(2 * bytes + 1);
    if (!buffer)
        return WEIR_ERR_NOMEM;
    weir_status s = weir_read(a, buffer, bytes);
    if (s == WEIR_OK)
        s = weir_read(b, buffer + bytes, bytes);
    if (s == WEIR_OK && memcmp(buffer, buffer + bytes, bytes) != 0)
        *equal = false;
    free(buffer);
    return s;
}

weir_status tool_bench_case_equal(const tool_bench_case *a, const tool_bench_case *b, bool *equal)
{
    const size_t params = weir_model_param_count(a->model),
                 states = weir_model_state_count(a->model);
    const size_t slots = weir_optim_state_count(a->optim);

    *equal = params == weir_model_param_count(b->model) &&
             states == weir_model_state_count(b->model) &&
             slots == weir_optim_state_count(b->optim);
    for (size_t i = 0; *equal && i < params; i++)
        WEIR_TRY(compare(weir_model_param(a->model, i), weir_model_param(b->model, i), equal));
    for (size_t i = 0; *equal && i < states; i++)
        WEIR_TRY(compare(weir_model_state(a->model, i), weir_model_state(b->model, i), equal));
    for (size_t i = 0; *equal && i < slots; i++)
        WEIR_TRY(compare(weir_optim_state(a->optim, i), weir_optim_state(b->optim, i), equal));
    return *equal ? compare(a->loss, b->loss, equal) : WEIR_OK;
}

/* FNV-1a (Fowler, Noll, Vo) over the elements. */
static weir_status hash(const weir_tensor *t, uint64_t *h)
{
    const size_t         bytes = weir_tensor_bytes(t);
    unsigned char *const v = malloc(bytes + 1);
    if (!v)
        return WEIR_ERR_NOMEM;
    const weir_status s = weir_read(t, v, bytes);
    for (size_t i = 0; s == WEIR_OK && i < bytes; i++)
        *h = (*h ^ v[i]) * UINT64_C(0x100000001b3);
    free(v);
    return s;
}

weir_status tool_bench_case_bits(const tool_bench_case *t, uint64_t *bits)
{
    *bits = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < weir_model_param_count(t->model); i++)
        WEIR_TRY(hash(weir_model_param(t->model, i), bits));
    for (size_t i = 0; i < weir_model_state_count(t->model); i++)
        WEIR_TRY(hash(weir_model_state(t->model, i), bits));
    for (size_t i = 0; i < weir_optim_state_count(t->optim); i++)
        WEIR_TRY(hash(weir_optim_state(t->optim, i), bits));
    return hash(t->loss, bits);
}

double tool_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double tool_clock_ms(weir_device *d)
{
    (void)weir_device_sync(d);          /* a failure is reported by the next call */
    return weir_device_clock(d) * 1e3;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tool_median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
