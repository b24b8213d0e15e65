/* near.c - the nearest known name for one that was mistyped. */
#include "tool/tool.h"

#include <string.h>

enum { LENGTH = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that make a of b (optimal string
 * alignment; Damerau 1964); LENGTH if either is too long. */
static size_t distance(const char *a, const char *b)
{
    const size_t na = strlen(a), nb = strlen(b);
    size_t       d[LENGTH + 1][LENGTH + 1];

    if (na >= LENGTH || nb >= LENGTH)
        return LENGTH;
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
                            d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

void tool_near_add(tool_near *n, const char *name)
{
    const size_t edits = distance(n->wanted, name), most = 1 + strlen(n->wanted) / 4;

    if (edits <= most && (!*n->name || edits < n->edits)) {
        snprintf(n->name, sizeof n->name, "%s", name);
        n->edits = edits;
    }
}
