/* dump.c - what a planned graph says about itself: text, DOT, SVG, JSON, cost and profile. */
#include <string.h>

#include "check.h"
#include "graph/plan/plan.h"
#include "weir.h"

typedef struct small {
    weir_device *dev;
    weir_model  *model;
    weir_optim  *sgd;
    weir_tensor *x, *y, *loss;
    weir_graph  *step;
} small;

/* A recorded, unplanned training step of an MLP 6-8-3. */
static bool small_record(small *s)
{
    *s = (small){.dev = weir_device_open(check_device(), &(weir_device_options){.threads = 1})};
    s->model = weir_model_new(s->dev);
    weir_layer *const mlp = weir_mlp_new(s->model, 3, (const int64_t[]){6, 8, 3});
    s->sgd = weir_sgd_new(s->dev, 0.1, NULL);
    s->x = weir_input(s->dev, weir_2d(WEIR_F32, 4, 6));
    s->y = weir_input(s->dev, weir_1d(WEIR_I32, 4));
    CHECK_STATUS(weir_write_fill(s->x, 0.5), WEIR_OK);
    CHECK_STATUS(weir_write_fill(s->y, 1), WEIR_OK);
    s->step = weir_graph_begin(s->dev);
    s->loss = weir_keep(weir_cross_entropy(weir_apply(mlp, s->x), s->y));
    CHECK_STATUS(weir_minimize(s->sgd, s->loss), WEIR_OK);
    return s->step && s->loss;
}

static void small_close(small *s)
{
    weir_graph_free(s->step);
    weir_release(s->x);
    weir_release(s->y);
    weir_optim_free(s->sgd);
    weir_model_free(s->model);
    weir_device_close(s->dev);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        n++;
    return n;
}

/* Brackets and braces outside strings close in order, and something is inside. */
static bool balanced(const char *text)
{
    char   open[64];
    size_t depth = 0;
    bool   quoted = false;

    for (const char *c = text; *c; c++) {
        if (*c == '\\' && quoted && c[1]) {
            c++;
        } else if (*c == '"') {
            quoted = !quoted;
        } else if (!quoted && (*c == '{' || *c == '[')) {
            if (depth == sizeof open)
                return false;
            open[depth++] = *c == '{' ? '}' : ']';
        } else if (!quoted && (*c == '}' || *c == ']')) {
            if (depth == 0 || open[--depth] != *c)
                return false;
        }
    }
    return depth == 0 && !quoted && text[0] != '\0';
}

CASE(nothing_to_see_before_the_plan)
{
    small s;
    CHECK_OR_RETURN(small_record(&s));
    CHECK(weir_graph_text(s.step, WEIR_TEXT_PLAN) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_STATE);
    CHECK(weir_graph_text(NULL, WEIR_TEXT_PLAN) == NULL);
    small_close(&s);
}

CASE(text_names_what_runs)
{
    static const weir_text kinds[] = {WEIR_TEXT_GRAPH, WEIR_TEXT_PLAN, WEIR_TEXT_COST};
    small s;
    CHECK_OR_RETURN(small_record(&s));
    CHECK_STATUS(weir_graph_end(s.step, NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char *const text = weir_graph_text(s.step, kinds[i]);
        CHECK_OR_RETURN(text != NULL);
        CHECK_TEXT(text, "linear");
        CHECK_TEXT(text, "cross_entropy_grad");
        CHECK_TEXT(text, "sgd_update");
        weir_text_free(text);
    }
    char *const plan = weir_graph_text(s.step, WEIR_TEXT_PLAN);
    char        arena[64];
    snprintf(arena, sizeof arena, "arena %zu bytes", s.step->plan->arena);
    CHECK_TEXT(plan, arena);
    CHECK(count(plan, "\n") >= s.step->plan->n);
    weir_text_free(plan);
    small_close(&s);
}

CASE(pictures_and_documents_are_whole)
{
    small s;
    CHECK_OR_RETURN(small_record(&s));
    CHECK_STATUS(weir_graph_end(s.step, NULL), WEIR_OK);
    char *const json = weir_graph_text(s.step, WEIR_TEXT_JSON);
    char *const dot = weir_graph_text(s.step, WEIR_TEXT_DOT);
    char *const time = weir_graph_text(s.step, WEIR_TEXT_TIMELINE_SVG);
    char *const map = weir_graph_text(s.step, WEIR_TEXT_ADDRESSES_SVG);
    CHECK_OR_RETURN(json && dot && time && map);
    CHECK(balanced(json) && json[0] == '{');
    CHECK_TEXT(json, "\"ops\"");
    CHECK(strncmp(dot, "digraph", 7) == 0 && balanced(dot));
    CHECK(strncmp(time, "<svg", 4) == 0 && count(time, "</svg>") == 1);
    CHECK_TEXT(time, "planned peak");
    size_t items = 0;
    for (uint32_t i = 0; i < s.step->plan->items.n; i++)
        items += s.step->plan->items.at[i].bytes > 0;
    CHECK(strncmp(map, "<svg", 4) == 0 && count(map, "<rect") >= items);
    weir_text_free(json);
    weir_text_free(dot);
    weir_text_free(time);
    weir_text_free(map);
    small_close(&s);
}

CASE(profile_counts_the_runs_after_the_skip)
{
    small s;
    CHECK_OR_RETURN(small_record(&s));
    CHECK_STATUS(weir_graph_end(s.step, NULL), WEIR_OK);
    weir_device_set_verbosity(s.dev, 2);
    weir_device_set_skip(s.dev, 2);
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(weir_graph_run(s.step), WEIR_OK);
    CHECK(s.step->plan->profiled == 3);
    char *text = weir_device_profile_text(s.dev);
    CHECK_OR_RETURN(text != NULL);
    CHECK_TEXT(text, "forward");
    CHECK_TEXT(text, "backward");
    CHECK_TEXT(text, "update");
    CHECK_TEXT(text, "sgd_update");
    weir_text_free(text);
    weir_device_set_verbosity(s.dev, 1);
    text = weir_device_profile_text(s.dev);
    CHECK_OR_RETURN(text != NULL);
    CHECK(strstr(text, "sgd_update") == NULL && strstr(text, "backward") != NULL);
    weir_text_free(text);
    small_close(&s);
}

CASE(trace_holds_every_call)
{
    small s;
    CHECK_OR_RETURN(small_record(&s));
    CHECK_STATUS(weir_graph_end(s.step, NULL), WEIR_OK);
    CHECK_STATUS(weir_device_trace_start(s.dev), WEIR_OK);
    CHECK_STATUS(weir_graph_run(s.step), WEIR_OK);
    char *const json = weir_device_trace_stop(s.dev);
    CHECK_OR_RETURN(json != NULL);
    CHECK(balanced(json));
    CHECK_TEXT(json, "traceEvents");
    CHECK_TEXT(json, "sgd_update");
    weir_text_free(json);
    small_close(&s);
}

/* A graph of the digits CNN, in training or in evaluation, with gradients or without. */
static weir_graph *cnn_record(weir_device *d, weir_model *m, weir_layer *cnn, weir_tensor *x,
                              bool train, bool gradients)
{
    weir_graph *const g = weir_graph_begin(d);

    weir_model_train(m, train);
    weir_tensor *const y = weir_keep(weir_apply(cnn, x));
    if (gradients)
        CHECK_OK(weir_backward(weir_sum(y, 0, false), &(const weir_pair *){NULL}, &(size_t){0}));
    CHECK_OK(weir_graph_end(g, NULL));
    return g;
}

CASE(training_calls_are_counted)
{
    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  cnn = weir_digits_cnn_new(m, 10);
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, 4, 1, 8, 8));

    for (int i = 0; i < 3; i++) {
        const bool        train = i > 0, gradients = i > 1;
        weir_graph *const g = cnn_record(d, m, cnn, x, train, gradients);
        char *const       graph = weir_graph_text(g, WEIR_TEXT_GRAPH),
                   *const plan = weir_graph_text(g, WEIR_TEXT_PLAN);
        weir_graph_stats  s = {0};
        CHECK_OK(weir_graph_stats_of(g, &s));
        CHECK(s.dropouts == (train ? 1 : 0) && s.batch_statistics == (train ? 2 : 0));
        CHECK(s.trains == gradients);
        CHECK(strcmp(weir_graph_remark(g), i == 1 ? "recorded in training mode: it draws dropout "
                                                    "and uses the statistics of the batch"
                                                  : "") == 0);
        const char line[] = "# recorded in training: 1 dropout, 2 batch statistics\n";
        CHECK(graph && count(graph, line) == s.dropouts);
        CHECK(plan && count(plan, line) == s.dropouts);
        CHECK(plan && count(plan, "recorded in training") == s.dropouts);
        weir_text_free(graph);
        weir_text_free(plan);
        weir_graph_free(g);
    }
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}
