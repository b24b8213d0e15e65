/* pass_list.h - the passes one by one, for tests that leave each of them out. */
#ifndef WEIR_TEST_GRAPH_PASS_LIST_H
#define WEIR_TEST_GRAPH_PASS_LIST_H

#include <string.h>

#include "check.h"
#include "weir.h"

enum { PASSES_MAX = 32 };
typedef char pass_name[32];

/* Writes the names that weir_pass_names() lists to name[PASSES_MAX] and returns how many. */
static inline size_t pass_list(pass_name *name)
{
    size_t n = 0;
    for (const char *s = weir_pass_names(); *s && CHECK(n < PASSES_MAX); n++) {
        const size_t length = strcspn(s, ", ");
        CHECK(length > 0 && length < sizeof *name);
        memcpy(name[n], s, length);
        name[n][length] = '\0';
        s += length + strspn(s + length, ", ");
    }
    return n;
}

#endif
