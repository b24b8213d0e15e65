/* placer.c - keeps the best placement so far and tells when it is low enough. */
#include "graph/placement/placer.h"

#include <string.h>

bool weir_place_done(const weir_placer *p)
{
    return p->best_height <= p->target + p->slack && !p->best_loose;
}

size_t weir_place_unit(const weir_placer *p)
{
    size_t g = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t b = p->item[i].bytes; b > 0;) {
            const size_t r = g % b;
            g = b;
            b = r;
        }
    return g ? g : 1;
}

void weir_place_offer(weir_placer *p, const char *strategy)
{
    size_t height = 0;
    bool   loose = true;

    for (uint32_t i = 0; i < p->n; i++) {
        const size_t end = p->offset[i] + p->item[i].bytes;
        const bool   storage = p->item[i].kind != WEIR_KIND_WORKSPACE;
        loose = end > height ? !storage : loose && !(end == height && storage);
        height = end > height ? end : height;
    }
    if (height < p->best_height || (height == p->best_height && p->best_loose && !loose)) {
        p->best_height = height;
        p->best_loose = loose;
        p->strategy = strategy;
        memcpy(p->best, p->offset, p->n * sizeof *p->best);
    }
}
