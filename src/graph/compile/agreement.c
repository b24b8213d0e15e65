/* agreement.c - what ranks compare when recording and planning have ended. See agreement.h.
 *
 * Each exchange has one size on all ranks, and every decision follows from what all ranks have got,
 * so all of them take the same way through this file and end with the same verdict. Equal graphs
 * take two exchanges of some bytes; details are exchanged only by ranks that differ.
 *
 * Plans are not compared: orders, recomputation, offloading and placement change no bit, and
 * collectives keep their order in every plan, so ranks may have other budgets and measured times.
 * Plans that round values are compared, since there the plan decides what is rounded. */
#include "graph/compile/agreement.h"

#include <stdio.h>

#include "core/attr.h"
#include "core/hash.h"
#include "core/status.h"
#include "graph/compile/call_digest.h"
#include "graph/plan/plan.h"

enum { CALL_TEXT = 256, SENTENCE = 768, MACHINE = 2048 };

static const char who[] = "weir_graph_end";

/* What ranks compare of a recording. */
typedef struct summary {
    uint64_t status;                    /* how recording has ended */
    uint64_t any_graph, any_machine;    /* this rank does not ask for equal ones */
    uint64_t machine;                   /* digest of machine_text */
    uint64_t calls, digest;             /* of the whole recording */
    uint64_t collectives, of_collectives;       /* of its collectives */
} summary;

/* What ranks compare of a plan. rounded: bits of rounded values, 0: none; plan: its digest then. */
typedef struct verdict {
    uint64_t status, rounded, plan;
} verdict;

/* Gathers `size` bytes of each rank; NULL after a failure. The caller frees the result. */
static void *gather(weir_comm *c, const void *mine, size_t size)
{
    char *const all = weir_mem_alloc((size_t)c->world * size);

    if (all && weir_comm_gather_for(c, WEIR_FOR_GRAPH, mine, size, all) != WEIR_OK) {
        weir_mem_free(all);
        return NULL;
    }
    return all;
}

/* The text of each rank, of at most size - 1 bytes; NULL after a failure. */
static char *gather_texts(weir_comm *c, const char *mine, size_t size)
{
    char *const room = weir_mem_zalloc(1, size);

    if (!room)
        return NULL;
    snprintf(room, size, "%s", mine);
    char *const all = gather(c, room, size);
    weir_mem_free(room);
    return all;
}

/* ---- a rank that has failed ---- */

/* All ranks fail as `failed` did, which tells the others its sentence. */
static weir_status fail_as_one(weir_comm *c, int failed, weir_status status)
{
    weir_failure own;

    weir_failure_get(&own);
    char *const texts = gather_texts(c, c->rank == failed ? weir_error() : "", SENTENCE);
    if (c->rank == failed)
        weir_failure_set(&own);
    else if (texts)
        status = weir_fail(status, "%s: rank %d has failed: %s", who, failed,
                           texts + (size_t)failed * SENTENCE);
    else
        status = weir_error_status();
    weir_mem_free(texts);
    return status;
}

/* ---- machines ---- */

/* Ranks of one machine have cards of other numbers, on which no bit depends: "card 1: ..." becomes
 * "card: ...". */
static char *without_card_number(char *text)
{
    char *const  card = text ? strstr(text, "\ncard ") : NULL;
    const size_t digits = card ? strspn(card + 6, "0123456789") : 0;

    if (digits > 0)
        memmove(card + 5, card + 6 + digits, strlen(card + 6 + digits) + 1);
    return text;
}

/* What bits depend on besides the graph, a line each: version, threads, processor, libraries. */
static char *machine_text(weir_device *d)
{
    weir_string s = {0};

    weir_string_add(&s, "weir %s\n%d threads\n", weir_version(), weir_device_threads(d));
    d->ops->info(d, &s);
    return without_card_number(weir_string_take(&s));
}

static uint64_t digest_text(const char *text)
{
    return weir_hash_bytes(WEIR_HASH_SEED, text, strlen(text));
}

/* Names the first line in which the texts of ranks 0 and `other` differ. */
static weir_status fail_machines(weir_comm *c, int other, const char *mine)
{
    char *const texts = gather_texts(c, mine, MACHINE);

    if (!texts)
        return weir_error_status();
    const char *a = texts, *b = texts + (size_t)other * MACHINE;
    for (size_t n = strcspn(a, "\n"); n == strcspn(b, "\n") && memcmp(a, b, n) == 0 && a[n];
         n = strcspn(a, "\n")) {
        a += n + 1;
        b += n + 1;
    }
    weir_fail(WEIR_ERR_COMM, "%s: rank 0 has '%.*s' where rank %d has '%.*s': their bits would "
              "differ; a communicator with agree = \"collectives\" allows it", who,
              (int)strcspn(a, "\n"), a, other, (int)strcspn(b, "\n"), b);
    weir_mem_free(texts);
    return WEIR_ERR_COMM;
}

/* ---- graphs ---- */

/* The first call that rank `other` has not as rank 0 has; `both`: the calls that both have. */
static weir_status find_call(weir_comm *c, const weir_call_digests *d, int other, size_t both,
                             size_t *at)
{
    uint64_t *const mine = weir_mem_alloc((both + 1) * sizeof *mine);

    for (size_t i = 0; i < both && mine && i < d->calls.n; i++)
        mine[i] = d->calls.at[i].digest;
    uint64_t *const all = mine && both ? gather(c, mine, both * sizeof *mine) : NULL;
    const uint64_t *const its = all ? all + (size_t)other * both : NULL;
    *at = 0;
    while (*at < both && all && all[*at] == its[*at])
        ++*at;
    const weir_status status = !mine || (both && !all) ? weir_error_status() : WEIR_OK;
    weir_mem_free(all);
    weir_mem_free(mine);
    return status;
}

/* `n`: the number of calls that rank 0 and `other` have. */
static weir_status name_call(const weir_graph *g, weir_comm *c, const weir_call_digests *d,
                             int other, size_t at, const uint64_t n[2])
{
    weir_string s = {0};

    if (at < d->calls.n)
        weir_call_digest_text(&s, g, d->calls.at[at].node);
    char *const texts = gather_texts(c, s.at ? s.at : "", CALL_TEXT);
    weir_mem_free(s.at);
    if (!texts)
        return weir_error_status();
    const char *const first = texts, *const second = texts + (size_t)other * CALL_TEXT;
    if (at >= n[0] || at >= n[1])
        weir_fail(WEIR_ERR_COMM, "%s: ranks have recorded different graphs: rank 0 has %llu calls, "
                  "rank %d has %llu; call %zu of rank %d, which rank %d has not, is %s", who,
                  (unsigned long long)n[0], other, (unsigned long long)n[1], at,
                  at >= n[0] ? other : 0, at >= n[0] ? 0 : other, at >= n[0] ? second : first);
    else if (strcmp(first, second) == 0)
        weir_fail(WEIR_ERR_COMM, "%s: ranks have recorded different graphs: call %zu, %s, has "
                  "other attributes, or reads other results, on rank %d than on rank 0", who, at,
                  first, other);
    else
        weir_fail(WEIR_ERR_COMM, "%s: ranks have recorded different graphs: call %zu is %s on "
                  "rank 0, and %s on rank %d", who, at, first, second, other);
    weir_mem_free(texts);
    return WEIR_ERR_COMM;
}

static weir_status fail_graphs(const weir_graph *g, weir_comm *c, const weir_call_digests *d,
                               int other, const uint64_t n[2])
{
    size_t at;

    WEIR_TRY(find_call(c, d, other, (size_t)(n[0] < n[1] ? n[0] : n[1]), &at));
    return name_call(g, c, d, other, at, n);
}

/* ---- a recording ---- */

/* Digests of the whole recording, and of its collectives. */
typedef struct digests {
    weir_call_digests whole, collectives;
} digests;

static weir_status digest(const weir_graph *g, const weir_comm *c, digests *d, summary *s)
{
    WEIR_TRY(weir_call_digests_make(&d->whole, g, NULL));
    WEIR_TRY(weir_call_digests_make(&d->collectives, g, c));
    s->calls = d->whole.calls.n;
    s->digest = d->whole.all;
    s->collectives = d->collectives.calls.n;
    s->of_collectives = d->collectives.all;
    return WEIR_OK;
}

static bool has_messages(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == WEIR_OP_SEND_TO || g->nodes.at[i].op == WEIR_OP_RECV_FROM)
            return true;
    return false;
}

/* Finds the first rank that differs from rank 0, in machine, then in graph. */
static weir_status judge(const weir_graph *g, weir_comm *c, const summary *all, const digests *d,
                         const char *machine)
{
    bool any_graph = false, any_machine = false;

    for (int r = 0; r < c->world; r++) {
        if (all[r].status != WEIR_OK)
            return fail_as_one(c, r, (weir_status)all[r].status);
        any_graph |= all[r].any_graph != 0;
        any_machine |= all[r].any_machine != 0;
    }
    for (int r = 1; r < c->world && !any_machine; r++)
        if (all[r].machine != all[0].machine)
            return fail_machines(c, r, machine);
    for (int r = 1; r < c->world; r++) {
        const uint64_t n[2] = {any_graph ? all[0].collectives : all[0].calls,
                               any_graph ? all[r].collectives : all[r].calls};
        if (any_graph ? all[r].of_collectives != all[0].of_collectives
                      : all[r].digest != all[0].digest)
            return fail_graphs(g, c, any_graph ? &d->collectives : &d->whole, r, n);
    }
    return WEIR_OK;
}

static weir_status compare(const weir_graph *g, weir_agreed *a, weir_status so_far)
{
    weir_comm *const c = a->comm;
    digests          d = {0};
    char *const      machine = machine_text(g->dev);
    summary          mine = {.any_graph = c->graphs_may_differ || has_messages(g),
                             .any_machine = c->graphs_may_differ,
                             .machine = machine ? digest_text(machine) : 0};

    if (so_far == WEIR_OK)
        so_far = machine ? digest(g, c, &d, &mine) : WEIR_ERR_NOMEM;
    mine.status = so_far;
    weir_failure why;
    weir_failure_get(&why);
    summary *const all = gather(c, &mine, sizeof mine);
    if (so_far != WEIR_OK)
        weir_failure_set(&why);
    if (all)
        so_far = judge(g, c, all, &d, machine);
    else if (so_far == WEIR_OK)
        so_far = weir_error_status();
    a->number = ++c->graphs;
    weir_mem_free(all);
    weir_mem_free(machine);
    weir_call_digests_free(&d.whole);
    weir_call_digests_free(&d.collectives);
    return so_far;
}

/* Lists the communicators of the graph, in the order of their first collectives. */
static weir_status find_communicators(weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        if (n->dead || !weir_is_of_all_ranks(n))
            continue;
        weir_comm *const c =
            (weir_comm *)(uintptr_t)((const weir_collective_attr *)n->attr)->comm;
        uint32_t k = 0;
        while (k < g->agreed.n && g->agreed.at[k].comm != c)
            k++;
        if (k == g->agreed.n && !weir_vec_push(&g->agreed, ((weir_agreed){.comm = c})))
            return WEIR_ERR_NOMEM;
        g->agreed.at[k].sums += n->op == WEIR_OP_ALL_REDUCE &&
                                ((const weir_collective_attr *)n->attr)->bucket != 0;
    }
    return WEIR_OK;
}

weir_status weir_agree_recorded(weir_graph *g, weir_status so_far)
{
    const weir_status found = find_communicators(g);

    so_far = so_far == WEIR_OK ? found : so_far;
    for (uint32_t i = 0; i < g->agreed.n; i++)
        so_far = compare(g, &g->agreed.at[i], so_far);
    return so_far;
}

/* ---- a plan ---- */

static bool rounds(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->plan->n; i++)
        if (g->plan->instr[i].call.op == WEIR_OP_QUANTIZE)
            return true;
    return false;
}

static uint64_t digest_plan(const weir_graph *g)
{
    uint64_t h = weir_hash_u64(WEIR_HASH_SEED, g->plan->n);

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_call *const call = &g->plan->instr[i].call;
        h = weir_hash_bytes(h, call->def->name, strlen(call->def->name));
        if (call->nout > 0)
            h = weir_hash_u64(h, weir_shape_bytes(&call->out[0].desc));
    }
    return h;
}

/* A plan that is made again later would round other values on this rank alone. */
static weir_status check_lasting(const weir_graph *g)
{
    if (!rounds(g) || (!g->replan && !g->shared))
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: the policy rounds values, and %s would make the plan "
                     "again on this rank alone: not in a graph with collectives", who,
                     g->replan ? "profile_steps" : "a shared budget");
}

static weir_status judge_plans(weir_comm *c, const verdict *all)
{
    for (int r = 0; r < c->world; r++)
        if (all[r].status != WEIR_OK)
            return fail_as_one(c, r, (weir_status)all[r].status);
    for (int r = 1; r < c->world; r++)
        if (all[r].rounded != all[0].rounded || all[r].plan != all[0].plan)
            return weir_fail(WEIR_ERR_COMM, "%s: ranks 0 and %d round different values: give them "
                             "the same policy and budget", who, r);
    return WEIR_OK;
}

static weir_status compare_plans(weir_comm *c, const verdict *mine)
{
    weir_failure why;

    weir_failure_get(&why);
    verdict *const all = gather(c, mine, sizeof *mine);
    if (mine->status != WEIR_OK)
        weir_failure_set(&why);
    const weir_status status = all ? judge_plans(c, all)
                               : mine->status != WEIR_OK ? (weir_status)mine->status
                                                         : weir_error_status();
    weir_mem_free(all);
    return status;
}

weir_status weir_agree_planned(weir_graph *g, weir_status so_far)
{
    if (g->agreed.n > 0 && so_far == WEIR_OK)
        so_far = check_lasting(g);
    for (uint32_t i = 0; i < g->agreed.n; i++) {
        const bool    exact = so_far != WEIR_OK || !rounds(g);
        const verdict mine = {.status = so_far, .rounded = exact ? 0 : g->lossy,
                              .plan = exact ? 0 : digest_plan(g)};
        so_far = compare_plans(g->agreed.at[i].comm, &mine);
    }
    return so_far;
}

/* ---- runs ---- */

void weir_agreed_begin(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->agreed.n; i++)
        g->agreed.at[i].comm->at(g->agreed.at[i].comm, g->agreed.at[i].number, g->completed + 1);
}

void weir_agreed_end(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->agreed.n; i++)
        g->agreed.at[i].comm->at(g->agreed.at[i].comm, 0, 0);
}
