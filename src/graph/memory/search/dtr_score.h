/* dtr_score.h - scores of dynamic tensor rematerialization, in plain numbers: how little it would
 * cost to evict a tensor and recompute it. The smallest score is evicted first. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H

#include <stdbool.h>

typedef enum weir_dtr_rule {
    WEIR_DTR, WEIR_DTR_EQ, WEIR_DTR_LOCAL, WEIR_DTR_LRU, WEIR_DTR_SIZE, WEIR_DTR_MSPS,
    WEIR_DTR_RULES
} weir_dtr_rule;

/* Whose cost counts as `nearby`: what would be recomputed together with the tensor. */
typedef enum weir_dtr_reach {
    WEIR_DTR_ALONE,         /* no other tensor's */
    WEIR_DTR_ABOVE,         /* evicted ancestors, through evicted ones only */
    WEIR_DTR_AROUND,        /* evicted ancestors and descendants: e* */
    WEIR_DTR_CLASS /* evicted tensors connected to it, as a union-find keeps them: cheaper to
                    * compute, and never smaller than e* */
} weir_dtr_reach;

typedef struct weir_dtr_item {
    double cost;            /* seconds of the op that makes it */
    double nearby;          /* seconds, of what the rule reaches */
    double bytes;           /* > 0 */
    double idle;            /* seconds since it was last used, > 0 */
} weir_dtr_item;

/* The rule of a name: "dtr", "dtr:eq", "dtr:local", "dtr:lru", "dtr:size", "dtr:msps". */
bool        weir_dtr_rule_named(const char *name, weir_dtr_rule *rule);
const char *weir_dtr_rule_name(weir_dtr_rule rule);

weir_dtr_reach weir_dtr_reach_of(weir_dtr_rule rule);
double         weir_dtr_score(weir_dtr_rule rule, const weir_dtr_item *i);

#endif
