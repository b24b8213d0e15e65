/* touched.c - what calls read and write. See touched.h. */
#include "graph/ir/touched.h"

#include <string.h>

#include "core/attr.h"
#include "core/mem.h"

bool weir_touched_open(weir_touched *t, uint32_t storages)
{
    *t = (weir_touched){.storages = storages, .read = weir_mem_zalloc(storages + 1u, 1),
                        .written = weir_mem_zalloc(storages + 1u, 1)};
    return t->read && t->written;
}

void weir_touched_close(weir_touched *t)
{
    weir_mem_free(t->read);
    weir_mem_free(t->written);
}

void weir_touched_clear(weir_touched *t)
{
    memset(t->read, 0, t->storages);
    memset(t->written, 0, t->storages);
    t->caller = t->spill = false;
}

static bool is_spill(const weir_node *n)
{
    return weir_spill_attr_of(n->op, n->attr) != NULL;
}

/* Does the call write its input k? A transfer goes on after its call, so it counts as written. */
static bool writes_input(const weir_node *n, int k)
{
    return is_spill(n) || (k < 32 && (n->def->mutates >> k & 1));
}

void weir_touched_operands(weir_touched *t, const weir_graph *g, const weir_node *n)
{
    for (int k = 0; k < n->nin; k++)
        (writes_input(n, k) ? t->written : t->read)[weir_storage_of(g, n->in[k])] = true;
    for (int k = 0; k < n->nout; k++)
        t->written[weir_storage_of(g, n->out[k])] = true;
}

void weir_touched_call(weir_touched *t, const weir_graph *g, const weir_node *n)
{
    t->caller |= (n->def->flags & WEIR_CALLER) != 0;
    t->spill |= is_spill(n);
    weir_touched_operands(t, g, n);
}

bool weir_touched_before(const weir_touched *t, const weir_graph *g, const weir_node *n)
{
    if ((n->def->flags & WEIR_CALLER && t->caller) || (is_spill(n) && t->spill))
        return true;
    for (int k = 0; k < n->nin; k++) {
        const uint32_t at = weir_storage_of(g, n->in[k]);
        if (t->written[at] || (t->read[at] && writes_input(n, k)))
            return true;
    }
    for (int k = 0; k < n->nout; k++) {
        const uint32_t at = weir_storage_of(g, n->out[k]);
        if (t->written[at] || t->read[at])
            return true;
    }
    return false;
}
