/* dtr_score.h - how little it would cost to let a value go and make it anew: the rules of DTR, in
 * plain numbers. The smallest score goes first. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H

#include <stdbool.h>

typedef enum weir_dtr_rule {
    WEIR_DTR, WEIR_DTR_EQ, WEIR_DTR_LOCAL, WEIR_DTR_LRU, WEIR_DTR_SIZE, WEIR_DTR_MSPS,
    WEIR_DTR_RULES
} weir_dtr_rule;

/* Whose cost is `nearby`: what would have to be made, or will be made, together with the value. */
typedef enum weir_dtr_reach {
    WEIR_DTR_ALONE,         /* nobody's */
    WEIR_DTR_ABOVE,         /* values gone that it is made from, by way of values gone */
    WEIR_DTR_AROUND,        /* those, and values gone that are made from it: e* */
    WEIR_DTR_CLASS          /* values gone that touch it or each other, as a union-find keeps them:
                             * cheaper, and never smaller than e* */
} weir_dtr_reach;

typedef struct weir_dtr_item {
    double cost;            /* seconds of the call that makes it */
    double nearby;          /* seconds, as far as the rule reaches */
    double bytes;           /* > 0 */
    double idle;            /* seconds since it was last used, > 0 */
} weir_dtr_item;

/* The rule of a name: "dtr", "dtr:eq", "dtr:local", "dtr:lru", "dtr:size", "dtr:msps". */
bool        weir_dtr_rule_named(const char *name, weir_dtr_rule *rule);
const char *weir_dtr_rule_name(weir_dtr_rule rule);

weir_dtr_reach weir_dtr_reach_of(weir_dtr_rule rule);
double         weir_dtr_score(weir_dtr_rule rule, const weir_dtr_item *i);

#endif
