/* svg.c - writes frame, axes, marks and legend of a chart. */
#include "graph/report/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define INK   "#22303c"
#define FAINT "#66737f"

/* Greys and greens for persistent kinds, strong colours for what the planner places. */
const char *const weir_kind_colour[WEIR_KIND_COUNT] = {
    [WEIR_KIND_PARAM] = "#5b6b7b",      [WEIR_KIND_STATE] = "#8fa0b0",
    [WEIR_KIND_INPUT] = "#7fb39b",      [WEIR_KIND_OUTPUT] = "#b9cf94",
    [WEIR_KIND_ACTIVATION] = "#4c86c6", [WEIR_KIND_GRADIENT] = "#ee9440",
    [WEIR_KIND_WORKSPACE] = "#c65b7c",
};

const char *const weir_phase_colour[WEIR_PHASE_COUNT] = {
    [WEIR_FORWARD] = "#d6e6f7", [WEIR_BACKWARD] = "#fce3c8", [WEIR_UPDATES] = "#e2d5f0"};

void weir_svg_text(weir_string *s, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': weir_string_add(s, "&amp;"); break;
        case '<': weir_string_add(s, "&lt;"); break;
        case '>': weir_string_add(s, "&gt;"); break;
        case '"': weir_string_add(s, "&quot;"); break;
        default: weir_string_add(s, "%c", (unsigned char)*text < ' ' ? ' ' : *text);
        }
    }
}

static void choose_unit(weir_chart *c, double top)
{
    static const struct { double bytes; const char *name; } units[] = {
        {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}};
    size_t i = 0;

    while (top < units[i].bytes && i + 1 < sizeof units / sizeof *units)
        i++;
    c->unit = units[i].bytes;
    c->unit_name = units[i].name;
}

weir_chart weir_svg_begin(weir_string *s, unsigned n, double top, double lower, const char *title)
{
    weir_chart c = {.s = s, .xmax = n > 0 ? n : 1, .ymax = top > 0 ? top * 1.1 : 1,
                    .strip = 16 + lower};
    const int  height = WEIR_SVG_HEIGHT + (int)lower;

    choose_unit(&c, top);
    weir_string_add(s,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" "
                    "font-size=\"12\" fill=\"" INK "\">\n<title>",
                    WEIR_SVG_WIDTH, height, WEIR_SVG_WIDTH, height);
    weir_svg_text(s, title);
    weir_string_add(s,
                    "</title>\n<path d=\"M0 0H%dV%dH0Z\" fill=\"#fff\"/>\n"
                    "<text x=\"%g\" y=\"26\" font-size=\"17\" font-weight=\"bold\">",
                    WEIR_SVG_WIDTH, height, WEIR_SVG_X);
    weir_svg_text(s, title);
    weir_string_add(s, "</text>\n");
    return c;
}

void weir_svg_subtitle(weir_chart *c, const char *format, ...)
{
    char    text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_string_add(c->s, "<text x=\"%g\" y=\"46\" fill=\"" FAINT "\">", WEIR_SVG_X);
    weir_svg_text(c->s, text);
    weir_string_add(c->s, "</text>\n");
}

const char *weir_svg_bytes(const weir_chart *c, double bytes, char buf[WEIR_SVG_BYTES])
{
    snprintf(buf, WEIR_SVG_BYTES, c->unit > 1 ? "%.2f %s" : "%.0f %s", bytes / c->unit,
             c->unit_name);
    return buf;
}

const char *weir_svg_amount(double bytes, char buf[WEIR_SVG_BYTES])
{
    weir_chart c = {0};

    choose_unit(&c, bytes);
    return weir_svg_bytes(&c, bytes, buf);
}

double weir_svg_tick(double length, int parts)
{
    static const double nice[] = {1, 2, 5, 10};
    const double        power = pow(10, floor(log10(length / parts)));
    int                 i = 0;

    while (i < 3 && power * nice[i] * parts < length)
        i++;
    return power * nice[i];
}

static void y_axis(weir_chart *c, const char *name)
{
    const double step = weir_svg_tick(c->ymax / c->unit, 7);

    for (int i = 0; i * step * c->unit <= c->ymax; i++) {
        const double y = weir_svg_y(c, i * step * c->unit);
        weir_string_add(c->s, "<path d=\"M%g %.2fh%g\" stroke=\"#e3e8ed\"/>"
                        "<text x=\"%g\" y=\"%.2f\" text-anchor=\"end\">%g</text>\n", WEIR_SVG_X, y,
                        WEIR_SVG_W, WEIR_SVG_X - 8, y + 4, i * step);
    }
    weir_string_add(c->s,
                    "<text transform=\"translate(20 %g) rotate(-90)\" text-anchor=\"middle\">",
                    WEIR_SVG_Y + WEIR_SVG_H / 2);
    weir_svg_text(c->s, name);
    weir_string_add(c->s, ", %s</text>\n", c->unit_name);
}

void weir_svg_axes(weir_chart *c, const char *xname, const char *yname)
{
    const double step = fmax(1, weir_svg_tick(c->xmax, 12)), foot = WEIR_SVG_Y + WEIR_SVG_H;

    y_axis(c, yname);
    for (int i = 0; i * step <= c->xmax; i++) {
        const double x = weir_svg_x(c, i * step);
        weir_string_add(c->s,
                        "<path d=\"M%.2f %gv5\" stroke=\"" FAINT "\"/>"
                        "<text x=\"%.2f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n",
                        x, foot + c->strip, x, foot + c->strip + 19, i * step);
    }
    weir_string_add(c->s, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n",
                    WEIR_SVG_X + WEIR_SVG_W / 2, foot + c->strip + 39, xname);
}

void weir_svg_level(weir_chart *c, double bytes, const char *colour, bool right, const char *text)
{
    const double y = weir_svg_y(c, bytes);

    weir_string_add(c->s, "<path d=\"M%g %.2fh%g\" stroke=\"%s\" stroke-width=\"1.5\" "
                    "stroke-dasharray=\"7 4\"/>\n", WEIR_SVG_X, y, WEIR_SVG_W, colour);
    weir_string_add(
        c->s,
        "<text x=\"%g\" y=\"%.2f\" text-anchor=\"%s\" fill=\"%s\" "
        "font-weight=\"bold\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">",
        right ? WEIR_SVG_X + WEIR_SVG_W - 6 : WEIR_SVG_X + 6, y - 6, right ? "end" : "start",
        colour);
    weir_svg_text(c->s, text);
    weir_string_add(c->s, "</text>\n");
}

void weir_svg_layer(weir_chart *c, const char *name, const char *colour, unsigned n,
                    const double *x, double *floor, const double *live)
{
    double most = 0, at = n ? floor[0] + live[0] : 0;

    for (unsigned i = 0; i < n; i++)
        most = fmax(most, live[i]);
    if (most == 0)
        return;
    weir_string_add(c->s, "<path class=\"%s\" fill=\"%s\" d=\"M%g %.2f", name, colour, WEIR_SVG_X,
                    weir_svg_y(c, at));
    for (unsigned i = 1; i < n; i++) {
        if (floor[i] + live[i] == at)
            continue;
        at = floor[i] + live[i];
        weir_string_add(c->s, "H%.2fV%.2f", weir_svg_x(c, x ? x[i] : i), weir_svg_y(c, at));
    }
    at = floor[n - 1];
    weir_string_add(c->s, "H%.2fV%.2f", weir_svg_x(c, x ? x[n] : n), weir_svg_y(c, at));
    for (unsigned i = n - 1; i-- > 0;) {
        if (floor[i] == at)
            continue;
        at = floor[i];
        weir_string_add(c->s, "H%.2fV%.2f", weir_svg_x(c, x ? x[i + 1] : i + 1.0),
                        weir_svg_y(c, at));
    }
    weir_string_add(c->s, "H%gZ\"/>\n", WEIR_SVG_X);
    for (unsigned i = 0; i < n; i++)
        floor[i] += live[i];
}

static double stream_y(int stream)
{
    return WEIR_SVG_Y + WEIR_SVG_H + 2 + WEIR_SVG_STREAM * stream;
}

void weir_svg_streams(weir_chart *c, int streams)
{
    static const char *const names[] = {"compute", "copy out", "copy in"};

    for (int i = 0; i < streams; i++)
        weir_string_add(c->s, "<text x=\"%g\" y=\"%g\" font-size=\"10\" text-anchor=\"end\">%s"
                        "</text>\n", WEIR_SVG_X - 8, stream_y(i) + 11.5, names[i]);
}

void weir_svg_bar(weir_chart *c, int stream, double from, double to, const char *colour)
{
    const double x = weir_svg_x(c, from), w = fmax(weir_svg_x(c, to) - x, 0.3);

    weir_string_add(c->s, "<path fill=\"%s\" d=\"M%.2f %gh%.2fv14h%.2fZ\"", colour, x,
                    stream_y(stream), w, -w);
}

void weir_svg_legend(weir_chart *c, const char *colour, const char *text)
{
    const double x = WEIR_SVG_X + WEIR_SVG_W + 16, y = WEIR_SVG_Y + 4 + 20 * c->legend++;

    weir_string_add(c->s, "<path d=\"M%g %gh12v12h-12Z\" fill=\"%s\"/><text x=\"%g\" y=\"%g\">", x,
                    y, colour, x + 18, y + 10);
    weir_svg_text(c->s, text);
    weir_string_add(c->s, "</text>\n");
}

void weir_svg_end(weir_chart *c)
{
    weir_string_add(c->s, "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"" FAINT "\"/>\n</svg>\n",
                    WEIR_SVG_X, WEIR_SVG_Y, WEIR_SVG_Y + WEIR_SVG_H, WEIR_SVG_X + WEIR_SVG_W);
}
