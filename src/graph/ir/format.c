/* format.c - names, operands and sums that the texts about a planned graph share. */
#include "graph/ir/format.h"

#include <stdlib.h>
#include <string.h>

/* Persistent kinds are greys and greens of the ground, what the planner moves about stands out. */
const char *const weir_kind_colour[WEIR_KIND_COUNT] = {
    [WEIR_KIND_PARAM] = "#5b6b7b",      [WEIR_KIND_STATE] = "#8fa0b0",
    [WEIR_KIND_INPUT] = "#7fb39b",      [WEIR_KIND_OUTPUT] = "#b9cf94",
    [WEIR_KIND_ACTIVATION] = "#4c86c6", [WEIR_KIND_GRADIENT] = "#ee9440",
    [WEIR_KIND_WORKSPACE] = "#c65b7c",
};

const char *const weir_phase_colour[WEIR_PHASE_COUNT] = {
    [WEIR_FORWARD] = "#d6e6f7", [WEIR_BACKWARD] = "#fce3c8", [WEIR_UPDATES] = "#e2d5f0"};

void weir_format_op(weir_string *s, const weir_call *c, const char *plus)
{
    if (c->op != WEIR_OP_FUSED) {
        weir_string_add(s, "%s", weir_opdefs[c->op]->name);
        return;
    }
    const weir_ew_program *p = c->attr;
    for (int64_t i = 0; i < p->nstep; i++)
        weir_string_add(s, "%s%s", i ? plus : "", weir_opdefs[p->step[i].op]->name);
}

void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage)
{
    static const char letter[WEIR_KIND_COUNT] = {
        [WEIR_KIND_PARAM] = 'p',      [WEIR_KIND_STATE] = 's',    [WEIR_KIND_INPUT] = 'i',
        [WEIR_KIND_OUTPUT] = 'o',     [WEIR_KIND_ACTIVATION] = 't', [WEIR_KIND_GRADIENT] = 't',
        [WEIR_KIND_WORKSPACE] = 't'};

    weir_string_add(s, "%c%u", letter[g->storages.at[storage].kind], storage);
}

void weir_format_layout(weir_string *s, const weir_layout *l)
{
    char text[WEIR_DESC_TEXT];

    weir_string_add(s, "%s", weir_desc_text(&l->desc, text));
    if (weir_shape_is_dense(l))
        return;
    for (int i = 0; i < l->desc.ndim; i++)
        weir_string_add(s, "%c%lld", i ? ',' : '[', (long long)l->stride[i]);
    weir_string_add(s, "]");
}

void weir_format_pad(weir_string *s, size_t start, int width)
{
    const int used = (int)(s->n - start);
    weir_string_add(s, "%*s", used < width ? width - used : 0, "");
}

int weir_instr_inplace_input(const weir_graph *g, uint32_t i, int o)
{
    const weir_instr *ins = &g->plan->instr[i];
    const uint32_t   *item_of = g->plan->item_of;

    if (ins->out[o].external)
        return -1;
    for (int k = 0; k < ins->call.nin; k++)
        if (!ins->in[k].external && item_of[ins->in[k].storage] == item_of[ins->out[o].storage])
            return k;
    return -1;
}

bool weir_call_draws(const weir_call *c)
{
    if (weir_opdefs[c->op]->flags & WEIR_RANDOM)
        return true;
    const weir_ew_program *p = c->op == WEIR_OP_FUSED ? c->attr : NULL;
    for (int64_t i = 0; p && i < p->nstep; i++)
        if (weir_opdefs[p->step[i].op]->flags & WEIR_RANDOM)
            return true;
    return false;
}

/* ---- sums ---- */

static bool same_operation(const weir_instr *a, const weir_instr *b)
{
    if (a->call.op != b->call.op || strcmp(a->kernel->impl, b->kernel->impl) != 0)
        return false;
    if (a->call.op != WEIR_OP_FUSED)
        return true;
    const weir_ew_program *p = a->call.attr, *q = b->call.attr;
    for (int64_t i = 0; i < p->nstep && i < q->nstep; i++)
        if (p->step[i].op != q->step[i].op)
            return false;
    return p->nstep == q->nstep;
}

bool weir_op_sums_of(const weir_plan *p, int (*order)(const void *, const void *),
                     weir_op_sums    *sums)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *ins = &p->instr[i];
        uint32_t          k = 0;
        while (k < sums->n && !same_operation(&p->instr[sums->at[k].instr], ins))
            k++;
        if (k == sums->n && !weir_vec_push(sums, (weir_op_sum){.instr = i}))
            return false;
        sums->at[k].count++;
        sums->at[k].flops += weir_call_flops(&ins->call);
        sums->at[k].bytes += weir_call_bytes(&ins->call);
        sums->at[k].seconds += ins->seconds;
    }
    if (sums->n > 0)
        qsort(sums->at, sums->n, sizeof *sums->at, order);
    return true;
}
