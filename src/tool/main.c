/* main.c - the command-line tool weir: finds the command, reads its options, runs it. */
#include "tool/help/help.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int tool_say(const tool_options *o, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "weir %s: ", o->command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

int tool_failed(const tool_options *o)
{
    const char *const sentence = weir_error();
    return tool_say(o, TOOL_FAILED, "%s", *sentence ? sentence : "out of memory");
}

const char *tool_plural(size_t n)
{
    return n == 1 ? "" : "s";
}

char *tool_read(const tool_options *o, const char *path, size_t *bytes)
{
    FILE *const from = fopen(path, "rb");
    char       *text = NULL;
    size_t      allocated = 0;

    *bytes = 0;
    while (from && !feof(from) && !ferror(from)) {
        if (*bytes + 1 >= allocated) {
            allocated = allocated ? 2 * allocated : 65536;
            char *const more = realloc(text, allocated);
            if (!more)
                break;
            text = more;
        }
        *bytes += fread(text + *bytes, 1, allocated - *bytes - 1, from);
    }
    const bool whole = from && feof(from) && !ferror(from);
    if (from)
        fclose(from);
    if (whole)
        return text;
    free(text);
    tool_say(o, TOOL_FAILED, "cannot read '%s'", path);
    return NULL;
}

int tool_write(const tool_options *o, const char *path, const char *text)
{
    FILE *const to = tool_open(o, path);
    if (!to)
        return TOOL_FAILED;
    fputs(text, to);
    return tool_close(o, path, to);
}

int tool_unknown_command(const char *name)
{
    tool_near near = {.wanted = name};
    char      first[32];

    tool_near_add(&near, "--help");
    tool_near_add(&near, "--version");
    for (const tool_command *c = NULL; (c = tool_command_next(c));) {
        snprintf(first, sizeof first, "%.*s", (int)strcspn(c->name, " "), c->name);
        tool_near_add(&near, first);
        tool_near_add(&near, c->name);
    }
    fprintf(stderr, "weir: unknown command '%s'", name);
    if (*near.name)
        fprintf(stderr, " (did you mean %s?)", near.name);
    fputs("; commands:", stderr);
    for (const tool_command *c = NULL; (c = tool_command_next(c));)
        fprintf(stderr, "%s %s", c == tool_command_next(NULL) ? "" : ",", c->name);
    fputs(" (weir --help)\n", stderr);
    return TOOL_USAGE;
}

/* Is the word the first of a command of two? */
static bool is_group(const char *word)
{
    const size_t n = strlen(word);

    for (const tool_command *c = NULL; (c = tool_command_next(c));)
        if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ')
            return true;
    return false;
}

/* "weir bench": the commands that begin so, as help if that was asked for. */
static int group(int argc, char **argv)
{
    const bool asked = argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
    char       name[128];

    if (asked)
        return tool_help(&(tool_options){.command = "help", .file = argv[1], .format = "text"});
    if (argc == 2) {
        fprintf(stderr, "weir %s: needs a command:", argv[1]);
        for (const tool_command *c = NULL; (c = tool_command_next(c));)
            if (strncmp(c->name, argv[1], strlen(argv[1])) == 0)
                fprintf(stderr, " %s", strchr(c->name, ' ') + 1);
        fprintf(stderr, " (weir %s --help)\n", argv[1]);
        return TOOL_USAGE;
    }
    snprintf(name, sizeof name, "%s %s", argv[1], argv[2]);
    return tool_unknown_command(name);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        tool_help_all(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        tool_help_all(stdout);
        return TOOL_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return tool_version(&(tool_options){.command = "version"});
    int                       used = 0;
    const tool_command *const c = tool_command_find(argv[1], argc > 2 ? argv[2] : NULL, &used);
    if (!c)
        return is_group(argv[1]) ? group(argc, argv) : tool_unknown_command(argv[1]);

    tool_options o = {0};
    bool         help = false;
    const int    code = tool_options_read(&o, c, argc - used, argv + used, &help);
    return code != TOOL_DONE || help ? code : c->run(&o);
}
