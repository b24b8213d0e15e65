/* dtr_sim.c - dynamic tensor rematerialization (Kirisame et al., ICLR 2021) over a step known in
 * advance.
 *
 * A piece that has no first run ahead that reads it goes at once ("eager eviction"); it may be made
 * anew for others. What a run reads is locked from when the run is wanted until it is done.
 * Whoever is gone can be made anew when it will be asked for: it is not let go otherwise. Time is
 * the sum of the runs' seconds. */
#include "graph/memory/search/dtr_sim.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/search/best.h"

enum { MOST_AGAIN = 6 };        /* runs again per task: more is running in circles */

bool weir_evictor_init(weir_evictor *v, const weir_problem *p)
{
    const size_t n = (size_t)p->pieces.n + 1;

    v->p = p;
    v->when = weir_mem_zalloc(p->tasks.n + 1u, sizeof *v->when);
    v->task_stamp = weir_mem_zalloc(p->tasks.n + 1u, sizeof *v->task_stamp);
    v->next = weir_mem_alloc(n * sizeof *v->next);
    v->locks = weir_mem_alloc(n * sizeof *v->locks);
    v->used = weir_mem_alloc(n * sizeof *v->used);
    v->near = weir_mem_alloc(n * sizeof *v->near);
    v->class_of = weir_mem_alloc(n * sizeof *v->class_of);
    v->place = weir_mem_alloc(n * sizeof *v->place);
    v->stamp = weir_mem_zalloc(n, sizeof *v->stamp);
    v->barred = weir_mem_zalloc(n, sizeof *v->barred);
    if (!weir_schedule_init(&v->s, p) || !v->when || !v->task_stamp || !v->next || !v->locks ||
        !v->used || !v->near || !v->class_of || !v->place || !v->stamp || !v->barred ||
        !weir_vec_reserve(&v->there, n) || !weir_vec_reserve(&v->stack, n) ||
        !weir_vec_reserve(&v->roots, n) || !weir_vec_reserve(&v->frames, p->tasks.n + 1u))
        return false;
    for (uint32_t i = 0; i < p->tasks.n; i++)
        v->when[i + 1] = v->when[i] + p->tasks.at[i].time;
    return true;
}

void weir_evictor_free(weir_evictor *v)
{
    weir_schedule_free(&v->s);
    weir_mem_free(v->when);
    weir_mem_free(v->task_stamp);
    weir_mem_free(v->next);
    weir_mem_free(v->locks);
    weir_mem_free(v->used);
    weir_mem_free(v->near);
    weir_mem_free(v->class_of);
    weir_mem_free(v->place);
    weir_mem_free(v->stamp);
    weir_mem_free(v->barred);
    weir_vec_free(&v->there);
    weir_vec_free(&v->stack);
    weir_vec_free(&v->frames);
    weir_vec_free(&v->roots);
    weir_vec_free(&v->gone);
}

static bool is_there(const weir_evictor *v, uint32_t piece)
{
    return weir_schedule_has(&v->s, piece, WEIR_PLAIN);
}

/* It was there, and is not any more. */
static bool is_gone(const weir_evictor *v, uint32_t piece)
{
    const uint32_t maker = v->p->pieces.at[piece].maker;
    return maker != WEIR_NO_TASK && maker < v->done && !is_there(v, piece);
}

/* Nobody but those who make others anew will ask for it. */
static bool is_dead(const weir_evictor *v, uint32_t piece)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    return v->next[piece] == k->uses.n && !k->output && k->maker != WEIR_NO_TASK;
}

/* ---- neighbours that are gone ---- */

static void visit(weir_evictor *v, uint32_t piece)
{
    if (v->stamp[piece] == v->stamps)
        return;
    v->stamp[piece] = v->stamps;
    v->stack.at[v->stack.n++] = piece;      /* room for all pieces is reserved */
}

/* Puts what the piece is made from on the stack, if it is gone. */
static void visit_above(weir_evictor *v, uint32_t piece)
{
    const weir_range in = v->p->tasks.at[v->p->pieces.at[piece].maker].in;

    for (uint32_t i = 0; i < in.n; i++)
        if (is_gone(v, weir_refs(v->p, in)[i]))
            visit(v, weir_refs(v->p, in)[i]);
}

/* What is made from it and gone. */
static void visit_below(weir_evictor *v, uint32_t piece)
{
    const weir_range uses = v->p->pieces.at[piece].uses;

    for (uint32_t j = 0; j < uses.n && weir_refs(v->p, uses)[j] < v->done; j++) {
        const weir_range out = v->p->tasks.at[weir_refs(v->p, uses)[j]].out;
        for (uint32_t i = 0; i < out.n; i++)
            if (is_gone(v, weir_refs(v->p, out)[i]))
                visit(v, weir_refs(v->p, out)[i]);
    }
}

/* Seconds of the piece's maker, once in every sum. */
static double cost_once(weir_evictor *v, uint32_t piece)
{
    const uint32_t maker = v->p->pieces.at[piece].maker;
    const bool     counted = v->task_stamp[maker] == v->stamps;

    v->task_stamp[maker] = v->stamps;
    return counted ? 0 : v->p->tasks.at[maker].time;
}

/* Begins a search at the piece: it is on the stack, its maker counted. */
static void begin_at(weir_evictor *v, uint32_t piece)
{
    v->stamps++;
    v->stack.n = 0;
    (void)cost_once(v, piece);
    visit(v, piece);
}

const weir_near *weir_evictor_near(weir_evictor *v, uint32_t piece)
{
    weir_near *const n = &v->near[piece];

    if (n->known)
        return n;
    *n = (weir_near){.known = true};
    begin_at(v, piece);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const uint32_t x = v->stack.at[i];
        n->above += cost_once(v, x);
        n->bytes += x == piece ? 0 : (double)v->p->pieces.at[x].bytes;
        visit_above(v, x);
    }
    begin_at(v, piece);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        n->below += cost_once(v, v->stack.at[i]);
        visit_below(v, v->stack.at[i]);
    }
    n->count = v->stack.n - 1;
    return n;
}

/* All that hangs together with the piece, which came or went, has to look around anew. */
static void touch(weir_evictor *v, uint32_t piece)
{
    begin_at(v, piece);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const uint32_t   x = v->stack.at[i];
        const weir_range in = v->p->tasks.at[v->p->pieces.at[x].maker].in,
                         uses = v->p->pieces.at[x].uses;
        v->near[x].known = false;
        for (uint32_t k = 0; k < in.n; k++)
            v->near[weir_refs(v->p, in)[k]].known = false;
        for (uint32_t j = 0; j < uses.n && weir_refs(v->p, uses)[j] < v->done; j++) {
            const weir_range out = v->p->tasks.at[weir_refs(v->p, uses)[j]].out;
            for (uint32_t k = 0; k < out.n; k++)
                v->near[weir_refs(v->p, out)[k]].known = false;
        }
        visit_above(v, x);
        visit_below(v, x);
    }
}

/* ---- classes ---- */

static uint32_t root_of(weir_evictor *v, uint32_t c)
{
    while (v->gone.at[c].parent != c) {
        v->gone.at[c].parent = v->gone.at[v->gone.at[c].parent].parent;
        c = v->gone.at[c].parent;
    }
    return c;
}

static void add_root(weir_evictor *v, uint32_t piece)
{
    if (!is_gone(v, piece))
        return;
    const uint32_t root = root_of(v, v->class_of[piece]);
    for (uint32_t i = 0; i < v->roots.n; i++)
        if (v->roots.at[i] == root)
            return;
    v->roots.at[v->roots.n++] = root;
}

/* roots: the classes that the piece touches. */
static void find_roots(weir_evictor *v, uint32_t piece)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    const weir_range  in = v->p->tasks.at[k->maker].in;

    v->roots.n = 0;
    for (uint32_t i = 0; i < in.n; i++)
        add_root(v, weir_refs(v->p, in)[i]);
    for (uint32_t j = 0; j < k->uses.n && weir_refs(v->p, k->uses)[j] < v->done; j++) {
        const weir_range out = v->p->tasks.at[weir_refs(v->p, k->uses)[j]].out;
        for (uint32_t i = 0; i < out.n; i++)
            add_root(v, weir_refs(v->p, out)[i]);
    }
}

double weir_evictor_classes(weir_evictor *v, uint32_t piece)
{
    double sum = 0;

    find_roots(v, piece);
    for (uint32_t i = 0; i < v->roots.n; i++)
        sum += v->gone.at[v->roots.at[i]].seconds;
    return sum;
}

/* The piece, which just went, joins the classes that it touches. */
static bool join(weir_evictor *v, uint32_t piece)
{
    const uint32_t own = v->gone.n;
    const double   cost = v->p->tasks.at[v->p->pieces.at[piece].maker].time;

    v->class_of[piece] = own;
    if (!weir_vec_push(&v->gone, (weir_gone){own, cost}))
        return false;
    find_roots(v, piece);
    for (uint32_t i = 0; i < v->roots.n; i++) {
        weir_gone *const c = &v->gone.at[v->roots.at[i]];
        if (v->roots.at[i] == own)
            continue;
        c->parent = own;
        v->gone.at[own].seconds += c->seconds;
    }
    return true;
}

/* ---- coming and going ---- */

static void arrive(weir_evictor *v, uint32_t piece, bool first)
{
    const weir_piece *k = &v->p->pieces.at[piece];

    v->live += k->bytes;
    v->near[piece].known = false;
    v->place[piece] = v->there.n;
    v->there.at[v->there.n++] = piece;
    if (!first && v->classes)
        v->gone.at[root_of(v, v->class_of[piece])].seconds -= v->p->tasks.at[k->maker].time;
    if (!first)
        touch(v, piece);
}

static bool go(weir_evictor *v, uint32_t piece)
{
    const uint32_t at = v->place[piece], last = v->there.at[--v->there.n];

    v->there.at[at] = last;
    v->place[last] = at;
    v->live -= v->p->pieces.at[piece].bytes;
    weir_schedule_drop(&v->s, piece);
    touch(v, piece);
    return !v->classes || join(v, piece);
}

/* May it go? It will be asked for by its next use and by those below that are gone; then it, and
 * those above that are gone, have to be allowed to run. */
static bool may_go(weir_evictor *v, uint32_t piece)
{
    const weir_problem *p = v->p;
    uint32_t            asked = 0;
    bool                may = true;

    begin_at(v, piece);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const uint32_t   x = v->stack.at[i];
        const weir_range uses = p->pieces.at[x].uses;
        if (v->next[x] < uses.n && weir_refs(p, uses)[v->next[x]] + 1 > asked)
            asked = weir_refs(p, uses)[v->next[x]] + 1;
        visit_below(v, x);
    }
    begin_at(v, piece);
    for (uint32_t i = 0; i < v->stack.n && asked > 0 && may; i++) {
        may = p->tasks.at[p->pieces.at[v->stack.at[i]].maker].until >= asked;
        visit_above(v, v->stack.at[i]);
    }
    return may;
}

/* A piece that is dead and that no run is about to read goes. */
static bool bury(weir_evictor *v, uint32_t piece)
{
    const bool goes = is_dead(v, piece) && v->locks[piece] == 0 && is_there(v, piece) &&
                      may_go(v, piece);
    return !goes || go(v, piece);
}

static bool may_be_chosen(const weir_evictor *v, uint32_t piece, uint32_t round)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    return v->locks[piece] == 0 && v->barred[piece] != round && k->bytes > 0 &&
           !(k->output && v->next[piece] == k->uses.n);
}

/* Lets the piece with the smallest score go; *went: there was one. */
static bool evict(weir_evictor *v, uint32_t round, bool *went)
{
    for (;;) {
        uint32_t best = WEIR_NO_PIECE;
        double   least = 0;
        for (uint32_t i = 0; i < v->there.n; i++) {
            const uint32_t x = v->there.at[i];
            if (!may_be_chosen(v, x, round))
                continue;
            const double score = v->score(v, x);
            if (best == WEIR_NO_PIECE || score < least || (score == least && x < best)) {
                best = x;
                least = score;
            }
        }
        *went = best != WEIR_NO_PIECE;
        if (!*went || may_go(v, best))
            return !*went || go(v, best);
        v->barred[best] = round;
    }
}

/* ---- runs ---- */

/* Is the input last read by the run that is about to happen? */
static bool dies_in(const weir_evictor *v, uint32_t piece, bool again)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    return !k->output && k->maker != WEIR_NO_TASK && v->locks[piece] == 1 &&
           v->next[piece] + !again == k->uses.n;
}

/* Bytes that a run takes beside what is there: results that take over an input take none. */
static size_t bytes_of(const weir_evictor *v, const weir_task *t, bool again)
{
    const uint32_t *out = weir_refs(v->p, t->out), *pair = weir_refs(v->p, t->pairs);
    size_t          bytes = t->work;

    for (uint32_t i = 0; i < t->out.n; i++)
        bytes += v->p->pieces.at[out[i]].bytes;
    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        bool first = true;
        for (uint32_t j = 0; j < i; j += 2)
            first = first && pair[j] != pair[i] && pair[j + 1] != pair[i + 1];
        if (first && dies_in(v, pair[i], again) && !is_there(v, pair[i + 1]) &&
            v->p->pieces.at[pair[i]].bytes == v->p->pieces.at[pair[i + 1]].bytes)
            bytes -= v->p->pieces.at[pair[i]].bytes;
    }
    return bytes;
}

static bool make_room(weir_evictor *v, size_t bytes)
{
    const uint32_t round = ++v->stamps;
    bool           went = true, ok = true;

    while (ok && went && v->live + bytes > v->room)
        ok = evict(v, round, &went);
    return ok;
}

/* Its inputs are there and locked. */
static bool run(weir_evictor *v, uint32_t task, bool again)
{
    const weir_task *t = &v->p->tasks.at[task];
    const uint32_t  *in = weir_refs(v->p, t->in), *out = weir_refs(v->p, t->out);
    bool             ok = make_room(v, bytes_of(v, t, again));

    v->roots.n = 0;                     /* the results that were not there */
    for (uint32_t i = 0; i < t->out.n; i++)
        if (!is_there(v, out[i]))
            v->roots.at[v->roots.n++] = out[i];
    if (!ok || !weir_schedule_run(&v->s, task, again))
        return false;
    v->clock += t->time;
    v->done += !again;
    v->again += again;
    for (uint32_t i = 0; i < v->roots.n; i++)
        arrive(v, v->roots.at[i], !again);
    for (uint32_t i = 0; i < t->out.n; i++)
        v->used[out[i]] = v->clock;
    for (uint32_t i = 0; i < t->in.n; i++) {
        v->locks[in[i]]--;
        v->used[in[i]] = v->clock;
        v->next[in[i]] += !again;
    }
    for (uint32_t i = 0; i < t->in.n && ok; i++)
        ok = bury(v, in[i]);
    for (uint32_t i = 0; i < t->out.n && ok; i++)
        ok = bury(v, out[i]);
    return ok;
}

/* The run of a task is wanted. */
static void want(weir_evictor *v, uint32_t task)
{
    const weir_range in = v->p->tasks.at[task].in;

    for (uint32_t i = 0; i < in.n; i++)
        v->locks[weir_refs(v->p, in)[i]]++;
    v->frames.at[v->frames.n++] = task;
}

static uint32_t missing(const weir_evictor *v, uint32_t task)
{
    const weir_range in = v->p->tasks.at[task].in;

    for (uint32_t i = 0; i < in.n; i++)
        if (!is_there(v, weir_refs(v->p, in)[i]))
            return weir_refs(v->p, in)[i];
    return WEIR_NO_PIECE;
}

/* Runs task i, and before it whatever it misses, depth first. */
static bool run_first(weir_evictor *v, uint32_t i)
{
    want(v, i);
    while (v->frames.n > 0 && v->s.valid) {
        const uint32_t task = v->frames.at[v->frames.n - 1], piece = missing(v, task);
        const uint32_t maker = piece == WEIR_NO_PIECE ? WEIR_NO_TASK : v->p->pieces.at[piece].maker;
        if (maker != WEIR_NO_TASK && v->again <= MOST_AGAIN * v->p->tasks.n) {
            want(v, maker);
        } else if (piece != WEIR_NO_PIECE) {
            v->s.valid = false;
        } else {
            v->frames.n--;
            if (!run(v, task, task != i))
                return false;
        }
    }
    return true;
}

static bool begin(weir_evictor *v)
{
    const weir_problem *p = v->p;

    v->clock = 0;
    v->done = v->again = 0;
    v->live = 0;
    v->there.n = v->frames.n = v->gone.n = 0;
    memset(v->next, 0, p->pieces.n * sizeof *v->next);
    memset(v->locks, 0, p->pieces.n * sizeof *v->locks);
    for (uint32_t k = 0; k < p->pieces.n; k++)
        v->live += weir_piece_resident(p, k) ? p->pieces.at[k].bytes : 0;
    return weir_schedule_begin(&v->s, NULL);
}

bool weir_evictor_run(weir_evictor *v)
{
    if (!begin(v))
        return false;
    for (uint32_t i = 0; i < v->p->tasks.n && v->s.valid; i++)
        if (!run_first(v, i))
            return false;
    return weir_schedule_end(&v->s, v->room);
}

/* ---- the room ---- */

/* Runs in `room`; the better schedule is in job->s. *peak: of this one, SIZE_MAX: there is none. */
static bool run_in(weir_evictor *v, size_t room, weir_policy_job *job, size_t *peak)
{
    v->room = room;
    if (!weir_evictor_run(v))
        return false;
    *peak = v->s.valid ? v->s.peak : SIZE_MAX;
    weir_best_take(job, &v->s);
    return v->s.now || weir_schedule_init(&v->s, v->p);
}

weir_status weir_evictor_plan(weir_evictor *v, weir_policy_job *job)
{
    enum { HALVINGS = 12 };
    size_t lo = job->room, hi, peak;
    bool   ok = run_in(v, lo, job, &peak);

    if (!ok || peak <= lo || job->or_none)
        return ok ? WEIR_OK : WEIR_ERR_NOMEM;
    ok = run_in(v, SIZE_MAX, job, &hi);
    for (int i = 0; i < HALVINGS && ok && hi > lo; i++) {
        const size_t room = lo + (hi - lo) / 2;
        ok = run_in(v, room, job, &peak);
        *(peak <= room ? &hi : &lo) = room;
    }
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
