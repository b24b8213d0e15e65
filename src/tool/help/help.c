/* help.c - the texts of weir help and of --help. */
#include "tool/help/help.h"

#include <ctype.h>
#include <string.h>

enum { WIDTH = 96, NAME = 22 };

const char *tool_option_default(const tool_option *r, char *buffer, size_t bytes)
{
    if (r->text)
        return r->text;
    if (!r->number)
        return NULL;
    snprintf(buffer, bytes, "%lld", (long long)r->number);
    return buffer;
}

bool tool_variable_next(const char **at, tool_variable *v)
{
    const char  *line = *at ? *at : weir_environment_text();
    char *const  field[] = {v->name, v->reader, v->values, v->fallback, v->meaning};
    const size_t room[] = {sizeof v->name, sizeof v->reader, sizeof v->values, sizeof v->fallback,
                           sizeof v->meaning};

    if (!*line)
        return false;
    for (int i = 0; i < 5; i++) {
        const size_t n = strcspn(line, "\t\n");
        snprintf(field[i], room[i], "%.*s", (int)n, line);
        line += n + (line[n] != '\0');
    }
    *at = line;
    return true;
}

/* Words from column `at` on; further lines begin at column `indent`. */
static int wrap(FILE *to, const char *text, int indent, int at)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (at > indent && at + 1 + n > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(to, "%s%.*s", at > indent ? " " : "", n, text);
        text += n + (text[n] == ' ');
    }
    return at;
}

static void row(FILE *to, const char *name, const char *text)
{
    int at = fprintf(to, "  %-*s", NAME, name);

    if (at > NAME + 2)
        at = fprintf(to, "\n%*s", NAME + 2, "") - 1;
    wrap(to, text, NAME + 2, at);
    fputc('\n', to);
}

static void option(FILE *to, const tool_option *r)
{
    char              name[64], number[32], text[1024];
    const char *const words = tool_option_words(r);
    const char *const fallback = tool_option_default(r, number, sizeof number);

    snprintf(name, sizeof name, "--%s %s", r->name, r->value);
    snprintf(text, sizeof text, "%s%s%s%s%s%s", r->meaning, words ? ": " : "", words ? words : "",
             fallback ? " (default: " : "", fallback ? fallback : "", fallback ? ")" : "");
    row(to, name, text);
}

void tool_help_command(FILE *to, const tool_command *c)
{
    for (int i = 0; i < 4 && c->usage[i]; i++)
        fprintf(to, "%s weir %s %s\n", i ? "      " : "usage:", c->name, c->usage[i]);
    fprintf(to, "\n%c%s.\n\nOptions:\n", toupper(*c->meaning), c->meaning + 1);
    for (const tool_option *r = NULL; (r = tool_option_next(c, r));)
        option(to, r);
    row(to, "--help", "print this text");
    fputs("\nExamples:\n", to);
    for (int i = 0; i < 2 && c->examples[i]; i++)
        fprintf(to, "  %s\n", c->examples[i]);
}

static void exit_codes(FILE *to)
{
    char code[16];

    for (const tool_exit_code *e = tool_exit_codes; e->meaning; e++) {
        snprintf(code, sizeof code, "%d", e->code);
        row(to, code, e->meaning);
    }
}

static void environment(FILE *to)
{
    tool_variable v;
    char          text[400];

    for (const char *at = NULL; tool_variable_next(&at, &v);) {
        snprintf(text, sizeof text, "%s (%s%s; default: %s)", v.meaning,
                 strcmp(v.reader, "cuda") == 0 ? "cards: " : "", v.values, v.fallback);
        row(to, v.name, text);
    }
}

static void files(FILE *to)
{
    for (const tool_file *f = tool_files; f->name; f++)
        row(to, f->name, f->meaning);
}

void tool_help_all(FILE *to)
{
    fprintf(to, "usage: weir COMMAND [OPTIONS]      (version %s)\n\nCommands:\n", weir_version());
    for (const tool_command *c = NULL; (c = tool_command_next(c));)
        row(to, c->name, c->meaning);
    fputs("\nweir COMMAND --help and weir help COMMAND list the options of a command;\n"
          "weir help environment, exit-codes or files explain these.\n\nExit codes:\n", to);
    exit_codes(to);
}

/* A line for each option of each command. */
static void list(FILE *to)
{
    for (const tool_command *c = NULL; (c = tool_command_next(c));)
        for (const tool_option *r = NULL; (r = tool_option_next(c, r));)
            fprintf(to, "%s --%s\n", c->name, r->name);
}

/* The commands that begin with the word: "bench". */
static bool group(FILE *to, const char *word)
{
    const size_t n = strlen(word);
    bool         any = false;

    for (const tool_command *c = NULL; (c = tool_command_next(c));)
        if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ') {
            if (!any)
                fprintf(to, "usage: weir %s COMMAND [OPTIONS]\n\nCommands:\n", word);
            any = true;
            row(to, c->name, c->meaning);
        }
    return any;
}

/* A topic, a command or the first word of some. */
static int explain(const tool_options *o)
{
    static const struct {
        const char *name;
        void (*print)(FILE *to);
    } topics[] = {{"commands", tool_help_all}, {"environment", environment},
                  {"exit-codes", exit_codes}, {"files", files}};
    const int n = o->second ? 2 : 1;
    char      name[128];
    int       used;

    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (n == 1 && strcmp(topics[i].name, o->file) == 0) {
            topics[i].print(stdout);
            return TOOL_DONE;
        }
    const tool_command *const c = tool_command_find(o->file, o->second, &used);
    if (c && used == n) {
        tool_help_command(stdout, c);
        return TOOL_DONE;
    }
    if (n == 1 && group(stdout, o->file))
        return TOOL_DONE;
    snprintf(name, sizeof name, "%s%s%s", o->file, n > 1 ? " " : "", n > 1 ? o->second : "");
    return tool_unknown_command(name);
}

int tool_help(const tool_options *o)
{
    const char *const f = o->format;

    if (strcmp(f, "markdown") == 0)
        return tool_markdown(stdout, o->file) ? TOOL_DONE : tool_unknown_command(o->file);
    if (strcmp(f, "man") == 0)
        tool_manual(stdout);
    else if (strcmp(f, "bash") == 0)
        tool_complete_bash(stdout);
    else if (strcmp(f, "zsh") == 0)
        tool_complete_zsh(stdout);
    else if (strcmp(f, "fish") == 0)
        tool_complete_fish(stdout);
    else if (strcmp(f, "list") == 0)
        list(stdout);
    else if (o->file)
        return explain(o);
    else
        tool_help_all(stdout);
    return TOOL_DONE;
}
