/* text.c - tests of growing strings, JSON escapes and the trace's JSON. */
#include "core/text.h"
#include "check.h"
#include "core/mem.h"
#include "core/trace.h"

CASE(grows)
{
    weir_string s = {0};
    for (int i = 0; i < 500; i++)
        weir_string_add(&s, "%d,", i % 10);
    CHECK(s.n == 1000 && !s.failed);
    char *text = weir_string_take(&s);
    CHECK(text && strlen(text) == 1000 && strncmp(text, "0,1,2,", 6) == 0);
    CHECK(s.at == NULL && s.n == 0);
    weir_mem_free(text);
}

CASE(empty)
{
    weir_string s = {0};
    char       *text = weir_string_take(&s);
    CHECK(text && *text == '\0');
    weir_mem_free(text);
}

static void escapes_to(const char *text, const char *want)
{
    weir_string s = {0};
    weir_string_add_json(&s, text);
    char *got = weir_string_take(&s);
    CHECK(got && strcmp(got, want) == 0);
    weir_mem_free(got);
}

CASE(json_escapes)
{
    escapes_to("plain", "plain");
    escapes_to("a\"b\\c", "a\\\"b\\\\c");
    escapes_to("\n\t\x01", "\\u000a\\u0009\\u0001");
    escapes_to("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    escapes_to("\xff\xc3", "\\ufffd\\ufffd");                   /* no first byte; cut short */
    escapes_to("\xc0\xaf", "\\ufffd\\ufffd");                   /* overlong */
    escapes_to("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd");        /* half a surrogate pair */
    escapes_to("\xe0\x80\x80", "\\ufffd\\ufffd\\ufffd");
}

CASE(short_memory)
{
    weir_string s = {0};
    weir_string_add(&s, "some text");
    weir_mem_fail_nth(0, false);
    weir_string_add(&s, "%1000d", 1);
    CHECK(s.failed && weir_mem_failed());
    weir_string_add(&s, "more");
    CHECK(weir_string_take(&s) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
    CHECK(s.at == NULL && !s.failed);
}

CASE(trace)
{
    weir_trace *t = weir_trace_new(weir_now());
    CHECK_OR_RETURN(t != NULL);
    const double now = weir_now();
    CHECK(weir_now() >= now);
    weir_trace_event(t, "mat\"mul", "op", 2, now, now + 1e-3, 4096);
    weir_trace_counter(t, "live", now, 77);
    char *text = weir_trace_json(t);
    CHECK_TEXT(text, "{\"traceEvents\": [");
    CHECK_TEXT(text, "\"name\": \"mat\\\"mul\"");
    CHECK_TEXT(text, "\"dur\": 1000.000, \"args\": {\"bytes\": 4096}");
    CHECK_TEXT(text, "\"ph\": \"C\", \"args\": {\"value\": 77}");
    CHECK_TEXT(text, "\"lost_events\": 0");
    weir_mem_free(text);
    weir_trace_free(t);
    weir_trace_free(NULL);
}

CASE(trace_counts_lost_events)
{
    weir_trace *t = weir_trace_new(weir_now());
    CHECK_OR_RETURN(t != NULL);
    weir_mem_fail_nth(0, false);
    weir_trace_counter(t, "live", 0, 1);
    char *text = weir_trace_json(t);
    CHECK_TEXT(text, "\"lost_events\": 1");
    weir_mem_free(text);
    weir_trace_free(t);
}
