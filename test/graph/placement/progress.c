/* progress.c - the watch of a planner: what a callback is told, and what its answer does. */
#include "graph/placement/progress.h"

#include "check.h"
#include "core/status.h"

typedef struct told {
    uint64_t      calls, stop_at;       /* stop_at 0: never */
    weir_progress last;
} told;

static bool note(void *context, const weir_progress *p)
{
    told *const t = context;

    t->last = *p;
    CHECK(weir_progress_poll());        /* nothing watches the callback itself */
    return ++t->calls != t->stop_at;
}

CASE(without_a_watch_everything_goes_on)
{
    CHECK(weir_progress_poll());
    weir_progress_phase("search");
    weir_progress_share(1, 2);
    weir_progress_tried();
    weir_progress_fixed(2);
    weir_progress_best(3, 4);
    CHECK(weir_progress_poll());
}

CASE(a_watch_is_told)
{
    weir_progress_watch w;
    told                t = {0};

    weir_progress_begin(&w, note, &t);
    CHECK(weir_progress_poll() && t.calls == 1 && t.last.fraction < 0 && t.last.seconds >= 0);
    weir_progress_phase("search");
    weir_progress_share(1, 4);
    weir_progress_tried();
    weir_progress_best(100, 0.5);
    CHECK(weir_progress_poll() && t.last.plans == 1 && t.last.best_bytes == 100);
    CHECK(t.last.fraction == 0.25 && t.last.best_extra_ms == 500);
    CHECK_TEXT(t.last.phase, "search");
    weir_progress_fixed(11);
    weir_progress_best(100, 0.5);
    CHECK(weir_progress_poll() && t.last.best_bytes == 111);
    weir_progress_share(1, 0);
    weir_progress_phase("placement");
    CHECK(weir_progress_poll() && t.last.fraction < 0);
    CHECK_OK(weir_progress_end(&w, "f", WEIR_OK));
    CHECK(weir_progress_poll() && t.calls == 4);
}

CASE(a_false_answer_holds)
{
    weir_progress_watch w, inner;
    told                t = {.stop_at = 2};

    weir_progress_begin(&w, note, &t);
    CHECK(weir_progress_poll());
    weir_progress_begin(&inner, NULL, NULL);        /* a planner inside, which reports to nobody */
    CHECK(weir_progress_poll() && t.calls == 1);
    CHECK_STATUS(weir_progress_end(&inner, "f", WEIR_ERR_BUDGET), WEIR_ERR_BUDGET);
    CHECK(!weir_progress_poll() && !weir_progress_poll() && t.calls == 2);
    CHECK_STATUS(weir_progress_end(&w, "f", WEIR_ERR_NOMEM), WEIR_ERR_CANCELLED);
    CHECK_TEXT(weir_error(), "f: planning was stopped by its progress callback (part: passes");
    CHECK(weir_progress_poll());
}
