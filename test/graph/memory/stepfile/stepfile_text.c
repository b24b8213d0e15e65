/* stepfile_text.c - recorded steps as step files: read again, they are the same step, with a budget
 * or without; names, times, ops that must not be repeated; failing memory. */
#include "core/mem.h"
#include "graph/fixture.h"
#include "temp_folder.h"
#include "graph/train.h"

/* Records and plans a network without running it. */
typedef struct planned {
    train       t;
    weir_graph *g;
} planned;

static bool plan_net(planned *p, train_net net, int64_t batch, const weir_plan_options *how)
{
    *p = (planned){0};
    if (!CHECK_OK(train_open(&p->t, net, batch, 32, &(weir_step_options){.graph = true})))
        return false;
    p->g = weir_graph_begin(p->t.d);
    return CHECK_OK(train_record(&p->t)) && CHECK_OK(weir_graph_end(p->g, how));
}

static void plan_close(planned *p)
{
    weir_graph_free(p->g);
    train_close(&p->t);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* ---- with and without a budget ---- */

/* A step file does not contain what a budget recomputes: it is the step as recorded. */
CASE(budgets_do_not_change_it)
{
    static const char *const budgets[] = {"95%", "75%"};
    for (size_t i = 0; i < ARRAY_LENGTH(budgets); i++) {
        planned whole, tight;
        CHECK_OR_RETURN(plan_net(&whole, TRAIN_DIGITS, 16, NULL));
        CHECK_OR_RETURN(plan_net(&tight, TRAIN_DIGITS, 16,
                                 &(weir_plan_options){.budget = budgets[i]}));
        char *const a = weir_graph_stepfile(whole.g, "step", WEIR_TIMES_ROOFLINE);
        char *const b = weir_graph_stepfile(tight.g, "step", WEIR_TIMES_ROOFLINE);
        char *const json = weir_graph_text(tight.g, WEIR_TEXT_JSON);
        CHECK(tight.g->nodes.n > whole.g->nodes.n);
        if (CHECK(a && b && json)) {
            CHECK(strcmp(a, b) == 0);
            CHECK(count(a, "\"time_us\"") == whole.g->nodes.n);
            CHECK(count(json, "\"time_us\"") == tight.g->nodes.n);
        }
        weir_text_free(a);
        weir_text_free(b);
        weir_text_free(json);
        plan_close(&whole);
        plan_close(&tight);
    }
}

CASE(failing_memory)
{
    planned p;
    int64_t n = 0;
    CHECK_OR_RETURN(plan_net(&p, TRAIN_DIGITS, 8, NULL));
    char *const whole = weir_graph_stepfile(p.g, "step", WEIR_TIMES_ESTIMATED);
    for (bool failed = true; failed && n < 10000; n++) {
        weir_mem_fail_nth(n, false);
        char *const text = weir_graph_stepfile(p.g, "step", WEIR_TIMES_ESTIMATED);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (failed)
            CHECK(text == NULL && weir_error_status() == WEIR_ERR_NOMEM);
        else
            CHECK(text && whole && strcmp(text, whole) == 0);
        weir_text_free(text);
    }
    CHECK(n > 5 && n < 10000);
    weir_text_free(whole);
    plan_close(&p);
}

CASE(mistakes)
{
    planned p;
    CHECK(weir_graph_stepfile(NULL, "x", WEIR_TIMES_ROOFLINE) == NULL);
    CHECK_OR_RETURN(plan_net(&p, TRAIN_MLP, 4, NULL));
    CHECK(weir_graph_stepfile(p.g, "x", (weir_times)3) == NULL);
    CHECK_TEXT(weir_error(), "unknown times 3");
    plan_close(&p);
}

#ifdef WEIR_JANSSON
/* ---- read again ---- */

/* Returns the live bytes of the graph's own plan, made without in-place outputs, at its peak: items
 * with the bytes of their storages, and kept results from where they are made. */
static size_t live_peak(const weir_graph *g)
{
    size_t peak = 0;
    for (uint32_t i = 0; i < g->plan->n; i++) {
        size_t live = g->plan->instr[i].kernel->work;
        for (uint32_t k = 0; k < g->plan->items.n; k++) {
            const weir_item *it = &g->plan->items.at[k];
            if (it->storage != WEIR_NONE && it->first <= i && i <= it->last)
                live += g->storages.at[it->storage].bytes;
        }
        for (uint32_t k = 0; k <= i; k++)
            for (int o = 0; o < g->plan->instr[k].call.nout; o++)
                if (g->plan->instr[k].out[o].external)
                    live += g->storages.at[g->plan->instr[k].out[o].storage].bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* Does an instruction name the storage as an input or an output? */
static bool named(const weir_graph *g, uint32_t storage, bool made)
{
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *const ins = &g->plan->instr[i];
        for (int k = 0; k < (made ? ins->call.nout : ins->call.nin); k++)
            if ((made ? ins->out : ins->in)[k].storage == storage)
                return true;
    }
    return false;
}

/* Returns the bytes of the parameters, states and inputs that the instructions name. */
static size_t resident_bytes(const weir_graph *g)
{
    size_t bytes = 0;
    for (uint32_t s = 0; s < g->storages.n; s++)
        if (named(g, s, false) && !named(g, s, true))
            bytes += g->storages.at[s].bytes;
    return bytes;
}

/* Reads the step's numbers from the text; false if it cannot be read or planned. */
static bool numbers_of(const char *text, const char *budget, weir_stepfile_plan_stats *s,
                       char **plan)
{
    folder f;
    *plan = NULL;
    if (!CHECK(text != NULL) || !folder_make(&f))
        return false;
    weir_stepfile *const o = weir_stepfile_read(file_text(&f, 0, text));
    folder_remove(&f);
    if (!o)
        printf("    %s\n", weir_error());
    const weir_stepfile_options how = {.budget = budget, .policy = "auto:recompute", .moves = 2000};
    *plan = o ? weir_stepfile_plan(o, &how, s) : NULL;
    weir_stepfile_free(o);
    return *plan != NULL;
}

CASE(read_again_it_is_the_same_step)
{
    static const train_net nets[] = {TRAIN_MLP, TRAIN_DIGITS, TRAIN_LENET, TRAIN_POOLED};
    for (size_t i = 0; i < ARRAY_LENGTH(nets); i++) {
        planned                  p;
        weir_stepfile_plan_stats s;
        weir_graph_stats         own;
        char                    *plan;
        CHECK_OR_RETURN(plan_net(&p, nets[i], 8, OPTIONS_WITHOUT("inplace")));
        char *const text = weir_graph_text(p.g, WEIR_TEXT_STEPFILE);
        CHECK_OK(weir_graph_stats_of(p.g, &own));
        if (CHECK(numbers_of(text, NULL, &s, &plan))) {
            CHECK(s.operations == p.g->nodes.n);
            CHECK(s.resident_bytes == resident_bytes(p.g));
            /* The file permits in-place outputs, with which this graph was not planned. */
            CHECK(s.whole_bytes <= s.resident_bytes + live_peak(p.g));
            CHECK(2 * s.whole_bytes > s.resident_bytes + live_peak(p.g));
            CHECK(fabs(s.step_ms * 1e-3 / (own.flops / 10e12 + own.bytes / 600e9) - 1) < 1e-6);
        }
        weir_text_free(plan);
        weir_text_free(text);
        plan_close(&p);
    }
}

CASE(names_are_escaped)
{
    static const char *const names[][2] = {
        {"a \"b\" \\ c", "\"a \\\"b\\\" \\\\ c\""}, {"two\nlines\t", "\"two\\u000alines\\u0009\""},
        {"\xff{}],", "\"\\ufffd{}],\""}, {"", "\"graph\":\"\","}};
    planned p;
    CHECK_OR_RETURN(plan_net(&p, TRAIN_MLP, 4, NULL));
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        weir_stepfile_plan_stats s;
        char                    *plan;
        char *const              text = weir_graph_stepfile(p.g, names[i][0], WEIR_TIMES_ROOFLINE);
        if (CHECK(numbers_of(text, NULL, &s, &plan)) && i < 2)
            CHECK_TEXT(plan, names[i][1]);
        CHECK_TEXT(i < 3 ? text : plan, names[i][1]);
        weir_text_free(plan);
        weir_text_free(text);
    }
    plan_close(&p);
}

CASE(times_are_those_asked_for)
{
    double  ms[3] = {0};
    planned p;
    CHECK_OR_RETURN(plan_net(&p, TRAIN_LENET, 8, NULL));
    for (int i = 0; i < 3; i++) {
        weir_stepfile_plan_stats s;
        char                    *plan;
        char *const              text = weir_graph_stepfile(p.g, "x", (weir_times)i);
        if (CHECK(numbers_of(text, NULL, &s, &plan)))
            ms[i] = s.step_ms;
        weir_text_free(plan);
        weir_text_free(text);
    }
    CHECK(ms[0] > 0 && ms[1] > ms[0] && ms[1] > 2e-3 * p.g->nodes.n);
    CHECK(ms[2] > 0 && ms[2] < 1e6 && ms[2] != ms[1] && ms[2] != ms[0]);
    plan_close(&p);
}

/* ---- what may not be repeated ---- */

enum { LONG = 1 << 14 };

static weir_status twice(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int i = 0; i < LONG; i++)
        ((float *)y[0].data)[i] = 2 * ((const float *)x[0].data)[i];
    return WEIR_OK;
}

static const weir_callback_def twice_def = {.name = "twice", .forward = twice};

/* A large value is read early and late, others come in between; `caller`: a callback makes it. */
static char *early_and_late(weir_device *d, weir_tensor *x, bool caller)
{
    weir_graph *const g = weir_graph_begin(d);
    const weir_desc   desc = weir_tensor_desc(x);
    weir_tensor      *a = weir_mul(x, x);
    if (caller)
        CHECK_OK(weir_callback(&twice_def, NULL, 1, &x, 1, &desc, &a));
    weir_tensor *s = weir_sum(a, 0, false);
    for (int i = 0; i < 3; i++) {
        weir_tensor *const b = weir_cumsum(weir_mul(x, s), 0, false);
        s = weir_add(s, weir_sum(b, 0, false));
    }
    weir_keep(weir_add(weir_sum(weir_cumsum(a, 0, false), 0, false), s));
    CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT("fuse,order,inplace")));
    char *const text = weir_graph_stepfile(g, "x", WEIR_TIMES_ROOFLINE);
    weir_graph_free(g);
    return text;
}

CASE(calls_of_the_program_run_once)
{
    weir_device *const d = fixture_open();
    weir_tensor *const x = fixture_param(d, LONG, NULL);
    for (int caller = 0; caller < 2; caller++) {
        weir_stepfile_plan_stats s;
        char                    *plan;
        char *const              text = early_and_late(d, x, caller);
        CHECK(text && count(text, "\"once\": true") == (size_t)caller);
        if (CHECK(numbers_of(text, NULL, &s, &plan))) {
            char budget[32];
            weir_text_free(plan);
            snprintf(budget, sizeof budget, "%zu", s.peak_bytes - LONG * 2);
            CHECK(numbers_of(text, budget, &s, &plan) == !caller);
            CHECK(caller || s.recomputed > 0);
        }
        weir_text_free(plan);
        weir_text_free(text);
    }
    weir_release(x);
    weir_device_close(d);
}
#endif
