/* actnn.c - what waits from the forward to the backward pass waits quantised, as far as nothing
 * shorter keeps all of it (Chen et al., "ActNN", ICML 2021). Results are about those without it.
 *
 * The variant is the number of bits. The decisions are gist's: packs.c knows more packed forms
 * while this policy plans. The budget has no influence; it is met or it is not. */
#include <string.h>

#include "core/status.h"
#include "graph/policy/policy.h"

weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits)
{
    static const struct { const char *name; uint32_t bits; } variants[] = {
        {"", 4}, {"2", 2}, {"4", 4}, {"8", 8}, {"16", 16}};

    *bits = 0;
    if (policy->plan != weir_policy_actnn)
        return WEIR_OK;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && *bits == 0; i++)
        if (strcmp(variant, variants[i].name) == 0)
            *bits = variants[i].bits;
    return *bits ? WEIR_OK
                 : weir_fail(WEIR_ERR_INVALID, "policy actnn: '%s' is no number of bits; there are "
                             "2, 4, 8, 16", variant);
}

weir_status weir_policy_actnn(weir_policy_job *job)
{
    const weir_policy self = {.plan = weir_policy_actnn};
    uint32_t          bits;

    WEIR_TRY(weir_policy_lossy(&self, job->variant, &bits));
    return weir_policy_gist(job);
}
