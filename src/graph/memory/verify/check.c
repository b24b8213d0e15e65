/* check.c - replays a plan on a device of which only the occupied ranges are known.
 *
 * Of every piece it knows which forms are on the device and on the host. A piece of before the step
 * has a version: how often tasks without results (updates) have overwritten it; every task must
 * read the one it reads in the problem's order. Where a piece is changed its copies on the host are
 * gone and its other forms on the device are worth nothing. */
#include "graph/memory/verify/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/problem/intervals.h"

typedef struct weir_copy {
    bool   device, host;        /* is it there? */
    bool   stale;               /* on the device: of an older version */
    size_t offset;
} weir_copy;

typedef struct weir_judge {
    const weir_actions *a;
    const weir_problem *p;
    weir_space space;
    weir_copy *copy;            /* [pieces * WEIR_FORMS] */
    uint32_t  *version;         /* [pieces] */
    uint32_t  *expected;        /* [refs] of the inputs of tasks: the version to be read */
    uint8_t   *ran;             /* [tasks] */
    uint32_t   first_runs, at;  /* at: number of the action */
    size_t     live;
    weir_check_result found;
} weir_judge;

static const char *const form_name[WEIR_FORMS] = {"", "", ", packed,", "'s mask"};

static long long piece_name(const weir_judge *j, uint32_t piece)
{
    return j->a->piece_id ? (long long)j->a->piece_id[piece] : (long long)piece;
}

static long long task_name(const weir_judge *j, uint32_t task)
{
    return j->a->task_id ? (long long)j->a->task_id[task] : (long long)task;
}

__attribute__((format(printf, 2, 3)))
static weir_status wrong(const weir_judge *j, const char *format, ...)
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

static weir_copy *copy_of(const weir_judge *j, uint32_t piece, uint8_t form)
{
    return &j->copy[piece * WEIR_FORMS + form];
}

/* ---- bytes ---- */

static weir_status met(const weir_judge *j, size_t offset, size_t bytes)
{
    for (uint32_t k = 0; k < j->p->pieces.n; k++)
        for (uint8_t f = 0; f < WEIR_FORMS; f++) {
            const weir_copy *c = copy_of(j, k, f);
            const size_t     n = weir_form_bytes(j->p, k, f);
            if (c->device && n && c->offset < offset + bytes && offset < c->offset + n)
                return wrong(j, "bytes %zu to %zu are those of tensor %lld%s at %zu", offset,
                             offset + bytes, piece_name(j, k), form_name[f], c->offset);
        }
    return wrong(j, "bytes %zu to %zu are taken by this very operation", offset, offset + bytes);
}

static weir_status take(weir_judge *j, size_t offset, size_t bytes)
{
    const weir_actions *a = j->a;

    j->live += bytes;
    j->found.live = j->live > j->found.live ? j->live : j->found.live;
    if (!a->addresses)
        return WEIR_OK;
    if (a->align > 1 && offset % a->align)
        return wrong(j, "offset %zu is no multiple of %zu", offset, a->align);
    if (bytes == 0)
        return WEIR_OK;
    if (offset > a->room || bytes > a->room - offset)
        return wrong(j, "%zu bytes at %zu end beyond the %zu there are", bytes, offset, a->room);
    if (!isfinite(weir_space_take(&j->space, offset, bytes)))
        return met(j, offset, bytes);
    if (offset + bytes > j->found.height)
        j->found.height = offset + bytes;
    return WEIR_OK;
}

static void give(weir_judge *j, size_t offset, size_t bytes)
{
    j->live -= bytes;
    if (j->a->addresses)
        weir_space_give(&j->space, offset, bytes, 0);
}

/* ---- runs ---- */

static weir_status check_input(const weir_judge *j, const weir_action *x, uint32_t i, bool first)
{
    const weir_task *t = &j->p->tasks.at[x->what];
    const uint32_t   piece = weir_refs(j->p, t->in)[i];
    const bool       mask = weir_action_masks(j->a, x, piece), read = i < t->in.n - t->only;
    const weir_copy *c = copy_of(j, piece, mask ? WEIR_MASK : WEIR_PLAIN);

    if (!read && !first)
        return WEIR_OK;
    if (mask && !weir_among(j->p, t->masked, piece))
        return wrong(j, "operation %lld needs more than a mask of tensor %lld",
                     task_name(j, x->what), piece_name(j, piece));
    if (!c->device)
        return wrong(j, "operation %lld reads tensor %lld%s, which is not there",
                     task_name(j, x->what), piece_name(j, piece), form_name[mask ? WEIR_MASK : 0]);
    if (c->stale)
        return wrong(j, "operation %lld reads a stale copy of tensor %lld",
                     task_name(j, x->what), piece_name(j, piece));
    if (read && weir_piece_resident(j->p, piece) &&
        j->version[piece] != j->expected[t->in.first + i])
        return wrong(j, "operation %lld reads tensor %lld after %u updates, not after %u%s",
                     task_name(j, x->what), piece_name(j, piece), j->version[piece],
                     j->expected[t->in.first + i], first ? "" : ": it runs again too late");
    return WEIR_OK;
}

static weir_status check_turn(const weir_judge *j, const weir_action *x, bool first)
{
    const weir_task *t = &j->p->tasks.at[x->what];

    if (!first && t->out.n == 0)
        return wrong(j, "operation %lld, an update, runs a second time", task_name(j, x->what));
    if (!j->a->ordered)
        return WEIR_OK;
    if (x->again == first)
        return wrong(j, "operation %lld is %s its first run", task_name(j, x->what),
                     first ? "not said to be" : "said to be");
    if (first && x->what != j->first_runs)
        return wrong(j, "operation %lld runs out of order", task_name(j, x->what));
    if (!first && t->until < j->first_runs)
        return wrong(j, "operation %lld runs again after operation %lld, which overwrites what it "
                     "reads", task_name(j, x->what), task_name(j, t->until));
    return WEIR_OK;
}

/* Result `piece` of task t takes over the memory of spot->over. */
static weir_status take_over(weir_judge *j, const weir_task *t, uint32_t piece,
                             const weir_spot *spot)
{
    weir_copy *const from = copy_of(j, spot->over, WEIR_PLAIN);

    if (!from->device)
        return wrong(j, "tensor %lld takes over tensor %lld, which is not there",
                     piece_name(j, piece), piece_name(j, spot->over));
    if (j->p->pieces.at[piece].bytes != j->p->pieces.at[spot->over].bytes ||
        (j->a->addresses && from->offset != spot->offset))
        return wrong(j, "tensor %lld takes over tensor %lld, but not its bytes",
                     piece_name(j, piece), piece_name(j, spot->over));
    if (from->stale || weir_among(j->p, t->out, spot->over))
        return wrong(j, "tensor %lld cannot be taken over", piece_name(j, spot->over));
    from->device = false;
    return WEIR_OK;
}

static bool permitted(const weir_problem *p, const weir_task *t, uint32_t in, uint32_t out)
{
    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2)
        if (weir_refs(p, t->pairs)[i] == in && weir_refs(p, t->pairs)[i + 1] == out)
            return true;
    return false;
}

static weir_status make_output(weir_judge *j, const weir_action *x, uint32_t i)
{
    const weir_task *t = &j->p->tasks.at[x->what];
    const uint32_t   piece = weir_refs(j->p, t->out)[i];
    const weir_spot *spot = &j->a->spots.at[x->spots + i];
    weir_copy *const c = copy_of(j, piece, WEIR_PLAIN);

    if (spot->over != WEIR_NO_PIECE && !permitted(j->p, t, spot->over, piece))
        return wrong(j, "operation %lld may not put tensor %lld in place of tensor %lld",
                     task_name(j, x->what), piece_name(j, piece), piece_name(j, spot->over));
    if (c->device && !spot->scratch)
        return wrong(j, "operation %lld makes tensor %lld, which is there already",
                     task_name(j, x->what), piece_name(j, piece));
    if (spot->scratch || spot->over == WEIR_NO_PIECE)
        WEIR_TRY(take(j, spot->offset, j->p->pieces.at[piece].bytes));
    else
        WEIR_TRY(take_over(j, t, piece, spot));
    if (!spot->scratch)
        *c = (weir_copy){.device = true, .host = c->host, .offset = spot->offset};
    return WEIR_OK;
}

/* The first run of a task overwrites what it changes. */
static void change(weir_judge *j, const weir_task *t)
{
    for (uint32_t i = 0; i < t->changes.n; i++) {
        const uint32_t piece = weir_refs(j->p, t->changes)[i];
        j->version[piece] += t->out.n == 0;
        for (uint8_t f = 0; f < WEIR_FORMS; f++) {
            copy_of(j, piece, f)->host = false;
            copy_of(j, piece, f)->stale = f != WEIR_PLAIN;
        }
    }
}

static weir_status run(weir_judge *j, const weir_action *x, size_t *live)
{
    const weir_task *t = &j->p->tasks.at[x->what];
    const bool       first = !j->ran[x->what];

    WEIR_TRY(check_turn(j, x, first));
    for (uint32_t i = 0; i < t->in.n; i++)
        WEIR_TRY(check_input(j, x, i, first));
    if (t->work && !x->work)
        return wrong(j, "operation %lld has no place for its workspace", task_name(j, x->what));
    if (t->work)
        WEIR_TRY(take(j, x->offset, t->work));
    for (uint32_t i = 0; i < t->out.n; i++)
        WEIR_TRY(make_output(j, x, i));
    *live = j->live;
    if (t->work)
        give(j, x->offset, t->work);
    for (uint32_t i = 0; i < t->out.n; i++)
        if (j->a->spots.at[x->spots + i].scratch)
            give(j, j->a->spots.at[x->spots + i].offset,
                 j->p->pieces.at[weir_refs(j->p, t->out)[i]].bytes);
    if (first)
        change(j, t);
    j->first_runs += first;
    j->found.again += !first;
    j->ran[x->what] = 1;
    return WEIR_OK;
}

/* ---- the other actions ---- */

static weir_status must_be(const weir_judge *j, bool there, const weir_action *x, uint8_t form,
                           const char *where)
{
    if (there)
        return WEIR_OK;
    return wrong(j, "tensor %lld%s is not %s", piece_name(j, x->what), form_name[form], where);
}

/* On the device a form of the piece appears. */
static weir_status appear(weir_judge *j, const weir_action *x)
{
    const uint8_t    form = weir_action_makes(x);
    weir_copy *const c = copy_of(j, x->what, form);

    if (c->device)
        return wrong(j, "tensor %lld%s is there already", piece_name(j, x->what), form_name[form]);
    WEIR_TRY(take(j, x->offset, weir_form_bytes(j->p, x->what, form)));
    *c = (weir_copy){.device = true, .host = c->host, .offset = x->offset};
    return WEIR_OK;
}

static weir_status copy(weir_judge *j, const weir_action *x)
{
    weir_copy *const c = copy_of(j, x->what, x->form);

    if ((x->act == WEIR_OUT ? j->p->link_out : j->p->link_in) <= 0)
        return wrong(j, "copies tensor %lld, but there is no link", piece_name(j, x->what));
    if (x->act == WEIR_OUT) {
        WEIR_TRY(must_be(j, c->device, x, x->form, "on the device"));
        WEIR_TRY(must_be(j, !c->stale, x, x->form, "up to date"));
        c->host = true;
        return WEIR_OK;
    }
    WEIR_TRY(must_be(j, c->host, x, x->form, "on the host"));
    WEIR_TRY(appear(j, x));
    c->host = !x->forget;
    return WEIR_OK;
}

static weir_status code(weir_judge *j, const weir_action *x)
{
    const uint8_t    form = weir_action_reads(x);
    const weir_copy *c = copy_of(j, x->what, form);

    if (j->p->codec <= 0 || (x->act != WEIR_MARK && j->p->pieces.at[x->what].packed == 0))
        return wrong(j, "tensor %lld has no packed form", piece_name(j, x->what));
    WEIR_TRY(must_be(j, c->device, x, form, "on the device"));
    WEIR_TRY(must_be(j, !c->stale, x, form, "up to date"));
    return appear(j, x);
}

static weir_status end(weir_judge *j, const weir_action *x)
{
    weir_copy *const c = copy_of(j, x->what, x->form);

    if (x->act == WEIR_FORGET) {
        WEIR_TRY(must_be(j, c->host, x, x->form, "on the host"));
        c->host = false;
        return WEIR_OK;
    }
    WEIR_TRY(must_be(j, c->device, x, x->form, "on the device"));
    give(j, c->offset, weir_form_bytes(j->p, x->what, x->form));
    c->device = false;
    return WEIR_OK;
}

/* ---- all of it ---- */

static weir_status begin(weir_judge *j)
{
    const weir_problem *p = j->p;

    for (uint32_t k = 0; k < p->pieces.n; k++) {
        if (!weir_piece_resident(p, k))
            continue;
        weir_copy *const c = copy_of(j, k, WEIR_PLAIN);
        *c = (weir_copy){.device = !j->a->home[k], .host = j->a->home[k],
                         .offset = j->a->start[k]};
        if (c->device) {
            c->device = false;          /* so that it is not met by itself */
            WEIR_TRY(take(j, c->offset, p->pieces.at[k].bytes));
            c->device = true;
        }
    }
    for (uint32_t i = 0; i < p->tasks.n; i++) {
        const weir_task *t = &p->tasks.at[i];
        for (uint32_t k = 0; k < t->in.n; k++)
            j->expected[t->in.first + k] = j->version[weir_refs(p, t->in)[k]];
        for (uint32_t k = 0; k < t->changes.n && t->out.n == 0; k++)
            j->version[weir_refs(p, t->changes)[k]]++;
    }
    memset(j->version, 0, p->pieces.n * sizeof *j->version);
    return WEIR_OK;
}

static weir_status finish(weir_judge *j)
{
    const weir_problem *p = j->p;

    j->at = UINT32_MAX;
    for (uint32_t i = 0; i < p->tasks.n; i++) {
        const weir_task *t = &p->tasks.at[i];
        bool             needed = j->a->ordered || t->changes.n > 0;
        for (uint32_t k = 0; k < t->out.n; k++)
            needed = needed || p->pieces.at[weir_refs(p, t->out)[k]].output;
        if (needed && !j->ran[i])
            return wrong(j, "operation %lld never runs", task_name(j, i));
    }
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const weir_copy *c = copy_of(j, k, WEIR_PLAIN);
        if (p->pieces.at[k].output && !c->device && !c->host)
            return wrong(j, "tensor %lld is gone at the end", piece_name(j, k));
        if (!weir_piece_resident(p, k))
            continue;
        if (j->a->home[k] && !c->host)
            return wrong(j, "tensor %lld is not on the host at the end, up to date",
                         piece_name(j, k));
        if (!j->a->home[k] && (!c->device || c->offset != j->a->start[k]))
            return wrong(j, "tensor %lld is not back at %zu at the end", piece_name(j, k),
                         j->a->start[k]);
    }
    return WEIR_OK;
}

static weir_status replay(weir_judge *j, size_t *live)
{
    weir_status status = begin(j);

    for (j->at = 0; j->at < j->a->list.n && status == WEIR_OK; j->at++) {
        const weir_action *x = &j->a->list.at[j->at];
        size_t             now = j->live;
        status = x->act == WEIR_RUN                        ? run(j, x, &now)
                 : x->act == WEIR_OUT || x->act == WEIR_IN ? copy(j, x)
                 : x->act >= WEIR_FREE                     ? end(j, x) : code(j, x);
        if (live)
            live[j->at] = now > j->live ? now : j->live;
    }
    return status == WEIR_OK ? finish(j) : status;
}

weir_status weir_actions_check(const weir_actions *a, weir_check_result *found, size_t *live)
{
    const weir_problem *p = a->p;
    weir_judge          j = {.a = a, .p = p, .at = UINT32_MAX};
    weir_status         status = WEIR_ERR_NOMEM;

    j.copy = weir_mem_zalloc(((size_t)p->pieces.n + 1) * WEIR_FORMS, sizeof *j.copy);
    j.version = weir_mem_zalloc(p->pieces.n + 1u, sizeof *j.version);
    j.expected = weir_mem_zalloc(p->refs.n + 1u, sizeof *j.expected);
    j.ran = weir_mem_zalloc(p->tasks.n + 1u, 1);
    if (j.copy && j.version && j.expected && j.ran &&
        (!a->addresses || weir_space_init(&j.space, a)))
        status = replay(&j, live);
    *found = j.found;
    weir_mem_free(j.copy);
    weir_mem_free(j.version);
    weir_mem_free(j.expected);
    weir_mem_free(j.ran);
    weir_space_free(&j.space);
    return status;
}

/* ---- schedules ---- */

static weir_status untrue(const char *what, uint32_t number)
{
    return weir_fail(WEIR_ERR_STATE, "internal: the schedule: %s %u", what, number);
}

/* The lives of before come first: one for every resident piece, in their order. */
static weir_status check_before(const weir_schedule *s)
{
    uint32_t i = 0;

    for (uint32_t k = 0; k < s->p->pieces.n; k++) {
        if (!weir_piece_resident(s->p, k))
            continue;
        const weir_life *l = i < s->lives.n ? &s->lives.at[i] : NULL;
        if (!l || !l->before || l->piece != k || l->first > 0 ||
            (l->form != WEIR_PLAIN && l->form != WEIR_HOST))
            return untrue("no life of before is that of piece", k);
        i++;
    }
    for (; i < s->lives.n; i++)
        if (s->lives.at[i].before)
            return untrue("not there before the step is life", i);
    return WEIR_OK;
}

/* Lives lie within the events, in place of lives that end where they begin. */
static weir_status check_lives(const weir_schedule *s)
{
    for (uint32_t i = 0; i < s->lives.n; i++) {
        const weir_life *l = &s->lives.at[i];
        if (l->piece >= s->p->pieces.n || l->form >= WEIR_FORMS || l->first > l->last ||
            (s->events.n && l->last >= s->events.n))
            return untrue("there cannot be a life", i);
        if (l->over == WEIR_NO_LIFE)
            continue;
        const weir_life *x = l->over < i ? &s->lives.at[l->over] : NULL;
        if (!x || x->last != l->first || x->first == l->first || x->form != WEIR_PLAIN ||
            l->form != WEIR_PLAIN || x->before)
            return untrue("takes over what it cannot: life", i);
    }
    return check_before(s);
}

/* Is the life that event e reads there, and of that piece in that form? */
static bool reads(const weir_schedule *s, uint32_t e, uint32_t life, uint32_t piece, unsigned forms)
{
    const weir_life *l = life < s->lives.n ? &s->lives.at[life] : NULL;
    return l && l->piece == piece && forms >> l->form & 1 && l->last >= e &&
           (l->before || l->first < e);
}

static bool makes(const weir_schedule *s, uint32_t e, uint32_t life, uint32_t piece, uint8_t form)
{
    const weir_life *l = life < s->lives.n ? &s->lives.at[life] : NULL;
    return l && l->piece == piece && l->form == form && l->first == e && !l->before;
}

/* Every event reads and makes lives of its pieces. */
static weir_status check_refs(const weir_schedule *s)
{
    const unsigned plain = 1u << WEIR_PLAIN, mask = 1u << WEIR_MASK;

    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        const bool        run = v->act == WEIR_RUN;
        bool              good = v->what < (run ? s->p->tasks.n : s->p->pieces.n) &&
                                 v->act <= WEIR_UNPACK;
        if (!good)
            return untrue("there cannot be an event", e);
        uint32_t          nin, nout;
        const uint32_t   *life = weir_schedule_refs(s, e, &nin, &nout);
        const weir_task  *t = run ? &s->p->tasks.at[v->what] : NULL;
        good = (uint64_t)s->first.at[e] + nin + nout <= s->refs.n;
        for (uint32_t i = 0; good && i < nin; i++)
            good = run ? reads(s, e, life[i], weir_refs(s->p, t->in)[i], plain | mask)
                       : reads(s, e, life[i], v->what, 1u << weir_act_from[v->act]);
        for (uint32_t i = 0; good && i < nout; i++)
            good = run ? makes(s, e, life[nin + i], weir_refs(s->p, t->out)[i], WEIR_PLAIN)
                       : makes(s, e, life[nin + i], v->what, weir_act_to[v->act]);
        if (!good)
            return untrue("lives that are not there are those of event", e);
    }
    return WEIR_OK;
}

/* Live bytes of the replay against those of the schedule: actions that are no ends are its events,
 * in order. */
static weir_status compare(const weir_schedule *s, const weir_actions *a,
                           const weir_check_result *found, const size_t *live)
{
    uint32_t e = 0;

    for (uint32_t i = 0; i < a->list.n; i++) {
        if (a->list.at[i].act >= WEIR_FREE)
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

weir_status weir_schedule_check(const weir_schedule *s, const weir_lay *lay, size_t align,
                                size_t room)
{
    weir_actions a = {0};
    weir_check_result   found;
    size_t      *live = NULL;
    weir_status  status = WEIR_ERR_NOMEM;

    if (s->live.n != s->events.n || s->first.n != s->events.n)
        return untrue("not ended, events", s->events.n);
    WEIR_TRY(check_lives(s));
    WEIR_TRY(check_refs(s));
    if (weir_actions_from(s, lay, &a) && (live = weir_mem_alloc((a.list.n + 1u) * sizeof *live))) {
        a.align = align;
        a.room = room;
        a.name = "internal: the schedule";
        a.status = WEIR_ERR_STATE;
        status = weir_actions_check(&a, &found, live);
    }
    if (status == WEIR_OK)
        status = compare(s, &a, &found, live);
    weir_mem_free(live);
    weir_actions_free(&a);
    return status;
}
