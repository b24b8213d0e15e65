/* place_csv.c - buffers of programs and of CSV texts: offsets, kept columns, refused inputs. */
#include "graph/placement/placement.h"
#include "weir/plan.h"

#include "check.h"
#include "core/mem.h"

CASE(buffers_of_a_program)
{
    weir_buffer b[4] = {{.lower = -5, .upper = 10, .size = 100},
                        {.lower = 10, .upper = INT64_MAX, .size = 100},
                        {.lower = INT64_MIN, .upper = 11, .size = 30},
                        {.lower = 3, .upper = 4, .size = 0}};
    weir_place_stats s;

    CHECK_OK(weir_place_buffers(b, 4, NULL, &s));
    CHECK(s.buffers == 4 && s.live_bytes == 130 && s.height_bytes == 130 && s.lowest);
    CHECK(b[0].offset == b[1].offset);          /* upper is exclusive: they are not live together */
    const weir_place_options aligned = {.alignment = 64, .capacity = 192};
    CHECK_OK(weir_place_buffers(b, 4, &aligned, &s));
    CHECK(s.height_bytes == 192 && b[0].offset % 64 == 0 && b[2].offset % 64 == 0);
    CHECK_OK(weir_place_buffers(NULL, 0, NULL, &s));
    CHECK(s.height_bytes == 0 && s.buffers == 0);
}

CASE(buffers_that_cannot_be)
{
    weir_buffer b[2] = {{.lower = 0, .upper = 2, .size = 60}, {.lower = 1, .upper = 3, .size = 60}};
    weir_place_stats s = {0};

    CHECK_STATUS(weir_place_buffers(b, 2, &(weir_place_options){.capacity = 100}, &s),
                 WEIR_ERR_BUDGET);
    CHECK_TEXT(weir_error(), "120 bytes are live at one time");
    CHECK(s.height_bytes == 120);
    CHECK_STATUS(weir_place_buffers(b, 2, &(weir_place_options){.alignment = 3}, &s),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_place_buffers(b, 2, &(weir_place_options){.strategy = "x"}, &s),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_place_buffers(NULL, 2, NULL, &s), WEIR_ERR_INVALID);
    b[1].size = SIZE_MAX - 3;
    CHECK_STATUS(weir_place_buffers(b, 2, NULL, &s), WEIR_ERR_INVALID);
    b[1] = (weir_buffer){.lower = 2, .upper = 2, .size = 1};
    CHECK_STATUS(weir_place_buffers(b, 2, NULL, &s), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "buffer 1: lower 2 is not before upper 2");
}

static char *place_text(const char *text)
{
    return weir_place_csv(text, strlen(text), NULL, NULL);
}

CASE(columns_by_name_and_others_kept)
{
    char *out = place_text("size,name,upper,lower\n8,\"a, b\",2,0\r\n4,,3,2\n\n");
    CHECK_OR_RETURN(out != NULL);
    CHECK(strcmp(out, "size,name,upper,lower,offset\n8,\"a, b\",2,0,0\n4,,3,2,0\n") == 0);
    char *second = place_text(out);              /* an old offset is replaced */
    CHECK_OR_RETURN(second != NULL);
    CHECK(strcmp(second, out) == 0);
    weir_text_free(out);
    weir_text_free(second);
    out = place_text("\xef\xbb\xbfid, lower , upper,size");
    CHECK_OR_RETURN(out != NULL);
    CHECK_TEXT(out, "size,offset\n");
    weir_text_free(out);
}

CASE(hostile_texts)
{
    static const struct { const char *text, *reason; } bad[] = {
        {"", "line 1: no column lower"},
        {"\n\n", "no column lower"},
        {"lower,upper\n0,1\n", "line 1: no column size"},
        {"lower,upper,size,size\n", "line 1: two columns are named size"},
        {"lower,upper,size\n0,1\n", "line 2: 2 values for 3 columns"},
        {"lower,upper,size\n0,1,2,3\n", "line 2: 4 values for 3 columns"},
        {"lower,upper,size\n0,1,\"2\n", "line 2: size '\"2' is not a whole number"},
        {"lower,upper,size\n0,1,\n", "line 2: size '' is not a whole number"},
        {"lower,upper,size\n0,1,-2\n", "line 2: size '-2' is not a whole number from 0"},
        {"lower,upper,size\n0,1,1e3\n", "line 2: size '1e3'"},
        {"lower,upper,size\n0,1,0x10\n", "line 2: size '0x10'"},
        {"lower,upper,size\n0,1,9223372036854775808\n", "line 2: size '9223372036854775808'"},
        {"lower,upper,size\n-,1,1\n", "line 2: lower '-'"},
        {"lower,upper,size\n\n1,1,1\n", "line 3: lower 1 is not before upper 1"},
        {"lower,upper,size\n0,9,9223372036854775807\n", "buffer 0: too many bytes"},
        {"lower,upper,size,alignment\n0,9,9,64\n", "line 2: alignment 64 of a single buffer"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(place_text(bad[i].text) == NULL);
        CHECK_TEXT(weir_error(), bad[i].reason);
    }
    CHECK(weir_place_csv("lower,upper,size\n0,1,\0002\n", 26, NULL, NULL) == NULL);
    CHECK_TEXT(weir_error(), "line 2: a byte 0");
    CHECK(weir_place_csv(NULL, 0, NULL, NULL) == NULL);
}

/* Random bytes of a valid text are changed: offsets or an error, also under AddressSanitizer. */
CASE(damaged_texts)
{
    static const char sound[] = "id,lower,upper,size,offset\n"
                                "0,0,5,10,0\n1,2,7,20,\n2,-4,3,5,\"x\"\n";
    static const char special[] = "0123456789-,\"\n\r \tlowerupsize\xff";
    int               placed = 0;

    for (int round = 0; round < 4000; round++) {
        char   text[sizeof sound];
        size_t n = sizeof sound - 1;
        memcpy(text, sound, sizeof sound);
        for (int64_t k = check_int(1, 3); k > 0; k--)
            text[check_int(0, (int64_t)n - 1)] = special[check_int(0, sizeof special - 2)];
        n = check_int(0, 7) ? n : (size_t)check_int(0, (int64_t)n);
        char *out = weir_place_csv(text, n, NULL, NULL);
        placed += out != NULL;
        CHECK(out || weir_error_status() == WEIR_ERR_IO || weir_error_status() == WEIR_ERR_INVALID);
        weir_text_free(out);
    }
    CHECK(placed > 100);
}

/* Reads a file as small as the tests' own; 0 if it cannot be read. */
static size_t read_tiles(char *at, size_t room)
{
    FILE *const  from = fopen(WEIR_TEST_DIR "/data/tiles_a.csv", "rb");
    const size_t n = from ? fread(at, 1, room, from) : 0;
    if (from)
        fclose(from);
    return n;
}

CASE(every_allocation_of_a_text_fails)
{
    char                     text[4096];
    const size_t             n = read_tiles(text, sizeof text);
    const weir_place_options how = {.capacity = 65536, .nodes = 100000};

    CHECK_OR_RETURN(n > 0);
    for (int64_t k = 0;; k++) {
        weir_mem_fail_nth(k, false);
        char      *out = weir_place_csv(text, n, &how, NULL);
        const bool failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK((out == NULL) == failed);
        weir_text_free(out);
        if (!failed)
            break;
        CHECK(weir_error_status() == WEIR_ERR_NOMEM);
    }
}
