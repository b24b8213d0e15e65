/* trace.c - the clock, and events in Chrome's trace format, which Perfetto reads as well. */
#include "core/trace.h"

#include <time.h>

#include "core/env.h"
#include "core/text.h"
#include "core/vec.h"

typedef struct event {
    const char *name, *category; /* category NULL: a counter sample */
    char       *text;            /* owned: the name, instead of `name`; or NULL */
    double      begin, end;      /* seconds since the trace began */
    uint64_t    value;           /* bytes moved, or the counter's value */
    int         track;  /* SPAN: none, the event overlaps others */
} event;

enum { SPAN = -1 };

struct weir_trace {
    WEIR_VEC(event) events;
    uint64_t lost;
    double   origin;
};

double weir_now(void)
{
    struct timespec t;
    weir_env_get()->clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

weir_trace *weir_trace_new(double origin)
{
    weir_trace *t = weir_mem_zalloc(1, sizeof *t);
    if (t)
        t->origin = origin;
    return t;
}

void weir_trace_free(weir_trace *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->events.n; i++)
        weir_mem_free(t->events.at[i].text);
    weir_vec_free(&t->events);
    weir_mem_free(t);
}

static void add(weir_trace *t, event e)
{
    if (weir_vec_push(&t->events, e))
        return;
    weir_mem_free(e.text);
    t->lost++;
}

void weir_trace_event(weir_trace *t, const char *name, const char *category, int track,
                      double begin, double end, uint64_t bytes)
{
    add(t, (event){name, category, NULL, begin - t->origin, end - t->origin, bytes, track});
}

void weir_trace_event_text(weir_trace *t, char *text, const char *category, double begin,
                           double end, uint64_t bytes)
{
    add(t, (event){"", category, text, begin - t->origin, end - t->origin, bytes, 0});
}

void weir_trace_span(weir_trace *t, char *text, const char *category, double begin, double end,
                     uint64_t bytes)
{
    add(t, (event){"", category, text, begin - t->origin, end - t->origin, bytes, SPAN});
}

void weir_trace_counter(weir_trace *t, const char *name, double at, uint64_t value)
{
    add(t, (event){name, NULL, NULL, at - t->origin, at - t->origin, value, 0});
}

/* The begin or the end ("b", "e") of an asynchronous event; id pairs them. */
static void span_json(weir_string *s, const event *e, uint32_t id, bool begin)
{
    weir_string_add(s, "{\"name\": \"");
    weir_string_add_json(s, e->text ? e->text : e->name);
    weir_string_add(s, "\", \"cat\": \"");
    weir_string_add_json(s, e->category);
    weir_string_add(s, "\", \"ph\": \"%s\", \"id\": %u, \"pid\": 1, \"tid\": 0, \"ts\": %.3f, "
                    "\"args\": {\"bytes\": %llu}}", begin ? "b" : "e", id,
                    (begin ? e->begin : e->end) * 1e6, (unsigned long long)e->value);
}

/* One JSON object; the format wants microseconds. */
static void event_json(weir_string *s, const event *e)
{
    weir_string_add(s, "{\"name\": \"");
    weir_string_add_json(s, e->text ? e->text : e->name);
    weir_string_add(s, "\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, ", e->track, e->begin * 1e6);
    if (!e->category) {
        weir_string_add(s, "\"ph\": \"C\", \"args\": {\"value\": %llu}}",
                        (unsigned long long)e->value);
        return;
    }
    weir_string_add(s, "\"ph\": \"X\", \"cat\": \"");
    weir_string_add_json(s, e->category);
    weir_string_add(s, "\", \"dur\": %.3f, \"args\": {\"bytes\": %llu}}", (e->end - e->begin) * 1e6,
                    (unsigned long long)e->value);
}

char *weir_trace_json(const weir_trace *t)
{
    weir_string s = {0};
    weir_string_add(&s, "{\"traceEvents\": [\n"
                    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 0, \"args\": "
                    "{\"name\": \"weir\"}},\n"
                    "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 0, \"args\": "
                    "{\"name\": \"operations\"}}");
    for (uint32_t i = 0; i < t->events.n; i++) {
        const event *const e = &t->events.at[i];
        weir_string_add(&s, ",\n");
        if (e->track == SPAN) {
            span_json(&s, e, i, true);
            weir_string_add(&s, ",\n");
            span_json(&s, e, i, false);
        } else {
            event_json(&s, e);
        }
    }
    weir_string_add(&s, "\n], \"otherData\": {\"lost_events\": %llu}}\n",
                    (unsigned long long)t->lost);
    return weir_string_take(&s);
}
