/* deps.c - tests of list scheduling: of the ready calls, the first that frees at least as much as
 * it allocates is next, else the first of all. */
#include "core/deps.h"

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

CASE(order_by_definition)
{
    for (int round = 0; round < 400; round++) {
        step          s;
        weir_dep_list l;
        uint32_t      order[CALLS];
        bool          better;
        random_step(&s);
        CHECK_OR_RETURN(tell(&s, &l) && weir_deps_order(&l, order, &better));
        for (uint32_t i = 0; i < s.n; i++)
            CHECK(order[i] == next_of(&s, order, i));
        weir_dep_free(&l);
    }
}

CASE(short_of_memory)
{
    step s;
    random_step(&s);
    for (int64_t n = 0;; n++) {
        weir_dep_list l;
        uint32_t      order[CALLS];
        bool          better;
        weir_mem_fail_nth(n, false);
        const bool ok = tell(&s, &l) && weir_deps_order(&l, order, &better);
        const bool failed = weir_mem_failed();
        weir_dep_free(&l);
        CHECK(ok == !failed);
        if (!failed)
            break;
    }
}
