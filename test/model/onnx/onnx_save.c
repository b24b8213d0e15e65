/* onnx_save.c - models that are written again: trained weights in their places, all else as it was;
 * what cannot be written, failing memory. */
#include "core/mem.h"
#include "model/onnx/onnx_bytes.h"
#include "temp_folder.h"

static weir_device *device(void)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1});
}

static size_t read_file(const char *path, unsigned char *to, size_t room)
{
    FILE *const  from = fopen(path, "rb");
    const size_t n = from ? fread(to, 1, room, from) : 0;

    if (from)
        fclose(from);
    return n;
}

/* Sets every parameter and state to v. */
static void fill_all(weir_onnx *net, double v)
{
    const weir_model *const m = weir_onnx_model(net);

    for (size_t i = 0; i < weir_model_param_count(m); i++)
        CHECK_OK(weir_write_fill(weir_model_param(m, i), v));
    for (size_t i = 0; i < weir_model_state_count(m); i++)
        CHECK_OK(weir_write_fill(weir_model_state(m, i), v));
}

CASE(weights_are_written_in_their_places)
{
    static pb            m;
    static unsigned char file[2 * PB_BYTES];
    float                w[320], bias[5];
    size_t               different = 0;
    folder               f;
    weir_device         *d = device();

    CHECK_OR_RETURN(folder_make(&f));
    net_convolutional(&m);
    weir_onnx *net = weir_onnx_open(d, file_write(&f, 0, m.at, m.n), NULL);
    CHECK_OR_RETURN(net != NULL);
    CHECK_OK(weir_onnx_save(net, f.file[1]));       /* nothing has changed */
    CHECK(read_file(f.file[1], file, sizeof file) == m.n && memcmp(file, m.at, m.n) == 0);
    CHECK_OK(weir_write_fill(weir_model_find(weir_onnx_model(net), "fc.bias"), 7));
    CHECK_OK(weir_onnx_save(net, f.file[1]));
    CHECK(read_file(f.file[1], file, sizeof file) == m.n);
    for (size_t i = 0; i < m.n; i++)
        different += file[i] != m.at[i];
    CHECK(different > 0 && different <= sizeof bias);
    fill_all(net, 0.25);
    CHECK_OK(weir_onnx_save(net, f.file[0]));       /* the file that it came from */
    weir_onnx_free(net);
    net = weir_onnx_open(d, f.file[0], NULL);
    if (CHECK(net != NULL)) {
        CHECK_OK(weir_read(weir_model_find(weir_onnx_model(net), "fc.weight"), w, sizeof w));
        CHECK(w[0] == 0.25f && w[319] == 0.25f);
        CHECK_OK(weir_read(weir_model_find(weir_onnx_model(net), "norm.mean"), w, 4 * sizeof *w));
        CHECK(w[3] == 0.25f);
    }
    weir_onnx_free(net);
    folder_remove(&f);
    weir_device_close(d);
}

/* w of three elements: as a list in one field, which is written, or a field each. */
static void listed(pb *m, bool packed)
{
    const float v[] = {1, 2, 3};
    pb          g = {0}, t = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    tensor_head(&t, "w", PB_F32, 1, (int64_t[]){3});
    for (int i = 0; i < 3 && !packed; i++)
        pb_float(&t, 4, v[i]);
    if (packed)
        pb_bytes(&t, 4, v, sizeof v);
    pb_message(&g, 5, &t);
    net_node(&g, "Add", "x,w", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 13);
}

CASE(what_can_be_written)
{
    static pb    m;
    float        w[3];
    folder       f;
    weir_device *d = device();

    CHECK_OR_RETURN(folder_make(&f));
    listed(&m, true);
    weir_onnx *net = weir_onnx_open(d, file_write(&f, 0, m.at, m.n), NULL);
    CHECK_OR_RETURN(net != NULL);
    fill_all(net, 5);
    CHECK_OK(weir_onnx_save(net, f.file[1]));
    CHECK_STATUS(weir_onnx_save(net, "/nowhere/m.onnx"), WEIR_ERR_IO);
    file_write(&f, 0, m.at, m.n - 1);
    CHECK_STATUS(weir_onnx_save(net, f.file[1]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "has changed since it was opened");
    weir_onnx_free(net);
    net = weir_onnx_open(d, f.file[1], NULL);       /* as it was before the failures */
    if (CHECK(net != NULL) &&
        CHECK_OK(weir_read(weir_model_find(weir_onnx_model(net), "w"), w, sizeof w)))
        CHECK(w[0] == 5 && w[2] == 5);
    weir_onnx_free(net);
    listed(&m, false);
    net = weir_onnx_open(d, file_write(&f, 0, m.at, m.n), NULL);
    CHECK_STATUS(weir_onnx_save(net, f.file[2]), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "'w' do not lie side by side");
    CHECK(access(f.file[2], F_OK) != 0);
    weir_onnx_free(net);
    net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    CHECK_STATUS(weir_onnx_save(net, f.file[2]), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "opened from bytes");
    weir_onnx_free(net);
    folder_remove(&f);
    weir_device_close(d);
}

CASE(failing_memory_writes_nothing)
{
    static pb            m;
    static unsigned char file[2 * PB_BYTES];
    folder               f;
    bool                 good = false;
    weir_device         *d = device();

    CHECK_OR_RETURN(folder_make(&f));
    net_convolutional(&m);
    weir_onnx *net = weir_onnx_open(d, file_write(&f, 0, m.at, m.n), NULL);
    CHECK_OR_RETURN(net != NULL);
    fill_all(net, 1);
    for (int64_t nth = 0; !good && nth < 100; nth++) {
        weir_mem_fail_nth(nth, false);
        const weir_status s = weir_onnx_save(net, f.file[1]);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(good ? s == WEIR_OK : s == WEIR_OK || s == WEIR_ERR_NOMEM);
        CHECK((s == WEIR_OK) == (read_file(f.file[1], file, sizeof file) == m.n));
        unlink(f.file[1]);
    }
    CHECK(good);
    weir_onnx_free(net);
    folder_remove(&f);
    weir_device_close(d);
}
