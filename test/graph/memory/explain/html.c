/* html.c - the page of a plan: its numbers add up to the planned peak, every tensor in the arena
 * has a decision, and no name can end the element that the numbers are in. */
#include "graph/summed.h"
#include "graph/train.h"

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        n++;
    return n;
}

/* The first line of the list called `name` in the page. */
static const char *list(const char *page, const char *name)
{
    char key[32];

    snprintf(key, sizeof key, "\"%s\": [\n", name);
    const char *const at = strstr(page, key);
    return at ? at + strlen(key) : "";
}

static const char *next_line(const char *at)
{
    const char *const end = strchr(at, '\n');
    return end ? end + 1 : "";
}

/* The highest end of an allocation: what the page draws as the top of the arena. */
static size_t drawn_arena(const char *page)
{
    size_t size, offset, top = 0;

    for (const char *at = list(page, "items");
         sscanf(at, "[%*d, %zu, %zu,", &size, &offset) == 2; at = next_line(at))
        if (size > 0 && offset + size > top)
            top = offset + size;
    return top;
}

static size_t drawn_resident(const char *page)
{
    size_t size, sum = 0;

    for (const char *at = list(page, "resident"); sscanf(at, "[%*d, %zu,", &size) == 1;
         at = next_line(at))
        sum += size;
    return sum;
}

static void check_page(const weir_graph *g, bool budget)
{
    weir_graph_stats s;
    char *const      page = weir_graph_text(g, WEIR_TEXT_HTML);

    CHECK_OR_RETURN(page != NULL);
    CHECK_OK(weir_graph_stats_of(g, &s));
    CHECK(s.arena_bytes > 0 && drawn_arena(page) == s.arena_bytes);
    CHECK(drawn_resident(page) == s.persistent_bytes);
    CHECK(drawn_arena(page) + drawn_resident(page) == s.planned_peak_bytes);
    CHECK(count(list(page, "decisions"), "\", \"") > 0);
    CHECK(!budget || s.recomputed == 0 ||      /* "once", or a number of times */
          count(list(page, "decisions"), "recomputed ") > 0);
    CHECK(count(page, "<script") == 3);     /* the plan, the program, and the program's pattern */
    CHECK(count(page, "http") == 0);        /* one file: nothing comes from elsewhere */
    weir_text_free(page);
}

/* Networks, budgets and policies take turns. */
CASE(drawn_peaks_are_planned_peaks)
{
    static const char *const budget[] = {"60%", NULL, "45%", "80%", "92%"};
    static const char *const policy[] = {"auto:swap", "dtr", "auto:recompute+swap", "checkpoint",
                                         "auto:recompute", "vdnn:conv", "recycle"};
    static const char *const placement[] = {NULL, "start", "tstack"};
    static const struct { train_net net; int64_t batch; } nets[] = {
        {TRAIN_DIGITS, 16}, {TRAIN_LENET, 8}, {TRAIN_MLP, 64}, {TRAIN_POOLED, 3}};
    int seen = 0;

    for (int i = 0; i < 24; i++) {
        const weir_plan_options plan = {.budget = budget[i % 5], .policy = policy[i % 7],
                                        .placement = placement[i % 3]};
        train t;
        CHECK_OR_RETURN(train_open(&t, nets[i % 4].net, nets[i % 4].batch, 0,
                                   &(weir_step_options){.graph = true, .plan = plan}) == WEIR_OK);
        for (int run = 0; run < 2; run++) {
            const weir_status status = train_step(&t, run);
            if (status != WEIR_OK) {
                CHECK_STATUS(status, WEIR_ERR_BUDGET);
                break;
            }
            check_page(weir_step_graph(t.step), plan.budget);
            seen++;
        }
        train_close(&t);
    }
    CHECK(seen >= 16);
}

CASE(a_name_cannot_end_the_data)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    weir_graph *const  g = weir_graph_begin(d);

    CHECK_OK(weir_set_name(x, "a</script><script>alert(1)</script><!--\""));
    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_name_scope_begin(d, "</script><b>"));
    weir_tensor *const y = weir_keep(weir_exp(x));
    CHECK_OK(weir_name_scope_end(d));
    CHECK_OK(weir_graph_end(g, NULL));
    char *const page = weir_graph_text(g, WEIR_TEXT_HTML);
    CHECK_OR_RETURN(y && page);
    CHECK(strstr(page, "<b>") == NULL && strstr(page, "alert(1)</") == NULL);
    CHECK_TEXT(page, "a\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\\u003c!--\\\"");
    CHECK(count(page, "</script>") == 2);
    weir_text_free(page);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* Of the step [exp, start, matmul x 3, wait, mul] the sum begins at the start and ends with the
 * wait, or, on a fast wire, in the middle of the first product. */
CASE(collectives_have_places_and_times)
{
    static const char fast[] = ",world=4,node=2,wire=1e12,alpha=125e-6,inner=1e12";
    summed s;
    double from, to, ms, waits, measured;

    for (int hidden = 0; hidden < 2; hidden++) {
        const char *const network = hidden ? fast : ",world=4," SUMMED_NETWORK;
        char              machine[200];
        snprintf(machine, sizeof machine, "%s%s", SUMMED_MACHINE, network);
        if (summed_open(&s, machine, NULL)) {
            char *const page = weir_graph_text(s.g, WEIR_TEXT_HTML);
            unsigned    start, wait;
            size_t      size;
            CHECK_OR_RETURN(page != NULL);
            CHECK(sscanf(list(page, "wire"), "[%u, %u, %lf, %lf, %zu, %lf, %lf, %lf, ", &start,
                         &wait, &from, &to, &size, &ms, &waits, &measured) == 8);
            CHECK(start == 1 && wait == 5 && size == 6400 && measured == -1);
            CHECK_NEAR(from, hidden ? 2 : 2, 1e-6);
            CHECK_NEAR(to, hidden ? 2.5 : 6, 1e-4);
            CHECK_NEAR(ms, hidden ? 0.5 : SUMMED_MS, 1e-4);
            CHECK_NEAR(waits, hidden ? 0 : SUMMED_MS - 3, 1e-4);
            weir_text_free(page);
        }
        summed_close(&s);
    }
}
