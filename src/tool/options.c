/* options.c - reads the options of a command by the option table, and says what is wrong. */
#include "tool/help/help.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN = TOOL_BIT_GRAPH | TOOL_BIT_WORKER | TOOL_BIT_DUMP | TOOL_BIT_VIEW, MOST = 64 };

/* ---- the nearest name ---- */

enum { LENGTH = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that make a of b (optimal string
 * alignment; Damerau 1964); LENGTH if either is too long. */
static size_t distance(const char *a, const char *b)
{
    const size_t na = strlen(a), nb = strlen(b);
    size_t       d[LENGTH + 1][LENGTH + 1];

    if (na >= LENGTH || nb >= LENGTH)
        return LENGTH;
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
                            d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

void tool_near_add(tool_near *n, const char *name)
{
    const size_t edits = distance(n->wanted, name), most = 1 + strlen(n->wanted) / 4;

    if (edits <= most && (!*n->name || edits < n->edits)) {
        snprintf(n->name, sizeof n->name, "%s", name);
        n->edits = edits;
    }
}

/* ---- values ---- */

/* Is `word` one of "a, b, c"? */
static bool among(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; at && n > 0; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0)
            return true;
    }
    return false;
}

/* Whole decimal numbers within the row's range; nothing may follow them. */
static int read_number(tool_options *o, const tool_option *r, const char *value)
{
    char *end = NULL;
    errno = 0;
    const long long n = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || n < r->min || n > r->max)
        return tool_say(o, TOOL_USAGE, "--%s must be a whole number from %lld to %lld, not '%s'",
                        r->name, (long long)r->min, (long long)r->max, value);
    *(int64_t *)(void *)((char *)o + r->at) = n;
    return TOOL_DONE;
}

/* "unknown --what 'gaph' (expected graph, plan or json; did you mean graph?)" */
static int unknown_word(const tool_options *o, const tool_option *r, const char *words,
                        const char *value)
{
    char        word[64];
    tool_near   near = {.wanted = value};
    const char *last = words;

    for (const char *at = words; *at; at += strspn(at, ", ")) {
        const int n = (int)strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", n, at);
        tool_near_add(&near, word);
        last = at;
        at += n;
    }
    return tool_say(o, TOOL_USAGE, "unknown --%s '%s' (expected %.*s%s%s%s%s%s)", r->name, value,
                    last > words ? (int)(last - words) - 2 : 0, words, last > words ? " or " : "",
                    last, *near.name ? "; did you mean " : "", near.name, *near.name ? "?" : "");
}

static int read_text(tool_options *o, const tool_option *r, const char *value)
{
    const char *const words = tool_option_words(r);
    if (words && !r->open && !among(words, value))
        return unknown_word(o, r, words, value);
    if (*value == '\0')
        return tool_say(o, TOOL_USAGE, "--%s needs a value, not ''", r->name);
    *(const char **)(void *)((char *)o + r->at) = value;
    return TOOL_DONE;
}

/* For --NAME help: the words, a line each. */
static void list_words(const char *words)
{
    for (const char *at = words; *at; at += strspn(at, ", ")) {
        const int n = (int)strcspn(at, ",");
        printf("%.*s\n", n, at);
        at += n;
    }
}

/* For --NAME help. */
static int list_values(const tool_options *o, const tool_option *r)
{
    if (!r->list) {
        list_words(tool_option_words(r));
        return TOOL_DONE;
    }
    char *const text = r->list();
    if (!text)
        return tool_failed(o);
    fputs(text, stdout);
    weir_text_free(text);
    return TOOL_DONE;
}

/* What getopt_long found wrong. */
static int complain(const tool_options *o, const tool_command *c, int found, char **argv)
{
    const char *const token = argv[optind - 1];
    char              name[64];
    tool_near         near = {.wanted = name};

    if (found == ':')
        return tool_say(o, TOOL_USAGE, "%s needs a value", token);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(token, "="), token);
    fprintf(stderr, "weir %s: unknown option '%s'", o->command, name);
    char names[MOST][64];
    int  n = 0;
    for (const tool_option *r = NULL; (r = tool_option_next(c, r)) && n < MOST; n++) {
        snprintf(names[n], sizeof names[n], "--%s", r->name);
        tool_near_add(&near, names[n]);
    }
    tool_near_add(&near, "--help");
    if (*near.name)
        fprintf(stderr, " (did you mean %s?)", near.name);
    fputs("; options:", stderr);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s", names[i]);
    fputs(" --help\n", stderr);
    return TOOL_USAGE;
}

static void set_defaults(tool_options *o, const tool_command *c)
{
    *o = (tool_options){.command = c->name};
    for (const tool_option *r = NULL; (r = tool_option_next(c, r));) {
        char *const field = (char *)o + r->at;
        if (r->number)
            *(int64_t *)(void *)field = r->number;
        if (r->text)
            *(const char **)(void *)field = r->text;
    }
}

/* What one option alone cannot know. */
static int check(const tool_options *o, const tool_command *c)
{
    if (!(c->bit & (TRAIN | TOOL_BIT_SUMMARY | TOOL_BIT_FIT)))
        return TOOL_DONE;
    if (o->micro && o->batch && o->batch % o->micro)
        return tool_say(o, TOOL_USAGE, "--micro %lld does not divide the batch of %lld",
                        (long long)o->micro, (long long)o->batch);
    if (o->image && !tool_model_scales(o->model))
        return tool_say(o, TOOL_USAGE,
                        "--image is for networks whose images scale; '%s' has one input size",
                        o->model);
    if (o->length && !tool_model_is_text(o->model))
        return tool_say(o, TOOL_USAGE, "--length is for networks over text; '%s' is not one",
                        o->model);
    if (o->depth && !tool_model_is_deep(o->model))
        return tool_say(o, TOOL_USAGE, "--depth is for resnet; '%s' has one depth", o->model);
    return TOOL_DONE;
}

/* What stands behind the options: files, the words of help, or a program. */
static int read_operands(tool_options *o, const tool_command *c, int argc, char **argv)
{
    if (c->program) {
        o->program = optind < argc ? argv + optind : NULL;
        return TOOL_DONE;
    }
    for (int i = 0; i < c->operands && optind < argc; i++)
        *(i ? &o->second : &o->file) = argv[optind++];
    if (optind == argc)
        return check(o, c);
    if (c->operands)
        return tool_say(o, TOOL_USAGE, "'%s' is one operand too many; usage: weir %s %s",
                        argv[optind], c->name, c->usage[0]);
    return tool_say(o, TOOL_USAGE, "'%s' is not an option; options begin with --", argv[optind]);
}

/* getopt_long is given the rows of this command only, so that no option is silently ignored. */
int tool_options_read(tool_options *o, const tool_command *c, int argc, char **argv, bool *help)
{
    struct option      known[MOST + 2] = {{0}};
    const tool_option *row[MOST];
    int                n = 0;

    for (const tool_option *r = NULL; n < MOST && (r = tool_option_next(c, r)); row[n++] = r)
        known[n] = (struct option){r->name, required_argument, NULL, 0};
    known[n] = (struct option){"help", no_argument, NULL, 'h'};

    set_defaults(o, c);
    *help = false;
    opterr = 0;
    const char *const letters = c->program ? "+:h" : ":h"; /* +: stop at the first operand */
    for (int found, at = 0; (found = getopt_long(argc, argv, letters, known, &at)) != -1;) {
        if (found == 'h') {
            *help = true;
            tool_help_command(stdout, c);
            return TOOL_DONE;
        }
        if (found != 0)
            return complain(o, c, found, argv);
        const tool_option *const r = row[at];
        if ((r->list || tool_option_words(r)) && strcmp(optarg, "help") == 0) {
            *help = true;
            return list_values(o, r);
        }
        const int code = r->max ? read_number(o, r, optarg) : read_text(o, r, optarg);
        if (code != TOOL_DONE)
            return code;
    }
    return read_operands(o, c, argc, argv);
}
