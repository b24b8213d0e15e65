/* check_file.c - plans in damaged files, also with failing memory: a result or an error, never a
 * crash.
 *
 * Under AddressSanitizer this is a fuzzer with a fixed seed. WEIR_TEST_FULL=1 tries more. */
#include "core/mem.h"
#include "damage.h"
#include "temp_folder.h"

#define STEP WEIR_TEST_DIR "/data/levers.json"

#ifdef WEIR_JANSSON
/* Returns a plan with copies, compression, masks and recomputation; NULL if planning fails. */
static char *good_plan(const weir_stepfile *o, weir_stepfile_plan_stats *stats)
{
    return weir_stepfile_plan(
        o,
        &(weir_stepfile_options){
            .budget = "50%", .moves = 1000, .alignment = 16, .link_out = 0.5, .link_in = 0.3},
        stats);
}

static const weir_stepfile_options slow = {.link_out = 0.5, .link_in = 0.3};

/* Removes a line, or repeats it in another place. Lines end with a comma. */
static size_t damage_lines(char *at, size_t n)
{
    char   line[600];
    size_t from = (size_t)check_int(0, (int64_t)n - 1), to = (size_t)check_int(0, (int64_t)n - 1);

    while (from < n && at[from++] != '\n')
        ;
    while (to < n && at[to++] != '\n')
        ;
    const char *const end = from < n ? memchr(at + from, '\n', n - from) : NULL;
    const size_t      length = end ? (size_t)(end - at) + 1 - from : 0;
    if (length == 0 || length >= sizeof line || to >= n || at[from + length - 2] != ',')
        return n;
    memcpy(line, at + from, length);
    if (check_int(0, 1)) {
        memmove(at + from, at + from + length, n - from - length);
        return n - length;
    }
    memmove(at + to + length, at + to, n - to);
    memcpy(at + to, line, length);
    return n + length;
}

static size_t damage(char *at, size_t n, int how)
{
    return how % 4 == 0 ? damage_bytes(at, n) : how % 4 == 1 ? damage_value(at, n)
                                                             : damage_lines(at, n);
}

CASE(damaged_plans_never_crash)
{
    const int                 rounds = check_full() ? 20000 : 300;
    int                       seen[2] = {0, 0};
    folder                    f;
    weir_stepfile_plan_stats  stats;
    weir_stepfile_check_stats v;
    weir_stepfile *const      o = weir_stepfile_read(STEP);
    char *const              text = good_plan(o, &stats);
    CHECK_OR_RETURN(text && folder_make(&f));
    const size_t whole = strlen(text), room = 3 * whole + 4096;
    char *const  at = malloc(room);
    CHECK_OK(weir_stepfile_check(o, file_write(&f, 0, text, whole), &slow, &v));
    CHECK(v.live_bytes <= v.peak_bytes && v.peak_bytes <= stats.peak_bytes);
    CHECK(stats.peak_bytes - v.peak_bytes < 16);            /* the end is not aligned */
    CHECK(v.recomputed == stats.recomputed && v.out_bytes == stats.out_bytes);
    CHECK_NEAR(v.time_ms - v.base_ms, stats.extra_ms, 1e-9);
    for (int i = 0; at && i < rounds; i++) {
        size_t n = whole;
        memcpy(at, text, n);
        for (int64_t k = check_int(0, 3) ? 1 : 3; k > 0 && n > 0 && n + 1000 < room; k--)
            n = damage(at, n, i);
        const weir_status s = weir_stepfile_check(o, file_write(&f, 0, at, n), &slow, &v);
        if (!CHECK(s == WEIR_OK || ((s == WEIR_ERR_IO || s == WEIR_ERR_INVALID) &&
                                    strlen(weir_error()) > 30))) {
            printf("    round %d, %s:\n%.*s\n", i, weir_error(), (int)n, at);
            break;
        }
        seen[s == WEIR_OK]++;
    }
    if (!CHECK(seen[0] > rounds / 2 && seen[1] > rounds / 150))
        printf("    %d refused, %d right\n", seen[0], seen[1]);
    free(at);
    weir_text_free(text);
    weir_stepfile_free(o);
    folder_remove(&f);
}

/* Each allocation of the library fails once; the test program looks for leaks. */
CASE(a_verdict_with_failing_memory)
{
    folder               f;
    weir_stepfile *const o = weir_stepfile_read(STEP);
    char *const         text = good_plan(o, NULL);
    bool                good = false;
    CHECK_OR_RETURN(text && folder_make(&f));
    file_write(&f, 0, text, strlen(text));
    for (int64_t nth = 0; !good && nth < 400; nth++) {
        weir_mem_fail_nth(nth, false);
        const weir_status s = weir_stepfile_check(o, f.file[0], &slow, NULL);
        good = !weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(s == (good ? WEIR_OK : WEIR_ERR_NOMEM));
    }
    CHECK(good);
    weir_text_free(text);
    weir_stepfile_free(o);
    folder_remove(&f);
}
#else
CASE(judging_needs_jansson)
{
    CHECK(weir_stepfile_read(STEP) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_NOKERNEL);
}
#endif
