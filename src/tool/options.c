/* options.c - the options of all commands: one table from which reading, checking and help are
 * made. */
#include "tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number has a range; a text has a list of the words allowed, or none (anything goes). */
typedef struct row {
    const char *name, *value, *meaning;
    unsigned    commands;
    size_t      at;       /* of the field in tool_options */
    int64_t     min, max; /* max 0: a text */
    const char *words;
    const char *(*ask)(void);   /* or who knows them */
    int64_t     number; /* defaults */
    const char *text;
} row;

enum { TRAIN = TOOL_BIT_GRAPH | TOOL_BIT_WORKER | TOOL_BIT_DUMP };

#define AT(field) .at = offsetof(tool_options, field)

static const row rows[] = {
    {"model", "M", "the network", TRAIN, AT(model), .text = "mlp"},
    {"batch", "N", "samples of a step (default: the model's own)", TRAIN, AT(batch), 1, 65536},
    {"image", "PX",
     "size of images (default 224, unet 256; a resnet up to 64: the CIFAR stem, 10 classes)", TRAIN,
     AT(image), 8, 1024},
    {"length", "T", "tokens of a text, leaves of a tree", TRAIN, AT(length), 1, 65536},
    {"depth", "L", "layers of resnet, 6 k + 2 (default 110)", TRAIN, AT(depth), 8, 6002},
    {"device", "D",
     "where: cpu, cuda or cuda:1, or a machine to simulate, sim:v100 (see weir/device.h)",
     TRAIN | TOOL_BIT_INFO, AT(device), .text = "cpu"},
    {"threads", "T", "worker threads (default: WEIR_THREADS, else one per core)",
     TRAIN | TOOL_BIT_INFO, AT(threads), 1, 1024},
    {"precision", "P", "of products, convolutions and attention; parameters stay f32", TRAIN,
     AT(precision), .words = "f32, bf16, f16", .text = "f32"},
    {"steps", "K", "timed steps of each case", TOOL_BIT_GRAPH, AT(steps), 1, 1000000, .number = 20},
    {"rounds", "R", "rounds the steps are spread over, off and on alternating", TOOL_BIT_GRAPH,
     AT(rounds), 1, 10000, .number = 10},
    {"json", "FILE", "write one row per case there", TOOL_BIT_GRAPH, AT(json)},
    {"case", "C", "with the graph on or off", TOOL_BIT_WORKER, AT(graph), .words = "on, off",
     .text = "on"},
    {"micro", "K", "gradients of K micro-batches are added up, then applied", TOOL_BIT_WORKER,
     AT(micro), 1, 1024},
    {"disable", "PASSES", "passes to leave out, such as fuse,order, of", TRAIN,
     AT(disable)},
    {"budget", "BYTES", "most the whole step may take: 512MB, 0.5GiB, 75%",
     TRAIN | TOOL_BIT_PLAN, AT(budget)},
    {"off-budget", "BYTES", "the same with the graph off: 512MB, 75% of what it takes without",
     TOOL_BIT_GRAPH, AT(off_budget)},
    {"off-policy", "P", "what is dropped first with the graph off", TOOL_BIT_GRAPH, AT(off_policy),
     .words = "dtr, dtr:eq, dtr:local, dtr:lru, dtr:size, dtr:msps", .text = "dtr"},
    {"measure", "W", "time kernels while planning for a budget", TRAIN, AT(measure),
     .words = "yes, no", .text = "no"},
    {"policy", "P", "how to fit the budget, such as auto:recompute (weir plan --policy help: all)",
     TRAIN | TOOL_BIT_PLAN, AT(policy), .text = "auto"},
    {"link", "GB/S", "to the host and back, such as 12 or 12,25 (default: no swapping)",
     TOOL_BIT_PLAN, AT(link)},
    {"curve", "BASE",
     "plan for ever smaller budgets by each policy (a,b,c or all): a table, BASE.csv, BASE.svg",
     TOOL_BIT_PLAN, AT(curve)},
    {"explain", "FILE", "write what is done with each tensor, why, and what it costs (-: stdout)",
     TOOL_BIT_PLAN, AT(explain)},
    {"picture", "FILE", "draw the plan there: SVG, live bytes over time, and the streams",
     TOOL_BIT_PLAN, AT(picture)},
    {"align", "BYTES", "alignment of offsets, a power of two", TOOL_BIT_PLAN | TOOL_BIT_PLACE,
     AT(align), 1, 1 << 20,
     .number = 1},
    {"check", "GRAPH", "judge a plan for that step: weir plan --check GRAPH.json PLAN.json",
     TOOL_BIT_PLAN, AT(check)},
    {"moves", "N", "decisions the search tries (default: by the step's size)", TOOL_BIT_PLAN,
     AT(moves), 1, INT64_MAX},
    {"capacity", "BYTES", "a height that is low enough (default: as low as possible)",
     TOOL_BIT_PLACE, AT(capacity)},
    {"placement", "P", "how offsets are found",
     TOOL_BIT_GRAPH | TOOL_BIT_DUMP | TOOL_BIT_PLAN | TOOL_BIT_PLACE, AT(placement),
     .ask = weir_placement_names},
    {"nodes", "N", "of the exact search, at most (default: by the number of buffers)",
     TOOL_BIT_PLACE, AT(nodes), 1, INT64_MAX},
    {"what", "W", "the text wanted", TOOL_BIT_DUMP, AT(what),
     .words = "graph, plan, cost, dot, timeline, addresses, json, outline, explain, profile, trace",
     .text = "plan"},
    {"times", "T", "of the operations in an outline", TOOL_BIT_DUMP, AT(times),
     .words = "roofline, estimate, measured", .text = "roofline"},
    {"out", "FILE", "where to write it (default: stdout)",
     TOOL_BIT_DUMP | TOOL_BIT_PLAN | TOOL_BIT_PLACE, AT(out)},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* The words that the row allows, "a, b, c", or NULL. */
static const char *words_of(const row *r)
{
    return r->ask ? r->ask() : r->words;
}

static void print_help(const tool_command *c)
{
    printf("usage: weir %s [OPTIONS]\n%s\n\n", c->name, c->meaning);
    for (int i = 0; i < ROWS; i++) {
        const row *const r = &rows[i];
        if (!(r->commands & c->bit))
            continue;
        char name[32];
        snprintf(name, sizeof name, "--%s %s", r->name, r->value);
        const char *const words = strcmp(r->name, "model") == 0     ? tool_model_names()
                                  : strcmp(r->name, "disable") == 0 ? weir_pass_names()
                                                                    : words_of(r);
        printf("  %-17s %s%s%s", name, r->meaning, words ? ": " : "", words ? words : "");
        if (r->number)
            printf(" (default %lld)", (long long)r->number);
        if (r->text)
            printf(" (default %s)", r->text);
        putchar('\n');
    }
}

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
static int read_number(tool_options *o, const row *r, const char *value)
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

static int read_text(tool_options *o, const row *r, const char *value)
{
    const char *const words = words_of(r);
    if (words && !among(words, value))
        return tool_say(o, TOOL_USAGE, "--%s must be one of %s, not '%s'", r->name, words, value);
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

/* What getopt_long found wrong, in our words. */
static int complain(const tool_options *o, const tool_command *c, int found, char **argv)
{
    const char *const token = argv[optind - 1];
    if (found == ':')
        return tool_say(o, TOOL_USAGE, "%s needs a value", token);
    fprintf(stderr, "weir %s: no option '%s'; allowed are", o->command, token);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].commands & c->bit)
            fprintf(stderr, " --%s", rows[i].name);
    fputs(" --help\n", stderr);
    return TOOL_USAGE;
}

static void set_defaults(tool_options *o, const tool_command *c)
{
    *o = (tool_options){.command = c->name};
    for (int i = 0; i < ROWS; i++) {
        char *const field = (char *)o + rows[i].at;
        if (rows[i].number)
            *(int64_t *)(void *)field = rows[i].number;
        if (rows[i].text)
            *(const char **)(void *)field = rows[i].text;
    }
}

/* What one option alone cannot know. */
static int check(const tool_options *o, const tool_command *c)
{
    if (!(c->bit & TRAIN))
        return TOOL_DONE;
    if (!tool_model_known(o->model))
        return tool_say(o, TOOL_USAGE, "--model must be one of %s, not '%s'", tool_model_names(),
                        o->model);
    if (o->micro && o->batch && o->batch % o->micro)
        return tool_say(o, TOOL_USAGE, "--micro %lld does not divide the batch of %lld",
                        (long long)o->micro, (long long)o->batch);
    if (o->image && !tool_model_scales(o->model))
        return tool_say(o, TOOL_USAGE,
                        "--image is for networks whose images scale; '%s' has one input size",
                        o->model);
    if (o->length && !tool_model_is_text(o->model))
        return tool_say(o, TOOL_USAGE, "--length is for networks over text; '%s' is none",
                        o->model);
    if (o->depth && !tool_model_is_deep(o->model))
        return tool_say(o, TOOL_USAGE, "--depth is for resnet; '%s' has one depth", o->model);
    return TOOL_DONE;
}

/* getopt_long is given the rows of this command only, so that no option is silently ignored. */
int tool_options_read(tool_options *o, const tool_command *c, int argc, char **argv, bool *help)
{
    struct option known[ROWS + 2] = {{0}};
    int           n = 0, index[ROWS] = {0};
    for (int i = 0; i < ROWS; i++)
        if (rows[i].commands & c->bit) {
            known[n] = (struct option){rows[i].name, required_argument, NULL, 0};
            index[n++] = i;
        }
    known[n] = (struct option){"help", no_argument, NULL, 'h'};

    set_defaults(o, c);
    *help = false;
    opterr = 0;
    for (int found, at = 0; (found = getopt_long(argc, argv, ":h", known, &at)) != -1;) {
        if (found == 'h') {
            *help = true;
            print_help(c);
            return TOOL_DONE;
        }
        if (found != 0)
            return complain(o, c, found, argv);
        const row *const r = &rows[index[at]];
        if (words_of(r) && strcmp(optarg, "help") == 0) {
            *help = true;
            list_words(words_of(r));
            return TOOL_DONE;
        }
        const int        code = r->max ? read_number(o, r, optarg) : read_text(o, r, optarg);
        if (code != TOOL_DONE)
            return code;
    }
    if (optind + 1 == argc && (c->bit == TOOL_BIT_PLAN || c->bit == TOOL_BIT_PLACE))
        o->file = argv[optind++];
    if (optind < argc)
        return tool_say(o, TOOL_USAGE, "'%s' is not an option; options begin with --",
                        argv[optind]);
    return check(o, c);
}
