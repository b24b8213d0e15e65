/* collectives_check.c - verifies that a plan leaves alone what a collective under way uses: its
 * input, which other ranks may still read, its result and its window.
 *
 * The check knows the finished list and its addresses only, not how they were found. */
#include "core/attr.h"
#include "core/status.h"
#include "device/collective.h"
#include "graph/plan/plan.h"

/* Bytes [lo, hi) of a space: 0, the arena; storage + 1, an external storage. */
typedef struct byte_range {
    uint32_t space;
    size_t   lo, hi;
} byte_range;

static byte_range of_item(const weir_plan *p, uint32_t item)
{
    const weir_item *const it = &p->items.at[item];

    return (byte_range){0, it->offset, it->offset + it->bytes};
}

static byte_range of_operand(const weir_plan *p, const weir_operand *o)
{
    return o->external ? (byte_range){o->storage + 1, 0, SIZE_MAX}
                       : of_item(p, p->item_of[o->storage]);
}

static bool meet(byte_range a, byte_range b)
{
    return a.space == b.space && a.lo < b.hi && b.lo < a.hi;
}

static bool writes(const weir_instr *ins, int k)
{
    return k >= ins->call.nin || weir_spill_attr_of(ins->call.op, ins->call.attr) ||
           (k < 32 && (ins->call.def->mutates >> k & 1));
}

/* Does the instruction access bytes that the collective `start` uses, other than to read what both
 * read? */
static bool disturbs(const weir_plan *p, const weir_instr *ins, const weir_instr *start)
{
    const byte_range in = of_operand(p, &start->in[0]), out = of_operand(p, &start->out[0]);
    const bool       window = start->kernel->work > 0;
    const byte_range work = window ? of_item(p, start->work_item) : (byte_range){0};

    for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
        const byte_range b = of_operand(p, &ins->in[k]);
        if (meet(b, out) || (window && meet(b, work)) || (writes(ins, k) && meet(b, in)))
            return true;
    }
    if (ins->kernel->work == 0)
        return false;
    const byte_range own = of_item(p, ins->work_item);
    return meet(own, in) || meet(own, out) || (window && meet(own, work));
}

static uint64_t comm_of(const weir_instr *ins)
{
    return ((const weir_collective_attr *)ins->call.attr)->comm;
}

static bool is_wait_for(const weir_instr *ins, const weir_instr *start)
{
    return ins->call.op == WEIR_OP_ALL_REDUCE_WAIT &&
           ins->in[0].storage == start->out[0].storage && comm_of(ins) == comm_of(start);
}

/* The wait of the collective that instruction i starts; p->n: nothing waits for it. */
static uint32_t wait_of(const weir_plan *p, uint32_t i)
{
    uint32_t k = i + 1;

    while (k < p->n && !is_wait_for(&p->instr[k], &p->instr[i]))
        k++;
    return k;
}

/* Checks the instructions between start i and its wait, which must be there. */
static weir_status check_one(const weir_plan *p, uint32_t i)
{
    const uint32_t wait = wait_of(p, i);

    if (wait == p->n)
        return weir_fail(WEIR_ERR_STATE, "internal: nothing waits for the collective that "
                         "instruction %u starts", i);
    if (p->halves && i < p->stop && wait >= p->stop)
        return weir_fail(WEIR_ERR_STATE, "internal: the collective that instruction %u starts is "
                         "awaited in the other half", i);
    for (uint32_t k = i + 1; k < wait; k++) {
        const weir_instr *const ins = &p->instr[k];
        if (ins->call.op == WEIR_OP_ALL_REDUCE_START && comm_of(ins) == comm_of(&p->instr[i]) &&
            wait_of(p, k) < wait)
            return weir_fail(WEIR_ERR_STATE, "internal: the collective that instruction %u starts "
                             "is awaited before that of instruction %u", k, i);
        if (disturbs(p, ins, &p->instr[i]))
            return weir_fail(WEIR_ERR_STATE, "internal: instruction %u, %s, uses memory of the "
                             "collective that instruction %u starts before instruction %u awaits "
                             "it", k, ins->call.def->name, i, wait);
    }
    return WEIR_OK;
}

weir_status weir_plan_check_collectives(const weir_plan *p)
{
    uint32_t starts = 0, waits = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        waits += p->instr[i].call.op == WEIR_OP_ALL_REDUCE_WAIT;
        starts += p->instr[i].call.op == WEIR_OP_ALL_REDUCE_START;
        if (waits > starts)
            return weir_fail(WEIR_ERR_STATE, "internal: instruction %u waits for a collective that "
                             "nothing has started", i);
        if (p->instr[i].call.op == WEIR_OP_ALL_REDUCE_START)
            WEIR_TRY(check_one(p, i));
    }
    return starts == waits ? WEIR_OK
                           : weir_fail(WEIR_ERR_STATE, "internal: %u collectives are started and "
                                       "%u awaited", starts, waits);
}
