/* deps.c - lists calls with what they read, write and create, and derives their dependencies. */
#include "core/schedule/deps.h"

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
    weir_vec_free(&l->taken);
    weir_vec_free(&l->of_call);
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
    return weir_vec_push(&l->of_call, (weir_dep_entry){.read = l->read.n, .made = l->made.n,
                                                       .taken = l->taken.n});
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
    return among(l->read.at, l->of_call.at[call].read, l->read.n, storage) ||
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
           (among(l->made.at, l->of_call.at[l->calls - 1].made, l->made.n, storage) ||
            weir_vec_push(&l->made, storage));
}

bool weir_dep_take_over(weir_dep_list *l, uint32_t from, uint32_t to)
{
    return weir_vec_push(&l->taken, (weir_dep_pair){from, to});
}

void weir_dep_work(weir_dep_list *l, size_t bytes)
{
    l->of_call.at[l->calls - 1].work = bytes;
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
