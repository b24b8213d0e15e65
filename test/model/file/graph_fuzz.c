/* graph_fuzz.c - damaged graphs: a graph that runs within its memory or a sentence, never a crash.
 *
 * Run under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "temp_folder.h"
#include "core/mem.h"

/* ---- texts that are not what they were ---- */

/* A step with most kinds of lines: a draw, views, a convolution, pooling, updates. */
static weir_status small_step(weir_layer *conv, weir_optim *o, weir_tensor *x, weir_tensor *y)
{
    weir_tensor *h = weir_dropout(weir_relu(weir_apply(conv, x)), 0.25);

    h = weir_max_pool2d(h, &(weir_pool2d_options){.kernel = {2, 2}});
    weir_tensor *const rows = weir_narrow(weir_flatten(h), 1, 1, 5);
    WEIR_TRY(weir_set_name(h, "pooled"));
    return weir_minimize(o, weir_keep(weir_cross_entropy(weir_softmax(rows, 1), y)));
}

/* What is replaced, by what, and a part of the sentence that says so. */
static const struct {
    const char *from, *to, *says;
} wrong[] = {
    {"weir graph 1", "weir graph 2", "this library reads format 1"},
    {"\nend\n", "\n", "ends before its last line, 'end'"},
    {"\nend\n", "\nend\nend\n", "text behind the end"},
    {"call conv2d ", "call conv3d ", "unknown operation 'conv3d'"},
    {"call conv2d ", "call callback ", "a file cannot hold the operation 'callback'"},
    {"call conv2d forward", "call conv2d sideways", "unknown phase 'sideways'"},
    {"call relu forward 0 0 0 1 ", "call relu forward 0 0 0 2 ", "a number from 1 to 1"},
    {"call relu forward 0 0 0 1 ", "call relu forward 0 0 7 1 ", "draws 0 blocks"},
    {"call dropout forward 0 0 0 ", "call dropout forward 0 0 999 ", "of random numbers from 999"},
    {"\nrandom ", "\nrandom -", "expected a number"},
    {"param f32[2,1,3,3]", "param f32[2,2,3,3]", "line "},
    {"param f32[2,1,3,3]", "param f64[2,1,3,3]", "view as f32 of elements of f64"},
    {"param f32[2,1,3,3]", "param f32[2,1,3,3", "end of a list"},
    {"param f32[2,1,3,3]", "param f32[2,1,3,9223372036854775807]", "expected a number"},
    {"param f32[2,1,3,3]", "param f32[4294967296,4294967296,3,3]", "a shape"},
    {"input i32[2]", "input i32[1]", "ends outside its storage of 4 bytes"},
    {"view 0 0 ", "view 0 1 ", "ends outside its storage"},
    {"view 0 0 ", "view 999 0 ", "expected a number from 0"},
    {"conv.weight\n", "conv.bias\n", "two tensors are called 'conv.bias'"},
    {"scope conv\n", "scope c%00v\n", "a name with a zero byte"},
    {"scope conv\n", "scope c%0\n", "% without two digits"},
    {"scope conv\n", "scope c%0a\n", "a path with control characters"},
    {"scope conv\n", "scope \n", "expected a name"},
    {"called relu 1 0", "called relu 1 9", "a number from 0 to"},
    {"called relu 1 0", "called rule 1 0", "unknown operation 'rule'"},
    {" grad ", " gard ", "unknown word 'gard' (expected for, grad or recompute)"},
    {" grad ", " grad 9999", "a number from 0 to"},
    {"name ", "name 9", "a number from 0 to"},
    {"name ", "name 0 x\nname ", "the storage 0 has a name"},
};

/* A small graph and what it needs. */
typedef struct tiny {
    weir_device *d;
    weir_model  *m;
    weir_optim  *o;         /* NULL unless the graph trains */
    weir_tensor *x, *y;
    weir_graph  *g;
} tiny;

static tiny tiny_new(void)
{
    tiny s = {.d = weir_device_open("cpu", &(weir_device_options){.threads = 1})};

    s.m = weir_model_new(s.d);
    s.x = weir_input(s.d, weir_4d(WEIR_F32, 2, 1, 6, 6));
    s.y = weir_input(s.d, weir_1d(WEIR_I32, 2));
    return s;
}

/* Records a training step with an optimiser, which becomes the graph's. */
static void tiny_train(tiny *s, weir_optim *o)
{
    weir_layer *const conv = weir_conv2d_new(s->m, "conv", 1, 2, 3, NULL, true);

    s->o = o;
    s->g = weir_graph_begin(s->d);
    CHECK_OK(small_step(conv, o, s->x, s->y));
    CHECK_OK(weir_graph_end(s->g, NULL));
}

static void tiny_infer(tiny *s)
{
    weir_layer *const fc = weir_linear_new(s->m, "fc", 36, 4, true);

    s->g = weir_graph_begin(s->d);
    weir_keep(weir_argmax(weir_apply(fc, weir_flatten(s->x)), 1, false));
    CHECK_OK(weir_graph_end(s->g, NULL));
}

static void tiny_free(const tiny *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_release(s->y);
    weir_optim_free(s->o);
    weir_model_free(s->m);
    weir_device_close(s->d);
}

/* Calls fn with the text of a small training step. */
static void with_text(void (*fn)(weir_device *d, const char *text))
{
    tiny s = tiny_new();

    tiny_train(&s, weir_sgd_new(s.d, 0.1, &(weir_sgd_options){.momentum = 0.9}));
    char *const text = weir_graph_recorded(s.g);
    if (CHECK(text != NULL))
        fn(s.d, text);
    weir_text_free(text);
    tiny_free(&s);
}

static void try_wrong(weir_device *d, const char *text)
{
    static char bad[1 << 14];

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        const char *const at = strstr(text, wrong[i].from);
        if (!check_that(at != NULL, __FILE__, __LINE__, "no '%s' in\n%s", wrong[i].from, text))
            continue;
        snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text), text, wrong[i].to,
                 at + strlen(wrong[i].from));
        weir_graph *const g = weir_graph_parse(d, bad, strlen(bad), NULL);
        if (check_that(!g, __FILE__, __LINE__, "'%s' is read", wrong[i].to)) {
            CHECK(weir_error_status() == WEIR_ERR_IO);
            CHECK_TEXT(weir_error(), wrong[i].says);
        }
        weir_graph_free(g);
    }
}

CASE(wrong_texts_are_explained)
{
    with_text(try_wrong);
}

static int rounds(void)
{
    return check_full() ? 200000 : 1500;
}

static bool ends_word(char c)
{
    return c == ' ' || c == ',' || c == '[' || c == ']' || c == '\n';
}

/* Replaces the word at `where` of the n bytes; returns their new number. */
static size_t replace_word(char *at, size_t n, size_t capacity, size_t where, const char *by)
{
    size_t from = where, to = where;

    while (from > 0 && !ends_word(at[from - 1]))
        from--;
    while (to < n && !ends_word(at[to]))
        to++;
    if (n - (to - from) + strlen(by) >= capacity)
        return n;
    memmove(at + from + strlen(by), at + to, n - to);
    memcpy(at + from, by, strlen(by));
    return n - (to - from) + strlen(by);
}

/* Small numbers, which may make another possible graph, extreme ones, and bytes of any value. */
static size_t damage(char *at, size_t n, size_t capacity)
{
    static const char *const odd[] = {"65536", "2147483647", "4294967296", "4611686018427387904",
                                      "9223372036854775807", "-9223372036854775808", "view 0 0 ",
                                      "x7ff8000000000000", "255", "-1"};
    const int64_t changes = check_int(1, 3);
    char          small[24];

    for (int64_t i = 0; i < changes; i++) {
        const size_t where = (size_t)check_int(13, (int64_t)n - 1);
        const bool   extreme = check_int(0, 2) == 0;
        snprintf(small, sizeof small, "%d", (int)check_int(0, 9));
        n = replace_word(at, n, capacity, where,
                         extreme ? odd[check_int(0, (int64_t)ARRAY_LENGTH(odd) - 1)] : small);
        if (check_int(0, 9) == 0)
            at[check_int(0, (int64_t)n - 1)] = (char)check_int(0, 255);
    }
    return n;
}

/* Runs a graph that is small: its kernels must stay within their operands, whatever is in them.
 * all: parameters and states are written too; else they have the values of the file, if any. */
static void run_small(weir_graph *g, bool all)
{
    const weir_binding *list;
    weir_graph_stats    s;
    size_t              count;

    CHECK_OK(weir_graph_bindings(g, &list, &count));
    CHECK_OK(weir_graph_stats_of(g, &s));
    if (s.planned_peak_bytes > 1 << 20)
        return;
    for (size_t k = 0; k < count; k++)
        if (list[k].role == WEIR_ROLE_INPUT || (all && list[k].role != WEIR_ROLE_OUTPUT))
            CHECK_OK(weir_write_fill(list[k].tensor, 1));
    (void)weir_graph_run(g);
}

static void try_damaged(weir_device *d, const char *text)
{
    static char  bad[1 << 14];
    const size_t n = strlen(text);
    int          read = 0, refused = 0;

    for (int i = 0; i < rounds(); i++) {
        memcpy(bad, text, n);
        weir_graph *const g = weir_graph_parse(d, bad, damage(bad, n, sizeof bad), NULL);
        if (g) {
            read++;
            run_small(g, true);
            weir_graph_free(g);
        } else {
            refused += CHECK(strlen(weir_error()) > 20);
        }
    }
    CHECK(read > 10 && refused > read);
}

CASE(damaged_texts_never_crash)
{
    with_text(try_damaged);
}

/* ---- files that are not what they were ---- */

enum { FILE_BYTES = 1 << 15 };

typedef struct bytes {
    unsigned char at[FILE_BYTES];
    size_t        n;
} bytes;

/* The file of a small graph, for training or for inference. */
static void write_graph(const folder *f, bytes *b, bool trains)
{
    tiny s = tiny_new();

    if (trains)
        tiny_train(&s, weir_adam_new(s.d, 0.1, NULL));
    else
        tiny_infer(&s);
    CHECK_OK(weir_graph_save(s.g, f->file[0], NULL));
    FILE *const from = fopen(f->file[0], "rb");
    b->n = from ? fread(b->at, 1, sizeof b->at, from) : 0;
    CHECK(b->n > 1000 && b->n < sizeof b->at - 1000);
    if (from)
        fclose(from);
    tiny_free(&s);
}

/* Where the word begins in the file; NULL if it is not there. */
static const unsigned char *find(const bytes *b, const char *word)
{
    const size_t n = strlen(word);

    for (size_t i = 0; i + n <= b->n; i++)
        if (memcmp(b->at + i, word, n) == 0)
            return b->at + i;
    return NULL;
}

/* A place in the file: in the header, in the text of the graph, or anywhere. */
static size_t somewhere(const bytes *b)
{
    const unsigned char *const text = find(b, "weir graph 1\n");
    const int64_t              part = check_int(0, 2);
    const size_t               from = part == 1 && text ? (size_t)(text - b->at) : 0;

    return (size_t)check_int((int64_t)from, part == 0 ? 700 : (int64_t)b->n - 1);
}

/* Bytes of any value, and those that mean something in a header or in a number. */
static void change_bytes(bytes *b)
{
    static const char special[] = "\0\x7f\x80\xff,\n\"\\{}[]:0198-% ";

    for (int64_t i = check_int(1, 4); i > 0; i--)
        b->at[somewhere(b)] = check_int(0, 1)
                                  ? (unsigned char)special[check_int(0, sizeof special - 2)]
                                  : (unsigned char)check_int(0, 255);
}

/* Puts up to 200 bytes of `from` into b, in place of as many bytes or between two. */
static void splice(bytes *b, const bytes *from)
{
    const size_t source = (size_t)check_int(0, (int64_t)from->n - 201),
                 n = (size_t)check_int(1, 200);
    size_t       to = somewhere(b);

    if (check_int(0, 1)) {
        memmove(b->at + to + n, b->at + to, b->n - to);
        b->n += n;
    }
    to = to + n > b->n ? b->n - n : to;
    memmove(b->at + to, from->at + source, n);
}

/* Takes up to 200 bytes out. */
static void cut_out(bytes *b)
{
    const size_t from = somewhere(b), most = b->n - from;
    size_t       n = (size_t)check_int(1, 200);

    n = n < most ? n : most;
    memmove(b->at + from, b->at + from + n, b->n - from - n);
    b->n -= n;
}

/* Makes the header's length say how long its JSON is: what follows is then looked at. */
static void mend_length(bytes *b)
{
    const unsigned char *const end = find(b, "}}");
    const size_t               n = end ? (size_t)(end - b->at) + 2 - 8 : 0;

    for (int i = 0; i < 8 && n > 0; i++)
        b->at[i] = (unsigned char)(n >> 8 * i);
}

static void damage_file(bytes *b, const bytes *other)
{
    const bytes before = *b;

    switch (check_int(0, 4)) {
    case 0: change_bytes(b); break;
    case 1: splice(b, &before); break;
    case 2: splice(b, other); break;
    case 3: cut_out(b); break;
    default: b->n = (size_t)check_int(0, (int64_t)b->n - 1); break;
    }
    if (check_int(0, 2) == 0)
        mend_length(b);
}

CASE(damaged_graph_files_never_crash)
{
    static bytes       good[2], bad;
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    int                loaded = 0, refused = 0;
    folder             f;

    CHECK_OR_RETURN(folder_make(&f));
    for (int i = 0; i < 2; i++)
        write_graph(&f, &good[i], i);
    for (int i = 0; i < rounds(); i++) {
        const int which = (int)check_int(0, 1);
        bad = good[which];
        damage_file(&bad, &good[!which]);
        file_write(&f, 0, bad.at, bad.n);
        weir_graph *const g = weir_graph_load(d, f.file[0], NULL);
        if (g) {
            loaded++;
            run_small(g, check_int(0, 1));
            weir_graph_free(g);
        } else {
            refused += CHECK(weir_error_status() == WEIR_ERR_IO && strlen(weir_error()) > 20);
        }
    }
    CHECK(loaded > 10 && refused > loaded);
    weir_device_close(d);
    folder_remove(&f);
}

/* ---- loading while memory runs out ---- */

enum { FAULTS = 120 };

/* Loads the file on a device of its own while each of `faults` allocations, a spread of those that
 * a load makes, fails in turn: ERR_NOMEM, or a graph that could do without. */
static void load_without_memory(const char *path, int faults)
{
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    int                failed = 0;

    weir_graph_free(weir_graph_load(d, path, NULL));        /* kernels are chosen once */
    const uint64_t before = weir_mem_calls();
    weir_graph    *g = weir_graph_load(d, path, NULL);
    const int64_t  points = (int64_t)(weir_mem_calls() - before);
    CHECK(g != NULL && points > FAULTS);
    weir_graph_free(g);
    for (int i = 0; i < faults; i++) {
        weir_mem_fail_nth(i * points / faults, false);
        g = weir_graph_load(d, path, NULL);
        weir_mem_fail_nth(-1, false);
        failed += !g && CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
        weir_graph_free(g);
    }
    CHECK(failed > faults / 2);
    weir_device_close(d);
}

CASE(loading_without_memory)
{
    static bytes good;
    folder       f;

    CHECK_OR_RETURN(folder_make(&f));
    write_graph(&f, &good, true);
    load_without_memory(f.file[0], 2);
    const int64_t alive = weir_mem_alive();
    load_without_memory(f.file[0], FAULTS);
    CHECK(weir_mem_alive() == alive);
    folder_remove(&f);
}
