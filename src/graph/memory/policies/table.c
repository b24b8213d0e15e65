/* table.c - finds policies by name in the table made from policies.def. */
#include "graph/memory/policies/table.h"

#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "weir/plan.h"

#define ROW(name, variants, slow, link, ...) {#name, variants, weir_policy_##name, slow, link},
static const weir_policy policies[] = {WEIR_POLICIES(ROW)};

const weir_policy *weir_policies(size_t *n)
{
    *n = sizeof policies / sizeof *policies;
    return policies;
}

char *weir_policy_names(void)
{
    weir_string s = {0};

    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        weir_string_add(&s, "%s%s%s\n", policies[i].name, *policies[i].variants ? " " : "",
                        policies[i].variants);
    return weir_string_take(&s);
}

static weir_status no_such(const char *name)
{
    weir_string names = {0};

    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        weir_string_add(&names, "%s%s", i ? ", " : "", policies[i].name);
    char *const       all = weir_string_take(&names);
    const weir_status status = all ? weir_fail_unknown("unknown policy", name, strlen(name), all)
                                   : WEIR_ERR_NOMEM;
    weir_mem_free(all);
    return status;
}

weir_status weir_policy_find(const char *text, const weir_policy **policy, const char **variant)
{
    const char  *name = text ? text : "auto";
    const size_t n = strcspn(name, ":/");

    *variant = name + n + (name[n] == ':');
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        *policy = &policies[i];
        if (strlen(policies[i].name) != n || strncmp(policies[i].name, name, n) != 0)
            continue;
        if (**variant && **variant != '/' && !*policies[i].variants)
            return weir_fail(WEIR_ERR_INVALID, "unknown policy '%s' (%s has no variants)", name,
                             policies[i].name);
        return WEIR_OK;
    }
    return no_such(name);
}
