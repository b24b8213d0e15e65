/* commands.c - the commands, their examples, the exit codes and the files: help, manual and
 * completion use these tables. */
#include "tool/help/help.h"

#include <string.h>

/* Examples run in the root of the repository, where weir is found: test/tool.sh runs them. */
static const tool_command commands[] = {
    {.name = "info", .bit = TOOL_BIT_INFO, .run = tool_info, .usage = {"[OPTIONS]"},
     .meaning = "show the version, the kernels and libraries chosen, devices and passes",
     .examples = {"weir info", "weir info --device sim:v100 --threads 2 --json -"}},
    {.name = "bench graph", .bit = TOOL_BIT_GRAPH, .run = tool_bench_graph, .usage = {"[OPTIONS]"},
     .meaning = "train a model with the graph off and on in turn; compare time, memory and bits",
     .examples = {"weir bench graph --model tiny --steps 4 --json rows.json",
                  "weir bench graph --model cnn --batch 16 --steps 4 --budget 80%"}},
    {.name = "bench worker", .bit = TOOL_BIT_WORKER, .run = tool_bench_worker,
     .usage = {"[OPTIONS]"},
     .meaning = "train on commands from stdin, for programs that compare (bench/compare.py)",
     .examples = {"printf 'run 3\\nmemory\\n' | weir bench worker --model tiny"}},
    {.name = "dump", .bit = TOOL_BIT_DUMP, .run = tool_dump, .usage = {"[OPTIONS]"},
     .meaning = "print the graph, plan, costs or pictures of a model's training step",
     .examples = {"weir dump --model cnn --what plan",
                  "weir dump --model lenet --budget 75% --what timeline --out timeline.svg"}},
    {.name = "fit", .bit = TOOL_BIT_FIT, .run = tool_fit, .usage = {"[OPTIONS]"},
     .meaning = "find the largest batch whose training step fits in a memory, and its speed",
     .examples = {"weir fit --model cnn --memory 4MB",
                  "weir fit --model resnet50 --memory 4GB --device sim:v100 --json -"}},
    {.name = "view", .bit = TOOL_BIT_VIEW, .run = tool_view, .operands = 2,
     .usage = {"[OPTIONS]", "A.html [B.html] [--out FILE]"},
     .meaning = "show a model's plan as a web page, or two such pages side by side",
     .examples = {"weir view --model cnn --budget 75% --out a.html"}},
    {.name = "summary", .bit = TOOL_BIT_SUMMARY, .run = tool_summary, .usage = {"[OPTIONS]"},
     .meaning = "list the layers of a model: results, parameters, bytes, flops",
     .examples = {"weir summary --model resnet18 --batch 8",
                  "weir summary --model gpt --levels 2 --json -"}},
    {.name = "plan", .bit = TOOL_BIT_PLAN, .run = tool_plan, .operands = 1,
     .usage = {"GRAPH.json [OPTIONS]", "--check GRAPH.json PLAN.json [OPTIONS]",
               "GRAPH.json --curve BASE [OPTIONS]", "--onnx MODEL.onnx [OPTIONS]"},
     .meaning = "plan a step that a JSON file describes within a byte budget, or check such a plan",
     .examples = {"weir plan test/data/chain.json --budget 75% --out plan.json",
                  "weir plan --check test/data/chain.json plan.json"}},
    {.name = "place", .bit = TOOL_BIT_PLACE, .run = tool_place, .operands = 1,
     .usage = {"BUFFERS.csv [OPTIONS]"},
     .meaning = "find offsets for the buffers of a CSV file (columns id,lower,upper,size)",
     .examples = {"weir place test/data/tiles_a.csv --out placed.csv"}},
    {.name = "run-graph", .bit = TOOL_BIT_RUN, .run = tool_run_graph, .operands = 1,
     .usage = {"MODEL.safetensors [OPTIONS]"},
     .meaning = "run a saved graph without the model's code, on arrays in files of NumPy",
     .examples = {"weir run-graph test/data/graph-format1.safetensors --budget 64kB",
                  "weir run-graph test/data/graph-format1.safetensors --outputs kinds=kinds.npy"}},
    {.name = "run", .bit = TOOL_BIT_ONNX, .run = tool_run, .operands = 1,
     .usage = {"MODEL.onnx [OPTIONS]"},
     .meaning = "run a model in an ONNX file on arrays in files of NumPy: times, planned bytes",
     .examples = {"weir run test/data/flowers.onnx --dims batch=2 --time 20",
                  "weir run test/data/flowers.onnx --dims batch=1 --output logits.npy"}},
    {.name = "train", .bit = TOOL_BIT_TRAIN, .run = tool_train, .operands = 1,
     .usage = {"MODEL.onnx --data X.npy --labels Y.npy [OPTIONS]"},
     .meaning = "train a model in an ONNX file on arrays in files of NumPy, within a budget",
     .examples = {"weir run test/data/flowers.onnx --dims batch=2 "
                  "--outputs flowers=x.npy,logits=y.npy",
                  "weir train test/data/flowers.onnx --data x.npy --labels y.npy "
                  "--loss mse --steps 10"}},
    {.name = "launch", .bit = TOOL_BIT_LAUNCH, .run = tool_launch, .operands = 1, .program = true,
     .usage = {"--ranks N [--] PROGRAM [ARGUMENT...]"},
     .meaning = "run a program in several processes of this machine; communicators auto join them",
     .examples = {"weir launch --ranks 2 build/parallel auto",
                  "weir launch --ranks 2 -- sh -c 'echo $WEIR_COMM $WEIR_THREADS'"}},
    {.name = "version", .bit = TOOL_BIT_VERSION, .run = tool_version, .usage = {"[OPTIONS]"},
     .meaning = "print the version", .examples = {"weir version", "weir version --json -"}},
    {.name = "help", .bit = TOOL_BIT_HELP, .run = tool_help, .operands = 2,
     .usage = {"[COMMAND | TOPIC] [OPTIONS]"},
     .meaning = "explain a command, or one of: commands, environment, exit-codes, files",
     .examples = {"weir help bench graph", "weir help environment"}},
};

const tool_exit_code tool_exit_codes[] = {
    {TOOL_DONE, "done"},
    {TOOL_FAILED, "failed; stderr has a sentence that says why"},
    {TOOL_USAGE, "invalid command line; nothing was done"},
    {TOOL_NO_PROGRAM,
     "weir launch: the program cannot be executed; where a rank fails, weir launch ends with the "
     "code of the first that did, or 128 + the signal that killed it"},
    {0, NULL},
};

const tool_file tool_files[] = {
    {"GRAPH.json", "a training step for weir plan; weir dump --what outline writes one"},
    {"PLAN.json", "a memory plan with offsets, as weir plan writes it"},
    {"A.html, B.html", "pages of plans; weir view and weir dump --what html write them"},
    {"BUFFERS.csv", "buffers for weir place: columns lower, upper and size, and any others"},
    {"MODEL.safetensors", "a graph and its weights, as weir_graph_save writes them"},
    {"MODEL.onnx", "a model, as other programs export it"},
    {"BASE.csv, BASE.svg", "the sweep over budgets of weir plan --curve BASE"},
    {NULL, NULL},
};

const tool_command *tool_command_next(const tool_command *before)
{
    const tool_command *const c = before ? before + 1 : commands;
    return c < commands + sizeof commands / sizeof *commands ? c : NULL;
}

const tool_command *tool_command_find(const char *first, const char *second, int *used)
{
    for (const tool_command *c = NULL; (c = tool_command_next(c));) {
        char        name[64];
        const char *gap = strchr(c->name, ' ');

        *used = gap ? 2 : 1;
        if (gap && !second)
            continue;
        snprintf(name, sizeof name, "%.24s%s%.24s", first, gap ? " " : "", gap ? second : "");
        if (strcmp(name, c->name) == 0)
            return c;
    }
    *used = 0;
    return NULL;
}
