/* place.c - weir place: offsets for the buffers of a CSV file. */
#include "tool/tool.h"

#include <stdlib.h>

static void report(const tool_options *o, const weir_place_stats *s, double seconds)
{
    fprintf(stderr, "%s: %zu buffer%s\n", o->file, s->buffers, tool_plural(s->buffers));
    fprintf(stderr, "  largest live sum %15zu bytes\n", s->live_bytes);
    fprintf(stderr, "  height           %15zu bytes (%.2f %% above%s)\n", s->height_bytes,
            100 * (double)(s->height_bytes - s->live_bytes) / ((double)s->live_bytes + 1e-9),
            s->lowest ? "; none is lower" : "");
    fprintf(stderr, "  strategy         %15s       (%llu nodes of exact search)\n", s->strategy,
            (unsigned long long)s->nodes);
    fprintf(stderr, "  placed in        %15.3f s\n", seconds);
}

static int write_json(const tool_options *o, const weir_place_stats *s, double seconds)
{
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "file", o->file);
    tool_json_count(&j, "buffers", s->buffers);
    tool_json_count(&j, "live_bytes", s->live_bytes);
    tool_json_count(&j, "height_bytes", s->height_bytes);
    tool_json_bool(&j, "lowest", s->lowest);
    tool_json_text(&j, "strategy", s->strategy);
    tool_json_count(&j, "nodes", s->nodes);
    tool_json_number(&j, "seconds", seconds);
    return tool_json_end(&j);
}

int tool_place(const tool_options *o)
{
    size_t bytes, capacity = 0;

    if (!o->file)
        return tool_say(o, TOOL_USAGE, "needs a file: weir place BUFFERS.csv --capacity 1MB");
    if (o->capacity && weir_bytes(o->capacity, &capacity) != WEIR_OK)
        return tool_failed(o);
    if (o->capacity && capacity == 0)
        return tool_say(o, TOOL_USAGE, "--capacity must be more than 0 bytes");
    char *const text = tool_read(o, o->file, &bytes);
    if (!text)
        return TOOL_FAILED;
    const weir_place_options how = {capacity, o->placement, (size_t)o->align, (uint64_t)o->nodes};
    weir_place_stats         stats;
    const double             begin = tool_now_ms();
    char *const              placed = weir_place_csv(text, bytes, &how, &stats);
    const double             seconds = (tool_now_ms() - begin) / 1e3;
    free(text);
    if (!placed)
        return tool_say(o, TOOL_FAILED, "%s: %s", o->file, weir_error());
    report(o, &stats, seconds);
    int code = o->out || !tool_quiet(o) ? tool_write(o, o->out, placed) : TOOL_DONE;
    if (o->json && code == TOOL_DONE)
        code = write_json(o, &stats, seconds);
    weir_text_free(placed);
    return code;
}
