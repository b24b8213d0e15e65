/* onnx_fuzz.c - damaged models and failing memory: outputs or a sentence, never a crash.
 *
 * Run under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "model/onnx/onnx_bytes.h"
#include "temp_folder.h"

enum { CORPUS = 5 };

/* Integers of several sizes, elements that must be known, attributes of every kind. */
static weir_desc sound_integers(pb *m)
{
    pb g = {0}, axis = {0}, how = {0}, wrap = {0}, col = {0}, text = {0};

    net_input(&g, "x", PB_F32, 2, (int64_t[]){2, 4});
    net_init(&g, "scale", PB_F32, 1, (int64_t[]){2}, (float[]){0.5f, 2}, 8);
    net_init(&g, "zero", PB_I8, 1, (int64_t[]){2}, (int8_t[]){1, -3}, 2);
    net_init(&g, "on", 9, 1, (int64_t[]){6}, (uint8_t[]){1, 0, 1, 1, 0, 1}, 6);
    net_ints(&g, "index", 2, (int64_t[]){1, 0});
    net_ints(&g, "pads", 4, (int64_t[]){0, 1, 0, 1});
    net_ints(&g, "shape", 3, (int64_t[]){1, 2, 4});
    net_ints(&g, "image", 1, (int64_t[]){5});
    net_ints(&g, "block", 1, (int64_t[]){2});
    attr_int(&axis, "axis", 0);
    net_node(&g, "QuantizeLinear", "x,scale,zero", "q", &axis);
    net_node(&g, "DequantizeLinear", "q,scale,zero", "r", &axis);
    attr_text(&wrap, "mode", "wrap");
    net_node(&g, "Pad", "r,pads", "p", &wrap);
    attr_int(&how, "axis", 1);
    net_node(&g, "Compress", "p,on", "c", &how);
    net_node(&g, "Reshape", "c,shape", "s", NULL);
    attr_ints(&col, "strides", 1, (int64_t[]){1}, true);
    net_node(&g, "Col2Im", "s,image,block", "i", &col);
    net_node(&g, "Unique", "index", "u", NULL);
    attr_text(&text, "mode", "TF");
    attr_ints(&text, "ngram_counts", 1, (int64_t[]){0}, true);
    attr_ints(&text, "ngram_indexes", 2, (int64_t[]){0, 1}, true);
    attr_ints(&text, "pool_int64s", 2, (int64_t[]){1, 0}, true);
    net_node(&g, "TfIdfVectorizer", "u", "t", &text);
    net_node(&g, "ReduceMax", "t", "most", NULL);
    net_node(&g, "Add", "i,most", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 23);
    return weir_2d(WEIR_F32, 2, 4);
}

/* A corpus of sound models. Returns the inputs' shape. */
static weir_desc sound(int which, pb *m)
{
    pb g = {0}, split = {0}, pad = {0};

    if (which == 0) {
        net_convolutional(m);
        return weir_4d(WEIR_F32, 2, 3, 8, 8);
    }
    if (which == 1) {
        net_text(m);
        return weir_2d(WEIR_I64, 2, 4);
    }
    if (which == 4)
        return sound_integers(m);
    if (which == 3) {
        net_loop(m, 4, "all");
        return weir_1d(WEIR_F32, 3);
    }
    net_input(&g, "x", PB_F32, 2, (int64_t[]){4, 6});
    net_ints(&g, "sizes", 2, (int64_t[]){2, 4});
    net_ints(&g, "pads", 4, (int64_t[]){0, 1, 1, 2});
    net_ints(&g, "axes", 1, (int64_t[]){1});
    net_ints(&g, "from", 1, (int64_t[]){1});
    net_ints(&g, "to", 1, (int64_t[]){-1});
    net_ints(&g, "index", 2, (int64_t[]){-1, 0});
    net_ints(&g, "tiles", 2, (int64_t[]){2, 1});
    attr_int(&split, "axis", 1);
    net_node(&g, "Split", "x,sizes", "a,b", &split);
    net_node(&g, "Pad", "b,pads", "c", NULL);
    net_node(&g, "Slice", "c,from,to,axes", "d", NULL);
    attr_int(&pad, "axis", 1);
    net_node(&g, "Gather", "d,index", "e", &pad);
    net_node(&g, "Tile", "e,tiles", "f", NULL);
    net_node(&g, "ReduceMean", "f,axes", "g", NULL);
    net_node(&g, "Clip", "g,,", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 18);
    return weir_2d(WEIR_F32, 4, 6);
}

static int rounds(void)
{
    const char *text = getenv("WEIR_TEST_FULL");
    return text && strcmp(text, "1") == 0 ? 60000 : 600;
}

/* Opens n bytes, applies them to zeros: whether there is an output. Whatever fails, says why. */
static bool try_model(weir_device *d, const unsigned char *at, size_t n, weir_desc desc)
{
    weir_tensor     *out[4];
    weir_onnx *const net = weir_onnx_open_bytes(d, at, n, NULL);
    bool             good = false;

    if (!net)
        return CHECK(weir_error_status() != WEIR_OK && strlen(weir_error()) > 20) && false;
    weir_tensor *const x = weir_input(d, desc);
    CHECK_OK(weir_write_fill(x, 0));
    CHECK_OK(weir_scope_begin(d));
    const size_t outputs = weir_onnx_output_count(net);
    if (outputs <= ARRAY_LENGTH(out))
        good = weir_onnx_apply(net, 1, &x, outputs, out) == WEIR_OK ||
               (CHECK(strlen(weir_error()) > 20) && false);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_onnx_free(net);
    return good;
}

static weir_device *small_device(void)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    CHECK_OK(weir_device_set_budget(d, "16MB"));
    return d;
}

/* No beginning of a model is a model, unless only the opset is missing or less. */
CASE(every_prefix_is_refused)
{
    static pb    m;
    folder       f;
    weir_device *d = small_device();

    CHECK_OR_RETURN(folder_make(&f));
    for (int which = 0; which < CORPUS; which++) {
        const weir_desc desc = sound(which, &m);
        CHECK(try_model(d, m.at, m.n, desc));
        for (size_t n = 0; n < m.n; n++) {
            /* A copy of its own size, so that a sanitizer sees a read behind the end. */
            unsigned char *const copy = weir_host_alloc(n + !n);
            if (n)
                memcpy(copy, m.at, n);
            check_that(!try_model(d, copy, n, desc), __FILE__, __LINE__, "%zu of %zu bytes", n,
                       m.n);
            weir_host_free(copy);
            if (n % 97 == 0)
                CHECK(!weir_onnx_open(d, file_write(&f, 0, m.at, n), NULL));
        }
    }
    folder_remove(&f);
    weir_device_close(d);
}

/* Changes some bytes, doubles or cuts out a part. Returns the new size. */
static size_t damage(unsigned char *at, size_t n)
{
    static const unsigned char special[] = "\0\1\2\3\4\5\7\x8\x0a\x12\x22\x2a\x3a\x7f\x80\xff";
    const int64_t              changes = check_int(0, 4), kind = check_int(0, 5);

    for (int64_t i = 0; i < changes; i++) {
        const size_t where = (size_t)check_int(0, (int64_t)n - 1);
        at[where] = check_int(0, 1) ? special[check_int(0, (int64_t)sizeof special - 2)]
                                    : (unsigned char)check_int(0, 255);
    }
    const size_t from = (size_t)check_int(0, (int64_t)n - 1);
    const size_t part = (size_t)check_int(1, 40) % (n - from + 1);
    if (kind == 0 && part) {
        memmove(at + from, at + from + part, n - from - part);
        return n - part;
    }
    if (kind == 1 && n + part <= PB_BYTES) {
        memmove(at + from + part, at + from, n - from);
        return n + part;
    }
    return n;
}

CASE(damaged_models_never_crash)
{
    static pb    m;
    int          good = 0, refused = 0;
    weir_device *d = small_device();

    for (int i = 0; i < rounds(); i++)
        for (int which = 0; which < CORPUS; which++) {
            const weir_desc desc = sound(which, &m);
            const size_t    n = damage(m.at, m.n);
            unsigned char  *copy = weir_host_alloc(n);
            memcpy(copy, m.at, n);
            if (try_model(d, copy, n, desc))
                good++;
            else
                refused++;
            weir_host_free(copy);
        }
    CHECK(good > 0 && refused > good / 4);
    weir_device_close(d);
}

/* Graphs inside attributes of graphs, deeper than any model has them. */
CASE(nested_graphs_end)
{
    static pb    m;
    pb           g = {0};
    weir_device *d = small_device();

    for (int i = 0; i < 200; i++) {
        pb a = {0}, n = {0}, outer = {0};
        pb_text(&a, 1, "body");
        pb_message(&a, 6, &g);
        pb_text(&n, 4, "If");
        pb_message(&n, 5, &a);
        pb_message(&outer, 1, &n);
        g = outer;
    }
    net_model(&m, &g, 17);
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, NULL));
    CHECK_TEXT(weir_error(), "graphs inside each other");
    weir_device_close(d);
}

/* Every allocation of opening and applying fails in turn; the harness looks for leaks. */
CASE(failing_memory_is_a_status)
{
    static pb m;
    folder    f;

    CHECK_OR_RETURN(folder_make(&f));
    for (int which = 0; which < CORPUS; which++) {
        const weir_desc desc = sound(which, &m);
        const char     *path = file_write(&f, 0, m.at, m.n);
        weir_device    *d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
        weir_tensor    *x = weir_input(d, desc), *y;
        bool            good = false;
        CHECK_OK(weir_write_fill(x, 0));
        for (int64_t nth = 0; !good && nth < 5000; nth++) {
            weir_status s = WEIR_ERR_NOMEM;
            weir_mem_fail_nth(nth, false);
            weir_onnx *net = weir_onnx_open(d, path, NULL);
            if (net && weir_scope_begin(d) == WEIR_OK) {
                s = weir_onnx_apply(net, 1, &x, 1, &y);
                CHECK_OK(weir_scope_end(d));
            }
            good = !weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            check_that(s == WEIR_OK || (!good && s == WEIR_ERR_NOMEM &&
                                        weir_error_status() == WEIR_ERR_NOMEM),
                       __FILE__, __LINE__, "allocation %d: %s", (int)nth, weir_error());
            weir_onnx_free(net);
        }
        CHECK(good);
        weir_release(x);
        weir_device_close(d);
    }
    folder_remove(&f);
}
