/* amount.c - reads amounts of memory: "512MB", "0.5GiB", "75%". */
#include "graph/memory/budget/amount.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "weir/graph.h"

weir_status weir_budget_parse(const char *text, size_t whole, size_t *bytes)
{
    char  *end = NULL;
    double value = text ? strtod(text, &end) : 0;

    if (text && strcmp(text, "auto") == 0)
        return weir_fail(WEIR_ERR_INVALID, "budget 'auto': is only known for a device; a number of "
                                           "bytes is needed here");
    if (!text || end == text || !isfinite(value) || value < 0 || strpbrk(text, "xXpP"))
        return weir_fail(WEIR_ERR_INVALID, "budget '%s': must be a number of bytes such as "
                         "\"512MB\", \"0.5GiB\" or \"75%%\"", text ? text : "(null)");
    end += strspn(end, " ");
    const bool   share = strcmp(end, "%") == 0;
    const double unit = share ? (double)whole : weir_unit_bytes(end);
    if (unit < 0)
        return weir_fail(WEIR_ERR_INVALID, "budget '%s': unknown unit '%s' (expected B, kB, MB, "
                         "GB, TB, KiB, MiB, GiB, TiB or %%)", text, end);
    const double all = share ? value * unit / 100 : value * unit;   /* 100 % is exactly `whole` */
    if (all >= 0x1p63)
        return weir_fail(WEIR_ERR_INVALID, "budget '%s' is larger than an address can count", text);
    *bytes = (size_t)all;
    return WEIR_OK;
}

weir_status weir_bytes(const char *text, size_t *bytes)
{
    if (!bytes)
        return weir_fail_null("weir_bytes", "bytes");
    if (text && strchr(text, '%'))
        return weir_fail(WEIR_ERR_INVALID, "weir_bytes: '%s' is a percentage, but a number of "
                                           "bytes is needed", text);
    return weir_budget_parse(text, 0, bytes);
}
