/* json.c - the JSON of a plan has the times of instructions and of collectives that the plan
 * predicts and a run takes, and null for those that nothing tells. */
#include "graph/fixture.h"
#include "graph/summed.h"
#include "graph/unmeasured.h"

/* The number behind the first key of this name, or -1 if it is null. *from moves behind it. */
static double number(const char **from, const char *key)
{
    char   quoted[40];
    double value = -1;

    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *const at = strstr(*from, quoted);
    if (!CHECK(at != NULL))
        return -2;
    *from = at + strlen(quoted);
    CHECK(sscanf(*from, "%lf", &value) == 1 || strncmp(*from, "null", 4) == 0);
    return value;
}

static double first(const char *json, const char *key)
{
    return number(&json, key);
}

static const char *collectives(const char *json)
{
    const char *const at = strstr(json, "\"collectives\": [");
    return at ? at : "";
}

/* Of [exp, start, matmul x 3, wait, mul] calls take 1 ms but for the start and the wait. */
CASE(times_are_those_of_the_plan)
{
    static const double begin[] = {0, 1, 1, 2, 3, 4, 1 + SUMMED_MS};
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        char *const      json = weir_graph_text(s.g, WEIR_TEXT_JSON);
        weir_graph_stats t;
        CHECK_OR_RETURN(json != NULL);
        const char *at = json, *const list = collectives(json);
        for (size_t i = 0; i < ARRAY_LENGTH(begin); i++) {
            CHECK_NEAR(number(&at, "begin_ms"), begin[i], 1e-6);
            CHECK_NEAR(number(&at, "measured_begin_ms"), -1, 0);
        }
        CHECK_NEAR(first(json, "step_ms"), 2 + SUMMED_MS, 1e-6);
        CHECK_NEAR(first(json, "measured_step_ms"), -1, 0);
        CHECK_TEXT(list, "{\"start\": 1, \"wait\": 5, \"bytes\": 6400, \"begin_ms\": 1, ");
        CHECK_NEAR(first(list, "wire_ms"), SUMMED_MS, 1e-6);
        CHECK_NEAR(first(list, "exposed_ms"), SUMMED_MS - 3, 1e-6);
        CHECK_NEAR(first(list, "measured_exposed_ms"), -1, 0);
        CHECK_OK(weir_graph_stats_of(s.g, &t));
        const char *const sums = strstr(list, "}]");
        CHECK_OR_RETURN(sums != NULL);
        CHECK_NEAR(first(sums, "wire_ms"), t.wire_predicted_ms, 1e-6);
        CHECK_NEAR(first(sums, "exposed_ms"), t.exposed_predicted_ms, 1e-6);
        weir_text_free(json);
    }
    summed_close(&s);
}

CASE(a_plan_without_collectives_has_an_empty_list)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE, NULL)) {
        char *const json = weir_graph_text(s.g, WEIR_TEXT_JSON);
        CHECK_OR_RETURN(json != NULL);
        CHECK_TEXT(json, "\"collectives\": [], \"wire_ms\": 0, \"exposed_ms\": 0}");
        CHECK_NEAR(first(json, "step_ms"), (double)s.g->plan->n, 1e-6);
        weir_text_free(json);
    }
    summed_close(&s);
}

static void unknown_body(rank *r)
{
    weir_tensor *x;

    CHECK_OR_RETURN(r->c != NULL);
    weir_graph *const g = unmeasured_open(r, &x);
    for (int ran = 0; ran < 2; ran++) {
        char *const json = weir_graph_text(g, WEIR_TEXT_JSON);
        CHECK_OR_RETURN(json != NULL);
        const char *const list = collectives(json);
        CHECK_TEXT(json, "\"step_ms\": null, ");
        CHECK_TEXT(json, "\"begin_ms\": null, ");
        CHECK_TEXT(list, "\"begin_ms\": null, \"wire_ms\": null, \"exposed_ms\": null, ");
        CHECK_TEXT(list, "], \"wire_ms\": null, \"exposed_ms\": null}");
        const double step = first(json, "measured_step_ms");
        const double waited = first(list, "measured_exposed_ms");
        CHECK(ran ? step > 0 && waited >= 0 && waited <= step : step == -1 && waited == -1);
        CHECK((first(json, "measured_begin_ms") >= 0) == ran);
        weir_text_free(json);
        CHECK_OK(weir_graph_run(g));
    }
    weir_graph_free(g);
    weir_release(x);
}

CASE(unknown_times_are_null)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, unknown_body, NULL);
}
