/* main.c - the command-line tool weir: finds the command, reads its options, runs it. */
#include "tool/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const tool_command commands[] = {
    {"info", TOOL_BIT_INFO, tool_info,
     "version, kernels and core types chosen, threads, devices, parts"},
    {"bench graph", TOOL_BIT_GRAPH, tool_bench_graph,
     "train a model with the graph off and on, interleaved; time, memory, bits"},
    {"bench worker", TOOL_BIT_WORKER, tool_bench_worker,
     "train on command from stdin, for programs that compare (bench/compare.py)"},
    {"dump", TOOL_BIT_DUMP, tool_dump,
     "what a model's training step becomes: graph, plan, costs, pictures"},
    {"plan", TOOL_BIT_PLAN, tool_plan,
     "plan a step described in a JSON file within a byte budget: weir plan GRAPH.json"},
    {"place", TOOL_BIT_PLACE, tool_place,
     "offsets for the buffers of a CSV file (id,lower,upper,size): weir place BUFFERS.csv"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

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

int tool_write(const tool_options *o, const char *path, const char *text)
{
    FILE *const to = path ? fopen(path, "w") : stdout;
    if (!to)
        return tool_say(o, TOOL_FAILED, "cannot write '%s'", path);
    fputs(text, to);
    const bool bad = ferror(to) != 0;
    if ((path ? fclose(to) : fflush(to)) != 0 || bad)
        return tool_say(o, TOOL_FAILED, "'%s' could not be written whole", path ? path : "stdout");
    return TOOL_DONE;
}

static void print_help(FILE *to)
{
    fprintf(to, "usage: weir COMMAND [OPTIONS]      (version %s)\n\n", weir_version());
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  weir %-13s %s\n", commands[i].name, commands[i].meaning);
    fputs("\n  weir COMMAND --help   the options of a command\n"
          "\nExit codes: 0 done, 1 failed, 2 the command line makes no sense.\n",
          to);
}

/* The command that argv[1] (and argv[2], for one of two words) names; *used words of argv belong to
 * it. */
static const tool_command *find(int argc, char **argv, int *used)
{
    for (int i = 0; i < COMMANDS; i++) {
        const char *const name = commands[i].name, *const gap = strchr(name, ' ');
        const size_t first = gap ? (size_t)(gap - name) : strlen(name);
        if (strlen(argv[1]) != first || strncmp(argv[1], name, first) != 0)
            continue;
        if (gap && (argc < 3 || strcmp(argv[2], gap + 1) != 0))
            continue;
        *used = gap ? 2 : 1;
        return &commands[i];
    }
    return NULL;
}

static int unknown(int argc, char **argv)
{
    const bool second = strcmp(argv[1], "bench") == 0 && argc > 2 && argv[2][0] != '-';
    fprintf(stderr, "weir: no command '%s%s%s'; there are:", argv[1], second ? " " : "",
            second ? argv[2] : "");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
    fputs(" (weir --help)\n", stderr);
    return TOOL_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return TOOL_DONE;
    }
    int                       used = 0;
    const tool_command *const c = find(argc, argv, &used);
    if (!c)
        return unknown(argc, argv);

    tool_options o = {0};
    bool         help = false;
    const int    code = tool_options_read(&o, c, argc - used, argv + used, &help);
    return code != TOOL_DONE || help ? code : c->run(&o);
}
