/* info.c - weir info: what this build and this machine have. */
#include "tool/tool.h"

#include <stdio.h>
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

/* What may stand behind --disable. */
static void print_passes(void)
{
    puts("passes, in the order in which they run:");
    for (const char *s = weir_pass_texts(); *s; s += strcspn(s, "\n") + 1)
        printf("  %.*s\n", (int)strcspn(s, "\n"), s);
}

int tool_info(const tool_options *o)
{
    const weir_device_options options = {.threads = (int)o->threads, .seed = TOOL_SEED};
    weir_device *const        dev = weir_device_open(o->device, &options);
    char *const               text = dev ? weir_info_text(dev) : NULL;
    const int                 code = text ? TOOL_DONE : tool_failed(o);

    if (text) {
        char solver[128];
        (void)weir_highs_version(solver, sizeof solver);
        printf("%spolicy optimal: %s\n", text, solver);
        print_cards();
        print_passes();
    }
    weir_text_free(text);
    weir_device_close(dev);
    return code;
}
