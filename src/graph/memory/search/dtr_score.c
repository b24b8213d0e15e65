/* dtr_score.c - the scores of Dynamic Tensor Rematerialization (Kirisame and others, ICLR 2021) and
 * those that the paper compares them with. c0: seconds to recompute the tensor from its inputs, e*:
 * seconds to recompute its evicted neighborhood, m: bytes, s: staleness in seconds.
 *
 *     dtr        (c0 + e*) / (m s)
 *     dtr:eq     the same, e* estimated by union-find classes
 *     dtr:local  c0 / (m s)
 *     dtr:lru    1 / s                   least recently used
 *     dtr:size   1 / m                   largest first
 *     dtr:msps   (c0 + ancestors) / m    Peng and others, "Capuchin", ASPLOS 2020 */
#include "graph/memory/search/dtr_score.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char    *name;
    weir_dtr_reach reach;
    bool           cost, bytes, idle;       /* factors of the score */
} rules[WEIR_DTR_RULES] = {
    [WEIR_DTR] = {"dtr", WEIR_DTR_AROUND, true, true, true},
    [WEIR_DTR_EQ] = {"dtr:eq", WEIR_DTR_CLASS, true, true, true},
    [WEIR_DTR_LOCAL] = {"dtr:local", WEIR_DTR_ALONE, true, true, true},
    [WEIR_DTR_LRU] = {"dtr:lru", WEIR_DTR_ALONE, false, false, true},
    [WEIR_DTR_SIZE] = {"dtr:size", WEIR_DTR_ALONE, false, true, false},
    [WEIR_DTR_MSPS] = {"dtr:msps", WEIR_DTR_ABOVE, true, true, false},
};

bool weir_dtr_rule_named(const char *name, weir_dtr_rule *rule)
{
    for (size_t i = 0; i < WEIR_DTR_RULES; i++)
        if (strcmp(rules[i].name, name) == 0) {
            *rule = (weir_dtr_rule)i;
            return true;
        }
    return false;
}

const char *weir_dtr_rule_name(weir_dtr_rule rule)
{
    return rules[rule].name;
}

weir_dtr_reach weir_dtr_reach_of(weir_dtr_rule rule)
{
    return rules[rule].reach;
}

double weir_dtr_score(weir_dtr_rule rule, const weir_dtr_item *i)
{
    const double cost = rules[rule].cost ? i->cost + i->nearby : 1;

    return cost / ((rules[rule].bytes ? i->bytes : 1) * (rules[rule].idle ? i->idle : 1));
}
