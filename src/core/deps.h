/* deps.h - dependencies between the calls of a list, and an order with a small peak.
 *
 * Calls and storages are numbers. The caller lists the calls in order, each with the storages that
 * it reads, writes and makes. */
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
    WEIR_VEC(uint32_t)        read, made; /* storages with bytes > 0, once per call */
    WEIR_VEC(uint32_t)        first_read, first_made; /* [calls] where those of a call begin */
    uint32_t                  storages;
    weir_dep_access          *access; /* [storages] */
    size_t                   *bytes;  /* [storages] taken while the storage is live */
} weir_dep_list;

/* A storage has 0 bytes unless a call makes it: one that lives before and after the list costs
 * nothing. All functions return false if out of memory; free the list then, too. */
bool weir_dep_begin(weir_dep_list *l, uint32_t storages);
void weir_dep_free(weir_dep_list *l);

/* The storage is read after the list: it counts one reader more. Call it before the first call. */
bool weir_dep_keep(weir_dep_list *l, uint32_t storage);

/* The next call, number l->calls - 1 from then on. */
bool weir_dep_call(weir_dep_list *l);
bool weir_dep_read(weir_dep_list *l, uint32_t storage);
bool weir_dep_write(weir_dep_list *l, uint32_t storage);
/* The call makes the storage, which takes `bytes` from then on. */
bool weir_dep_make(weir_dep_list *l, uint32_t storage, size_t bytes);
/* Adds an edge: call `from` (WEIR_NO_CALL: no edge) comes before call `to`. */
bool weir_dep_edge_to(weir_dep_list *l, uint32_t from, uint32_t to);

/* Once all calls are listed. */
bool weir_deps_of_list(const weir_dep_list *l, weir_deps *d);
void weir_deps_free(weir_deps *d);

/* An order of the calls with a small peak into order[calls]: number i runs call order[i].
 * *better: its peak is no larger than that of the listed order. */
bool weir_deps_order(const weir_dep_list *l, uint32_t *order, bool *better);

#endif
