/* status.c - the calling thread's last failure, in a static buffer: failing never allocates. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* poisoning: the last that poisoned a recording. old: it happened before the recording began. */
static _Thread_local weir_failure last, poisoning;
static _Thread_local uint64_t     n_poisoned;

weir_status weir_fail(weir_status s, const char *format, ...)
{
    /* Formatted to a local buffer first: an argument may be the previous sentence itself. */
    char text[sizeof last.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last.text, text, sizeof text);
    last.status = s;
    last.old = false;
    return s;
}

weir_status weir_fail_inside(const char *path, weir_status s)
{
    const size_t n = strlen(path);

    if (n == 0 || (strncmp(last.text, path, n) == 0 && last.text[n] == '/'))
        return s;
    return weir_fail(s, "%s/%s", path, last.text);
}

void weir_error_clear(void)
{
    last.status = WEIR_OK;
    last.text[0] = '\0';
}

void weir_failures_are_old(void)
{
    last.old = true;
}

void weir_failure_get(weir_failure *f)
{
    *f = last;
}

void weir_failure_set(const weir_failure *f)
{
    last = *f;
}

weir_status weir_fail_null(const char *function, const char *argument)
{
    if (last.status != WEIR_OK && last.old)
        return weir_fail(last.status, "%s: %s is NULL; the last failure, before the graph: %s",
                         function, argument, last.text);
    if (last.status != WEIR_OK)
        return last.status;
    return weir_fail(WEIR_ERR_INVALID, "%s: %s is NULL", function, argument);
}

weir_status weir_poison(weir_status s)
{
    poisoning = last;
    poisoning.status = s;
    n_poisoned++;
    return s;
}

weir_poison_mark weir_poison_mark_now(void)
{
    return (weir_poison_mark){&n_poisoned, n_poisoned};
}

weir_status weir_poisoned_since(const weir_poison_mark *then)
{
    if (then->thread != &n_poisoned || then->n == n_poisoned)
        return WEIR_OK;
    last = poisoning;
    return last.status;
}

weir_status weir_fail_unknown(const char *what, const char *name, size_t n, const char *names)
{
    const char *end = NULL;

    for (const char *at = strstr(names, ", "); at; at = strstr(at + 2, ", "))
        end = at;
    if (!end)
        return weir_fail(WEIR_ERR_INVALID, "%s '%.*s' (expected %s)", what, (int)n, name, names);
    return weir_fail(WEIR_ERR_INVALID, "%s '%.*s' (expected %.*s or %s)", what, (int)n, name,
                     (int)(end - names), names, end + 2);
}

const char *weir_error(void)
{
    return last.text;
}

weir_status weir_error_status(void)
{
    return last.status;
}

const char *weir_status_text(weir_status s)
{
    static const char *const text[] = {
#define STATUS_TEXT(name, meaning) [WEIR_##name] = meaning,
        WEIR_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    };
    return (size_t)s < sizeof text / sizeof *text ? text[s] : "unknown status";
}

#define QUOTE_(x) #x
#define QUOTE(x)  QUOTE_(x)

const char *weir_version(void)
{
    return QUOTE(WEIR_VERSION_MAJOR) "." QUOTE(WEIR_VERSION_MINOR) "." QUOTE(WEIR_VERSION_PATCH);
}
