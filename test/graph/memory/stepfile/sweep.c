/* sweep.c - budgets against extra time: levels, what fits, the texts; errors; failing memory. */
#include "core/mem.h"
#include "temp_folder.h"

#ifdef WEIR_JANSSON
enum { POINTS = 32 };

static weir_stepfile *chain(void)
{
    weir_stepfile *const o = weir_stepfile_read(WEIR_TEST_DIR "/data/chain.json");
    CHECK(o != NULL);
    return o;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* Parses the next line of the CSV; false if it belongs to another policy. */
static bool next_row(const char **at, const char *policy, size_t *budget, double *share,
                     size_t *peak, double *extra, size_t *recomputed)
{
    const size_t n = strlen(policy);
    if (strncmp(*at, policy, n) != 0 || (*at)[n] != ',' ||
        sscanf(*at + n, ",%zu,%lf,%zu,%lf,%zu", budget, share, peak, extra, recomputed) != 5)
        return false;
    *at = strchr(*at, '\n') + 1;
    return true;
}

/* Every level down to the last that fits: each plan is within its budget, no faster than the one
 * above and, unless it comes from a frontier, the same as planned alone. */
static void check_rows(const weir_stepfile *o, const char **at, const char *policy, size_t whole)
{
    const bool frontier = strcmp(policy, "auto") == 0;
    size_t     budget, peak, recomputed, point = POINTS;
    double     share, extra, above = 0;
    for (; next_row(at, policy, &budget, &share, &peak, &extra, &recomputed); point--) {
        weir_stepfile_plan_stats s;
        char                     text[24];
        CHECK(budget == whole * point / POINTS && peak <= budget);
        CHECK(fabs(share - 100.0 * (double)point / POINTS) < 0.01);
        snprintf(text, sizeof text, "%zu", budget);
        char *const plan = weir_stepfile_plan(
            o, &(weir_stepfile_options){.budget = text, .policy = policy, .moves = 300}, &s);
        CHECK(plan && extra >= above);
        above = extra;
        CHECK(frontier || (s.peak_bytes == peak && s.recomputed == recomputed &&
                           fabs(100 * s.extra_ms / s.step_ms - extra) < 1e-3));
        weir_text_free(plan);
    }
    char text[24];
    snprintf(text, sizeof text, "%zu", whole * point / POINTS);
    CHECK(point < POINTS && point > 0 &&
          !weir_stepfile_plan(
              o, &(weir_stepfile_options){.budget = text, .policy = policy, .moves = 300}, NULL));
}

CASE(budgets_down_to_what_fits)
{
    weir_stepfile *const     o = chain();
    weir_stepfile_plan_stats s;
    CHECK_OR_RETURN(o != NULL);
    weir_text_free(weir_stepfile_plan(o, &(weir_stepfile_options){.moves = 1}, &s));
    weir_sweep *const c =
        weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = "auto,recycle", .moves = 300});
    CHECK_OR_RETURN(c != NULL);
    char *const csv = weir_sweep_text(c, WEIR_SWEEP_CSV), *const svg =
                                                              weir_sweep_text(c, WEIR_SWEEP_SVG);
    char *const table = weir_sweep_text(c, WEIR_SWEEP_TABLE);
    if (CHECK(csv && svg && table)) {
        const char *at = strchr(csv, '\n') + 1;
        check_rows(o, &at, "auto", s.whole_bytes);
        check_rows(o, &at, "recycle", s.whole_bytes);
        CHECK(*at == '\0');
        CHECK(count(svg, "<circle") == count(csv, "\n") - 1 && count(svg, "</svg>") == 1);
        CHECK(count(table, "\n") == count(csv, "\nauto,") + 4);
    }
    weir_text_free(csv);
    weir_text_free(svg);
    weir_text_free(table);
    weir_sweep_free(c);
    weir_stepfile_free(o);
}

/* Returns the least extra time in percent of the quick policies within the budget. */
static double quickest(const weir_stepfile *o, size_t budget, double link)
{
    static const char *const all[] = {"dtr", "sublinear", "checkpoint:memory", "capuchin", "delta"};
    double least = HUGE_VAL;
    char   text[24];
    snprintf(text, sizeof text, "%zu", budget);
    for (size_t i = 0; i < (link > 0 ? 5 : 3); i++) {
        weir_stepfile_plan_stats s;
        char *const              plan = weir_stepfile_plan(
            o,
            &(weir_stepfile_options){
                .budget = text, .policy = all[i], .link_out = link, .link_in = link},
            &s);
        if (plan && 100 * s.extra_ms / s.step_ms < least)
            least = 100 * s.extra_ms / s.step_ms;
        weir_text_free(plan);
    }
    return least;
}

/* Whatever the levers, more room is never slower, and no row is slower than a quick policy. */
CASE(more_room_never_costs_more_time)
{
    static const char *const step[] = {WEIR_TEST_DIR "/data/chain.json",
                                       WEIR_TEST_DIR "/data/levers.json"};
    static const char *const policy[] = {"auto", "auto", "auto:recompute"};

    for (int i = 0; i < 6; i++) {
        weir_stepfile *const o = weir_stepfile_read(step[i % 2]);
        const double         link = i / 2 == 1 ? 12 : 0;
        const char *const    by = policy[i / 2];
        size_t               budget, peak, recomputed;
        double               share, extra, above = 0;
        int                  row = 0;
        CHECK_OR_RETURN(o != NULL);
        weir_sweep *const c = weir_stepfile_sweep(
            o, &(weir_stepfile_options){
                   .policy = by, .moves = 100, .link_out = link, .link_in = link});
        char *const csv = c ? weir_sweep_text(c, WEIR_SWEEP_CSV) : NULL;
        const char *at = csv ? strchr(csv, '\n') + 1 : "";
        CHECK(csv != NULL);
        while (next_row(&at, by, &budget, &share, &peak, &extra, &recomputed)) {
            const double quick = row++ % 6 == 5 ? quickest(o, budget, link) : HUGE_VAL;
            if (!CHECK(extra >= above - 1e-3 && extra <= quick + 1e-3))
                printf("    %s, %s, link %g, %.1f %%: %.4f %%, quick %.4f %%, with more %.4f %%\n",
                       step[i % 2], by, link, share, extra, quick, above);
            above = extra;
        }
        weir_text_free(csv);
        weir_sweep_free(c);
        weir_stepfile_free(o);
    }
}

/* 100 % is exactly what the step needs without a budget: the plan of recycle fits it and no less,
 * and plans below 100 % must change something. */
CASE(the_base_is_the_peak_without_a_budget)
{
    static const size_t     align[] = {1, 64, 256};
    weir_stepfile *const     o = chain();
    weir_stepfile_plan_stats s, whole, less;

    CHECK_OR_RETURN(o != NULL);
    for (size_t i = 0; i < sizeof align / sizeof *align; i++)
        for (int link = 0; link < 2; link++) {
            weir_stepfile_options how = {.policy = "recycle",
                                         .alignment = align[i],
                                         .moves = 300,
                                         .link_out = 12 * link,
                                         .link_in = 12 * link};
            char *plan = weir_stepfile_plan(o, &how, &s);
            CHECK(plan && s.whole_bytes == s.peak_bytes && s.extra_ms <= 0);
            weir_text_free(plan);
            how.budget = "100%";
            plan = weir_stepfile_plan(o, &how, &whole);
            CHECK(plan && whole.budget_bytes == s.peak_bytes && whole.peak_bytes == s.peak_bytes);
            weir_text_free(plan);
            how.budget = "99.99%";
            CHECK(!weir_stepfile_plan(o, &how, &less));
            CHECK(less.whole_bytes == s.whole_bytes);
            how.budget = "75%";
            how.policy = "auto";
            plan = weir_stepfile_plan(o, &how, &less);
            CHECK(plan && less.budget_bytes == s.peak_bytes * 75 / 100);
            weir_text_free(plan);
        }
    weir_stepfile_free(o);
}

/* The rows of a sweep are different plans: each budget below the first has its plan. */
CASE(the_first_rows_of_a_curve_differ)
{
    weir_stepfile *const o = chain();
    CHECK_OR_RETURN(o != NULL);
    weir_sweep *const c =
        weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = "auto:recompute", .moves = 300});
    char *const csv = weir_sweep_text(c, WEIR_SWEEP_CSV), *const table =
                                                              weir_sweep_text(c, WEIR_SWEEP_TABLE);
    size_t budget, peak, recomputed, whole = 0, high = SIZE_MAX;
    double share, extra;
    int    rows = 0;
    if (CHECK(csv && table)) {
        const char *at = strchr(csv, '\n') + 1;
        for (; next_row(&at, "auto:recompute", &budget, &share, &peak, &extra, &recomputed);
             rows++) {
            whole = rows ? whole : budget;
            CHECK((rows == 0) == (recomputed == 0) && peak <= budget && peak <= high);
            high = peak;
        }
        char base[64];
        snprintf(base, sizeof base, "%zu bytes without a budget", whole);
        CHECK(rows > 2 && count(table, base) == 1);
    }
    weir_text_free(csv);
    weir_text_free(table);
    weir_sweep_free(c);
    weir_stepfile_free(o);
}

CASE(names_and_bytes_in_pictures)
{
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    weir_stepfile *const o = weir_stepfile_read(file_text(
        &f, 0,
        "{\"name\": \"<a> & \\\"b\\\"\\u0001\", \"tensors\": [{\"id\": 1, \"bytes\": 64, "
        "\"kind\": \"activation\", \"output\": true}], \"ops\": [{\"id\": 0, \"time_us\": 1,"
        "\"inputs\": [], \"outputs\": [1]}]}"));
    weir_sweep *const c = o ? weir_stepfile_sweep(o, NULL) : NULL;
    char *const       svg = weir_sweep_text(c, WEIR_SWEEP_SVG);
    CHECK_TEXT(svg ? svg : weir_error(), "<title>&lt;a&gt; &amp; &quot;b&quot; </title>");
    CHECK_TEXT(svg ? svg : "", "; 64 B without a budget, 0 B of it always there");
    CHECK_TEXT(svg ? svg : "", ": 64 B, 100.0 %");
    weir_text_free(svg);
    weir_sweep_free(c);
    weir_stepfile_free(o);
    folder_remove(&f);
}

/* A policy that is asked for twice has two equal curves: both can be seen. */
CASE(equal_curves_are_dashed_in_turn)
{
    weir_stepfile *const o = chain();
    CHECK_OR_RETURN(o != NULL);
    weir_sweep *const c = weir_stepfile_sweep(
        o, &(weir_stepfile_options){.policy = "checkpoint,checkpoint", .moves = 300});
    char *const svg = c ? weir_sweep_text(c, WEIR_SWEEP_SVG) : NULL;
    CHECK_TEXT(svg ? svg : weir_error(), "stroke-dasharray=\"9 9\" stroke-dashoffset=\"-0\"");
    CHECK_TEXT(svg ? svg : "", "stroke-dasharray=\"9 9\" stroke-dashoffset=\"-9\"");
    CHECK_TEXT(svg ? svg : "", ">= checkpoint</text>");
    weir_text_free(svg);
    weir_sweep_free(c);
    weir_stepfile_free(o);
}

CASE(curve_mistakes)
{
    weir_stepfile *const o = chain();
    CHECK(weir_stepfile_sweep(NULL, NULL) == NULL && weir_sweep_text(NULL, WEIR_SWEEP_CSV) == NULL);
    CHECK(weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = "auto,magic"}) == NULL);
    CHECK_TEXT(weir_error(), "unknown policy 'magic'");
    CHECK(weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = ""}) == NULL);
    CHECK_TEXT(weir_error(), "no policy is named");
    CHECK(weir_stepfile_sweep(o, &(weir_stepfile_options){.budget = "50%"}) == NULL);
    CHECK_TEXT(weir_error(), "'50%'");
    weir_sweep *const c = weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = "recycle"});
    CHECK(c && weir_sweep_text(c, (weir_sweep_format)3) == NULL);
    CHECK_TEXT(weir_error(), "unknown format 3");
    weir_sweep_free(c);
    weir_sweep_free(NULL);
    weir_stepfile_free(o);
}

static char *picture(const weir_stepfile *o)
{
    weir_sweep *const c = weir_stepfile_sweep(o, &(weir_stepfile_options){.policy = "recycle"});
    char *const       svg = c ? weir_sweep_text(c, WEIR_SWEEP_SVG) : NULL;
    weir_sweep_free(c);
    return svg;
}

/* Optional texts may be left out if memory runs out: the picture is then unchanged. */
CASE(curve_failing_memory)
{
    weir_stepfile *const o = chain();
    char *const         whole = picture(o);
    bool                failed = whole != NULL;
    int64_t             n = 0;
    for (; failed && n < 20000; n++) {
        weir_mem_fail_nth(n, false);
        char *const svg = picture(o);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (!CHECK(svg ? strcmp(svg, whole) == 0 : failed && weir_error_status() == WEIR_ERR_NOMEM))
            printf("    allocation %lld: %s, %s\n", (long long)n, svg ? "drawn" : "not drawn",
                   weir_error());
        weir_text_free(svg);
    }
    weir_text_free(whole);
    CHECK(n > 10 && !failed);
    weir_stepfile_free(o);
}

typedef struct stop {
    uint64_t calls, at;         /* at 0: never */
} stop;

static bool count_calls(void *context, const weir_progress *p)
{
    stop *const s = context;

    CHECK(p->seconds >= 0 && p->phase[0]);
    return ++s->calls != s->at;
}

CASE(a_plan_and_a_sweep_stop_when_told)
{
    stop                        met = {0}, at = {0};
    weir_stepfile *const        o = chain();
    const weir_stepfile_options how = {.budget = "80%"},
                                told = {.budget = "80%", .progress = count_calls,
                                        .progress_context = &met},
                                swept = {.policy = "recycle, mincut", .progress = count_calls,
                                         .progress_context = &at};
    char *const wanted = weir_stepfile_plan(o, &how, NULL);
    char *const text = weir_stepfile_plan(o, &told, NULL);

    CHECK(wanted && text && strcmp(wanted, text) == 0 && met.calls > 10);
    for (uint64_t k = 1; k <= met.calls; k += 1 + k / 2) {
        stop                        s = {.at = k};
        const weir_stepfile_options stopped = {.budget = "80%", .progress = count_calls,
                                               .progress_context = &s};
        CHECK(!weir_stepfile_plan(o, &stopped, NULL) && s.calls == k);
        CHECK_STATUS(weir_error_status(), WEIR_ERR_CANCELLED);
    }
    at.at = 3;
    CHECK(!weir_stepfile_sweep(o, &swept) && weir_error_status() == WEIR_ERR_CANCELLED);
    weir_text_free(wanted);
    weir_text_free(text);
    weir_stepfile_free(o);
}
#endif
