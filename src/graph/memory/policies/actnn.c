/* actnn.c - quantises what waits from the forward to the backward pass, unless a lossless form is
 * shorter (Chen and others, "ActNN: reducing training memory footprint via 2-bit activation
 * compressed training", ICML 2021). The rounding changes results.
 *
 * The variant is the number of bits. The decisions are those of gist; while this policy plans,
 * value_ranges.c offers the rounded forms as well. The limit has no influence on the plan. */
#include "graph/memory/policies/actnn.h"

#include <string.h>

#include "core/status.h"

static weir_status bits_of(const char *text, uint32_t *bits)
{
    static const struct { const char *name; uint32_t bits; } variants[] = {
        {"", 4}, {"2", 2}, {"4", 4}, {"8", 8}, {"16", 16}};

    for (size_t i = 0; i < sizeof variants / sizeof *variants && *bits == 0; i++)
        if (strcmp(text, variants[i].name) == 0)
            *bits = variants[i].bits;
    return *bits ? WEIR_OK
                 : weir_fail(WEIR_ERR_INVALID, "actnn: unknown number of bits '%s' (expected 2, "
                             "4, 8 or 16)", text);
}

weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits)
{
    static const char actnn[] = "actnn";
    const size_t      n = sizeof actnn - 1;
    char              own[WEIR_VARIANT];
    const char *const packing = weir_compress_split(variant, own);

    *bits = 0;
    if (policy->plan == weir_policy_actnn)
        WEIR_TRY(bits_of(own, bits));
    if (!packing || strcmp(packing, "gist") == 0)
        return WEIR_OK;
    if (strncmp(packing, actnn, n) != 0 || (packing[n] != '\0' && packing[n] != ':'))
        return weir_fail(WEIR_ERR_INVALID, "unknown compression '%s' (expected gist, actnn, "
                         "actnn:2, actnn:4, actnn:8 or actnn:16)", packing);
    *bits = 0;
    return bits_of(packing[n] ? packing + n + 1 : packing + n, bits);
}

weir_status weir_policy_actnn(weir_policy_job *job)
{
    const weir_policy self = {.plan = weir_policy_actnn};
    uint32_t          bits;

    WEIR_TRY(weir_policy_lossy(&self, job->variant, &bits));
    return weir_policy_gist(job);
}
