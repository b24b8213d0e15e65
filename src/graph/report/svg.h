/* svg.h - writes a chart of bytes over instructions as standalone SVG. */
#ifndef WEIR_GRAPH_REPORT_SVG_H
#define WEIR_GRAPH_REPORT_SVG_H

#include "core/kind.h"
#include "core/phase.h"
#include "core/text.h"

/* "#rrggbb" for a kind of storage and for a phase. */
extern const char *const weir_kind_colour[WEIR_KIND_COUNT];
extern const char *const weir_phase_colour[WEIR_PHASE_COUNT];

/* Colours of what the memory planner adds: recomputation, and transfers to and from the host. */
#define WEIR_RECOMPUTE_COLOUR "#8e63b5"
#define WEIR_OUT_COLOUR   "#a0694b"
#define WEIR_IN_COLOUR    "#2fa5b3"

/* Colours of collectives: beside the computing, and while computing waits for them. */
#define WEIR_WIRE_COLOUR "#3d5a80"
#define WEIR_WAIT_COLOUR "#dc4c3f"

/* Pixels of the picture and of the plot in it. */
#define WEIR_SVG_WIDTH  1000
#define WEIR_SVG_HEIGHT 500
#define WEIR_SVG_X      76.0
#define WEIR_SVG_Y      64.0
#define WEIR_SVG_W      772.0
#define WEIR_SVG_H      360.0

/* Content lies in 0..xmax (instructions) and 0..ymax (bytes). */
typedef struct weir_chart {
    weir_string *s;
    double       xmax, ymax;
    double       unit;          /* bytes of one unit_name */
    const char  *unit_name;     /* B, kB, MB, GB */
    int          legend;        /* entries so far */
    double       strip;         /* height in pixels of the rows below the plot */
} weir_chart;

static inline double weir_svg_x(const weir_chart *c, double x)
{
    return WEIR_SVG_X + WEIR_SVG_W * x / c->xmax;
}
static inline double weir_svg_y(const weir_chart *c, double bytes)
{
    return WEIR_SVG_Y + WEIR_SVG_H * (1 - bytes / c->ymax);
}

/* Begins the picture with axes for n instructions and `top` bytes, plus some space above. `lower`:
 * pixels to reserve below the plot for rows. */
weir_chart weir_svg_begin(weir_string *s, unsigned n, double top, double lower, const char *title);

/* Writes a line of text below the title. */
void weir_svg_subtitle(weir_chart *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Formats bytes in the chart's unit, "12.34 MB", into a buffer of WEIR_SVG_BYTES. */
#define WEIR_SVG_BYTES 40
const char *weir_svg_bytes(const weir_chart *c, double bytes, char buf[WEIR_SVG_BYTES]);

/* The same in the unit that fits these bytes: "50.40 kB". */
const char *weir_svg_amount(double bytes, char buf[WEIR_SVG_BYTES]);

/* Writes grid, ticks and names of both axes; call it before the content. */
void weir_svg_axes(weir_chart *c, const char *xname, const char *yname);

/* Writes a dashed line across the plot at `bytes`, with its name above the right or left end. */
void weir_svg_level(weir_chart *c, double bytes, const char *colour, bool right, const char *text);

/* Writes one layer of a stacked area chart, of CSS class `name`: step i lies on floor[i], is
 * live[i] high and spans x[i] to x[i + 1] (x NULL: i to i + 1). Adds live to floor. Writes nothing
 * if all of live is 0. */
void weir_svg_layer(weir_chart *c, const char *name, const char *colour, unsigned n,
                    const double *x, double *floor, const double *live);

/* weir_svg_streams adds named rows below the plot: compute, copies out, copies in. weir_svg_bar
 * begins a bar in one of them, a path element that the caller closes. */
#define WEIR_SVG_STREAM 17
void weir_svg_streams(weir_chart *c, int streams);
void weir_svg_bar(weir_chart *c, int stream, double from, double to, const char *colour);

/* The smallest step of 1, 2 or 5 times a power of ten that divides `length` into at most `parts`
 * parts. */
double weir_svg_tick(double length, int parts);

/* Adds an entry to the legend, on the right from top to bottom. */
void weir_svg_legend(weir_chart *c, const char *colour, const char *text);

/* Text with &, <, > and quotes escaped. */
void weir_svg_text(weir_string *s, const char *text);

void weir_svg_end(weir_chart *c);

#endif
