/* highs.c - loads HiGHS (its C interface with 32-bit indices) on first use.
 *
 * The environment variable WEIR_HIGHS names the library file; without it, the usual names are
 * tried. The prototypes are declared here, so that building needs no headers of HiGHS. Source:
 * Huangfu and Hall, "Parallelizing the dual revised simplex method", Mathematical Programming
 * Computation 10, 2018. */
#include "graph/memory/bounds/highs.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "weir/plan.h"

/* ---- building ---- */

uint32_t weir_milp_column(weir_milp *m, double low, double high, double cost, bool whole)
{
    if (m->short_of_memory || !weir_vec_push(&m->cost, cost) || !weir_vec_push(&m->low, low) ||
        !weir_vec_push(&m->high, high) || !weir_vec_push(&m->whole, whole)) {
        m->short_of_memory = true;
        return 0;
    }
    return m->cost.n - 1;
}

void weir_milp_row(weir_milp *m, double low, double high)
{
    if (m->short_of_memory || !weir_vec_push(&m->row_low, low) ||
        !weir_vec_push(&m->row_high, high) || !weir_vec_push(&m->first, (int32_t)m->index.n))
        m->short_of_memory = true;
}

void weir_milp_entry(weir_milp *m, uint32_t column, double value)
{
    if (m->short_of_memory || !weir_vec_push(&m->index, (int32_t)column) ||
        !weir_vec_push(&m->value, value))
        m->short_of_memory = true;
}

void weir_milp_start(weir_milp *m, uint32_t column, double value)
{
    if (m->short_of_memory || !weir_vec_push(&m->start_index, (int32_t)column) ||
        !weir_vec_push(&m->start_value, value))
        m->short_of_memory = true;
}

void weir_milp_free(weir_milp *m)
{
    weir_vec_free(&m->cost);
    weir_vec_free(&m->low);
    weir_vec_free(&m->high);
    weir_vec_free(&m->whole);
    weir_vec_free(&m->row_low);
    weir_vec_free(&m->row_high);
    weir_vec_free(&m->first);
    weir_vec_free(&m->index);
    weir_vec_free(&m->value);
    weir_vec_free(&m->start_index);
    weir_vec_free(&m->start_value);
    weir_mem_free(m->x);
    m->x = NULL;
}

/* ---- the library ---- */

typedef struct weir_highs_library {
    void *(*create)(void);
    void (*destroy)(void *h);
    const char *(*version)(void);
    int32_t (*int_bytes)(const void *h);
    int32_t (*pass)(void *h, int32_t columns, int32_t rows, int32_t entries, int32_t format,
                    int32_t sense, double offset, const double *cost, const double *low,
                    const double *high, const double *row_low, const double *row_high,
                    const int32_t *first, const int32_t *index, const double *value,
                    const int32_t *whole);
    int32_t (*set_bool)(void *h, const char *name, int32_t value);
    int32_t (*set_int)(void *h, const char *name, int32_t value);
    int32_t (*set_double)(void *h, const char *name, double value);
    int32_t (*set_text)(void *h, const char *name, const char *value);
    int32_t (*guess)(void *h, int32_t n, const int32_t *index, const double *value);
    int32_t (*run)(void *h);
    int32_t (*status)(const void *h);
    int32_t (*int_info)(const void *h, const char *name, int32_t *value);
    int32_t (*double_info)(const void *h, const char *name, double *value);
    int32_t (*solution)(const void *h, double *x, double *dual, double *row, double *row_dual);
} weir_highs_library;

static void *open_first(void)
{
    static const char *const names[] = {"libhighs.so.1", "libhighs.so"};
    const int                flags = RTLD_NOW | RTLD_LOCAL;
    const char *const        named = getenv("WEIR_HIGHS");
    void                    *lib = NULL;

    if (named && *named)
        return dlopen(named, flags);
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], flags);
    return lib;
}

/* dlsym into a function pointer, in the way that POSIX sanctions. */
static bool find(void *lib, const char *name, void *function)
{
    void *const p = dlsym(lib, name);
    memcpy(function, &p, sizeof p);
    return p != NULL;
}

/* Loads the library, which stays loaded. Returns NULL, or the reason why it cannot be used. */
static const char *load(weir_highs_library *s)
{
    void *const lib = open_first();

    if (!lib)
        return "not found";
    const bool all =
        find(lib, "Highs_create", &s->create) && find(lib, "Highs_destroy", &s->destroy) &&
        find(lib, "Highs_version", &s->version) &&
        find(lib, "Highs_getSizeofHighsInt", &s->int_bytes) &&
        find(lib, "Highs_passMip", &s->pass) &&
        find(lib, "Highs_setBoolOptionValue", &s->set_bool) &&
        find(lib, "Highs_setIntOptionValue", &s->set_int) &&
        find(lib, "Highs_setDoubleOptionValue", &s->set_double) &&
        find(lib, "Highs_setStringOptionValue", &s->set_text) &&
        find(lib, "Highs_setSparseSolution", &s->guess) && find(lib, "Highs_run", &s->run) &&
        find(lib, "Highs_getModelStatus", &s->status) &&
        find(lib, "Highs_getIntInfoValue", &s->int_info) &&
        find(lib, "Highs_getDoubleInfoValue", &s->double_info) &&
        find(lib, "Highs_getSolution", &s->solution);
    return all ? NULL : "too old";
}

static weir_status need(weir_highs_library *s)
{
    const char *const missing = load(s);

    return !missing ? WEIR_OK
                    : weir_fail(WEIR_ERR_NOKERNEL, "policy optimal needs a solver of linear "
                                "programmes: HiGHS (libhighs.so.1, or the file that WEIR_HIGHS "
                                "names) is %s", missing);
}

weir_status weir_highs_require(void)
{
    weir_highs_library s;
    return need(&s);
}

bool weir_highs_version(char *text, size_t bytes)
{
    weir_highs_library s;
    const char *const  missing = load(&s);

    snprintf(text, bytes, "HiGHS %s", missing ? missing : s.version());
    return !missing;
}

/* ---- solving ---- */

enum { ROWWISE = 2, MINIMISE = 1, FEASIBLE = 2, STATUS_INFEASIBLE = 8, FAILED = -1 };

/* The start solution is good already, so heuristics are switched off and the time is spent on the
 * bound. Results are ignored: not every version has all of these options. */
static void switch_off(const weir_highs_library *s, void *h)
{
    static const char *const names[] = {
        "mip_detect_symmetry", "mip_allow_restart", "mip_heuristic_run_rins",
        "mip_heuristic_run_rens", "mip_heuristic_run_root_reduced_cost",
        "mip_heuristic_run_feasibility_jump", "mip_heuristic_run_zi_round",
        "mip_heuristic_run_shifting"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)s->set_bool(h, names[i], 0);
}

static bool set_options(const weir_highs_library *s, void *h, const weir_milp *m)
{
    const int32_t nodes = m->nodes && m->nodes < INT32_MAX ? (int32_t)m->nodes : INT32_MAX;

    return s->set_bool(h, "output_flag", 0) != FAILED &&
           s->set_text(h, "parallel", "off") != FAILED && s->set_int(h, "threads", 1) != FAILED &&
           s->set_int(h, "random_seed", 1) != FAILED &&
           s->set_int(h, "mip_max_nodes", nodes) != FAILED &&
           s->set_double(h, "mip_heuristic_effort", m->start_index.n ? 0 : 0.05) != FAILED &&
           s->set_double(h, "mip_rel_gap", 1e-5) != FAILED &&
           s->set_double(h, "mip_abs_gap", 1e-6) != FAILED &&
           s->set_double(h, "time_limit", WEIR_HIGHS_SECONDS) != FAILED;
}

static bool pass(const weir_highs_library *s, void *h, const weir_milp *m)
{
    return s->pass(h, (int32_t)m->cost.n, (int32_t)m->row_low.n, (int32_t)m->index.n, ROWWISE,
                   MINIMISE, 0, m->cost.at, m->low.at, m->high.at, m->row_low.at, m->row_high.at,
                   m->first.at, m->index.at, m->value.at, m->whole.at) != FAILED &&
           (m->start_index.n == 0 ||
            s->guess(h, (int32_t)m->start_index.n, m->start_index.at, m->start_value.at) != FAILED);
}

/* Copies the values of the columns and the bound from HiGHS. Returns false if memory runs out. */
static bool take_answer(const weir_highs_library *s, void *h, weir_milp *m)
{
    double *const dual = weir_mem_alloc((m->cost.n + 1u) * sizeof *dual);
    double *const row = weir_mem_alloc(2 * (m->row_low.n + 1u) * sizeof *row);
    int32_t       feasible = 0;

    m->x = weir_mem_alloc((m->cost.n + 1u) * sizeof *m->x);
    const bool ok = dual && row && m->x;
    if (ok) {
        m->found = s->int_info(h, "primal_solution_status", &feasible) != FAILED &&
                   feasible == FEASIBLE &&
                   s->solution(h, m->x, dual, row, row + m->row_low.n) != FAILED;
        if (s->status(h) == STATUS_INFEASIBLE)
            m->proven = INFINITY;
        else if (s->double_info(h, "mip_dual_bound", &m->proven) == FAILED || isnan(m->proven))
            m->proven = -INFINITY;
    }
    weir_mem_free(dual);
    weir_mem_free(row);
    return ok;
}

weir_status weir_milp_solve(weir_milp *m)
{
    weir_highs_library s;

    WEIR_TRY(need(&s));
    if (m->short_of_memory)
        return WEIR_ERR_NOMEM;
    void *const h = s.create();
    weir_status status = h ? WEIR_OK : WEIR_ERR_NOMEM;
    if (status == WEIR_OK && (s.int_bytes(h) != sizeof(int32_t) || !set_options(&s, h, m)))
        status = weir_fail(WEIR_ERR_NOKERNEL, "HiGHS %s is built for indices of %d bytes or lacks "
                           "an option; it is needed with 4", s.version(), (int)s.int_bytes(h));
    if (status == WEIR_OK && m->start_index.n)
        switch_off(&s, h);
    if (status == WEIR_OK && (!pass(&s, h, m) || s.run(h) == FAILED))
        status = weir_fail(WEIR_ERR_STATE, "HiGHS %s gave up on %u columns and %u rows",
                           s.version(), m->cost.n, m->row_low.n);
    if (status == WEIR_OK && !take_answer(&s, h, m))
        status = WEIR_ERR_NOMEM;
    if (h)
        s.destroy(h);
    return status;
}
