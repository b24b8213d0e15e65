/* status.c - tests of the thread's last failure. */
#include "core/status.h"

#include <pthread.h>

#include "check.h"
#include "core/mem.h"

CASE(remembers)
{
    CHECK_STATUS(weir_fail(WEIR_ERR_SHAPE, "matmul: %d and %d", 3, 4), WEIR_ERR_SHAPE);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "matmul: 3 and 4");
    const void *p = WEIR_FAIL_NULL(WEIR_ERR_STATE, "once more");
    CHECK(p == NULL);
    CHECK_TEXT(weir_error(), "once more");
}

CASE(wraps_itself_and_long_text)
{
    const uint64_t calls = weir_mem_calls();
    weir_fail(WEIR_ERR_IO, "inner");
    weir_fail(WEIR_ERR_IO, "outer: %s", weir_error());
    CHECK(strcmp(weir_error(), "outer: inner") == 0);
    weir_fail(WEIR_ERR_IO, "%5000d", 1);
    CHECK(strlen(weir_error()) > 100);
    CHECK(weir_mem_calls() == calls);
}

static void *on_other_thread(void *out)
{
    const bool clean = weir_error_status() == WEIR_OK && strcmp(weir_error(), "") == 0;
    const weir_status s = weir_fail_null("weir_relu", "x");
    *(bool *)out = clean && s == WEIR_ERR_INVALID && strstr(weir_error(), "weir_relu: x is NULL");
    return NULL;
}

CASE(each_thread_its_own)
{
    bool      good = false;
    pthread_t thread;
    weir_fail(WEIR_ERR_DTYPE, "mine");
    CHECK_OR_RETURN(pthread_create(&thread, NULL, on_other_thread, &good) == 0);
    pthread_join(thread, NULL);
    CHECK(good);
    CHECK_TEXT(weir_error(), "mine");
}

CASE(null_keeps_the_first_mistake)
{
    weir_fail(WEIR_ERR_DTYPE, "the first mistake");
    CHECK_STATUS(weir_fail_null("weir_relu", "x"), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "the first mistake");
}

CASE(forgets_a_handled_failure)
{
    weir_fail(WEIR_ERR_IO, "handled");
    weir_error_clear();
    CHECK_STATUS(weir_error_status(), WEIR_OK);
    CHECK(strcmp(weir_error(), "") == 0);
    CHECK_STATUS(weir_fail_null("weir_relu", "x"), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "weir_relu: x is NULL");
}

CASE(null_in_a_recording_names_itself_and_an_older_failure)
{
    weir_fail(WEIR_ERR_IO, "no such file");
    weir_failures_are_old();
    CHECK_STATUS(weir_fail_null("weir_keep", "the tensor"), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "weir_keep: the tensor is NULL; the last failure, before the graph: "
                             "no such file");
    CHECK_STATUS(weir_fail_null("weir_relu", "x"), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "weir_keep: the tensor is NULL");
}

CASE(static_texts)
{
    CHECK_TEXT(weir_status_text(WEIR_OK), "no error");
    CHECK_TEXT(weir_status_text(WEIR_ERR_IO), "file");
    CHECK_TEXT(weir_status_text((weir_status)1000), "unknown");
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
             WEIR_VERSION_PATCH);
    CHECK(strcmp(weir_version(), version) == 0);
    weir_text_free(NULL);
}
