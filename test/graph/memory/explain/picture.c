/* picture.c - pictures show what the numbers say: the top of a timeline is the planned peak, below
 * the line of the budget, with offloading, recomputation and gaps. $WEIR_TEST_COUNT: cases. */
#include "graph/report/svg.h"

#include "graph/fixture.h"
#include "graph/train.h"

static int cases(int quick)
{
    const char *const asked = getenv("WEIR_TEST_COUNT");
    return asked && *asked ? atoi(asked) : quick;
}

/* Returns the least y, the highest point, of a path such as "M76 424.00H80.1V93.27...". */
static double top_of(const char *path)
{
    double top = INFINITY, x, y;

    for (const char *c = path; *c && *c != '"' && *c != '>'; c++)
        if (*c == 'V' && sscanf(c + 1, "%lf", &y) == 1)
            top = fmin(top, y);
        else if (*c == 'M' && sscanf(c + 1, "%lf %lf", &x, &y) == 2)
            top = fmin(top, y);
    return top;
}

/* Returns the highest point of all areas. */
static double top_of_areas(const char *svg)
{
    double top = INFINITY;

    for (const char *at = strstr(svg, "<path class="); at; at = strstr(at + 1, "<path class=")) {
        const char *const d = strstr(at, " d=\"");
        top = d ? fmin(top, top_of(d + 4)) : top;
    }
    return top;
}

/* Coordinates are rounded to hundredths of a pixel. */
static bool drawn_as_planned(const char *svg, const weir_graph_stats *s)
{
    const double peak = (double)s->planned_peak_bytes, budget = (double)s->budget_bytes;
    const bool   near = budget >= peak && budget < 1.5 * peak;
    weir_string  unused = {0};
    const weir_chart c = weir_svg_begin(&unused, 1, near ? budget : peak, 0, "");
    const double drawn = top_of_areas(svg), planned = weir_svg_y(&c, peak);

    weir_mem_free(unused.at);
    return CHECK(fabs(drawn - planned) < 0.02) ||
           (printf("    drawn %.0f, planned %.0f, budget %.0f\n",
                   c.ymax * (1 - (drawn - WEIR_SVG_Y) / WEIR_SVG_H), peak, budget), false);
}

static const struct { train_net net; int64_t batch, side; } nets[] = {
    {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 8, 0}, {TRAIN_MLP, 64, 0}, {TRAIN_POOLED, 3, 0}};

/* Also runs the step first: then blocks exist, and values may be offloaded. */
static void check_timeline(size_t i, const weir_plan_options *o)
{
    train            t;
    weir_graph_stats s;

    CHECK_OR_RETURN(train_open(&t, nets[i].net, nets[i].batch, nets[i].side,
                               &(weir_step_options){.graph = true, .plan = *o}) == WEIR_OK);
    for (int run = 0; run < 2; run++) {
        const weir_status status = train_step(&t, run);
        if (status != WEIR_OK) {
            CHECK_STATUS(status, WEIR_ERR_BUDGET);
            break;
        }
        const weir_graph *const g = weir_step_graph(t.step);
        char *const             svg = weir_graph_text(g, WEIR_TEXT_TIMELINE_SVG);
        CHECK_OK(weir_graph_stats_of(g, &s));
        if (!CHECK(svg != NULL) || !drawn_as_planned(svg, &s))
            printf("    %s, %s, budget %s, by %s, placed by %s\n", train_name[nets[i].net],
                   run ? "again" : "first", o->budget ? o->budget : "none",
                   o->policy ? o->policy : "auto", o->placement ? o->placement : "auto");
        weir_text_free(svg);
    }
    train_close(&t);
}

/* Networks, budgets and policies take turns; placements may leave gaps. */
CASE(the_top_of_a_timeline_is_the_planned_peak)
{
    static const char *const budget[] = {"60%", NULL, "45%", "80%", "92%"};
    static const char *const policy[] = {"auto:swap", "dtr", "auto:recompute+swap", "checkpoint",
                                         "auto:recompute", "vdnn:conv", "recycle"};
    static const char *const placement[] = {NULL, "start", "tstack"};

    check_timeline(0, &(weir_plan_options){.budget = "60%"});
    for (int i = 0; i < cases(24); i++)
        check_timeline((size_t)i % ARRAY_LENGTH(nets), &(weir_plan_options){
            .budget = budget[i % 5], .policy = policy[i % 7], .placement = placement[i % 3]});
}
