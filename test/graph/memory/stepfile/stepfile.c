/* stepfile.c - damaged step descriptions, also with failing memory: a plan or an error, never a
 * crash.
 *
 * Under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "damage.h"
#include "temp_folder.h"

#ifdef WEIR_JANSSON
enum { BUFFER_BYTES = 1 << 16 };

/* Reads a valid file and its size: 0 if it cannot be read. */
static size_t sound(const char *path, char at[BUFFER_BYTES])
{
    FILE *const  from = fopen(path, "rb");
    const size_t n = from ? fread(at, 1, BUFFER_BYTES / 2, from) : 0;
    if (from)
        fclose(from);
    return n;
}

static size_t chain(char at[BUFFER_BYTES])
{
    return sound(WEIR_TEST_DIR "/data/chain.json", at);
}

/* Does the checker accept the text as a plan for the step? */
static bool accepted(const folder *f, const weir_stepfile *o, const char *plan)
{
    weir_stepfile_check_stats v;
    return weir_stepfile_check(o, file_text(f, 1, plan), NULL, &v) == WEIR_OK;
}

/* Reads and plans. Returns 1 for a correct plan, 0 for an error with a message, -1 otherwise. */
static int try_file(const folder *f, const char *path, const char *budget)
{
    const weir_stepfile_options how = {
        .budget = budget, .moves = 100, .alignment = (size_t)1 << check_int(0, 30)};
    weir_stepfile *const o = weir_stepfile_read(path);
    if (!o)
        return weir_error_status() == WEIR_ERR_IO && strlen(weir_error()) > 20 ? 0 : -1;
    char *const text = weir_stepfile_plan(o, &how, NULL);
    const bool  refused = weir_error_status() == WEIR_ERR_BUDGET && strlen(weir_error()) > 40;
    const bool  right = text && accepted(f, o, text);
    weir_stepfile_free(o);
    if (!text)
        return refused ? 0 : -1;
    const bool whole = right && strncmp(text, "{\"graph\":", 9) == 0 &&
                       strcmp(text + strlen(text) - 4, "\n]}\n") == 0;
    weir_text_free(text);
    return whole ? 1 : -1;
}

CASE(damaged_steps_never_crash)
{
    static char        at[BUFFER_BYTES];
    static const char *budgets[] = {NULL, "100%", "70%", "40%", "12345"};
    const int          rounds = check_full() ? 20000 : 300;
    int                seen[2] = {0, 0};
    folder             f;
    CHECK_OR_RETURN(chain(at) > 1000 && folder_make(&f));
    for (int i = 0; i < rounds; i++) {
        size_t n = i % 2 ? chain(at) : sound(WEIR_TEST_DIR "/data/levers.json", at);
        for (int64_t k = check_int(0, 3) ? 1 : 3; k > 0 && n > 0; k--)
            n = i % 4 ? damage_value(at, n) : damage_bytes(at, n);
        const int how = try_file(&f, file_write(&f, 0, at, n), budgets[check_int(0, 4)]);
        if (!CHECK(how >= 0)) {
            printf("    round %d, %s:\n%.*s\n", i, weir_error(), (int)n, at);
            break;
        }
        seen[how]++;
    }
    if (!CHECK(seen[0] > rounds / 4 && seen[1] > rounds / 20))
        printf("    %d refused, %d planned\n", seen[0], seen[1]);
    folder_remove(&f);
}

/* The message for a wrong field names the file, the object and the field. */
CASE(fields_that_are_wrong)
{
    static const struct { const char *op, *says; } wrong[] = {
        {"\"id\": 0, \"inputs\": [0], \"outputs\": [2]", "operation 1: id 0 is already used"},
        {"\"id\": 1, \"inputs\": [0], \"outputs\": [2], \"phase\": \"now\"",
         "operation 1: unknown phase (expected fwd, bwd or opt)"},
        {"\"id\": 1, \"inputs\": [0], \"outputs\": [2], \"once\": 1",
         "operation 1: once must be true or false"},
        {"\"id\": 1, \"inputs\": [1], \"outputs\": [2], \"inplace\": [1, 2]",
         "operation 1: inplace must be a list of pairs"},
        {"\"id\": 1, \"inputs\": [1], \"outputs\": [2], \"mutates\": 0",
         "operation 1: inplace, mask_inputs and mutates must be lists"},
        {"\"id\": 1, \"inputs\": [2], \"outputs\": [2]", "reads a tensor that is not produced"},
        {"\"id\": 1, \"inputs\": [7], \"outputs\": [2]", "operation 1: names an unknown"},
        {"\"id\": 1, \"inputs\": [0], \"outputs\": []", "(its id) is produced by no operation"},
        {"\"id\": 1, \"inputs\": [0], \"outputs\": [2], \"mask_inputs\": [1]", "mask_inputs"}};
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[800];
        snprintf(text, sizeof text, "{\"tensors\": [{\"id\": 0, \"bytes\": 8, \"kind\": "
                 "\"param\"}, {\"id\": 1, \"bytes\": 8, \"kind\": \"activation\"}, {\"id\": 2, "
                 "\"bytes\": 8, \"kind\": \"activation\"}], \"ops\": [{\"id\": 0, \"time_us\": 1, "
                 "\"inputs\": [0], \"outputs\": [1]}, {\"time_us\": 1, %s}]}", wrong[i].op);
        const char *const   path = file_text(&f, 0, text);
        weir_stepfile *const o = weir_stepfile_read(path);
        CHECK(!o && weir_error_status() == WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), wrong[i].says);
        CHECK_TEXT(weir_error(), path);
        weir_stepfile_free(o);
    }
    folder_remove(&f);
}

CASE(another_format_is_refused)
{
    static const struct { const char *format; bool read; } files[] = {
        {"", true}, {"\"format\": 1, ", true}, {"\"format\": 2, ", false},
        {"\"format\": \"1\", ", false}, {"\"format\": null, ", false}};
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[300];
        snprintf(text, sizeof text, "{%s\"tensors\": [{\"id\": 0, \"bytes\": 8, \"kind\": "
                 "\"activation\"}], \"ops\": [{\"id\": 0, \"time_us\": 1, \"inputs\": [], "
                 "\"outputs\": [0]}]}", files[i].format);
        weir_stepfile *const o = weir_stepfile_read(file_text(&f, 0, text));
        CHECK((o != NULL) == files[i].read);
        if (!files[i].read)
            CHECK_TEXT(weir_error(), "format must be 1");
        weir_stepfile_free(o);
    }
    folder_remove(&f);
}

/* Op 0 makes tensor 1, a step output, and tensor 2, which is dropped and recomputed while 1 is
 * live. */
CASE(an_output_is_made_twice_beside_itself)
{
    static const char text[] =
        "{\"tensors\": [{\"id\": 0, \"bytes\": 16, \"kind\": \"param\"},"
        "{\"id\": 1, \"bytes\": 16, \"kind\": \"activation\", \"output\": true},"
        "{\"id\": 2, \"bytes\": 1000, \"kind\": \"activation\"},"
        "{\"id\": 3, \"bytes\": 1000, \"kind\": \"activation\"},"
        "{\"id\": 4, \"bytes\": 16, \"kind\": \"activation\"},"
        "{\"id\": 5, \"bytes\": 16, \"kind\": \"activation\"}], \"ops\": ["
        "{\"id\": 0, \"time_us\": 1, \"inputs\": [0], \"outputs\": [1, 2]},"
        "{\"id\": 1, \"time_us\": 1, \"inputs\": [0], \"outputs\": [3]},"
        "{\"id\": 2, \"time_us\": 9, \"inputs\": [3], \"outputs\": [4]},"
        "{\"id\": 3, \"time_us\": 1, \"inputs\": [2, 4], \"outputs\": [5]}]}";
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    weir_stepfile *const o = weir_stepfile_read(file_text(&f, 0, text));
    CHECK_OR_RETURN(o != NULL);
    char *const plan = weir_stepfile_plan(o, &(weir_stepfile_options){.budget = "1200"}, NULL);
    CHECK_TEXT(plan ? plan : weir_error(), "\"scratch\":{\"1\":");
    weir_text_free(plan);
    weir_stepfile_free(o);
    folder_remove(&f);
}

/* A step of 14 ops; each reads its predecessor's output and an earlier one. */
static const char *zigzag(const folder *f)
{
    enum { OPS = 14 };
    char   at[BUFFER_BYTES];
    size_t n = (size_t)snprintf(at, sizeof at, "{\"tensors\": [{\"id\": 0, \"bytes\": 16, "
                                               "\"kind\": \"param\"}");

    for (int i = 1; i <= OPS; i++)
        n += (size_t)snprintf(at + n, sizeof at - n, ",{\"id\": %d, \"bytes\": %d, "
                              "\"kind\": \"activation\"}", i, (int)check_int(1, 50) * 1000);
    n += (size_t)snprintf(at + n, sizeof at - n, "], \"ops\": [");
    for (int i = 0; i < OPS; i++)
        n += (size_t)snprintf(at + n, sizeof at - n, "%s{\"id\": %d, \"time_us\": 1, \"inputs\": "
                              "[%d, %d], \"outputs\": [%d]}", i ? "," : "", i, i,
                              (int)check_int(0, i), i + 1);
    snprintf(at + n, sizeof at - n, "]}");
    return file_text(f, 0, at);
}

/* Offsets that fit a wide budget are not left higher than necessary. */
CASE(a_wide_budget_wastes_no_addresses)
{
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    for (int round = 0; round < 40; round++) {
        weir_stepfile_plan_stats stats;
        weir_stepfile *const     o = weir_stepfile_read(zigzag(&f));
        CHECK_OR_RETURN(o != NULL);
        char *const plan =
            weir_stepfile_plan(o, &(weir_stepfile_options){.budget = "9000000"}, &stats);
        CHECK(plan && stats.peak_bytes <= stats.live_bytes + stats.live_bytes / 100);
        weir_text_free(plan);
        weir_stepfile_free(o);
    }
    folder_remove(&f);
}

/* One tensor of these bytes, and one op that makes another. */
static const char *step(const folder *f, const char *bytes, const char *made, const char *time)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"tensors\": [{\"id\": 9, \"bytes\": %s, \"kind\": \"param\"},"
             "{\"id\": 4, \"bytes\": %s, \"kind\": \"activation\"}], \"ops\": [{\"id\": 0,"
             "\"time_us\": %s, \"inputs\": [9], \"outputs\": [4], \"workspace_bytes\": 8}]}",
             bytes, made, time);
    return file_text(f, 0, text);
}

/* Files whose sums would exceed their types are refused before the sums are made. */
CASE(numbers_too_large)
{
    static const struct { const char *bytes, *made, *time, *says; } hostile[] = {
        {"4611686018427387903", "1", "1", "tensor 0: too many bytes"},
        {"9007199254740992", "1", "1", "tensor 0: too many bytes"},
        {"1", "9007199254740990", "1", "operation 0: too many bytes"},
        {"1", "1", "1e300", "operation 0: needs id and time_us"},
        {"1", "1", "-1", "operation 0: needs id and time_us"}};
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        CHECK(!weir_stepfile_read(step(&f, hostile[i].bytes, hostile[i].made, hostile[i].time)));
        CHECK_TEXT(weir_error(), hostile[i].says);
    }
    weir_stepfile *o = weir_stepfile_read(step(&f, "9007199254740000", "900", "1e18"));
    CHECK_OR_RETURN(o != NULL);
    weir_stepfile_plan_stats stats;
    char *text = weir_stepfile_plan(o, &(weir_stepfile_options){.alignment = 1 << 30}, &stats);
    CHECK(text && stats.live_bytes == 9007199254740908);
    CHECK(stats.peak_bytes > stats.live_bytes && stats.peak_bytes >> 54 == 0);
    weir_text_free(text);
    CHECK(!weir_stepfile_plan(o, &(weir_stepfile_options){.alignment = (size_t)1 << 31}, NULL));
    CHECK_TEXT(weir_error(), "alignment 2147483648 is not a power of two up to 1073741824");
    CHECK(!weir_stepfile_plan(o, &(weir_stepfile_options){.placement = "best"}, NULL));
    CHECK_TEXT(weir_error(), "unknown placement 'best' (expected auto, life, size");
    weir_stepfile_free(o);
    folder_remove(&f);
}

/* Ids may come in any order; the error names a repeated one. */
CASE(tensors_in_any_order)
{
    enum { MANY = 60000 };
    static char at[MANY * 48 + 200];
    folder      f;
    CHECK_OR_RETURN(folder_make(&f));
    for (int twice = 0; twice < 2; twice++) {
        size_t n = (size_t)snprintf(at, sizeof at, "{\"tensors\": [");
        for (int i = MANY; i > 0; i--)
            n += (size_t)snprintf(at + n, sizeof at - n, "{\"id\": %d, \"bytes\": 1, \"kind\": "
                                  "\"input\"},\n", twice && i == 3 ? 7 : i);
        n += (size_t)snprintf(at + n, sizeof at - n, "{\"id\": 0, \"bytes\": 64, \"kind\": "
                              "\"gradient\"}], \"ops\": [{\"id\": 0, \"time_us\": 1, "
                              "\"inputs\": [5, 1], \"outputs\": [0]}]}");
        weir_stepfile *o = weir_stepfile_read(file_write(&f, 0, at, n));
        CHECK((o != NULL) == !twice);
        if (twice)
            CHECK_TEXT(weir_error(), "tensor 59997: its id is already used");
        weir_stepfile_free(o);
    }
    folder_remove(&f);
}

/* Each allocation of the library fails once; the test program looks for leaks. */
CASE(failing_memory_is_a_status)
{
    bool good = false;
    for (int64_t nth = 0; !good && nth < 4000; nth++) {
        weir_mem_fail_nth(nth, false);
        weir_stepfile *o = weir_stepfile_read(WEIR_TEST_DIR "/data/chain.json");
        char          *text =
            o ? weir_stepfile_plan(o, &(weir_stepfile_options){.budget = "75%", .moves = 50}, NULL)
                       : NULL;
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (!good && !text)
            CHECK(weir_error_status() == WEIR_ERR_NOMEM);
        CHECK(!good || text);
        weir_text_free(text);
        weir_stepfile_free(o);
    }
    CHECK(good);
}
#else
CASE(reading_needs_jansson)
{
    CHECK(!weir_stepfile_read(WEIR_TEST_DIR "/data/chain.json"));
    CHECK(weir_error_status() == WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "built without jansson");
}
#endif
