/* control.c - If, Loop and Scan: subgraphs that are recorded as often as they run.
 *
 * A condition and a number of turns must be known while the model is recorded, so that the graph is
 * the turns one after the other. */
#include <inttypes.h>

#include "model/onnx/op/ops.h"

enum { TURNS = 20000 }; /* the most that are recorded */

static const weir_onnx_graph *body_of(const weir_onnx_call *c, const char *name)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);
    return a ? a->g : NULL;
}

weir_status weir_onnx_if_else(weir_onnx_call *c)
{
    double on;

    WEIR_TRY(weir_onnx_number(c, 0, &on));
    const weir_onnx_graph *const g = body_of(c, on != 0 ? "then_branch" : "else_branch");
    if (!g || g->n_out != c->node->n_out)
        return weir_onnx_refuse(c, "a branch is missing, or has another number of outputs");
    WEIR_TRY(weir_onnx_run_body(c, g));
    for (size_t i = 0; i < g->n_out; i++)
        WEIR_TRY(weir_onnx_assign(c, c->node->out[i], g->out[i].slot));
    return WEIR_OK;
}

/* ---- what turns give, one below the other ---- */

/* Results of n turns for each of `count` outputs. */
typedef struct gathered {
    weir_tensor **at; /* [count * n], retained */
    size_t        count, n;
} gathered;

static weir_status gathered_new(gathered *r, size_t count, size_t n)
{
    *r = (gathered){.at = weir_host_alloc(count * n * sizeof *r->at + 1), .count = count, .n = n};
    return r->at ? WEIR_OK : weir_error_status();
}

static void gathered_free(gathered *r)
{
    for (size_t i = 0; r->at && i < r->count * r->n; i++)
        weir_release(r->at[i]);
    weir_host_free((void *)r->at);
}

/* The value of a slot as a tensor on the model's device; borrowed or of the scope. */
static weir_tensor *tensor_of(weir_onnx_call *c, uint32_t slot)
{
    const weir_onnx_value *const v = &c->m->value[slot];

    if (v->t)
        return v->t;
    return v->known ? weir_onnx_constant(c, v->desc, v->known) : NULL;
}

static weir_status gathered_put(weir_onnx_call *c, gathered *r, size_t which, size_t turn,
                                uint32_t slot, int axis)
{
    weir_tensor *const t = tensor_of(c, slot);
    weir_tensor *const row = t ? weir_unsqueeze(t, axis) : NULL;

    r->at[which * r->n + turn] = row ? weir_retain(row) : NULL;
    return r->at[which * r->n + turn] ? WEIR_OK : weir_error_status();
}

static weir_status gathered_give(weir_onnx_call *c, const gathered *r, size_t which, size_t turns,
                                 uint32_t to, int axis)
{
    if (turns == 0 && c->m->last[to] == 0)
        return WEIR_OK;
    if (turns == 0)
        return weir_onnx_refuse(c, "no turn, so that its outputs have no shape");
    weir_tensor **const list = &r->at[which * r->n];
    return weir_onnx_set(c, to, turns == 1 ? list[0] : weir_concat((int)turns, list, axis));
}

/* ---- loops ---- */

static weir_status know(weir_onnx_call *c, uint32_t slot, weir_dtype type, int64_t v)
{
    weir_onnx_value *const at = &c->m->value[slot];

    WEIR_TRY(weir_onnx_free_slot(c, slot));
    weir_onnx_drop(at);
    *at = (weir_onnx_value){
        .known = weir_host_alloc(8), .own_known = true, .desc = weir_scalar(type)};
    if (!at->known)
        return weir_error_status();
    if (type == WEIR_I64)
        *(int64_t *)at->known = v;
    else
        *(uint8_t *)at->known = v != 0;
    return WEIR_OK;
}

/* The condition that a turn leaves. */
static weir_status condition(weir_onnx_call *c, uint32_t slot, bool *on)
{
    const weir_onnx_value *const v = &c->m->value[slot];

    if (!v->known || v->desc.dtype != WEIR_BOOL)
        return weir_onnx_refuse(c, "the condition depends on data: it must be known when the model "
                                   "is recorded");
    *on = *(const uint8_t *)v->known != 0;
    return WEIR_OK;
}

/* Turns of the body until the count or the condition ends them; *turn: their number. */
static weir_status run_loop(weir_onnx_call *c, const weir_onnx_graph *g, size_t most,
                            size_t carried, gathered *r, size_t *turn)
{
    bool   on = true;
    double first = 1;

    if (weir_onnx_has(c, 1))
        WEIR_TRY(weir_onnx_number(c, 1, &first));
    for (size_t i = 0; i < carried; i++)
        WEIR_TRY(weir_onnx_assign(c, g->in[2 + i].slot, c->node->in[2 + i]));
    for (*turn = 0, on = first != 0; on && *turn < most; ++*turn) {
        WEIR_TRY(know(c, g->in[0].slot, WEIR_I64, (int64_t)*turn));
        WEIR_TRY(know(c, g->in[1].slot, WEIR_BOOL, 1));
        WEIR_TRY(weir_onnx_run_body(c, g));
        for (size_t i = 0; i < r->count; i++)
            WEIR_TRY(gathered_put(c, r, i, *turn, g->out[1 + carried + i].slot, 0));
        WEIR_TRY(condition(c, g->out[0].slot, &on));
        for (size_t i = 0; i < carried; i++)
            WEIR_TRY(weir_onnx_assign(c, c->node->out[i], g->out[1 + i].slot));
        for (size_t i = 0; i < carried; i++)
            WEIR_TRY(weir_onnx_assign(c, g->in[2 + i].slot, c->node->out[i]));
    }
    for (size_t i = 0; *turn == 0 && i < carried; i++)
        WEIR_TRY(weir_onnx_assign(c, c->node->out[i], c->node->in[2 + i]));
    return WEIR_OK;
}

weir_status weir_onnx_loop(weir_onnx_call *c)
{
    const weir_onnx_graph *const g = body_of(c, "body");
    const size_t                 carried = c->node->n_in > 2 ? c->node->n_in - 2 : 0;
    double                       count = TURNS;
    size_t                       turns = 0;
    gathered                     r;

    if (!g || g->n_in != carried + 2 || g->n_out < carried + 1 || c->node->n_out != g->n_out - 1)
        return weir_onnx_refuse(c, "the body does not fit the inputs and outputs");
    if (weir_onnx_has(c, 0))
        WEIR_TRY(weir_onnx_number(c, 0, &count));
    count = count < 0 ? 0 : count;
    if (!(count <= TURNS))
        return weir_onnx_refuse(c, "%g turns; up to %d are recorded", count, TURNS);
    for (size_t i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] == WEIR_ONNX_ABSENT && i < carried)
            return weir_onnx_refuse(c, "output %zu has no name", i);
    WEIR_TRY(gathered_new(&r, g->n_out - 1 - carried, weir_onnx_has(c, 0) ? (size_t)count : 1024));
    weir_status s = run_loop(c, g, weir_onnx_has(c, 0) ? (size_t)count : 1024, carried, &r, &turns);
    for (size_t i = 0; i < r.count && s == WEIR_OK; i++)
        if (weir_onnx_wants(c, carried + i))
            s = gathered_give(c, &r, i, turns, c->node->out[carried + i], 0);
    gathered_free(&r);
    return s;
}

/* ---- scans ---- */

static int64_t number_at(const weir_onnx_call *c, const char *name, size_t i)
{
    const int64_t *at;
    return i < weir_onnx_ints(c, name, &at) ? at[i] : 0;
}

typedef struct scan {
    const weir_onnx_graph *g;
    size_t                 states, inputs, outputs;
    int64_t                turns;
} scan;

/* Row `turn` of scan input i, without that axis. */
static weir_status set_row(weir_onnx_call *c, const scan *s, size_t i, int64_t turn)
{
    weir_tensor *const x = weir_onnx_x(c, s->states + i);
    int                axis;

    if (!x)
        return weir_error_status();
    WEIR_TRY(
        weir_onnx_axis(c, number_at(c, "scan_input_axes", i), weir_tensor_desc(x).ndim, &axis));
    if (number_at(c, "scan_input_directions", i))
        turn = s->turns - 1 - turn;
    weir_tensor *const row = weir_narrow(x, axis, turn, 1);
    return weir_onnx_set(c, s->g->in[s->states + i].slot, row ? weir_squeeze(row, axis) : NULL);
}

static weir_status run_scan(weir_onnx_call *c, const scan *s, gathered *r)
{
    for (size_t i = 0; i < s->states; i++)
        WEIR_TRY(weir_onnx_assign(c, s->g->in[i].slot, c->node->in[i]));
    for (int64_t turn = 0; turn < s->turns; turn++) {
        for (size_t i = 0; i < s->inputs; i++)
            WEIR_TRY(set_row(c, s, i, turn));
        WEIR_TRY(weir_onnx_run_body(c, s->g));
        for (size_t i = 0; i < s->outputs; i++) {
            const bool    back = number_at(c, "scan_output_directions", i) != 0;
            const int64_t axis = number_at(c, "scan_output_axes", i);
            const size_t  at = (size_t)(back ? s->turns - 1 - turn : turn);
            WEIR_TRY(gathered_put(c, r, i, at, s->g->out[s->states + i].slot, (int)axis));
        }
        for (size_t i = 0; i < s->states; i++)
            WEIR_TRY(weir_onnx_assign(c, c->node->out[i], s->g->out[i].slot));
        for (size_t i = 0; i < s->states; i++)
            WEIR_TRY(weir_onnx_assign(c, s->g->in[i].slot, c->node->out[i]));
    }
    return WEIR_OK;
}

weir_status weir_onnx_scan(weir_onnx_call *c)
{
    const int64_t inputs = weir_onnx_int(c, "num_scan_inputs", 0);
    scan          s = {.g = body_of(c, "body"), .inputs = (size_t)inputs};
    gathered      r;
    int           axis;

    if (!s.g || inputs < 1 || (size_t)inputs > c->node->n_in || s.g->n_in != c->node->n_in ||
        s.g->n_out != c->node->n_out || s.g->n_out < c->node->n_in - (size_t)inputs)
        return weir_onnx_refuse(c, "the body does not fit the inputs and outputs");
    s.states = c->node->n_in - s.inputs;
    s.outputs = s.g->n_out - s.states;
    for (size_t i = 0; i < s.states; i++)
        if (c->node->out[i] == WEIR_ONNX_ABSENT)
            return weir_onnx_refuse(c, "output %zu has no name", i);
    const weir_desc d = weir_onnx_desc_of(c, s.states);
    WEIR_TRY(weir_onnx_axis(c, number_at(c, "scan_input_axes", 0), d.ndim, &axis));
    s.turns = d.dim[axis];
    if (s.turns < 1 || s.turns > TURNS)
        return weir_onnx_refuse(c, "%" PRId64 " turns; 1 to %d are recorded", s.turns, TURNS);
    WEIR_TRY(gathered_new(&r, s.outputs, (size_t)s.turns));
    weir_status status = run_scan(c, &s, &r);
    for (size_t i = 0; i < s.outputs && status == WEIR_OK; i++)
        if (weir_onnx_wants(c, s.states + i))
            status = gathered_give(c, &r, i, (size_t)s.turns, c->node->out[s.states + i],
                                   (int)number_at(c, "scan_output_axes", i));
    gathered_free(&r);
    return status;
}
