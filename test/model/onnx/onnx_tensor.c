/* onnx_tensor.c - elements of ONNX tensors: every form in which files hold them, files beside the
 * model, large ones that are read in parts; lengths and places that are wrong. */
#include "model/onnx/onnx_bytes.h"
#include "temp_folder.h"

/* A model whose output is x + w, w the initializer t of a tensor with 3 elements or none. */
static void sum_model(pb *m, const pb *t, int type)
{
    pb g = {0};

    net_input(&g, "x", type, 1, (int64_t[]){3});
    pb_message(&g, 5, t);
    net_node(&g, "Add", "x,w", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 13);
}

/* Applies the model to zeros of type t and reads 3 elements. */
static bool sum_of(weir_onnx *net, weir_device *d, weir_dtype t, void *y)
{
    weir_tensor *x = weir_input(d, weir_1d(t, 3)), *out = NULL;

    CHECK_OK(weir_write_fill(x, 0));
    CHECK_OK(weir_scope_begin(d));
    const bool good = CHECK_OK(weir_onnx_apply(net, 1, &x, 1, &out)) &&
                      CHECK_OK(weir_read(out, y, 3 * weir_dtype_size(t)));
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    return good;
}

/* w = {1, -2, 3} of each type; `form`: raw, one field an element, packed. */
enum { RAW, SINGLE, PACKED, FORMS };

static const struct {
    int        type;
    weir_dtype dtype;
    unsigned   field;                   /* of the elements, if they are not raw */
    int        fixed;                   /* bytes of a number there; 0: a varint */
} forms[] = {
    {PB_F32, WEIR_F32, 4, 4}, {PB_F64, WEIR_F64, 10, 8}, {PB_I32, WEIR_I32, 5, 0},
    {PB_I64, WEIR_I64, 7, 0}, {PB_U8, WEIR_U8, 5, 0}, {10, WEIR_F16, 5, 0},
};

static size_t element(weir_dtype t, int i, void *to)
{
    static const uint16_t half[] = {0x3c00, 0xc000, 0x4200};
    const int             v = i == 0 ? 1 : i == 1 ? (t == WEIR_U8 ? 2 : -2) : 3;
    const float           f = (float)v;
    const double          e = v;
    const int64_t         n = v;
    const void *const     from = t == WEIR_F32   ? (const void *)&f
                                 : t == WEIR_F64 ? (const void *)&e
                                 : t == WEIR_F16 ? (const void *)&half[i]
                                                 : (const void *)&n;

    memcpy(to, from, weir_dtype_size(t));
    return weir_dtype_size(t);
}

static void put_number(pb *to, weir_dtype t, int fixed, const unsigned char *bytes)
{
    int32_t narrow = 0;
    int64_t v = 0;

    if (fixed) {
        pb_raw(to, bytes, (size_t)fixed);
        return;
    }
    if (t == WEIR_I64) {
        memcpy(&v, bytes, sizeof v);
    } else {
        memcpy(&narrow, bytes, weir_dtype_size(t));
        v = narrow;
    }
    pb_varint(to, (uint64_t)v);
}

static void write_elements(pb *t, size_t which, int form, int count)
{
    const weir_dtype dtype = forms[which].dtype;
    const int        fixed = forms[which].fixed;
    pb               all = {0};

    for (int i = 0; i < count; i++) {
        unsigned char bytes[8];
        const size_t  n = element(dtype, i % 3, bytes);
        if (form == RAW) {
            pb_raw(&all, bytes, n);
        } else if (form == PACKED) {
            put_number(&all, dtype, fixed, bytes);
        } else {
            pb_varint(t, forms[which].field << 3 | (fixed == 4 ? 5u : fixed == 8 ? 1u : 0u));
            put_number(t, dtype, fixed, bytes);
        }
    }
    if (form != SINGLE)
        pb_message(t, form == RAW ? 9 : forms[which].field, &all);
}

CASE(elements_in_every_form)
{
    static pb    m;
    weir_device *d = weir_device_open(check_device(), NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++)
        for (int form = 0; form < FORMS; form++)
            for (int count = 2; count <= 4; count++) {
                unsigned char y[24], want[24];
                pb            t = {0};
                size_t        n = 0;
                tensor_head(&t, "w", forms[i].type, 1, (int64_t[]){3});
                write_elements(&t, i, form, count);
                sum_model(&m, &t, forms[i].type);
                weir_onnx *net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
                CHECK((net != NULL) == (count == 3));
                if (!net) {
                    CHECK(weir_error_status() == WEIR_ERR_IO);
                    CHECK_TEXT(weir_error(), count == 2 ? "has 2 elements" : "has 4 elements");
                    continue;
                }
                for (int k = 0; k < 3; k++)
                    n += element(forms[i].dtype, k, want + n);
                if (sum_of(net, d, forms[i].dtype, y))
                    CHECK_BITS(y, want, n);
                weir_onnx_free(net);
            }
    weir_device_close(d);
}

/* ---- heads that are wrong ---- */

static void refused(weir_device *d, const pb *t, const char *says)
{
    static pb m;

    sum_model(&m, t, PB_F32);
    weir_onnx *const net = weir_onnx_open_bytes(d, m.at, m.n, NULL);
    CHECK(!net && weir_error_status() == WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), says);
    weir_onnx_free(net);
}

CASE(sizes_and_types_that_are_wrong)
{
    const int64_t huge = INT64_MAX, million = 1 << 20;
    weir_device  *d = weir_device_open(check_device(), NULL);
    pb            t = {0};

    tensor_head(&t, "w", PB_F32, 1, &huge);
    refused(d, &t, "the tensor 'w' is too large");
    t = (pb){0};
    tensor_head(&t, "w", PB_F32, 4, (int64_t[]){million, million, million, million});
    refused(d, &t, "the tensor 'w' is too large");
    t = (pb){0};
    tensor_head(&t, "w", PB_F32, 1, &million);
    refused(d, &t, "has 0 elements where its shape needs 1048576");
    t = (pb){0};
    tensor_head(&t, "w", PB_F32, 1, (int64_t[]){-3});
    refused(d, &t, "or the size -3");
    t = (pb){0};
    tensor_head(&t, "w", PB_F32, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 3});
    refused(d, &t, "more than 8 axes");
    t = (pb){0};
    tensor_head(&t, "w", 8, 1, (int64_t[]){3});
    refused(d, &t, "elements of the type string, which Weir lacks");
    t = (pb){0};
    tensor_head(&t, "", PB_F32, 1, (int64_t[]){3});
    refused(d, &t, "an initializer without a name");
    weir_device_close(d);
}

/* ---- files beside the model ---- */

static void put_entry(pb *t, const char *key, const char *value)
{
    pb e = {0};

    pb_text(&e, 1, key);
    pb_text(&e, 2, value);
    pb_message(t, 13, &e);
}

/* Opens PATH/0, a model whose w is in the file `location` there. NULL values: no such entry. */
static weir_onnx *open_beside(weir_device *d, const folder *f, const char *location,
                              const char *offset, const char *length)
{
    static pb m;
    pb        t = {0};

    tensor_head(&t, "w", PB_F32, 1, (int64_t[]){3});
    put_entry(&t, "location", location);
    if (offset)
        put_entry(&t, "offset", offset);
    if (length)
        put_entry(&t, "length", length);
    pb_int(&t, 14, 1);
    sum_model(&m, &t, PB_F32);
    return weir_onnx_open(d, file_write(f, 0, m.at, m.n), NULL);
}

CASE(elements_in_a_file_beside_the_model)
{
    const float  w[] = {9, 1, -2, 3};
    float        y[3];
    folder       f;
    weir_device *d = weir_device_open(check_device(), NULL);
    static const struct {
        const char *location, *offset, *length, *says;
    } bad[] = {
        {"2", NULL, NULL, "which is missing"},
        {"1", "8", NULL, "needs 12 bytes; '1' has 12 from offset 8 of 16"},
        {"1", "4", "8", "needs 12 bytes; '1' has 8 from offset 4 of 16"},
        {"1", "999999999999999999", NULL, "from offset 999999999999999999"},
        {"1", "99999999999999999999", NULL, "is no offset"},
        {"1", "-4", NULL, "'-4' is no offset"},
        {"1", "4", "x", "'x' is no length"},
        {"../1", NULL, NULL, "lies outside the model's folder"},
        {"..", NULL, NULL, "lies outside the model's folder"},
        {"a/../../1", NULL, NULL, "lies outside the model's folder"},
        {"/etc/passwd", NULL, NULL, "lies outside the model's folder"},
        {"", NULL, NULL, "lies outside the model's folder"},
        {"3", NULL, NULL, "'3' is a link"},
    };

    CHECK_OR_RETURN(folder_make(&f));
    file_write(&f, 1, w, sizeof w);
    CHECK(symlink("/etc/passwd", f.file[3]) == 0);
    weir_onnx *net = open_beside(d, &f, "1", "4", "12");
    if (CHECK(net != NULL) && sum_of(net, d, WEIR_F32, y))
        CHECK_BITS(y, w + 1, sizeof y);
    weir_onnx_free(net);
    net = open_beside(d, &f, "./1", "4", NULL);
    CHECK(net != NULL);
    weir_onnx_free(net);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        net = open_beside(d, &f, bad[i].location, bad[i].offset, bad[i].length);
        check_that(!net, __FILE__, __LINE__, "'%s' is read", bad[i].location);
        CHECK(weir_error_status() == WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), bad[i].says);
        weir_onnx_free(net);
    }
    folder_remove(&f);
    weir_device_close(d);
}

/* A model in memory has no folder. */
CASE(bytes_have_no_files_beside_them)
{
    static pb    m;
    pb           t = {0};
    weir_device *d = weir_device_open(check_device(), NULL);
    tensor_head(&t, "w", PB_F32, 1, (int64_t[]){3});
    put_entry(&t, "location", "1");
    pb_int(&t, 14, 1);
    sum_model(&m, &t, PB_F32);
    CHECK(!weir_onnx_open_bytes(d, m.at, m.n, NULL));
    CHECK_TEXT(weir_error(), "open the model by its path");
    weir_error_clear();
    CHECK(!weir_onnx_open_bytes(d, NULL, 4, NULL) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK(!weir_onnx_open(d, NULL, NULL) && !weir_onnx_open(NULL, "m", NULL));
    CHECK(!weir_onnx_open(d, "/nowhere/m.onnx", NULL) && weir_error_status() == WEIR_ERR_IO);
    weir_device_close(d);
}

/* ---- weights that are read in parts ---- */

/* 3.2 MB of raw elements behind the rest: x (1,200) times w (200,4000). */
CASE(large_weights_arrive_whole)
{
    enum { ROWS = 200, COLUMNS = 4000, BYTES = ROWS * COLUMNS * 4 };
    static unsigned char file[BYTES + 4096];
    static float         got[ROWS * COLUMNS];
    float *const         w = weir_host_alloc(BYTES);
    pb                   g = {0}, head = {0}, m = {0}, set = {0};
    folder               f;
    weir_device         *d = weir_device_open(check_device(), NULL);

    CHECK_OR_RETURN(w && folder_make(&f));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        w[i] = (float)i;
    net_input(&g, "x", PB_F32, 2, (int64_t[]){1, ROWS});
    net_node(&g, "MatMul", "x,w", "y", NULL);
    net_output(&g, "y");
    tensor_head(&head, "w", PB_F32, 2, (int64_t[]){ROWS, COLUMNS});
    pb_varint(&head, 9 << 3 | 2);
    pb_varint(&head, BYTES);
    pb_varint(&g, 5 << 3 | 2);
    pb_varint(&g, head.n + BYTES);
    pb_raw(&g, head.at, head.n);        /* the elements of w follow */
    pb_int(&set, 2, 13);
    pb_message(&m, 8, &set);
    pb_varint(&m, 7 << 3 | 2);
    pb_varint(&m, g.n + BYTES);
    pb_raw(&m, g.at, g.n);
    memcpy(file, m.at, m.n);
    memcpy(file + m.n, w, BYTES);
    weir_onnx *net = weir_onnx_open(d, file_write(&f, 0, file, m.n + BYTES), NULL);
    if (CHECK(net != NULL) &&
        CHECK_OK(weir_read(weir_model_find(weir_onnx_model(net), "w"), got, sizeof got)))
        CHECK_BITS(got, w, BYTES);
    weir_onnx_free(net);
    net = weir_onnx_open_bytes(d, file, m.n + BYTES, NULL);
    if (CHECK(net != NULL) &&
        CHECK_OK(weir_read(weir_model_find(weir_onnx_model(net), "w"), got, sizeof got)))
        CHECK_BITS(got, w, BYTES);
    weir_onnx_free(net);
    CHECK(!weir_onnx_open(d, file_write(&f, 0, file, m.n + BYTES - 1), NULL));
    CHECK_TEXT(weir_error(), "is cut off");
    weir_host_free(w);
    folder_remove(&f);
    weir_device_close(d);
}
