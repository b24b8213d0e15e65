/* dtr_score.h - eviction scores of Dynamic Tensor Rematerialization (Kirisame and others, ICLR
 * 2021): the tensor with the smallest score is evicted first. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SCORE_H

#include <stdbool.h>

typedef enum weir_dtr_rule {
    WEIR_DTR, WEIR_DTR_EQ, WEIR_DTR_LOCAL, WEIR_DTR_LRU, WEIR_DTR_SIZE, WEIR_DTR_MSPS,
    WEIR_DTR_RULES
} weir_dtr_rule;

/* The evicted tensors whose recomputation cost counts as `nearby`. */
typedef enum weir_dtr_reach {
    WEIR_DTR_ALONE,         /* none */
    WEIR_DTR_ABOVE,         /* evicted ancestors, reached through evicted tensors only */
    WEIR_DTR_AROUND,        /* evicted ancestors and descendants: e* in the paper */
    WEIR_DTR_CLASS          /* the union-find classes of evicted tensors that it touches: faster to
                             * compute, at least e* */
} weir_dtr_reach;

typedef struct weir_dtr_item {
    double cost;            /* seconds of its producer */
    double nearby;          /* seconds of the tensors that the rule's reach includes */
    double bytes;           /* > 0 */
    double idle;            /* seconds since its last use; > 0 */
} weir_dtr_item;

/* Finds the rule of a name: "dtr", "dtr:eq", "dtr:local", "dtr:lru", "dtr:size", "dtr:msps".
 * Returns false if no rule has that name. */
bool        weir_dtr_rule_named(const char *name, weir_dtr_rule *rule);
const char *weir_dtr_rule_name(weir_dtr_rule rule);

/* Return what a rule adds to a tensor's cost, and the score of a tensor by a rule. */
weir_dtr_reach weir_dtr_reach_of(weir_dtr_rule rule);
double         weir_dtr_score(weir_dtr_rule rule, const weir_dtr_item *i);

#endif
