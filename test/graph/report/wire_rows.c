/* wire_rows.c - the rows of collectives below a timeline are as long as the times that the plan
 * predicts and a run takes. */
#include "graph/fixture.h"
#include "graph/report/svg.h"
#include "graph/summed.h"
#include "graph/unmeasured.h"

/* The milliseconds of the first bar of this colour behind `from`, by its pixels, or -1. `begin`:
 * where it begins. */
static double bar_ms(const char *from, const char *colour, double whole_ms, double *begin)
{
    char   key[40];
    double x, width;

    snprintf(key, sizeof key, "<path fill=\"%s\" d=\"M", colour);
    const char *const at = from ? strstr(from, key) : NULL;
    if (!at || sscanf(at + strlen(key), "%lf %*fh%lf", &x, &width) != 2)
        return -1;
    *begin = (x - WEIR_SVG_X) / WEIR_SVG_W * whole_ms;
    return width / WEIR_SVG_W * whole_ms;
}

static void check_bar(const char *from, const char *colour, double begin, double ms)
{
    const double pixel = (2 + SUMMED_MS) / WEIR_SVG_W;
    double       begins = 0;

    CHECK_NEAR(bar_ms(from, colour, 2 + SUMMED_MS, &begins), ms, 0.02 * pixel);
    CHECK_NEAR(begins, begin, 0.02 * pixel);
}

/* exp takes the first millisecond, three products hide the next three of the sum. */
CASE(bars_are_as_long_as_predicted)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        char *const svg = weir_graph_text(s.g, WEIR_TEXT_TIMELINE_SVG);
        CHECK_OR_RETURN(svg != NULL);
        const char *const wire = strstr(svg, "<g class=\"wire\"");
        check_bar(svg, WEIR_WAIT_COLOUR, 4, SUMMED_MS - 3);
        check_bar(wire, WEIR_WIRE_COLOUR, 1, SUMMED_MS);
        check_bar(wire, WEIR_WAIT_COLOUR, 4, SUMMED_MS - 3);
        CHECK_TEXT(svg, ">collectives: 1, predicted to take 16.8032 ms on the wire, for 13.8032 ms "
                        "of which computing waits, in a step of 18.8032 ms</text>");
        CHECK_TEXT(svg, ">waits 13.8032 ms</text>");
        CHECK_TEXT(svg, ">16.8032 ms</text>");
        CHECK_TEXT(svg, "6400 bytes, 16.8032 ms on the wire from 1.0000 ms on, computing waits "
                        "13.8032 ms</title>");
        CHECK_TEXT(svg, ">computing waits</text>");
        CHECK(strstr(svg, ">measured</text>") == NULL);
        weir_text_free(svg);
    }
    summed_close(&s);
}

CASE(a_plan_without_collectives_has_no_rows)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE, NULL)) {
        char *const svg = weir_graph_text(s.g, WEIR_TEXT_TIMELINE_SVG);
        CHECK_OR_RETURN(svg != NULL);
        CHECK(strstr(svg, "wire") == NULL && strstr(svg, WEIR_WAIT_COLOUR) == NULL);
        CHECK_TEXT(svg, "viewBox=\"0 0 1000 500\"");
        weir_text_free(svg);
    }
    summed_close(&s);
}

static void unknown_body(rank *r)
{
    weir_tensor *x;

    CHECK_OR_RETURN(r->c != NULL);
    weir_graph *const g = unmeasured_open(r, &x);
    for (int ran = 0; ran < 2; ran++) {
        char *const svg = weir_graph_text(g, WEIR_TEXT_TIMELINE_SVG);
        CHECK_OR_RETURN(svg != NULL);
        CHECK_TEXT(svg, "collectives: 1; how long they take is not known (weir_comm_measure)");
        CHECK(strstr(svg, ">wire</text>") == NULL);
        CHECK((strstr(svg, ">measured</text>") != NULL) == ran);
        CHECK((strstr(svg, "; measured step: ") != NULL) == ran);
        CHECK(!ran || weir_plan_profiled_wait(g->plan, &g->plan->wire.at[0]) <= 0 ||
              strstr(svg, "fill=\"" WEIR_WAIT_COLOUR "\" d=") != NULL);
        weir_text_free(svg);
        CHECK_OK(weir_graph_run(g));
    }
    weir_graph_free(g);
    weir_release(x);
}

CASE(unknown_times_are_not_drawn)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, unknown_body, NULL);
}
