/* info.c - weir info and weir version: what this build and this machine have. */
#include "tool/tool.h"

#include <string.h>

/* More about a card: weir info --device cuda. */
static void print_cards(void)
{
    const int cards = weir_device_count("cuda");

    if (cards >= 0)
        printf("cards for --device cuda: %d\n", cards);
    else
        printf("cards for --device cuda: none (%s)\n", weir_error());
}

/* What --disable can name. */
static void print_passes(void)
{
    puts("passes, in the order in which they run:");
    for (const char *s = weir_pass_texts(); *s; s += strcspn(s, "\n") + 1)
        printf("  %.*s\n", (int)strcspn(s, "\n"), s);
}

/* Each line of the text as an element of an array. */
static void json_lines(tool_json *j, const char *name, const char *text)
{
    char line[512];

    tool_json_open(j, name, '[');
    for (const char *s = text; *s; s += strcspn(s, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(s, "\n"), s);
        tool_json_text(j, NULL, line);
    }
    tool_json_close(j, ']');
}

static int write_json(const tool_options *o, weir_device *dev, const char *text, const char *solver)
{
    const int cards = weir_device_count("cuda");
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "version", weir_version());
    tool_json_text(&j, "device", o->device);
    tool_json_count(&j, "threads", (uint64_t)weir_device_threads(dev));
    tool_json_count(&j, "cards", cards > 0 ? (uint64_t)cards : 0);
    tool_json_text(&j, "solver", solver);
    json_lines(&j, "text", text);
    json_lines(&j, "passes", weir_pass_texts());
    return tool_json_end(&j);
}

int tool_info(const tool_options *o)
{
    const weir_device_options options = {.threads = (int)o->threads, .seed = TOOL_SEED};
    weir_device *const        dev = weir_device_open(o->device, &options);
    char *const               text = dev ? weir_info_text(dev) : NULL;
    int                       code = text ? TOOL_DONE : tool_failed(o);

    if (text) {
        char solver[128];
        (void)weir_highs_version(solver, sizeof solver);
        if (!tool_quiet(o)) {
            printf("%spolicy optimal: %s\n", text, solver);
            print_cards();
            print_passes();
        }
        if (o->json)
            code = write_json(o, dev, text, solver);
    }
    weir_text_free(text);
    weir_device_close(dev);
    return code;
}

int tool_version(const tool_options *o)
{
    tool_json j;

    if (!tool_quiet(o))
        printf("weir %s\n", weir_version());
    if (!o->json)
        return TOOL_DONE;
    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "version", weir_version());
    return tool_json_end(&j);
}
