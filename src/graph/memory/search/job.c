/* job.c - helpers for policies that read a job. */
#include "graph/memory/search/job.h"

#include <string.h>

#include "core/status.h"

const char *weir_compress_split(const char *variant, char own[WEIR_VARIANT])
{
    const size_t n = strcspn(variant, "/");
    const size_t kept = n < WEIR_VARIANT ? n : WEIR_VARIANT - 1;

    memcpy(own, variant, kept);
    own[kept] = '\0';
    return variant[n] ? variant + n + 1 : NULL;
}

uint64_t weir_policy_moves(uint32_t ops)
{
    /* Moves per op, limited so that thousands of ops take seconds. */
    enum { MOVES_PER_OP = 2000, MOST_WORK = 60000000, LEAST_MOVES = 2000 };
    const uint64_t wanted = (uint64_t)MOVES_PER_OP * ops, most = MOST_WORK / (ops + 1u);
    const uint64_t moves = wanted < most ? wanted : most;
    return moves < LEAST_MOVES ? LEAST_MOVES : moves;
}

weir_status weir_policy_needs_link(const weir_mem_problem *p, const char *name)
{
    if (p->link_out > 0 && p->link_in > 0)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "policy '%s' offloads and needs a link speed", name);
}
