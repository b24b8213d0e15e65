/* call_order.c - tests of orders of low peak: never above the listed one or that of list
 * scheduling without a limit, and low where a call had better wait. */
#include "core/schedule/call_order.h"

#include <string.h>

#include "check.h"

enum { CALLS = 40, STORES = 60, OPERANDS = 4 };

/* What a call reads and creates. */
typedef struct call {
    uint32_t nread, nmade, read[OPERANDS], made[OPERANDS];
} call;

typedef struct step {
    call     at[CALLS];
    uint32_t n, stores, kept;           /* storages below `kept` are needed after the list */
    size_t   bytes[STORES];
} step;

static bool reads(const call *c, uint32_t store)
{
    for (uint32_t i = 0; i < c->nread; i++)
        if (c->read[i] == store)
            return true;
    return false;
}

/* Draws calls that read what earlier ones have created. */
static void random_step(step *s)
{
    *s = (step){.n = (uint32_t)check_int(1, CALLS), .stores = 1};
    for (uint32_t i = 0; i < s->n; i++) {
        call *const c = &s->at[i];
        for (int64_t k = check_int(0, OPERANDS); k > 0; k--) {
            const uint32_t store = (uint32_t)check_int(0, s->stores - 1);
            if (!reads(c, store))
                c->read[c->nread++] = store;
        }
        for (int64_t k = check_int(1, 2); k > 0 && s->stores < STORES; k--) {
            s->bytes[s->stores] = (size_t)check_int(0, 5);
            c->made[c->nmade++] = s->stores++;
        }
    }
    s->kept = (uint32_t)check_int(0, s->stores / 4);
}

static bool tell(const step *s, weir_dep_list *l)
{
    bool ok = weir_dep_begin(l, s->stores);

    for (uint32_t k = 0; k < s->kept; k++)
        ok = ok && weir_dep_keep(l, k);
    for (uint32_t i = 0; i < s->n; i++) {
        ok = ok && weir_dep_call(l);
        for (uint32_t k = 0; k < s->at[i].nread; k++)
            ok = ok && weir_dep_read(l, s->at[i].read[k]);
        for (uint32_t k = 0; k < s->at[i].nmade; k++)
            ok = ok && weir_dep_make(l, s->at[i].made[k], s->bytes[s->at[i].made[k]]);
    }
    return ok;
}

static bool done_before(const uint32_t *order, uint32_t done, uint32_t c)
{
    for (uint32_t i = 0; i < done; i++)
        if (order[i] == c)
            return true;
    return false;
}

/* True if everything that call c reads exists. */
static bool is_ready(const step *s, const uint32_t *order, uint32_t done, uint32_t c)
{
    for (uint32_t p = 0; p < c; p++)
        for (uint32_t m = 0; m < s->at[p].nmade; m++)
            if (reads(&s->at[c], s->at[p].made[m]) && !done_before(order, done, p))
                return false;
    return !done_before(order, done, c);
}

/* True if the call frees at least what it allocates. A storage is freed by its last reader. */
static bool frees_enough(const step *s, const uint32_t *order, uint32_t done, uint32_t c)
{
    size_t makes = 0, frees = 0;

    for (uint32_t m = 0; m < s->at[c].nmade; m++)
        makes += s->bytes[s->at[c].made[m]];
    for (uint32_t k = 0; k < s->at[c].nread; k++) {
        const uint32_t store = s->at[c].read[k];
        bool           last = store >= s->kept;
        for (uint32_t other = 0; other < s->n; other++)
            last = last && (other == c || !reads(&s->at[other], store) ||
                            done_before(order, done, other));
        frees += last ? s->bytes[store] : 0;
    }
    return makes <= frees;
}

/* Returns the call that the definition of the order takes next. */
static uint32_t next_of(const step *s, const uint32_t *order, uint32_t done)
{
    uint32_t first = WEIR_NO_CALL;

    for (uint32_t c = 0; c < s->n; c++) {
        if (!is_ready(s, order, done, c))
            continue;
        if (frees_enough(s, order, done, c))
            return c;
        first = first == WEIR_NO_CALL ? c : first;
    }
    return first;
}

static bool makes(const call *c, uint32_t store)
{
    for (uint32_t m = 0; m < c->nmade; m++)
        if (c->made[m] == store)
            return true;
    return false;
}

/* Is the storage live while the call at position i runs? */
static bool is_live(const step *s, const uint32_t *order, uint32_t i, uint32_t store)
{
    bool made = false, needed = store < s->kept;

    for (uint32_t k = 0; k <= i; k++)
        made = made || makes(&s->at[order[k]], store);
    for (uint32_t k = i; k < s->n; k++)
        needed = needed || reads(&s->at[order[k]], store);
    return made && (needed || makes(&s->at[order[i]], store));
}

/* Largest sum of bytes that exist together, by definition. */
static size_t peak(const step *s, const uint32_t *order)
{
    size_t most = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        size_t live = 0;
        for (uint32_t store = 0; store < s->stores; store++)
            live += is_live(s, order, i, store) ? s->bytes[store] : 0;
        most = live > most ? live : most;
    }
    return most;
}

CASE(random_orders_are_low)
{
    for (int round = 0; round < 400; round++) {
        step          s;
        weir_dep_list l;
        uint32_t      order[CALLS], greedy[CALLS], listed[CALLS];
        size_t        counted;
        random_step(&s);
        CHECK_OR_RETURN(tell(&s, &l) && weir_deps_order(&l, NULL, order));
        for (uint32_t i = 0; i < s.n; i++) {
            CHECK(is_ready(&s, order, i, order[i]));
            greedy[i] = next_of(&s, greedy, i);
            listed[i] = i;
        }
        CHECK(weir_deps_peak(&l, order, &counted) && counted == peak(&s, order));
        CHECK(counted <= peak(&s, listed) && counted <= peak(&s, greedy));
        weir_dep_free(&l);
    }
}

/* ---- a training step: the gradient of a large weight waits ---- */

enum { LAYERS = 4, ACTIVATION = 1000, SLOPE = 1010, LARGE = 5000, SMALL = 10, SCRATCH = 7 };

/* Storages of the step below. */
enum {
    OF_ACTIVATION,
    OF_SLOPE = LAYERS,
    LAST = 2 * LAYERS,
    WEIGHT_GRADIENT,
    CLIPPED,
    STEP_STORES
};

/* A network of layers with large activations and one last layer with a large weight and small
 * operands. Its gradient is listed where recording puts it: before those of the layers. What uses
 * it works in place. */
static bool tell_training(weir_dep_list *l)
{
    bool ok = weir_dep_begin(l, STEP_STORES);

    for (uint32_t i = 0; i < LAYERS; i++) {
        ok = ok && weir_dep_call(l) && (i == 0 || weir_dep_read(l, OF_ACTIVATION + i - 1)) &&
             weir_dep_make(l, OF_ACTIVATION + i, ACTIVATION);
    }
    ok = ok && weir_dep_call(l) && weir_dep_read(l, LAYERS - 1) && weir_dep_make(l, LAST, SMALL);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, LAST) &&
         weir_dep_make(l, WEIGHT_GRADIENT, LARGE);
    if (ok)
        weir_dep_work(l, SCRATCH);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, WEIGHT_GRADIENT) &&
         weir_dep_make(l, CLIPPED, LARGE) && weir_dep_take_over(l, WEIGHT_GRADIENT, CLIPPED);
    for (uint32_t i = LAYERS; i-- > 0;) {
        const uint32_t above = i + 1 < LAYERS ? OF_SLOPE + i + 1 : LAST;
        ok = ok && weir_dep_call(l) && weir_dep_read(l, OF_ACTIVATION + i) &&
             weir_dep_read(l, above) && weir_dep_make(l, OF_SLOPE + i, SLOPE);
    }
    return ok;
}

static uint32_t position(const uint32_t *order, uint32_t n, uint32_t c)
{
    for (uint32_t i = 0; i < n; i++)
        if (order[i] == c)
            return i;
    return WEIR_NO_CALL;
}

CASE(a_large_gradient_waits)
{
    enum { COMPUTE = LAYERS + 1, USE, CALLS_LISTED = 2 * LAYERS + 3 };
    weir_dep_list l;
    uint32_t      order[CALLS_LISTED];
    size_t        listed = 0, found = 0;

    CHECK_OR_RETURN(tell_training(&l) && l.calls == CALLS_LISTED);
    CHECK_OR_RETURN(weir_deps_order(&l, NULL, order));
    CHECK(weir_deps_peak(&l, NULL, &listed) && weir_deps_peak(&l, order, &found));
    CHECK(listed == LAYERS * ACTIVATION + SMALL + LARGE + SCRATCH);
    CHECK(found == (LAYERS - 1) * ACTIVATION + SMALL + 2 * SLOPE);   /* the second slope */
    const uint32_t at = position(order, l.calls, COMPUTE);
    CHECK(at == CALLS_LISTED - 2 && order[at + 1] == USE);
    weir_dep_free(&l);
}

/* Offsets of any order whose peak is below `listed` would waste that much more. */
typedef struct judge {
    size_t   listed, waste;
    uint32_t calls;
} judge;

static size_t judge_height(void *context, const uint32_t *order, size_t peak_of_order)
{
    judge *const j = context;

    j->calls += order != NULL;
    return peak_of_order < j->listed ? peak_of_order + j->waste : peak_of_order;
}

CASE(the_measured_height_decides)
{
    for (int wasteful = 0; wasteful < 2; wasteful++) {
        weir_dep_list l;
        uint32_t      order[2 * LAYERS + 3];
        size_t        listed = 0, found = 0;
        CHECK_OR_RETURN(tell_training(&l) && weir_deps_peak(&l, NULL, &listed));
        judge                    j = {.listed = listed, .waste = wasteful ? LARGE : 1};
        const weir_order_measure measure = {judge_height, &j};
        CHECK(weir_deps_order(&l, &measure, order) && weir_deps_peak(&l, order, &found));
        CHECK(j.calls >= 2 && (wasteful ? found == listed : found < listed));
        weir_dep_free(&l);
    }
}

/* A step like that of a tree: each of n cells keeps gates and a small state; its weight gradient, a
 * product, reads the state alone and could wait until the gates of most cells are gone. */
static bool tell_cells(weir_dep_list *l, uint32_t n)
{
    enum { GATES = 1000, STATE = 10, WIDE = 40 };
    const uint32_t gates = 0, state = n, slope = 2 * n, wide = 3 * n + 1, product = 4 * n + 1;
    bool           ok = weir_dep_begin(l, 5 * n + 1);

    for (uint32_t i = 0; i < n && ok; i++)
        ok = weir_dep_call(l) && (i == 0 || weir_dep_read(l, state + i - 1)) &&
             weir_dep_make(l, gates + i, GATES) && weir_dep_make(l, state + i, STATE);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, state + n - 1) &&
         weir_dep_make(l, slope + n, STATE);
    for (uint32_t i = n; i-- > 0 && ok;) {
        ok = weir_dep_call(l) && weir_dep_read(l, state + i) && weir_dep_read(l, slope + i + 1) &&
             weir_dep_make(l, product + i, n * GATES - GATES / 2);
        ok = ok && weir_dep_call(l) && weir_dep_read(l, product + i);
        ok = ok && weir_dep_call(l) && weir_dep_read(l, slope + i + 1) &&
             weir_dep_make(l, wide + i, WIDE);
        ok = ok && weir_dep_call(l) && weir_dep_read(l, wide + i) &&
             weir_dep_read(l, gates + i) && weir_dep_make(l, slope + i, STATE);
    }
    return ok;
}

CASE(an_order_that_moves_many_calls_is_not_used)
{
    for (uint32_t n = 4; n <= 24; n += 20) {
        weir_dep_list l;
        uint32_t      order[5 * 24 + 1];
        size_t        listed = 0, found = 0;
        CHECK_OR_RETURN(tell_cells(&l, n) && weir_deps_order(&l, NULL, order));
        CHECK(weir_deps_peak(&l, NULL, &listed) && weir_deps_peak(&l, order, &found));
        CHECK(n == 4 ? found < listed : found == listed);
        weir_dep_free(&l);
    }
}

/* ---- live ranges ---- */

CASE(live_ranges_add_up_to_the_peak)
{
    for (int round = 0; round < 101; round++) {
        step             s;
        weir_dep_list    l;
        weir_live_ranges r = {0};
        uint32_t         order[CALLS];
        size_t           most = 0, counted;
        random_step(&s);
        CHECK_OR_RETURN((round == 0 ? tell_training(&l) : tell(&s, &l)) &&
                        weir_deps_order(&l, NULL, order));
        CHECK_OR_RETURN(weir_deps_live_ranges(&l, order, &r));
        for (uint32_t i = 0; i < l.calls; i++) {
            size_t live = 0;
            for (uint32_t k = 0; k < r.n; k++)
                live += r.at[k].first <= i && i <= r.at[k].last ? r.at[k].bytes : 0;
            most = live > most ? live : most;
        }
        CHECK(weir_deps_peak(&l, order, &counted) && counted == most);
        weir_vec_free(&r);
        weir_dep_free(&l);
    }
}

CASE(short_of_memory)
{
    step s;
    random_step(&s);
    for (int64_t n = 0;; n++) {
        weir_dep_list    l;
        weir_live_ranges r = {0};
        uint32_t         order[CALLS];
        weir_mem_fail_nth(n, false);
        const bool ok = tell(&s, &l) && weir_deps_order(&l, NULL, order) &&
                        weir_deps_live_ranges(&l, order, &r);
        const bool failed = weir_mem_failed();
        weir_vec_free(&r);
        weir_dep_free(&l);
        CHECK(ok == !failed);
        if (!failed)
            break;
    }
}
