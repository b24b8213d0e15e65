/* view.c - weir view: the page of a model's plan, or two pages as one that compares their plans. */
#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>

/* What stands around the plan of a page that weir dump --what html wrote. A plan has no '<'. */
static const char head[] = "<script type=\"application/json\" class=\"plan\">\n";
static const char opening[] = "{\"format\": 1, \"kind\": \"weir plan\"";
static const char foot[] = "\n</script>\n";

/* The first plan of a page, and the text behind it; NULL: the page has no plan. */
static const char *plan_of(const char *page, const char **end)
{
    const char *const at = strstr(page, head);
    const char *const close = at ? strchr(at + 1, '<') : NULL;

    if (!close || close == at + strlen(head) || strncmp(close - 1, foot, strlen(foot)) != 0 ||
        strncmp(at + strlen(head), opening, strlen(opening)) != 0)
        return NULL;
    *end = close - 1 + strlen(foot);
    return at;
}

static char *read_page(const tool_options *o, const char *path)
{
    size_t      bytes;
    const char *end;
    char *const page = tool_read(o, path, &bytes);

    if (!page || (strlen(page) == bytes && plan_of(page, &end)))
        return page;
    free(page);
    tool_say(o, TOOL_FAILED, "'%s' is no page of a plan (weir dump --what html writes one)", path);
    return NULL;
}

/* The first page with the plan of the second, if any, behind its own. */
static int join(const tool_options *o, const char *first, const char *second)
{
    const char *end, *more_end = NULL;
    const char *const plan = plan_of(first, &end);
    const char *const more = second ? plan_of(second, &more_end) : NULL;
    const size_t      length = more ? (size_t)(more_end - more) : 0;

    /* of what followed the first plan, another plan is replaced */
    const char *tail = end;
    if (more && strncmp(end, head, strlen(head)) == 0)
        plan_of(end, &tail);
    char *const text = malloc(strlen(first) + length + 1);
    if (!plan || !text) {
        free(text);
        return tool_say(o, TOOL_FAILED, "out of memory");
    }
    memcpy(text, first, (size_t)(end - first));
    if (more)
        memcpy(text + (end - first), more, length);
    strcpy(text + (end - first) + length, tail);
    const int code = tool_write(o, o->out, text);
    free(text);
    return code;
}

int tool_view(const tool_options *o)
{
    if (!o->file) {
        tool_options dump = *o;
        dump.what = "html";
        return tool_dump(&dump);
    }
    char *const first = read_page(o, o->file);
    char *const second = first && o->second ? read_page(o, o->second) : NULL;
    const int   code = first && (second || !o->second) ? join(o, first, second) : TOOL_FAILED;

    free(first);
    free(second);
    return code;
}
