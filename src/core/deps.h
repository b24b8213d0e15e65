/* deps.h - which calls of a list must come before which, and an order with a small peak.
 *
 * Calls and storages are numbers. The list is told call by call, in its order: what each reads and
 * writes, and storages that begin with it. */
#ifndef WEIR_CORE_DEPS_H
#define WEIR_CORE_DEPS_H

#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_CALL UINT32_MAX

/* Dependencies as edges before -> after: read after write, write after read, write after write. */
typedef struct weir_deps {
    uint32_t *first;        /* [n + 1] */
    uint32_t *to;           /* successors of call i: to[first[i] .. first[i + 1]) */
    uint32_t *indegree;     /* [n] */
} weir_deps;

typedef struct weir_dep_edge {
    uint32_t from, to;
} weir_dep_edge;

typedef struct weir_dep_reader {
    uint32_t call, next;
} weir_dep_reader;

typedef struct weir_dep_access {
    uint32_t writer;        /* last call that wrote the storage */
    uint32_t reads;         /* head of a list of readers since */
} weir_dep_access;

typedef struct weir_dep_list {
    uint32_t                  calls; /* begun so far */
    WEIR_VEC(weir_dep_edge)   edges;
    WEIR_VEC(weir_dep_reader) readers;
    WEIR_VEC(uint32_t)        read, made; /* storages of bytes, of each call each once */
    WEIR_VEC(uint32_t)        first_read, first_made; /* [calls] where those of a call begin */
    uint32_t                  storages;
    weir_dep_access          *access; /* [stores] */
    size_t                   *bytes;  /* [stores] that it takes while it is needed */
} weir_dep_list;

/* bytes of storages are 0 until told: those that are there before and after cost nothing. All
 * return false when memory is short. Free the list, also then. */
bool weir_dep_begin(weir_dep_list *l, uint32_t storages);
void weir_dep_free(weir_dep_list *l);

/* The storage is needed behind the list: a reader that never comes. Told before the first call. */
bool weir_dep_keep(weir_dep_list *l, uint32_t storage);

/* The next call, number l->calls - 1 from then on. */
bool weir_dep_call(weir_dep_list *l);
bool weir_dep_read(weir_dep_list *l, uint32_t storage);
bool weir_dep_write(weir_dep_list *l, uint32_t storage);
/* The call makes the storage, of which it takes the bytes. */
bool weir_dep_make(weir_dep_list *l, uint32_t storage, size_t bytes);
/* Besides: call `from` (WEIR_NO_CALL: none) comes before call `to`. */
bool weir_dep_edge_to(weir_dep_list *l, uint32_t from, uint32_t to);

/* When all calls are told. */
bool weir_deps_of_list(const weir_dep_list *l, weir_deps *d);
void weir_deps_free(weir_deps *d);

/* An order of the calls with a small peak into order[calls]: number i runs call order[i].
 * *better: its peak is no larger than that of the list as it was told. */
bool weir_deps_order(const weir_dep_list *l, uint32_t *order, bool *better);

#endif
