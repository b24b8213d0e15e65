/* deps.c - tests of dependencies: read after write, write after read, write after write. */
#include "core/schedule/deps.h"

#include "check.h"

enum { STORES = 3 };

static bool has_edge(const weir_deps *d, uint32_t from, uint32_t to)
{
    for (uint32_t e = d->first[from]; e < d->first[from + 1]; e++)
        if (d->to[e] == to)
            return true;
    return false;
}

/* Lists: 0 makes x; 1 and 2 read x; 3 overwrites x; 4 reads x; 5 touches nothing, after 2. */
static bool list_calls(weir_dep_list *l)
{
    bool ok = weir_dep_begin(l, STORES);

    ok = ok && weir_dep_call(l) && weir_dep_make(l, 0, 64);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, 0);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, 0) && weir_dep_read(l, 0);
    ok = ok && weir_dep_call(l) && weir_dep_write(l, 0);
    ok = ok && weir_dep_call(l) && weir_dep_read(l, 0);
    return ok && weir_dep_call(l) && weir_dep_edge_to(l, 2, 5) &&
           weir_dep_edge_to(l, WEIR_NO_CALL, 5);
}

CASE(edges_of_each_kind)
{
    weir_dep_list l;
    weir_deps     d;

    CHECK_OR_RETURN(list_calls(&l) && weir_deps_of_list(&l, &d));
    CHECK(has_edge(&d, 0, 1) && has_edge(&d, 0, 2));        /* read after write */
    CHECK(has_edge(&d, 1, 3) && has_edge(&d, 2, 3));        /* write after read */
    CHECK(has_edge(&d, 0, 3) && has_edge(&d, 3, 4));        /* write after write, and read */
    CHECK(has_edge(&d, 2, 5));
    CHECK(!has_edge(&d, 1, 2) && !has_edge(&d, 4, 5) && d.indegree[5] == 1);
    weir_deps_free(&d);
    weir_dep_free(&l);
}

CASE(storages_count_once_a_call)
{
    weir_dep_list l;

    CHECK_OR_RETURN(list_calls(&l));
    CHECK(l.of_call.at[3].read - l.of_call.at[2].read == 1);    /* call 2 reads x twice */
    CHECK(l.made.n == 1 && l.bytes[0] == 64 && l.bytes[1] == 0);
    weir_dep_free(&l);
}
