/* deps.c - dependencies of a list of calls, and list scheduling.
 *
 * Among the ready calls, one that frees at least as many bytes as it allocates comes first: updates
 * and accumulations run early, so the gradients of all parameters never coexist. Otherwise the call
 * listed first runs first. */
#include "core/deps.h"

#include <string.h>

bool weir_dep_begin(weir_dep_list *l, uint32_t storages)
{
    *l = (weir_dep_list){.storages = storages};
    l->access = weir_mem_alloc((storages + 1u) * sizeof *l->access);
    l->bytes = weir_mem_zalloc(storages + 1u, sizeof *l->bytes);
    if (l->access)
        memset(l->access, 0xff, (storages + 1u) * sizeof *l->access);
    return l->access && l->bytes;
}

void weir_dep_free(weir_dep_list *l)
{
    weir_vec_free(&l->edges);
    weir_vec_free(&l->readers);
    weir_vec_free(&l->read);
    weir_vec_free(&l->made);
    weir_vec_free(&l->first_read);
    weir_vec_free(&l->first_made);
    weir_mem_free(l->access);
    weir_mem_free(l->bytes);
    *l = (weir_dep_list){0};
}

/* ---- listing calls ---- */

bool weir_dep_keep(weir_dep_list *l, uint32_t storage)
{
    return weir_vec_push(&l->read, storage);
}

bool weir_dep_call(weir_dep_list *l)
{
    l->calls++;
    return weir_vec_push(&l->first_read, l->read.n) && weir_vec_push(&l->first_made, l->made.n);
}

bool weir_dep_edge_to(weir_dep_list *l, uint32_t from, uint32_t to)
{
    return from == WEIR_NO_CALL || from == to ||
           weir_vec_push(&l->edges, (weir_dep_edge){from, to});
}

static bool among(const uint32_t *at, uint32_t from, uint32_t to, uint32_t x)
{
    for (uint32_t i = from; i < to; i++)
        if (at[i] == x)
            return true;
    return false;
}

bool weir_dep_read(weir_dep_list *l, uint32_t storage)
{
    const uint32_t         call = l->calls - 1;
    weir_dep_access *const a = &l->access[storage];

    if (!weir_dep_edge_to(l, a->writer, call) ||
        !weir_vec_push(&l->readers, (weir_dep_reader){call, a->reads}))
        return false;
    a->reads = l->readers.n - 1;
    return among(l->read.at, l->first_read.at[call], l->read.n, storage) ||
           weir_vec_push(&l->read, storage);
}

bool weir_dep_write(weir_dep_list *l, uint32_t storage)
{
    const uint32_t         call = l->calls - 1;
    weir_dep_access *const a = &l->access[storage];

    for (uint32_t r = a->reads; r != WEIR_NO_CALL; r = l->readers.at[r].next)
        if (!weir_dep_edge_to(l, l->readers.at[r].call, call))
            return false;
    if (!weir_dep_edge_to(l, a->writer, call))
        return false;
    *a = (weir_dep_access){call, WEIR_NO_CALL};
    return true;
}

bool weir_dep_make(weir_dep_list *l, uint32_t storage, size_t bytes)
{
    l->bytes[storage] = bytes;
    return weir_dep_write(l, storage) &&
           (among(l->made.at, l->first_made.at[l->calls - 1], l->made.n, storage) ||
            weir_vec_push(&l->made, storage));
}

/* ---- dependencies ---- */

bool weir_deps_of_list(const weir_dep_list *l, weir_deps *d)
{
    const uint32_t n = l->calls;

    *d = (weir_deps){weir_mem_zalloc(n + 2u, sizeof *d->first),
                     weir_mem_alloc((l->edges.n + 1u) * sizeof *d->to),
                     weir_mem_zalloc(n + 1u, sizeof *d->indegree)};
    if (!d->first || !d->to || !d->indegree) {
        weir_deps_free(d);
        return false;
    }
    for (uint32_t i = 0; i < l->edges.n; i++) {
        d->first[l->edges.at[i].from + 2]++;
        d->indegree[l->edges.at[i].to]++;
    }
    for (uint32_t i = 0; i < n; i++)
        d->first[i + 2] += d->first[i + 1];
    for (uint32_t i = 0; i < l->edges.n; i++)
        d->to[d->first[l->edges.at[i].from + 1]++] = l->edges.at[i].to;
    return true;
}

void weir_deps_free(weir_deps *d)
{
    weir_mem_free(d->first);
    weir_mem_free(d->to);
    weir_mem_free(d->indegree);
    *d = (weir_deps){0};
}

/* ---- scheduling ---- */

/* Call numbers in a binary heap, the least on top. */
typedef struct call_heap {
    uint32_t *at;           /* [calls] */
    uint32_t  n;
} call_heap;

typedef struct weir_scheduler {
    const weir_dep_list *l;
    uint32_t *left;         /* [storages] calls that have not read it yet */
    uint32_t *reader;       /* [storages] xor of those calls: if left is 1, the call itself */
    uint32_t *waits;        /* [calls] predecessors that have not run */
    uint8_t  *state;        /* [calls] */
    call_heap ready;        /* calls without predecessors; some may have run already */
    call_heap freeing;      /* those of them that free at least what they allocate */
} weir_scheduler;

enum { WAITS, READY, FREEING, DONE };

static uint32_t end_of(uint32_t call, const uint32_t *first, uint32_t calls, uint32_t n)
{
    return call + 1 < calls ? first[call + 1] : n;
}

static uint32_t reads_end(const weir_dep_list *l, uint32_t call)
{
    return end_of(call, l->first_read.at, l->calls, l->read.n);
}

static uint32_t made_end(const weir_dep_list *l, uint32_t call)
{
    return end_of(call, l->first_made.at, l->calls, l->made.n);
}

static void count_readers(const weir_dep_list *l, uint32_t *left)
{
    memset(left, 0, l->storages * sizeof *left);
    for (uint32_t i = 0; i < l->read.n; i++)
        left[l->read.at[i]]++;
}

static size_t allocates(const weir_dep_list *l, uint32_t call)
{
    size_t bytes = 0;
    for (uint32_t i = l->first_made.at[call]; i < made_end(l, call); i++)
        bytes += l->bytes[l->made.at[i]];
    return bytes;
}

static size_t frees(const weir_dep_list *l, uint32_t call, const uint32_t *left)
{
    size_t bytes = 0;
    for (uint32_t i = l->first_read.at[call]; i < reads_end(l, call); i++)
        bytes += left[l->read.at[i]] == 1 ? l->bytes[l->read.at[i]] : 0;
    return bytes;
}

/* Marks the call's reads as done. Returns the bytes that are freed once it has run. */
static size_t run_call(const weir_dep_list *l, uint32_t call, uint32_t *left)
{
    size_t bytes = frees(l, call, left);

    for (uint32_t i = l->first_read.at[call]; i < reads_end(l, call); i++)
        left[l->read.at[i]]--;
    for (uint32_t i = l->first_made.at[call]; i < made_end(l, call); i++)
        if (left[l->made.at[i]] == 0)       /* created and never read: freed at once */
            bytes += l->bytes[l->made.at[i]];
    return bytes;
}

/* Largest sum of live bytes over an order; order NULL: the listed order. */
static size_t peak_of(const weir_dep_list *l, const uint32_t *order, uint32_t *left)
{
    size_t live = 0, peak = 0;

    count_readers(l, left);
    for (uint32_t i = 0; i < l->calls; i++) {
        const uint32_t call = order ? order[i] : i;
        live += allocates(l, call);
        peak = live > peak ? live : peak;
        live -= run_call(l, call, left);
    }
    return peak;
}

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

/* What a call would free grows while it waits, as other readers of its inputs run. */
static void note_freeing(weir_scheduler *s, uint32_t call)
{
    if (s->state[call] == READY && allocates(s->l, call) <= frees(s->l, call, s->left)) {
        s->state[call] = FREEING;
        heap_push(&s->freeing, call);
    }
}

static void make_ready(weir_scheduler *s, uint32_t call)
{
    s->state[call] = READY;
    heap_push(&s->ready, call);
    note_freeing(s, call);
}

static uint32_t choose(weir_scheduler *s)
{
    uint32_t call;

    do
        call = heap_pop(s->freeing.n ? &s->freeing : &s->ready);
    while (s->state[call] == DONE);
    s->state[call] = DONE;
    return call;
}

/* After `call` has run: if a storage has one reader left, running that reader frees it. */
static void note_run(weir_scheduler *s, uint32_t call)
{
    const weir_dep_list *const l = s->l;

    (void)run_call(l, call, s->left);
    for (uint32_t i = l->first_read.at[call]; i < reads_end(l, call); i++) {
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
    const uint32_t             kept = l->calls ? l->first_read.at[0] : l->read.n;

    memset(s->reader, 0, l->storages * sizeof *s->reader);
    for (uint32_t i = 0; i < kept; i++)
        s->reader[l->read.at[i]] ^= WEIR_NO_CALL;
    for (uint32_t call = 0; call < l->calls; call++)
        for (uint32_t i = l->first_read.at[call]; i < reads_end(l, call); i++)
            s->reader[l->read.at[i]] ^= call;
}

static void schedule(weir_scheduler *s, const weir_deps *d, uint32_t *order)
{
    memcpy(s->waits, d->indegree, s->l->calls * sizeof *s->waits);
    note_readers(s);
    for (uint32_t i = 0; i < s->l->calls; i++)
        if (s->waits[i] == 0)
            make_ready(s, i);
    for (uint32_t done = 0; done < s->l->calls; done++) {
        const uint32_t call = choose(s);
        order[done] = call;
        note_run(s, call);
        for (uint32_t e = d->first[call]; e < d->first[call + 1]; e++)
            if (--s->waits[d->to[e]] == 0)
                make_ready(s, d->to[e]);
    }
}

bool weir_deps_order(const weir_dep_list *l, uint32_t *order, bool *better)
{
    weir_deps      d;
    weir_scheduler s = {.l = l};

    if (!weir_deps_of_list(l, &d))
        return false;
    s.left = weir_mem_alloc((l->storages + 1u) * sizeof *s.left);
    s.reader = weir_mem_alloc((l->storages + 1u) * sizeof *s.reader);
    s.waits = weir_mem_alloc((l->calls + 1u) * sizeof *s.waits);
    s.state = weir_mem_zalloc(l->calls + 1u, sizeof *s.state);
    s.ready.at = weir_mem_alloc((l->calls + 1u) * sizeof *s.ready.at);
    s.freeing.at = weir_mem_alloc((l->calls + 1u) * sizeof *s.freeing.at);
    const bool ok = s.left && s.reader && s.waits && s.state && s.ready.at && s.freeing.at;
    if (ok) {
        const size_t told = peak_of(l, NULL, s.left);
        count_readers(l, s.left);
        schedule(&s, &d, order);
        *better = peak_of(l, order, s.left) <= told;
    }
    weir_mem_free(s.left);
    weir_mem_free(s.reader);
    weir_mem_free(s.waits);
    weir_mem_free(s.state);
    weir_mem_free(s.ready.at);
    weir_mem_free(s.freeing.at);
    weir_deps_free(&d);
    return ok;
}
