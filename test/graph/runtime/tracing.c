/* tracing.c - a trace has a row of collectives, from where each begins to where it is awaited. */
#include "graph/fixture.h"
#include "graph/summed.h"

/* The microseconds of the span of this kind ("b", "e") on the wire, or -1. */
static double wire_us(const char *json, const char *kind)
{
    char   key[64];
    double us;

    snprintf(key, sizeof key, "\"cat\": \"wire\", \"ph\": \"%s\"", kind);
    const char *const at = strstr(json, key), *const ts = at ? strstr(at, "\"ts\": ") : NULL;
    return ts && sscanf(ts + 6, "%lf", &us) == 1 ? us : -1;
}

/* The sum begins 1 ms after the run, and ends when the wait for it does. */
static void check_trace(const char *disable, double begin_ms)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, disable)) {
        CHECK_OK(weir_device_trace_start(s.d));
        CHECK_OK(weir_graph_run(s.g));
        char *const json = weir_device_trace_stop(s.d);
        CHECK_OR_RETURN(json != NULL);
        CHECK_NEAR(wire_us(json, "b"), begin_ms * 1e3, 0.01);
        CHECK_NEAR(wire_us(json, "e"), (begin_ms + SUMMED_MS) * 1e3, 0.01);
        CHECK_TEXT(json, "\"args\": {\"bytes\": 6400}");
        weir_text_free(json);
    }
    summed_close(&s);
}

CASE(collectives_are_spans)
{
    check_trace(NULL, 1);
    check_trace("overlap", 1);
}
