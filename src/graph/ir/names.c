/* names.c - names of recorded calls, and the name scopes that are open on a device. */
#include "graph/ir/names.h"

#include <string.h>

#include "core/hash.h"
#include "core/status.h"

/* ---- name scopes ---- */

void weir_name_path_unwind(weir_name_path *p, uint32_t depth)
{
    while (p->mark.n > depth) {
        p->text.n = p->mark.at[--p->mark.n] + 1;
        p->text.at[p->text.n - 1] = '\0';
        p->graph = 0;
    }
}

void weir_name_path_free(weir_name_path *p)
{
    weir_vec_free(&p->text);
    weir_vec_free(&p->mark);
}

/* Fails unless the name can be a part of a path: texts show it in one line. */
static weir_status check_name(const char *name)
{
    if (!name || !*name)
        return weir_fail(WEIR_ERR_INVALID, "weir_name_scope_begin: the name is %s",
                         name ? "empty" : "NULL");
    const char *const c = weir_text_control(name);
    if (c)
        return weir_fail(WEIR_ERR_INVALID, "weir_name_scope_begin: the name has the control "
                         "character %d at %d", *c, (int)(c - name));
    return WEIR_OK;
}

weir_status weir_name_path_enter(weir_name_path *p, const char *name)
{
    const uint32_t at = p->text.n ? p->text.n - 1 : 0;

    WEIR_TRY(check_name(name));
    const size_t n = strlen(name), begin = at + (at > 0);
    if (begin + n >= WEIR_PATH_BYTES)
        return weir_fail(WEIR_ERR_INVALID, "weir_name_scope_begin: the path '%.40s...' with "
                         "'%.40s' has more than %d bytes", weir_name_path_text(p), name,
                         WEIR_PATH_BYTES - 1);
    if (!weir_vec_reserve(&p->text, begin + n + 1) || !weir_vec_push(&p->mark, at))
        return WEIR_ERR_NOMEM;
    if (at > 0)
        p->text.at[at] = '/';
    memcpy(p->text.at + begin, name, n + 1);
    p->text.n = (uint32_t)(begin + n + 1);
    p->graph = 0;
    return WEIR_OK;
}

/* ---- paths ---- */

/* Grows the table of paths so that it is at most half full with one more. */
static bool paths_grow(weir_names *n)
{
    if (2 * (n->paths.n + 1) <= n->paths.cap)
        return true;
    const uint32_t  cap = n->paths.cap ? 2 * n->paths.cap : 64;
    uint32_t *const slot = weir_mem_zalloc(cap, sizeof *slot);
    if (!slot)
        return false;
    for (uint32_t i = 0; i < n->paths.cap; i++) {
        if (!n->paths.slot[i])
            continue;
        const char *const text = n->text.at + n->paths.slot[i];
        uint64_t          h = weir_hash_bytes(WEIR_HASH_SEED, text, strlen(text));
        while (slot[h & (cap - 1)])
            h++;
        slot[h & (cap - 1)] = n->paths.slot[i];
    }
    weir_mem_free(n->paths.slot);
    n->paths.slot = slot;
    n->paths.cap = cap;
    return true;
}

uint32_t weir_names_path(weir_names *n, const char *path)
{
    const size_t bytes = strlen(path) + 1;

    if (n->text.n == 0 && !weir_vec_push(&n->text, '\0'))
        return UINT32_MAX;
    if (bytes == 1)
        return 0;
    if (!paths_grow(n))
        return UINT32_MAX;
    uint64_t h = weir_hash_bytes(WEIR_HASH_SEED, path, bytes - 1);
    for (;; h++) {
        uint32_t *const slot = &n->paths.slot[h & (n->paths.cap - 1)];
        if (*slot && strcmp(n->text.at + *slot, path) == 0)
            return *slot;
        if (*slot)
            continue;
        if (!weir_vec_reserve(&n->text, (uint64_t)n->text.n + bytes))
            return UINT32_MAX;
        memcpy(n->text.at + n->text.n, path, bytes);
        *slot = n->text.n;
        n->text.n += (uint32_t)bytes;
        n->paths.n++;
        return *slot;
    }
}

/* ---- calls and nodes ---- */

weir_status weir_names_call(weir_names *n, weir_name_path *p, uint64_t graph, const weir_opdef *def,
                            uint32_t *number)
{
    if (p->graph != graph) {
        p->known = weir_names_path(n, weir_name_path_text(p));
        if (p->known == UINT32_MAX)
            return WEIR_ERR_NOMEM;
        p->graph = graph;
    }
    *number = n->calls.n;
    return weir_vec_push(&n->calls, (weir_call_name){.def = def, .path = p->known})
               ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_node_name weir_names_use(weir_names *n, uint32_t call, weir_name_mark mark, bool *ok)
{
    const weir_node_name name = {n->uses.n, 1};

    *ok = weir_vec_push(&n->uses, call << 2 | (uint32_t)mark);
    return *ok ? name : (weir_node_name){0};
}

bool weir_names_join(weir_names *n, weir_node_name *all, weir_node_name more)
{
    if (all->n == 0)
        all->first = n->uses.n;
    for (uint32_t i = 0; i < more.n; i++) {
        const uint32_t use = n->uses.at[more.first + i];
        uint32_t       k = 0;
        while (k < all->n && n->uses.at[all->first + k] != use)
            k++;
        if (k < all->n)
            continue;
        if (!weir_vec_push(&n->uses, use))
            return false;
        all->n++;
    }
    return true;
}

weir_status weir_names_number(weir_names *n)
{
    uint32_t cap = 64;

    while (cap / 2 < n->calls.n)
        cap *= 2;
    uint32_t *const latest = weir_mem_zalloc(cap, sizeof *latest);     /* call + 1; 0: empty */
    if (!latest)
        return WEIR_ERR_NOMEM;
    for (uint32_t u = 0; u < n->uses.n; u++) {
        const uint32_t        i = n->uses.at[u] >> 2;
        weir_call_name *const c = &n->calls.at[i];
        if ((n->uses.at[u] & 3) != WEIR_NAME_CALL)
            continue;
        uint64_t h = weir_hash_u64(weir_hash_u64(WEIR_HASH_SEED, (uintptr_t)c->def), c->path);
        for (; latest[h & (cap - 1)]; h++) {
            const weir_call_name *const l = &n->calls.at[latest[h & (cap - 1)] - 1];
            if (l->def == c->def && l->path == c->path)
                break;
        }
        uint32_t *const slot = &latest[h & (cap - 1)];
        c->number = *slot ? n->calls.at[*slot - 1].number + 1 : 1;
        *slot = i + 1;
    }
    weir_mem_free(latest);
    return WEIR_OK;
}

void weir_names_free(weir_names *n)
{
    weir_vec_free(&n->text);
    weir_vec_free(&n->calls);
    weir_vec_free(&n->uses);
    weir_mem_free(n->paths.slot);
}

/* ---- text ---- */

static const weir_call_name *call_of(const weir_names *n, weir_node_name name, uint32_t i)
{
    return &n->calls.at[n->uses.at[name.first + i] >> 2];
}

static weir_name_mark mark_of(const weir_names *n, weir_node_name name, uint32_t i)
{
    return (weir_name_mark)(n->uses.at[name.first + i] & 3);
}

/* Bytes of the leading parts, each with its slash, that the paths of all calls share. */
static size_t shared(const weir_names *n, weir_node_name name)
{
    const char *const first = n->text.at + call_of(n, name, 0)->path;
    size_t            bytes = strlen(first);

    for (uint32_t i = 1; i < name.n; i++) {
        const char *const path = n->text.at + call_of(n, name, i)->path;
        size_t            k = 0;
        while (k < bytes && path[k] == first[k])
            k++;
        const bool whole = (path[k] == '\0' || path[k] == '/') &&
                           (first[k] == '\0' || first[k] == '/');
        while (!whole && k > 0 && first[k - 1] != '/')
            k--;
        bytes = k > 0 && !whole ? k - 1 : k;
    }
    return bytes;
}

static bool same_mark(const weir_names *n, weir_node_name name)
{
    for (uint32_t i = 1; i < name.n; i++)
        if (mark_of(n, name, i) != mark_of(n, name, 0))
            return false;
    return true;
}

static void add_mark(weir_string *s, weir_name_mark mark)
{
    static const char *const text[] = {
        [WEIR_NAME_CALL] = "", [WEIR_NAME_GRAD] = ":grad", [WEIR_NAME_RECOMPUTE] = ":recompute"};
    weir_string_add(s, "%s", text[mark]);
}

/* One call without the first `skip` bytes of its path. */
static void add_call(const weir_names *n, const weir_call_name *c, size_t skip, weir_string *s)
{
    const char *path = n->text.at + c->path + skip;

    path += *path == '/';
    weir_string_add(s, "%s%s%s", path, *path ? "/" : "", c->def->name);
    if (c->number > 1)
        weir_string_add(s, "%u", c->number);
}

void weir_names_add(const weir_names *n, weir_node_name name, bool recomputed, weir_string *s)
{
    if (name.n == 0)
        return;
    const bool   several = name.n > 1, alike = same_mark(n, name);
    const size_t skip = several ? shared(n, name) : 0;

    if (skip)
        weir_string_add(s, "%.*s/", (int)skip, n->text.at + call_of(n, name, 0)->path);
    weir_string_add(s, several ? "{" : "");
    for (uint32_t i = 0; i < name.n; i++) {
        weir_string_add(s, i ? "+" : "");
        add_call(n, call_of(n, name, i), skip, s);
        if (!alike)
            add_mark(s, mark_of(n, name, i));
    }
    weir_string_add(s, several ? "}" : "");
    if (alike)
        add_mark(s, mark_of(n, name, 0));
    if (recomputed)
        weir_string_add(s, ":recompute");
}

bool weir_names_leave_op(const weir_names *n, weir_node_name name, const weir_opdef *def)
{
    if (name.n == 1 && call_of(n, name, 0)->def != def)
        return true;
    for (uint32_t i = 0; i < name.n; i++)
        if (mark_of(n, name, i) == WEIR_NAME_GRAD)
            return true;
    return name.n == 0;
}
