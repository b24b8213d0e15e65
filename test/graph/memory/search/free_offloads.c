/* free_offloads.c - offloads that cost nothing: what they find, and that they never cost time. */
#include "check.h"
#include "core/mem.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/problems.h"
#include "graph/memory/search/free_offloads.h"
#include "graph/memory/search/search.h"
#include "graph/memory/verify/check.h"

typedef struct weir_fixture {
    weir_search       search;
    weir_search_state a;
} weir_fixture;

/* Opens a line of search with all levers from a plan that keeps everything. */
static bool open_line(weir_fixture *f, const weir_mem_problem *p, size_t budget)
{
    *f = (weir_fixture){.search = {.p = p, .budget = budget}};
    f->a = (weir_search_state){.s = &f->search, .random = 1};
    if (!CHECK(weir_lower_init(&f->search.lowered, p)) || !CHECK(weir_search_state_init(&f->a)))
        return false;
    weir_search_open_line(&f->a, WEIR_LEVERS);
    return CHECK(weir_search_lower(&f->a));
}

static void close_line(weir_fixture *f)
{
    weir_search_state_free(&f->a);
    weir_search_free(&f->search);
}

/* A parameter that two ops of the forward pass read and a later one overwrites: it comes from the
 * host, waits there in between and returns before the step ends. Its copies take a third of an op's
 * second each. */
CASE(idle_parameters_wait_on_the_host)
{
    enum { OPS = 10 };
    weir_mem_problem p = {.link_out = 3000, .link_in = 3000};
    weir_fixture     f;

    for (uint32_t i = 0; i < OPS; i++) {
        const uint32_t      in[2] = {OPS, i - 1};
        const bool          changes = i == OPS - 2, reads = i == 1 || i == 2 || changes;
        const weir_mem_op_def def = {.time = 1,
                                     .rerun_before = OPS,
                                     .nin = (reads ? 1u : 0u) + (i > 0 ? 1u : 0u),
                                     .in = reads ? in : in + 1,
                                     .nout = 1,
                                     .out = &i,
                                     .nchanges = changes,
                                     .changes = in};
        CHECK(weir_mem_problem_add_tensor(&p, 64, 0, i + 1 == OPS));
        CHECK(weir_mem_problem_add_op(&p, &def));
    }
    CHECK(weir_mem_problem_add_tensor(&p, 1000, 0, false));
    CHECK(weir_mem_problem_end(&p));
    if (open_line(&f, &p, SIZE_MAX)) {
        const uint32_t first = f.search.lowered.first_interval[OPS];
        CHECK(weir_search_free_offloads(&f.a));
        CHECK(f.a.decisions[first] == WEIR_OFFLOAD);
        CHECK(f.a.decisions[first + 1] == WEIR_KEEP); /* read again at once */
        CHECK(f.a.decisions[first + 2] == WEIR_OFFLOAD);
        CHECK(f.a.now.extra <= 0);
    }
    close_line(&f);
    weir_mem_problem_free(&p);
}

CASE(free_offloads_cost_no_time)
{
    int offloaded = 0;

    for (int round = 0; round < 200; round++) {
        weir_mem_problem p;
        weir_fixture     f;
        make_problem_with(&p, 8 + below(MAX_OPS - 8), 1 + below(6));
        p.link_out = p.link_in = 64.0 * (1 + below(20));
        const size_t budget = 64 * (10 + below(200));
        if (open_line(&f, &p, budget)) {
            const size_t most = f.a.now.peak > budget ? f.a.now.peak : budget;
            CHECK(weir_search_free_offloads(&f.a) && f.a.now.valid);
            CHECK(f.a.now.extra <= 0 && f.a.now.peak <= most);
            CHECK(weir_decisions_are_possible(&p, f.a.decisions));
            CHECK_OK(weir_schedule_check(&f.search.lowered.s, NULL, 1, f.a.now.peak));
            offloaded += f.search.lowered.s.copies > 0;
        }
        close_line(&f);
        weir_mem_problem_free(&p);
    }
    CHECK(offloaded > 20);
}
