/* deps.h - dependencies between the calls of a list.
 *
 * Calls and storages are numbers. The caller lists the calls in program order, each with the
 * storages it reads, writes and creates; then asks for the dependencies, or for an order
 * (call_order.h). */
#ifndef WEIR_CORE_SCHEDULE_DEPS_H
#define WEIR_CORE_SCHEDULE_DEPS_H

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
    uint32_t writer;        /* the last call that wrote the storage, or WEIR_NO_CALL */
    uint32_t reads;         /* head of the list of its readers since then */
} weir_dep_access;

/* Storage `to`, which the call creates, may take over the memory of `from`, which it reads. */
typedef struct weir_dep_pair {
    uint32_t from, to;
} weir_dep_pair;

/* A call: its first entries in the lists `read`, `made` and `taken`, and its scratch in bytes. */
typedef struct weir_dep_entry {
    uint32_t read, made, taken;
    size_t   work;
} weir_dep_entry;

typedef struct weir_dep_list {
    uint32_t                  calls; /* listed so far */
    WEIR_VEC(weir_dep_edge)   edges;
    WEIR_VEC(weir_dep_reader) readers;
    WEIR_VEC(uint32_t)        read, made; /* storages of more than 0 bytes, once per call */
    WEIR_VEC(weir_dep_pair)   taken;
    WEIR_VEC(weir_dep_entry)  of_call; /* [calls] */
    uint32_t                  storages;
    weir_dep_access          *access; /* [storages] */
    size_t                   *bytes;  /* [storages] bytes of the storage while it is live */
} weir_dep_list;

/* A storage has 0 bytes unless a call creates it, so one that exists before and after the list
 * costs nothing. Every function that returns bool returns false if memory runs out; the list must
 * be freed in that case too. */
bool weir_dep_begin(weir_dep_list *l, uint32_t storages);
void weir_dep_free(weir_dep_list *l);

/* Marks a storage as needed after the list: it has one more reader. Only before the first
 * call. */
bool weir_dep_keep(weir_dep_list *l, uint32_t storage);

/* Begins the next call, whose number is then l->calls - 1; the functions below add to it. */
bool weir_dep_call(weir_dep_list *l);
bool weir_dep_read(weir_dep_list *l, uint32_t storage);
bool weir_dep_write(weir_dep_list *l, uint32_t storage);
/* The call creates the storage, which from then on takes `bytes`. */
bool weir_dep_make(weir_dep_list *l, uint32_t storage, size_t bytes);
/* If the call is the last reader of `from`, `to`, which it creates, takes over its memory. Both
 * take equally many bytes. An earlier pair of the call wins. */
bool weir_dep_take_over(weir_dep_list *l, uint32_t from, uint32_t to);
/* The call needs `bytes` of scratch while it runs. */
void weir_dep_work(weir_dep_list *l, size_t bytes);
/* Adds an edge: call `from` comes before call `to`. WEIR_NO_CALL as `from` adds nothing. */
bool weir_dep_edge_to(weir_dep_list *l, uint32_t from, uint32_t to);

/* The dependencies of the whole list. The caller frees d with weir_deps_free. */
bool weir_deps_of_list(const weir_dep_list *l, weir_deps *d);
void weir_deps_free(weir_deps *d);

#endif
