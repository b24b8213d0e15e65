/* file_fuzz.c - damaged safetensors files: a model or a sentence, never a crash.
 *
 * Run under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "temp_folder.h"

enum { BUFFER = 1 << 14 };

static int rounds(void)
{
    return check_full() ? 100000 : 2000;
}

static weir_device *open_cpu(void)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 1});
}

static weir_status write_header(const folder *f, const char *header, size_t elements)
{
    unsigned char b[2048] = {0};
    const size_t  n = strlen(header);
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(n >> 8 * i);
    memcpy(b + 8, header, n);
    file_write(f, 0, b, 8 + n + elements);
    return WEIR_OK;
}

/* Headers that are wrong in one way each, and a part of the sentence that says so. */
static const struct {
    const char *header;
    size_t      elements;
    const char *says;
} wrong[] = {
    {"", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {"{", 0, "expected a string"},
    {"{} x", 0, "expected the end"},
    {"{}", 4, "have 0 bytes of elements, the file 4"},
    {"{\"w\":1}", 0, "expected the { of a tensor"},
    {"{\"w\":{}}", 0, "expected a string"},
    {"{\"w\":{\"dtype\":\"F32\"}}", 0, "lacks dtype, shape or data_offsets"},
    {"{\"w\":{\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown dtype 'F33'"},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "field 'dtype' is there twice"},
    {"{\"w\":{\"type\":\"F32\"}}", 0, "field 'type' is unknown"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a whole number"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "leading zeros"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a comma or ]"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", 4,
     "a number below 2^63"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "more bytes than a file"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "more than 8 axes"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "has 8 bytes"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets are 4"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "begins at byte 4"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "end at byte 4"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "'w' is there twice"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "the file 5"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "has 'a' twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string"},
    {"{\"__metadata__\":{\"a\":{\"a\":{\"a\":{}}}}}", 0, "expected a string"},
    {"{\"__metadata__\":{\"weir_format\":\"2\"}}", 0, "format '2'; this library reads format 1"},
    {"{\"a\\u0000\":{}}", 0, "a code point after"},
    {"{\"\\ud800\":{}}", 0, "a code point after"},
    {"{\"\\x\":{}}", 0, "an escape"},
    {"{\"\xff\":{}}", 0, "UTF-8"},
    {"{\"\n\":{}}", 0, "without control characters"},
    {"{\"a", 0, "the end of the string"},
};

CASE(wrong_headers_are_explained)
{
    weir_device *d = open_cpu();
    weir_model  *m = weir_model_new(d);
    folder       f;
    CHECK_OR_RETURN(folder_make(&f));

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        write_header(&f, wrong[i].header, wrong[i].elements);
        CHECK_STATUS(weir_model_load(m, f.file[0], NULL), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), wrong[i].says);
        CHECK_TEXT(weir_error(), f.file[0]);
    }
    file_write(&f, 0, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    CHECK_STATUS(weir_model_load(m, f.file[0], NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "at most 100000000 are allowed");
    file_write(&f, 0, "short", 5);
    CHECK_STATUS(weir_model_load(m, f.file[0], NULL), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "5 bytes are no safetensors file");
    weir_model_free(m);
    weir_device_close(d);
    folder_remove(&f);
}

/* Escapes, white space, an unsupported type, an empty tensor: a good file of another program. */
CASE(other_writers_are_read)
{
    weir_device     *d = open_cpu();
    weir_model      *m = weir_model_new(d);
    weir_load_counts counts;
    folder           f;
    CHECK_OR_RETURN(folder_make(&f));
    CHECK(weir_linear_new(m, "f\xc3\xa4\xf0\x9f\x98\x80/\"", 1, 1, false) != NULL);

    write_header(&f, "{ \"f\\u00e4\\ud83d\\ude00\\/\\\".weight\" :\n{\"shape\":[1, 1],\"dtype\":"
                 "\"F32\",\"data_offsets\":[2,6]},\t\"z\":{\"dtype\":\"U16\",\"shape\":[1],"
                 "\"data_offsets\":[0,2]},\"e\":{\"dtype\":\"F64\",\"shape\":[0,9223372036854775807"
                 ",9],\"data_offsets\":[6,6]}}   ", 6);
    CHECK_OK(weir_model_load(m, f.file[0], &(weir_load_options){true, &counts}));
    CHECK(counts.loaded == 1 && counts.unexpected == 2);
    CHECK_OK(weir_model_save(m, f.file[0], NULL));
    CHECK_OK(weir_model_load(m, f.file[0], NULL));
    weir_model_free(m);
    weir_device_close(d);
    folder_remove(&f);
}

/* Some bytes changed, most of them in the header, and sometimes a part cut off or doubled. */
static size_t damage(unsigned char *at, size_t n)
{
    static const char special[] = "\0\x7f\x80\xff,\n\"\\u{}[]:019-e.";
    const int64_t     changes = check_int(1, 4), kind = check_int(0, 5);

    for (int64_t i = 0; i < changes; i++) {
        const int64_t end = check_int(0, 9) == 0 ? (int64_t)n : 800;
        const size_t  where = (size_t)check_int(check_int(0, 9) == 0 ? 0 : 8, end - 1);
        at[where] = check_int(0, 1) ? (unsigned char)special[check_int(0, sizeof special - 2)]
                                    : (unsigned char)check_int(0, 255);
    }
    if (kind == 0)
        n = (size_t)check_int(0, (int64_t)n);
    if (kind == 1)
        memmove(at + check_int(8, 600), at + check_int(8, 600), 100);
    return n;
}

CASE(damaged_files_never_crash)
{
    static unsigned char good[BUFFER], bad[BUFFER];
    weir_device         *d = open_cpu();
    weir_model          *m = weir_model_new(d);
    weir_optim          *o = weir_adam_new(d, 0.1, NULL);
    weir_run             run = {.model = m, .optim = o, .step = 3};
    int                  loaded = 0, refused = 0;
    folder               f;
    CHECK_OR_RETURN(folder_make(&f));
    CHECK(weir_linear_new(m, "fc", 2, 2, true) && weir_batch_norm_new(m, "bn", 2));
    weir_tensor *const grad = weir_input(d, weir_2d(WEIR_F32, 2, 2));
    CHECK_OK(weir_write_fill(grad, 1));
    CHECK_OK(weir_optim_update(o, &(weir_pair){weir_model_param(m, 0), grad}, 1));
    CHECK_OK(weir_run_save(&run, f.file[0], NULL));
    FILE *const from = fopen(f.file[0], "rb");
    CHECK_OR_RETURN(from != NULL);
    const size_t n = fread(good, 1, sizeof good, from);
    fclose(from);
    CHECK_OR_RETURN(n > 800 && n < sizeof good);
    for (int i = 0; i < rounds(); i++) {
        memcpy(bad, good, n);
        file_write(&f, 0, bad, damage(bad, n));
        const weir_status s = weir_run_load(&run, f.file[0]);
        if (s == WEIR_OK)
            loaded++;
        else if (CHECK(s == WEIR_ERR_IO && strlen(weir_error()) > 20 &&
                       strstr(weir_error(), f.file[0])))
            refused++;
    }
    CHECK(loaded > 0 && refused > loaded);
    weir_release(grad);
    weir_optim_free(o);
    weir_model_free(m);
    weir_device_close(d);
    folder_remove(&f);
}
