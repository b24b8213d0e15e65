/* call_order.c - list scheduling of calls under a limit of live bytes, and a search for the limit.
 *
 * Among the ready calls, one that frees at least as many bytes as it allocates comes first: updates
 * and accumulations run early, so the gradients of all parameters never coexist. Otherwise the call
 * listed first runs first. A call that would exceed the limit waits until enough has been freed:
 * the gradient of a large weight is computed once the activations are gone. The least limit under
 * which every call runs is found by bisection; only calls that do not fit move from where they
 * would run without a limit. If many do, as in the steps of trees, what they read stays live for
 * long: the peak falls, but recomputation saves less, and budgets that could be met no longer can.
 * Such orders are not used. */
#include "core/schedule/call_order.h"

#include <string.h>

enum {
    ROUNDS = 24,        /* limits that the bisection tries, at most */
    STEPS = 3,          /* larger limits whose orders are measured, too */
    WORTH = 512,        /* an order must save peak / WORTH to replace the one without a limit, */
    FEW = 8,            /* and move at most FEW + calls / MOVED calls */
    MOVED = 64,
    CLOSE = 4096,       /* it ends when the limit is known to 1 / CLOSE */
    MOST_TAKEN = 8      /* results of one call that take over memory */
};

/* ---- what a call takes and frees ---- */

static weir_dep_entry end_of(const weir_dep_list *l, uint32_t call)
{
    return call + 1 < l->calls ? l->of_call.at[call + 1]
                               : (weir_dep_entry){l->read.n, l->made.n, l->taken.n, 0};
}

static void count_readers(const weir_dep_list *l, uint32_t *left)
{
    memset(left, 0, l->storages * sizeof *left);
    for (uint32_t i = 0; i < l->read.n; i++)
        left[l->read.at[i]]++;
}

static size_t allocates(const weir_dep_list *l, uint32_t call)
{
    const uint32_t end = end_of(l, call).made;
    size_t         bytes = 0;

    for (uint32_t i = l->of_call.at[call].made; i < end; i++)
        bytes += l->bytes[l->made.at[i]];
    return bytes;
}

/* Is one of the two storages part of a pair already? */
static bool among(const weir_dep_pair *at, int n, weir_dep_pair p)
{
    for (int i = 0; i < n; i++)
        if (at[i].from == p.from || at[i].to == p.to)
            return true;
    return false;
}

/* The results of the call that take over memory of inputs that it is the last to read. */
static int taken_pairs(const weir_dep_list *l, uint32_t call, const uint32_t *left,
                       weir_dep_pair *taken)
{
    const uint32_t end = end_of(l, call).taken;
    int            n = 0;

    for (uint32_t i = l->of_call.at[call].taken; i < end && n < MOST_TAKEN; i++) {
        const weir_dep_pair p = l->taken.at[i];
        if (left[p.from] == 1 && !among(taken, n, p))
            taken[n++] = p;
    }
    return n;
}

/* Bytes that the call needs beside those that are live before it. */
static size_t needs(const weir_dep_list *l, uint32_t call, const uint32_t *left)
{
    weir_dep_pair taken[MOST_TAKEN];
    size_t        bytes = allocates(l, call) + l->of_call.at[call].work;

    for (int i = taken_pairs(l, call, left, taken); i-- > 0;)
        bytes -= l->bytes[taken[i].to];
    return bytes;
}

static size_t frees(const weir_dep_list *l, uint32_t call, const uint32_t *left)
{
    const uint32_t end = end_of(l, call).read;
    size_t         bytes = 0;

    for (uint32_t i = l->of_call.at[call].read; i < end; i++)
        bytes += left[l->read.at[i]] == 1 ? l->bytes[l->read.at[i]] : 0;
    return bytes;
}

/* Marks the call's reads as done. Returns the bytes that are freed once it has run. */
static size_t run_call(const weir_dep_list *l, uint32_t call, uint32_t *left)
{
    const weir_dep_entry c = l->of_call.at[call], end = end_of(l, call);
    size_t                    bytes = frees(l, call, left);

    for (uint32_t i = c.read; i < end.read; i++)
        left[l->read.at[i]]--;
    for (uint32_t i = c.made; i < end.made; i++)
        if (left[l->made.at[i]] == 0)       /* created and never read: freed at once */
            bytes += l->bytes[l->made.at[i]];
    return bytes;
}

static size_t peak_of(const weir_dep_list *l, const uint32_t *order, uint32_t *left)
{
    size_t live = 0, peak = 0;

    count_readers(l, left);
    for (uint32_t i = 0; i < l->calls; i++) {
        const uint32_t call = order ? order[i] : i;
        const size_t   during = live + needs(l, call, left);
        peak = during > peak ? during : peak;
        live += allocates(l, call);
        live -= run_call(l, call, left);
    }
    return peak;
}

bool weir_deps_peak(const weir_dep_list *l, const uint32_t *order, size_t *peak)
{
    uint32_t *const left = weir_mem_alloc((l->storages + 1u) * sizeof *left);

    if (!left)
        return false;
    *peak = peak_of(l, order, left);
    weir_mem_free(left);
    return true;
}

/* ---- live ranges ---- */

/* Begins the live ranges of what the call at position i makes, unless it takes over another's. */
static void begin_ranges(const weir_dep_list *l, uint32_t call, uint32_t i, const uint32_t *left,
                         uint32_t *of, weir_live_ranges *ranges)
{
    const weir_dep_entry c = l->of_call.at[call], end = end_of(l, call);
    weir_dep_pair        taken[MOST_TAKEN];
    const int            n = taken_pairs(l, call, left, taken);

    for (uint32_t k = c.made; k < end.made; k++) {
        const uint32_t storage = l->made.at[k];
        of[storage] = ranges->n;
        for (int j = 0; j < n; j++)
            if (taken[j].to == storage)
                of[storage] = of[taken[j].from];
        if (of[storage] == ranges->n)
            ranges->at[ranges->n++] = (weir_range_of_bytes){l->bytes[storage], i, i};
        ranges->at[of[storage]].last = i;
    }
}

static void find_ranges(const weir_dep_list *l, const uint32_t *order, uint32_t *left,
                        uint32_t *of, weir_live_ranges *ranges)
{
    memset(of, 0xff, l->storages * sizeof *of);
    count_readers(l, left);
    for (uint32_t i = 0; i < l->calls; i++) {
        const uint32_t call = order[i], end = end_of(l, call).read;
        for (uint32_t k = l->of_call.at[call].read; k < end; k++)
            if (of[l->read.at[k]] != UINT32_MAX)
                ranges->at[of[l->read.at[k]]].last = i;
        begin_ranges(l, call, i, left, of, ranges);
        if (l->of_call.at[call].work > 0)
            ranges->at[ranges->n++] = (weir_range_of_bytes){l->of_call.at[call].work, i, i};
        (void)run_call(l, call, left);
    }
    const uint32_t kept = l->calls ? l->of_call.at[0].read : 0;
    for (uint32_t k = 0; k < kept; k++)
        if (of[l->read.at[k]] != UINT32_MAX)
            ranges->at[of[l->read.at[k]]].last = l->calls - 1;
}

bool weir_deps_live_ranges(const weir_dep_list *l, const uint32_t *order, weir_live_ranges *ranges)
{
    uint32_t *const left = weir_mem_alloc((l->storages + 1u) * sizeof *left);
    uint32_t *const of = weir_mem_alloc((l->storages + 1u) * sizeof *of);

    ranges->n = 0;
    const bool ok = left && of && weir_vec_reserve(ranges, l->made.n + (uint64_t)l->calls + 1);
    if (ok)
        find_ranges(l, order, left, of, ranges);
    weir_mem_free(left);
    weir_mem_free(of);
    return ok;
}

/* ---- a heap of calls ---- */

/* Call numbers in a binary heap, the least on top. */
typedef struct call_heap {
    uint32_t *at;           /* [calls] */
    uint32_t  n;
} call_heap;

static void heap_push(call_heap *h, uint32_t call)
{
    uint32_t i = h->n++;

    for (; i > 0 && h->at[(i - 1) / 2] > call; i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = call;
}

static uint32_t heap_pop(call_heap *h)
{
    const uint32_t least = h->at[0], last = h->at[--h->n];
    uint32_t       i = 0;

    for (uint32_t k = 1; k < h->n; k = 2 * i + 1) {
        k += k + 1 < h->n && h->at[k + 1] < h->at[k];
        if (h->at[k] >= last)
            break;
        h->at[i] = h->at[k];
        i = k;
    }
    h->at[i] = last;
    return least;
}

/* ---- scheduling under a limit ---- */

/* What is known about a call. */
enum { READY = 1, FREEING = 2, ASIDE = 4, DONE = 8 };

typedef struct weir_scheduler {
    const weir_dep_list *l;
    const weir_deps     *d;
    uint32_t *left;         /* [storages] calls that have not read it yet */
    uint32_t *reader;       /* [storages] xor of those calls: if left is 1, the call itself */
    uint32_t *waits;        /* [calls] predecessors that have not run */
    uint32_t *place;        /* [calls] position in the order without a limit */
    uint8_t  *state;        /* [calls] */
    call_heap ready;        /* calls without predecessors, except those that free at least what */
    call_heap freeing;      /* they allocate; a call in `freeing` may still be in `ready`, too */
    uint32_t *aside;        /* [calls] ready calls that did not fit, */
    uint32_t  n_aside;      /* how many, */
    size_t    least;        /* and the least that one of them needed; 0: may have become less */
    size_t    live, limit, peak;
} weir_scheduler;

/* A call that waits may need less and free more as other readers of its inputs run. */
static void note_freeing(weir_scheduler *s, uint32_t call)
{
    uint8_t *const state = &s->state[call];

    if (*state & ASIDE)
        s->least = 0;
    if ((*state & (READY | FREEING | DONE)) != READY ||
        allocates(s->l, call) > frees(s->l, call, s->left))
        return;
    *state |= FREEING;
    if (!(*state & ASIDE))
        heap_push(&s->freeing, call);
}

static void make_ready(weir_scheduler *s, uint32_t call)
{
    s->state[call] = READY;
    heap_push(&s->ready, call);
    note_freeing(s, call);
}

/* Lets the calls that did not fit try again. */
static void restore_aside(weir_scheduler *s)
{
    for (uint32_t i = 0; i < s->n_aside; i++) {
        const uint32_t call = s->aside[i];
        s->state[call] &= (uint8_t)~ASIDE;
        heap_push(s->state[call] & FREEING ? &s->freeing : &s->ready, call);
    }
    s->n_aside = 0;
    s->least = SIZE_MAX;
}

static void put_aside(weir_scheduler *s, uint32_t call, size_t need)
{
    s->state[call] |= ASIDE;
    s->aside[s->n_aside++] = call;
    s->least = need < s->least ? need : s->least;
}

/* Takes the next call that fits; WEIR_NO_CALL: none does. */
static uint32_t choose(weir_scheduler *s)
{
    if (s->n_aside && (s->least == 0 || s->least <= s->limit - s->live))
        restore_aside(s);
    while (s->freeing.n + s->ready.n > 0) {
        const bool     freeing = s->freeing.n > 0;
        const uint32_t call = heap_pop(freeing ? &s->freeing : &s->ready);
        if (s->state[call] & (DONE | ASIDE) || (!freeing && s->state[call] & FREEING))
            continue;       /* it is in the other heap or list, or was */
        const size_t need = needs(s->l, call, s->left);
        if (need <= s->limit - s->live) {
            s->peak = s->live + need > s->peak ? s->live + need : s->peak;
            return call;
        }
        put_aside(s, call, need);
    }
    return WEIR_NO_CALL;
}

/* Runs a call. If a storage has one reader left then, running that reader frees it. */
static void run(weir_scheduler *s, uint32_t call)
{
    const weir_dep_list *const l = s->l;
    const uint32_t             end = end_of(l, call).read;

    s->state[call] |= DONE;
    s->live += allocates(l, call);
    s->live -= run_call(l, call, s->left);
    for (uint32_t i = l->of_call.at[call].read; i < end; i++) {
        const uint32_t storage = l->read.at[i];
        s->reader[storage] ^= call;
        if (s->left[storage] == 1 && s->reader[storage] < l->calls)
            note_freeing(s, s->reader[storage]);
    }
}

/* A storage needed after the list is read by an imaginary call, WEIR_NO_CALL. */
static void note_readers(weir_scheduler *s)
{
    const weir_dep_list *const l = s->l;
    const uint32_t             kept = l->calls ? l->of_call.at[0].read : l->read.n;

    memset(s->reader, 0, l->storages * sizeof *s->reader);
    for (uint32_t i = 0; i < kept; i++)
        s->reader[l->read.at[i]] ^= WEIR_NO_CALL;
    for (uint32_t call = 0; call < l->calls; call++)
        for (uint32_t i = l->of_call.at[call].read; i < end_of(l, call).read; i++)
            s->reader[l->read.at[i]] ^= call;
}

static void begin(weir_scheduler *s, size_t limit)
{
    s->ready.n = s->freeing.n = s->n_aside = 0;
    s->least = SIZE_MAX;
    s->live = s->peak = 0;
    s->limit = limit;
    count_readers(s->l, s->left);
    memcpy(s->waits, s->d->indegree, s->l->calls * sizeof *s->waits);
    memset(s->state, 0, s->l->calls);
    note_readers(s);
    for (uint32_t i = 0; i < s->l->calls; i++)
        if (s->waits[i] == 0)
            make_ready(s, i);
}

/* Writes an order whose peak is at most the limit. False if list scheduling finds none. */
static bool schedule(weir_scheduler *s, size_t limit, uint32_t *order)
{
    begin(s, limit);
    for (uint32_t done = 0; done < s->l->calls; done++) {
        const uint32_t call = choose(s);
        if (call == WEIR_NO_CALL)
            return false;
        order[done] = call;
        run(s, call);
        for (uint32_t e = s->d->first[call]; e < s->d->first[call + 1]; e++)
            if (--s->waits[s->d->to[e]] == 0)
                make_ready(s, s->d->to[e]);
    }
    return true;
}

/* ---- the least limit ---- */

/* No order has a smaller peak: what one call reads, makes and needs. */
static size_t floor_of(const weir_dep_list *l, uint32_t *left)
{
    size_t floor = 0;

    for (uint32_t call = 0; call < l->calls; call++) {
        size_t bytes = 0;
        for (uint32_t i = l->of_call.at[call].read; i < end_of(l, call).read; i++)
            left[l->read.at[i]] = 1;
        bytes = needs(l, call, left) + frees(l, call, left);
        floor = bytes > floor ? bytes : floor;
        for (uint32_t i = l->of_call.at[call].read; i < end_of(l, call).read; i++)
            left[l->read.at[i]] = 0;
    }
    return floor;
}

/* Bisects for the least limit that list scheduling keeps, from `peak` down. */
static size_t least_limit(weir_scheduler *s, size_t peak, uint32_t *order)
{
    memset(s->left, 0, s->l->storages * sizeof *s->left);
    size_t floor = floor_of(s->l, s->left);

    for (int i = 0; i < ROUNDS && peak > floor && peak - floor > peak / CLOSE; i++) {
        const size_t limit = i == 0 ? floor : floor + (peak - floor) / 2;
        if (schedule(s, limit, order))
            peak = s->peak;
        else
            floor = limit;
    }
    return peak;
}

static size_t height_of(const weir_order_measure *m, const uint32_t *order, size_t peak)
{
    return m ? m->height(m->context, order, peak) : peak;
}

/* The number of calls that moved: those outside a longest list of calls that kept their order. */
static uint32_t moved(const weir_scheduler *s, const uint32_t *order)
{
    uint32_t *const last = s->waits;    /* least place at which a list of i + 1 calls ends */
    uint32_t        n = 0;

    for (uint32_t i = 0; i < s->l->calls; i++) {
        const uint32_t place = s->place[order[i]];
        uint32_t       at = 0;
        for (uint32_t end = n; at < end;) {
            const uint32_t middle = at + (end - at) / 2;
            if (last[middle] < place)
                at = middle + 1;
            else
                end = middle;
        }
        last[at] = place;
        n += at == n;
    }
    return s->l->calls - n;
}

/* Begins with the order of list scheduling without a limit, or with the listed one if its peak is
 * smaller. Orders under limits replace it where they save enough. The least limit comes first: its
 * order may be hard to place, and one of less haste be lower in the end. */
static void find_order(weir_scheduler *s, const weir_order_measure *m, uint32_t *order,
                       uint32_t *next)
{
    const size_t listed = peak_of(s->l, NULL, s->left);

    (void)schedule(s, SIZE_MAX, order);
    size_t peak = s->peak;
    for (uint32_t i = 0; i < s->l->calls && s->peak > listed; i++)
        order[i] = i;
    peak = listed < peak ? listed : peak;
    for (uint32_t i = 0; i < s->l->calls; i++)
        s->place[order[i]] = i;
    const size_t least = least_limit(s, peak, next);
    if (peak - least <= peak / WORTH)
        return;
    const size_t base = height_of(m, order, peak);
    size_t       best = base - base / WORTH;
    for (int i = 0; i <= STEPS && least < best; i++) {
        const size_t limit = least + (i == 0 ? 0 : (peak - least) >> (STEPS + 1 - i));
        if (!schedule(s, limit, next) || moved(s, next) > FEW + s->l->calls / MOVED)
            continue;
        const size_t height = height_of(m, next, s->peak);
        if (height < best) {
            best = height;
            memcpy(order, next, s->l->calls * sizeof *order);
        }
        if (!m || height == s->peak)
            break;
    }
}

bool weir_deps_order(const weir_dep_list *l, const weir_order_measure *measure, uint32_t *order)
{
    weir_deps      d;
    weir_scheduler s = {.l = l, .d = &d};

    if (!weir_deps_of_list(l, &d))
        return false;
    s.left = weir_mem_alloc((l->storages + 1u) * sizeof *s.left);
    s.reader = weir_mem_alloc((l->storages + 1u) * sizeof *s.reader);
    s.waits = weir_mem_alloc((l->calls + 1u) * sizeof *s.waits);
    s.place = weir_mem_alloc((l->calls + 1u) * sizeof *s.place);
    s.state = weir_mem_alloc(l->calls + 1u);
    s.ready.at = weir_mem_alloc((l->calls + 1u) * sizeof *s.ready.at);
    s.freeing.at = weir_mem_alloc((l->calls + 1u) * sizeof *s.freeing.at);
    s.aside = weir_mem_alloc((l->calls + 1u) * sizeof *s.aside);
    uint32_t *const next = weir_mem_alloc((l->calls + 1u) * sizeof *next);
    const bool ok = s.left && s.reader && s.waits && s.place && s.state && s.ready.at &&
                    s.freeing.at && s.aside && next;
    if (ok)
        find_order(&s, measure, order, next);
    weir_mem_free(s.left);
    weir_mem_free(s.reader);
    weir_mem_free(s.waits);
    weir_mem_free(s.place);
    weir_mem_free(s.state);
    weir_mem_free(s.ready.at);
    weir_mem_free(s.freeing.at);
    weir_mem_free(s.aside);
    weir_mem_free(next);
    weir_deps_free(&d);
    return ok;
}
