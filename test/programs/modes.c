/* modes.c - the ways a program is run: passes, budgets, policies, placements, threads, kernels; and
 * the table of how many seeds met each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/program.h"

enum { MAX_NAMES = 160, NAME = 48, ENOUGH = 150, OF = 2000 };

const kernels kernel_set[] = {
    {"any", "", "", false},
    {"own", "own", "own", true},
    {"openblas", "openblas", "openblas", false},
    {"onednn", "onednn", "onednn", false},
};
const int kernel_sets = sizeof kernel_set / sizeof *kernel_set;

const char *const isa_name[] = {"", "base", "avx2", "avx512"};
const int         isa_names = sizeof isa_name / sizeof *isa_name;

static const char *const places[] = {"", "life", "size", "area", "start", "end", "life-best",
                                     "size-best", "area-best", "start-best", "tstack", "exact"};
static const char *const evicts[] = {"", "dtr:eq", "dtr:local", "dtr:lru", "dtr:size", "dtr:msps"};
static const int         shares[] = {90, 75, 60, 45, SMALLEST};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- policies: those that the library names, and some behind a slash ---- */

static struct {
    char text[MAX_NAMES][32];
    int  n;
} policy;

static void add_policy(const char *name, const char *sep, const char *variant)
{
    if (policy.n < MAX_NAMES)
        snprintf(policy.text[policy.n++], sizeof policy.text[0], "%.14s%s%.15s", name, sep,
                 variant);
}

static void find_policies(void)
{
    char        solver[64];
    char *const all = weir_policy_names();
    char       *line_at = NULL, *word_at = NULL;

    for (char *line = all ? strtok_r(all, "\n", &line_at) : NULL; line;
         line = strtok_r(NULL, "\n", &line_at)) {
        const char *const name = strtok_r(line, " ", &word_at);
        if (strcmp(name, "optimal") == 0 && !weir_highs_version(solver, sizeof solver))
            continue;
        add_policy(name, "", "");
        for (const char *v; (v = strtok_r(NULL, " ", &word_at));)
            add_policy(name, ":", v);
    }
    weir_text_free(all);
    add_policy("auto", ":", "recompute+swap");
    add_policy("checkpoint", ":", "sequential=3");
    add_policy("dtr", "/", "gist");
    add_policy("checkpoint", ":", "speed/actnn:8");
    add_policy("auto", "/", "actnn");
}

/* ---- drawing ---- */

static void draw_machine(mode *m, dice *r)
{
    static const int threads[] = {1, 1, 1, 1, 2, 2, 3, 4};
    m->threads = threads[dice_int(r, 0, COUNT(threads) - 1)];
}

/* Appends the name of pass i modulo the number of passes. */
static void add_pass(char *text, int i)
{
    const char *s = weir_pass_names();
    for (; i > 0; i--) {
        s += strcspn(s, ",");
        s = *s ? s + 2 : weir_pass_names();
    }
    strncat(text, s, strcspn(s, ","));
}

static void draw_passes(mode *m, dice *r)
{
    const int64_t how = dice_int(r, 0, 9);
    if (how == 0) {
        m->level = WEIR_LEVEL_RECORDED;
    } else if (how == 1) {
        strcpy(m->disable, weir_pass_names());
    } else {
        const int n = (int)dice_int(r, 1, 2);
        for (int i = 0; i < n; i++) {
            strcat(m->disable, i ? "," : "");
            add_pass(m->disable, (int)dice_int(r, 0, 1000));
        }
    }
}

/* auto searches long, so only small graphs get it, but often. */
static const char *draw_policy(const program *p, dice *r)
{
    enum { SMALL = 32 };
    if (policy.n == 0)
        find_policies();
    const bool wanted = p->nodes <= SMALL && dice_chance(r, 92);
    for (int tries = 0;; tries++) {
        const char *const name = policy.text[dice_int(r, 0, policy.n - 1)];
        const bool        searches = strncmp(name, "auto", 4) == 0 && name[4] != 't';
        if (searches ? p->nodes <= SMALL : !wanted || tries > 20)
            return name;
    }
}

static void draw_budget(const program *p, mode *m, dice *r)
{
    m->share = shares[dice_int(r, 0, COUNT(shares) - 1)];
    strcpy(m->policy, draw_policy(p, r));
    m->measure = dice_chance(r, 8);
    if (strncmp(m->policy, "auto", 4) == 0 && dice_chance(r, 30))
        m->profile_steps = 1;
}

/* Draws mode i of a program, from a sequence that depends only on the seed and i. Modes 0 and 1 do
 * not use p->nodes, which is known only after mode 1 has run. */
static void draw_mode(const program *p, const mode *base, int i, mode *m)
{
    dice r = {p->seed * 7919 + 1000003 * (uint64_t)i};
    *m = *base;
    if (i == 0)
        return;
    if (kernel_set[m->kernels].own)
        draw_machine(m, &r);
    m->raw = dice_chance(&r, 30);
    m->on = i < MODES - 1;
    if (i == 2 || (m->on && i > 2 && dice_chance(&r, 25)))
        draw_passes(m, &r);
    if (m->on && (i > 2 || (i == 2 && dice_chance(&r, 70))))
        draw_budget(p, m, &r);
    if (m->on && i > 1 && dice_chance(&r, 75))
        strcpy(m->placement, places[dice_int(&r, 0, COUNT(places) - 1)]);
    if (!m->on) {
        m->eager = (int[]){60, 75, 90, 100}[dice_int(&r, 0, 3)];
        strcpy(m->evict, evicts[dice_int(&r, 0, COUNT(evicts) - 1)]);
    }
}

void draw_modes(const program *p, mode modes[MODES], mode *other)
{
    dice r = {p->seed * 7919 + 17};
    mode base = {.kernels = (int)dice_int(&r, 0, kernel_sets - 1),
                 .isa = dice_chance(&r, 55) ? 0 : (int)dice_int(&r, 1, isa_names - 1)};

    draw_machine(&base, &r);
    for (int i = 0; i < MODES; i++)
        draw_mode(p, &base, i, &modes[i]);
    *other = (mode){.kernels = (base.kernels + (int)dice_int(&r, 1, kernel_sets - 1)) % kernel_sets,
                    .threads = 1};
}

void print_mode(const mode *m)
{
    printf("graph %s%s, %s kernels, %d thread%s", m->on ? "on" : "off", m->raw ? " by hand" : "",
           kernel_set[m->kernels].name, m->threads, m->threads > 1 ? "s" : "");
    if (m->isa)
        printf(", %s", isa_name[m->isa]);
    if (m->level)
        printf(", as recorded");
    if (*m->disable)
        printf(", without %s", m->disable);
    if (m->share)
        printf(", budget %s%d%%", m->share < 0 ? "smallest " : "", m->share < 0 ? 0 : m->share);
    if (*m->policy)
        printf(", policy %s", m->policy);
    if (*m->placement)
        printf(", placement %s", m->placement);
    if (m->measure || m->profile_steps)
        printf(", %s%s", m->measure ? "measured " : "", m->profile_steps ? "guided" : "");
    if (m->eager)
        printf(", %d%% = %zu bytes by %s", m->eager, m->eager_bytes, *m->evict ? m->evict : "dtr");
    printf("\n");
}

/* ---- the table ---- */

static struct {
    char     name[MAX_NAMES][NAME];
    uint64_t seeds[MAX_NAMES], last[MAX_NAMES];
    int      n;
} table;

static int row(const char *name)
{
    int i = 0;
    while (i < table.n && strcmp(table.name[i], name) != 0)
        i++;
    if (i == table.n && i < MAX_NAMES)
        snprintf(table.name[table.n++], NAME, "%s", name);
    return i < MAX_NAMES ? i : MAX_NAMES - 1;
}

void count_add(const char *name, uint64_t seeds)
{
    table.seeds[row(name)] += seeds;
}

/* Call once for each seed. */
static void met(const char *what, const char *which, uint64_t seed)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s %s", what, which);
    const int i = row(name);
    if (table.last[i] == seed + 1)
        return;
    table.last[i] = seed + 1;
    table.seeds[i]++;
}

static void met_passes(const char *disable, uint64_t seed)
{
    if (strcmp(disable, weir_pass_names()) == 0) {
        met("passes", "all off", seed);
        return;
    }
    while (*disable) {
        char         name[NAME];
        const size_t length = strcspn(disable, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, disable);
        met("without", name, seed);
        disable += length + (disable[length] != '\0');
    }
}

void count_mode(const mode *m, uint64_t seed)
{
    char text[16];
    met("graph", !m->on ? (m->eager ? "off, budget" : "off")
                 : m->share || *m->disable || m->level ? "on"
                                                       : "on, defaults", seed);
    met("graph", m->raw ? "by hand" : "by weir_step", seed);
    if (m->level)
        met("passes", "as recorded", seed);
    met_passes(m->disable, seed);
    snprintf(text, sizeof text, "%d%%", m->share);
    if (m->share)
        met("budget", m->share < 0 ? "smallest" : text, seed);
    if (*m->policy)
        met("policy", m->policy, seed);
    if (m->on)
        met("placement", *m->placement ? m->placement : "auto", seed);
    if (m->eager)
        met("evict", *m->evict ? m->evict : "dtr", seed);
    if (m->measure)
        met("plan", "measured", seed);
    if (m->profile_steps)
        met("plan", "guided", seed);
    snprintf(text, sizeof text, "%d", m->threads);
    met("threads", text, seed);
    met("kernels", kernel_set[m->kernels].name, seed);
    met("instruction set", m->isa ? isa_name[m->isa] : "best", seed);
}

void count_clear(void)
{
    memset(&table, 0, sizeof table);
}

void count_send(int to)
{
    for (int i = 0; i < table.n; i++)
        if (table.seeds[i])
            dprintf(to, "count %llu %s\n", (unsigned long long)table.seeds[i], table.name[i]);
    count_clear();
}

static int by_name(const void *a, const void *b)
{
    return strcmp(table.name[*(const int *)a], table.name[*(const int *)b]);
}

void count_print(uint64_t seeds)
{
    int order[MAX_NAMES];
    for (int i = 0; i < table.n; i++)
        order[i] = i;
    qsort(order, (size_t)table.n, sizeof *order, by_name);
    printf("of %llu seeds met\n", (unsigned long long)seeds);
    for (int i = 0; i < table.n; i++)
        printf("  %-36s%8llu%s", table.name[order[i]],
               (unsigned long long)table.seeds[order[i]], i % 2 || i == table.n - 1 ? "\n" : "");
}

/* Fails if too few seeds ran under a mode, because then it is not tested. */
bool count_enough(uint64_t seeds)
{
    bool enough = true;
    for (int i = 0; i < table.n && seeds >= OF; i++)
        if (table.seeds[i] * OF < ENOUGH * seeds && strncmp(table.name[i], "note ", 5) != 0) {
            printf("FAILED: %s was met by %llu seeds only\n", table.name[i],
                   (unsigned long long)table.seeds[i]);
            enough = false;
        }
    return enough;
}
