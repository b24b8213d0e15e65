/* onnx_fuzz.c - damaged models and failing memory: outputs or a sentence, never a crash.
 *
 * Run under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "model/onnx/onnx_damage.h"
#include "temp_folder.h"

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
    for (int which = 0; which < ONNX_CORPUS; which++) {
        const weir_desc desc = onnx_sound(which, &m);
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

CASE(damaged_models_never_crash)
{
    static pb    m;
    int          good = 0, refused = 0;
    weir_device *d = small_device();

    for (int i = 0; i < onnx_rounds(30000, 600); i++)
        for (int which = 0; which < ONNX_CORPUS; which++) {
            const weir_desc desc = onnx_sound(which, &m);
            const size_t    n = onnx_damage(m.at, m.n);
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
    for (int which = 0; which < ONNX_CORPUS; which++) {
        const weir_desc desc = onnx_sound(which, &m);
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
