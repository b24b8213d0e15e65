/* json.c - writes the facts of a command as JSON: --json FILE. */
#include "tool/tool.h"

#include <math.h>
#include <string.h>

FILE *tool_open(const tool_options *o, const char *path)
{
    FILE *const to = path && strcmp(path, "-") != 0 ? fopen(path, "w") : stdout;
    if (!to)
        tool_say(o, TOOL_FAILED, "cannot write '%s'", path);
    return to;
}

int tool_close(const tool_options *o, const char *path, FILE *to)
{
    const bool bad = ferror(to) != 0;
    if ((to != stdout ? fclose(to) : fflush(to)) != 0 || bad)
        return tool_say(o, TOOL_FAILED, "'%s' could not be written completely",
                        to == stdout ? "stdout" : path);
    return TOOL_DONE;
}

bool tool_quiet(const tool_options *o)
{
    return o->json && strcmp(o->json, "-") == 0;
}

const char *tool_cache_text(weir_cache_use use)
{
    static const char *const texts[] = {[WEIR_CACHE_OFF] = "off", [WEIR_CACHE_NEW] = "new",
                                        [WEIR_CACHE_USED] = "used", [WEIR_CACHE_FAILED] = "failed"};
    return texts[use];
}

static void text(FILE *to, const char *s)
{
    fputc('"', to);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fprintf(to, "\\u%04x", (unsigned)*s);
        else
            fputc(*s, to);
    fputc('"', to);
}

/* What precedes the next value: a comma, a new line, and in an object its name. */
static void next(tool_json *j, const char *name)
{
    fprintf(j->to, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
    j->first = false;
    if (name) {
        text(j->to, name);
        fputs(": ", j->to);
    }
}

bool tool_json_begin(tool_json *j, const tool_options *o)
{
    *j = (tool_json){.o = o, .to = tool_open(o, o->json), .first = true, .depth = 1};
    if (j->to)
        fputc('{', j->to);
    return j->to != NULL;
}

int tool_json_end(tool_json *j)
{
    fputs("\n}\n", j->to);
    return tool_close(j->o, j->o->json, j->to);
}

void tool_json_open(tool_json *j, const char *name, char bracket)
{
    next(j, name);
    fputc(bracket, j->to);
    j->first = true;
    j->depth++;
}

void tool_json_close(tool_json *j, char bracket)
{
    j->depth--;
    fprintf(j->to, "\n%*s%c", 2 * j->depth, "", bracket);
    j->first = false;
}

void tool_json_text(tool_json *j, const char *name, const char *value)
{
    next(j, name);
    if (value)
        text(j->to, value);
    else
        fputs("null", j->to);
}

void tool_json_count(tool_json *j, const char *name, uint64_t value)
{
    next(j, name);
    fprintf(j->to, "%llu", (unsigned long long)value);
}

/* JSON has no infinities: null. */
void tool_json_number(tool_json *j, const char *name, double value)
{
    next(j, name);
    if (isfinite(value))
        fprintf(j->to, "%.17g", value);
    else
        fputs("null", j->to);
}

void tool_json_bool(tool_json *j, const char *name, bool value)
{
    next(j, name);
    fputs(value ? "true" : "false", j->to);
}
