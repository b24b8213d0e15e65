/* check.c - replays a plan on a device that tracks only which byte ranges are taken.
 *
 * The checker follows which forms of every tensor are on the device and on the host. A resident
 * tensor has a version: the number of updates (ops without outputs) that have overwritten it. Every
 * run must read the version that the op reads in the problem's order. An update makes the tensor's
 * copies on the host invalid and its other forms on the device stale. */
#include "graph/memory/verify/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/problem/intervals.h"

typedef struct weir_copy {
    bool   device, host;        /* does it exist on the device, on the host? */
    bool   stale;               /* on the device, but made from an older version */
    size_t offset;
} weir_copy;

typedef struct weir_check_state {
    const weir_mem_plan    *a;
    const weir_mem_problem *p;
    weir_intervals          space;
    weir_copy              *copy;     /* [tensors * WEIR_FORM_COUNT] */
    uint32_t               *version;  /* [tensors] */
    /* [refs] for each input of each op: the version that it must read */
    uint32_t               *expected;
    uint8_t                *ran;      /* [ops] */
    uint32_t                first_runs, at; /* at: index of the current step; UINT32_MAX: none */
    size_t                  live;
    weir_check_result       found;
} weir_check_state;

static const char *const form_name[WEIR_FORM_COUNT] = {"", "", ", compressed,", "'s mask"};

static long long tensor_name(const weir_check_state *j, uint32_t tensor)
{
    return j->a->tensor_id ? (long long)j->a->tensor_id[tensor] : (long long)tensor;
}

static long long op_name(const weir_check_state *j, uint32_t op)
{
    return j->a->op_id ? (long long)j->a->op_id[op] : (long long)op;
}

__attribute__((format(printf, 2, 3))) static weir_status wrong(const weir_check_state *j,
                                                               const char             *format, ...)
{
    char    what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (j->at == UINT32_MAX)
        return weir_fail(j->a->status, "%s: %s", j->a->name, what);
    return weir_fail(j->a->status, "%s: action %u: %s", j->a->name, j->at, what);
}

static weir_copy *copy_of(const weir_check_state *j, uint32_t tensor, uint8_t form)
{
    return &j->copy[tensor * WEIR_FORM_COUNT + form];
}

/* ---- bytes ---- */

static weir_status fail_overlap(const weir_check_state *j, size_t offset, size_t bytes)
{
    for (uint32_t k = 0; k < j->p->tensors.n; k++)
        for (uint8_t f = 0; f < WEIR_FORM_COUNT; f++) {
            const weir_copy *c = copy_of(j, k, f);
            const size_t     n = weir_form_bytes(j->p, k, f);
            if (c->device && n && c->offset < offset + bytes && offset < c->offset + n)
                return wrong(j, "bytes %zu to %zu belong to tensor %lld%s at %zu", offset,
                             offset + bytes, tensor_name(j, k), form_name[f], c->offset);
        }
    return wrong(j, "bytes %zu to %zu are already used by this operation", offset, offset + bytes);
}

static weir_status acquire(weir_check_state *j, size_t offset, size_t bytes)
{
    const weir_mem_plan *a = j->a;

    j->live += bytes;
    j->found.live = j->live > j->found.live ? j->live : j->found.live;
    if (!a->addresses)
        return WEIR_OK;
    if (a->align > 1 && offset % a->align)
        return wrong(j, "offset %zu is not a multiple of %zu", offset, a->align);
    if (bytes == 0)
        return WEIR_OK;
    if (offset > a->limit || bytes > a->limit - offset)
        return wrong(j, "%zu bytes at %zu end beyond the %zu available", bytes, offset, a->limit);
    if (!isfinite(weir_intervals_acquire(&j->space, offset, bytes)))
        return fail_overlap(j, offset, bytes);
    if (offset + bytes > j->found.height)
        j->found.height = offset + bytes;
    return WEIR_OK;
}

static void release(weir_check_state *j, size_t offset, size_t bytes)
{
    j->live -= bytes;
    if (j->a->addresses)
        weir_intervals_release(&j->space, offset, bytes, 0);
}

/* ---- runs ---- */

static weir_status check_input(const weir_check_state *j, const weir_mem_step *x, uint32_t i,
                               bool first)
{
    const weir_mem_op *t = &j->p->ops.at[x->what];
    const uint32_t     tensor = weir_refs(j->p, t->in)[i];
    const bool         mask = weir_mem_step_reads_mask(j->a, x, tensor),
               read = i < t->in.n - t->n_write_only;
    const weir_copy *c = copy_of(j, tensor, mask ? WEIR_FORM_MASK : WEIR_FORM_PLAIN);

    if (!read && !first)
        return WEIR_OK;
    if (mask && !weir_among(j->p, t->masked, tensor))
        return wrong(j, "operation %lld needs more than a mask of tensor %lld",
                     op_name(j, x->what), tensor_name(j, tensor));
    if (!c->device)
        return wrong(j, "operation %lld reads tensor %lld%s, which is not in memory",
                     op_name(j, x->what), tensor_name(j, tensor),
                     form_name[mask ? WEIR_FORM_MASK : 0]);
    if (c->stale)
        return wrong(j, "operation %lld reads a stale copy of tensor %lld",
                     op_name(j, x->what), tensor_name(j, tensor));
    if (read && weir_mem_tensor_is_resident(j->p, tensor) &&
        j->version[tensor] != j->expected[t->in.first + i])
        return wrong(j, "operation %lld reads tensor %lld after %u updates, not after %u%s",
                     op_name(j, x->what), tensor_name(j, tensor), j->version[tensor],
                     j->expected[t->in.first + i], first ? "" : ": it runs again too late");
    return WEIR_OK;
}

static weir_status check_order(const weir_check_state *j, const weir_mem_step *x, bool first)
{
    const weir_mem_op *t = &j->p->ops.at[x->what];

    if (!first && t->out.n == 0)
        return wrong(j, "operation %lld, an update, runs a second time", op_name(j, x->what));
    if (!j->a->ordered)
        return WEIR_OK;
    if (x->recomputed == first)
        return wrong(j, "operation %lld is %s its first run", op_name(j, x->what),
                     first ? "not said to be" : "said to be");
    if (first && x->what != j->first_runs)
        return wrong(j, "operation %lld runs out of order", op_name(j, x->what));
    if (!first && t->rerun_before < j->first_runs)
        return wrong(j, "operation %lld runs again after operation %lld, which overwrites what it "
                     "reads", op_name(j, x->what), op_name(j, t->rerun_before));
    return WEIR_OK;
}

/* Checks that output `tensor` of op t may take over the memory of slot->over, and hands it over. */
static weir_status take_over(weir_check_state *j, const weir_mem_op *t, uint32_t tensor,
                             const weir_output_slot *slot)
{
    weir_copy *const from = copy_of(j, slot->over, WEIR_FORM_PLAIN);

    if (!from->device)
        return wrong(j, "tensor %lld takes over tensor %lld, which is not in memory",
                     tensor_name(j, tensor), tensor_name(j, slot->over));
    if (j->p->tensors.at[tensor].bytes != j->p->tensors.at[slot->over].bytes ||
        (j->a->addresses && from->offset != slot->offset))
        return wrong(j, "tensor %lld takes over tensor %lld, but not its bytes",
                     tensor_name(j, tensor), tensor_name(j, slot->over));
    if (from->stale || weir_among(j->p, t->out, slot->over))
        return wrong(j, "tensor %lld cannot be taken over", tensor_name(j, slot->over));
    from->device = false;
    return WEIR_OK;
}

static bool permitted(const weir_mem_problem *p, const weir_mem_op *t, uint32_t in, uint32_t out)
{
    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2)
        if (weir_refs(p, t->pairs)[i] == in && weir_refs(p, t->pairs)[i + 1] == out)
            return true;
    return false;
}

static weir_status make_output(weir_check_state *j, const weir_mem_step *x, uint32_t i)
{
    const weir_mem_op      *t = &j->p->ops.at[x->what];
    const uint32_t          tensor = weir_refs(j->p, t->out)[i];
    const weir_output_slot *slot = &j->a->slots.at[x->slots + i];
    weir_copy *const        c = copy_of(j, tensor, WEIR_FORM_PLAIN);

    if (slot->over != WEIR_NO_TENSOR && !permitted(j->p, t, slot->over, tensor))
        return wrong(j, "operation %lld may not put tensor %lld in place of tensor %lld",
                     op_name(j, x->what), tensor_name(j, tensor), tensor_name(j, slot->over));
    if (c->device && !slot->scratch)
        return wrong(j, "operation %lld produces tensor %lld, which is already in memory",
                     op_name(j, x->what), tensor_name(j, tensor));
    if (slot->scratch || slot->over == WEIR_NO_TENSOR)
        WEIR_TRY(acquire(j, slot->offset, j->p->tensors.at[tensor].bytes));
    else
        WEIR_TRY(take_over(j, t, tensor, slot));
    if (!slot->scratch)
        *c = (weir_copy){.device = true, .host = c->host, .offset = slot->offset};
    return WEIR_OK;
}

/* The first run of an op overwrites what it changes, which makes all other copies invalid. */
static void change(weir_check_state *j, const weir_mem_op *t)
{
    for (uint32_t i = 0; i < t->changes.n; i++) {
        const uint32_t tensor = weir_refs(j->p, t->changes)[i];
        j->version[tensor] += t->out.n == 0;
        for (uint8_t f = 0; f < WEIR_FORM_COUNT; f++) {
            copy_of(j, tensor, f)->host = false;
            copy_of(j, tensor, f)->stale = f != WEIR_FORM_PLAIN;
        }
    }
}

static weir_status check_run(weir_check_state *j, const weir_mem_step *x, size_t *live)
{
    const weir_mem_op *t = &j->p->ops.at[x->what];
    const bool         first = !j->ran[x->what];

    WEIR_TRY(check_order(j, x, first));
    for (uint32_t i = 0; i < t->in.n; i++)
        WEIR_TRY(check_input(j, x, i, first));
    if (t->work && !x->work)
        return wrong(j, "operation %lld has no memory for its workspace", op_name(j, x->what));
    if (t->work)
        WEIR_TRY(acquire(j, x->offset, t->work));
    for (uint32_t i = 0; i < t->out.n; i++)
        WEIR_TRY(make_output(j, x, i));
    *live = j->live;
    if (t->work)
        release(j, x->offset, t->work);
    for (uint32_t i = 0; i < t->out.n; i++)
        if (j->a->slots.at[x->slots + i].scratch)
            release(j, j->a->slots.at[x->slots + i].offset,
                    j->p->tensors.at[weir_refs(j->p, t->out)[i]].bytes);
    if (first)
        change(j, t);
    j->first_runs += first;
    j->found.recomputed += !first;
    j->ran[x->what] = 1;
    return WEIR_OK;
}

/* ---- the other steps ---- */

static weir_status require(const weir_check_state *j, bool there, const weir_mem_step *x,
                           uint8_t form, const char *where)
{
    if (there)
        return WEIR_OK;
    return wrong(j, "tensor %lld%s is not %s", tensor_name(j, x->what), form_name[form], where);
}

/* Takes memory for the form of the tensor that the step makes on the device. */
static weir_status make_form(weir_check_state *j, const weir_mem_step *x)
{
    const uint8_t    form = weir_mem_step_writes(x);
    weir_copy *const c = copy_of(j, x->what, form);

    if (c->device)
        return wrong(j, "tensor %lld%s is already there", tensor_name(j, x->what), form_name[form]);
    WEIR_TRY(acquire(j, x->offset, weir_form_bytes(j->p, x->what, form)));
    *c = (weir_copy){.device = true, .host = c->host, .offset = x->offset};
    return WEIR_OK;
}

static weir_status check_copy(weir_check_state *j, const weir_mem_step *x)
{
    weir_copy *const c = copy_of(j, x->what, x->form);

    if ((x->kind == WEIR_EVENT_OFFLOAD ? j->p->link_out : j->p->link_in) <= 0)
        return wrong(j, "copies tensor %lld, but there is no link", tensor_name(j, x->what));
    if (x->kind == WEIR_EVENT_OFFLOAD) {
        WEIR_TRY(require(j, c->device, x, x->form, "on the device"));
        WEIR_TRY(require(j, !c->stale, x, x->form, "up to date"));
        c->host = true;
        return WEIR_OK;
    }
    WEIR_TRY(require(j, c->host, x, x->form, "on the host"));
    WEIR_TRY(make_form(j, x));
    c->host = !x->forget;
    return WEIR_OK;
}

static weir_status check_compression(weir_check_state *j, const weir_mem_step *x)
{
    const uint8_t    form = weir_mem_step_reads(x);
    const weir_copy *c = copy_of(j, x->what, form);

    if (j->p->pack_bandwidth <= 0 ||
        (x->kind != WEIR_EVENT_MASK && j->p->tensors.at[x->what].packed == 0))
        return wrong(j, "tensor %lld has no compressed form", tensor_name(j, x->what));
    WEIR_TRY(require(j, c->device, x, form, "on the device"));
    WEIR_TRY(require(j, !c->stale, x, form, "up to date"));
    return make_form(j, x);
}

static weir_status check_free(weir_check_state *j, const weir_mem_step *x)
{
    weir_copy *const c = copy_of(j, x->what, x->form);

    if (x->kind == WEIR_EVENT_FREE_HOST) {
        WEIR_TRY(require(j, c->host, x, x->form, "on the host"));
        c->host = false;
        return WEIR_OK;
    }
    WEIR_TRY(require(j, c->device, x, x->form, "on the device"));
    release(j, c->offset, weir_form_bytes(j->p, x->what, x->form));
    c->device = false;
    return WEIR_OK;
}

/* ---- the whole plan ---- */

static weir_status begin(weir_check_state *j)
{
    const weir_mem_problem *p = j->p;

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        if (!weir_mem_tensor_is_resident(p, k))
            continue;
        weir_copy *const c = copy_of(j, k, WEIR_FORM_PLAIN);
        *c = (weir_copy){.device = !j->a->offloaded[k], .host = j->a->offloaded[k],
                         .offset = j->a->start[k]};
        if (c->device) {
            /* hidden while its own bytes are taken, for a correct message */
            c->device = false;
            WEIR_TRY(acquire(j, c->offset, p->tensors.at[k].bytes));
            c->device = true;
        }
    }
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        for (uint32_t k = 0; k < t->in.n; k++)
            j->expected[t->in.first + k] = j->version[weir_refs(p, t->in)[k]];
        for (uint32_t k = 0; k < t->changes.n && t->out.n == 0; k++)
            j->version[weir_refs(p, t->changes)[k]]++;
    }
    memset(j->version, 0, p->tensors.n * sizeof *j->version);
    return WEIR_OK;
}

static weir_status finish(weir_check_state *j)
{
    const weir_mem_problem *p = j->p;

    j->at = UINT32_MAX;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        bool               needed = j->a->ordered || t->changes.n > 0;
        for (uint32_t k = 0; k < t->out.n; k++)
            needed = needed || p->tensors.at[weir_refs(p, t->out)[k]].output;
        if (needed && !j->ran[i])
            return wrong(j, "operation %lld never runs", op_name(j, i));
    }
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_copy *c = copy_of(j, k, WEIR_FORM_PLAIN);
        if (p->tensors.at[k].output && !c->device && !c->host)
            return wrong(j, "tensor %lld is gone at the end", tensor_name(j, k));
        if (!weir_mem_tensor_is_resident(p, k))
            continue;
        if (j->a->offloaded[k] && !c->host)
            return wrong(j, "tensor %lld is not on the host at the end, up to date",
                         tensor_name(j, k));
        if (!j->a->offloaded[k] && (!c->device || c->offset != j->a->start[k]))
            return wrong(j, "tensor %lld is not back at %zu at the end", tensor_name(j, k),
                         j->a->start[k]);
    }
    return WEIR_OK;
}

static weir_status replay(weir_check_state *j, size_t *live)
{
    weir_status status = begin(j);

    for (j->at = 0; j->at < j->a->list.n && status == WEIR_OK; j->at++) {
        const weir_mem_step *x = &j->a->list.at[j->at];
        size_t               now = j->live;
        const bool copies = x->kind == WEIR_EVENT_OFFLOAD || x->kind == WEIR_EVENT_PREFETCH;
        status = x->kind == WEIR_EVENT_RUN    ? check_run(j, x, &now)
                 : copies                     ? check_copy(j, x)
                 : x->kind >= WEIR_EVENT_FREE ? check_free(j, x)
                                              : check_compression(j, x);
        if (live)
            live[j->at] = now > j->live ? now : j->live;
    }
    return status == WEIR_OK ? finish(j) : status;
}

weir_status weir_mem_plan_check(const weir_mem_plan *a, weir_check_result *found, size_t *live)
{
    const weir_mem_problem *p = a->p;
    weir_check_state        j = {.a = a, .p = p, .at = UINT32_MAX};
    weir_status             status = WEIR_ERR_NOMEM;

    j.copy = weir_mem_zalloc(((size_t)p->tensors.n + 1) * WEIR_FORM_COUNT, sizeof *j.copy);
    j.version = weir_mem_zalloc(p->tensors.n + 1u, sizeof *j.version);
    j.expected = weir_mem_zalloc(p->refs.n + 1u, sizeof *j.expected);
    j.ran = weir_mem_zalloc(p->ops.n + 1u, 1);
    if (j.copy && j.version && j.expected && j.ran &&
        (!a->addresses || weir_intervals_init(&j.space, a)))
        status = replay(&j, live);
    *found = j.found;
    weir_mem_free(j.copy);
    weir_mem_free(j.version);
    weir_mem_free(j.expected);
    weir_mem_free(j.ran);
    weir_intervals_free(&j.space);
    return status;
}

/* ---- schedules ---- */

static weir_status fail_claim(const char *what, uint32_t number)
{
    return weir_fail(WEIR_ERR_STATE, "internal: the schedule: %s %u", what, number);
}

/* The live ranges that begin before the step come first: one per resident tensor, in order. */
static weir_status check_before(const weir_schedule *s)
{
    uint32_t i = 0;

    for (uint32_t k = 0; k < s->p->tensors.n; k++) {
        if (!weir_mem_tensor_is_resident(s->p, k))
            continue;
        const weir_live_range *l = i < s->ranges.n ? &s->ranges.at[i] : NULL;
        if (!l || !l->before || l->tensor != k || l->first > 0 ||
            (l->form != WEIR_FORM_PLAIN && l->form != WEIR_FORM_HOST))
            return fail_claim("no live range begins before the step for tensor", k);
        i++;
    }
    for (; i < s->ranges.n; i++)
        if (s->ranges.at[i].before)
            return fail_claim("does not begin before the step: live range", i);
    return WEIR_OK;
}

/* Live ranges lie within the events; one made in place takes over a range that ends where it
 * begins. */
static weir_status check_ranges(const weir_schedule *s)
{
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        if (l->tensor >= s->p->tensors.n || l->form >= WEIR_FORM_COUNT || l->first > l->last ||
            (s->events.n && l->last >= s->events.n))
            return fail_claim("malformed live range", i);
        if (l->over == WEIR_NO_RANGE)
            continue;
        const weir_live_range *x = l->over < i ? &s->ranges.at[l->over] : NULL;
        if (!x || x->last != l->first || x->first == l->first || x->form != WEIR_FORM_PLAIN ||
            l->form != WEIR_FORM_PLAIN || x->before)
            return fail_claim("takes over memory that it may not: live range", i);
    }
    return check_before(s);
}

/* Returns whether event e may read the live range as the tensor in one of the forms (a bit set). */
static bool reads(const weir_schedule *s, uint32_t e, uint32_t range, uint32_t tensor,
                  unsigned forms)
{
    const weir_live_range *l = range < s->ranges.n ? &s->ranges.at[range] : NULL;
    return l && l->tensor == tensor && forms >> l->form & 1 && l->last >= e &&
           (l->before || l->first < e);
}

static bool makes(const weir_schedule *s, uint32_t e, uint32_t range, uint32_t tensor, uint8_t form)
{
    const weir_live_range *l = range < s->ranges.n ? &s->ranges.at[range] : NULL;
    return l && l->tensor == tensor && l->form == form && l->first == e && !l->before;
}

/* Every event reads and makes live ranges of the tensors that it names. */
static weir_status check_refs(const weir_schedule *s)
{
    const unsigned plain = 1u << WEIR_FORM_PLAIN, mask = 1u << WEIR_FORM_MASK;

    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        const bool        run = v->kind == WEIR_EVENT_RUN;
        bool              good =
            v->what < (run ? s->p->ops.n : s->p->tensors.n) && v->kind <= WEIR_EVENT_DECOMPRESS;
        if (!good)
            return fail_claim("malformed event", e);
        uint32_t           nin, nout;
        const uint32_t    *range = weir_schedule_refs(s, e, &nin, &nout);
        const weir_mem_op *t = run ? &s->p->ops.at[v->what] : NULL;
        good = (uint64_t)s->first.at[e] + nin + nout <= s->refs.n;
        for (uint32_t i = 0; good && i < nin; i++)
            good = run ? reads(s, e, range[i], weir_refs(s->p, t->in)[i], plain | mask)
                       : reads(s, e, range[i], v->what, 1u << weir_event_reads[v->kind]);
        for (uint32_t i = 0; good && i < nout; i++)
            good = run ? makes(s, e, range[nin + i], weir_refs(s->p, t->out)[i], WEIR_FORM_PLAIN)
                       : makes(s, e, range[nin + i], v->what, weir_event_writes[v->kind]);
        if (!good)
            return fail_claim("reads or makes live ranges that do not exist: event", e);
    }
    return WEIR_OK;
}

/* Compares the live bytes of the replay with those of the schedule. The steps of the plan other
 * than frees are the schedule's events, in order. */
static weir_status compare(const weir_schedule *s, const weir_mem_plan *a,
                           const weir_check_result *found, const size_t *live)
{
    uint32_t e = 0;

    for (uint32_t i = 0; i < a->list.n; i++) {
        if (a->list.at[i].kind >= WEIR_EVENT_FREE)
            continue;
        if (s->live.at[e] < 0 || (size_t)s->live.at[e] != live[i])
            return weir_fail(WEIR_ERR_STATE, "internal: the schedule: %lld bytes live at event %u, "
                             "not %zu", (long long)s->live.at[e], e, live[i]);
        e++;
    }
    if (e && s->peak != found->live)
        return weir_fail(WEIR_ERR_STATE, "internal: the schedule: its peak is %zu bytes, not %zu",
                         s->peak, found->live);
    return WEIR_OK;
}

weir_status weir_schedule_check(const weir_schedule *s, const weir_offsets *offsets, size_t align,
                                size_t limit)
{
    weir_mem_plan     a = {0};
    weir_check_result found;
    size_t           *live = NULL;
    weir_status       status = WEIR_ERR_NOMEM;

    if (s->live.n != s->events.n || s->first.n != s->events.n)
        return fail_claim("not ended, events", s->events.n);
    WEIR_TRY(check_ranges(s));
    WEIR_TRY(check_refs(s));
    if (weir_mem_plan_from_schedule(s, offsets, &a) &&
        (live = weir_mem_alloc((a.list.n + 1u) * sizeof *live))) {
        a.align = align;
        a.limit = limit;
        a.name = "internal: the schedule";
        a.status = WEIR_ERR_STATE;
        status = weir_mem_plan_check(&a, &found, live);
    }
    if (status == WEIR_OK)
        status = compare(s, &a, &found, live);
    weir_mem_free(live);
    weir_mem_plan_free(&a);
    return status;
}
