/* option_table.c - the options of all commands: reading, help, manual and completion use this
 * table. */
#include "tool/tool.h"

#include <string.h>

enum {
    GRAPH = TOOL_BIT_GRAPH,
    TRAIN = TOOL_BIT_GRAPH | TOOL_BIT_WORKER | TOOL_BIT_DUMP | TOOL_BIT_VIEW,
    FIT = TOOL_BIT_FIT,
    MODEL = TRAIN | TOOL_BIT_SUMMARY | FIT,
    RUN = TOOL_BIT_RUN | TOOL_BIT_ONNX,
    LEARN = TOOL_BIT_TRAIN,
    ONNX = TOOL_BIT_ONNX | TOOL_BIT_DUMP | TOOL_BIT_TRAIN,
    STEP = TRAIN | TOOL_BIT_PLAN | RUN,
    FACTS = LEARN | TOOL_BIT_INFO | TOOL_BIT_GRAPH | TOOL_BIT_DUMP | TOOL_BIT_PLAN |
            TOOL_BIT_PLACE |
            TOOL_BIT_VERSION | TOOL_BIT_SUMMARY | FIT | RUN
};

#define AT(field) .at = offsetof(tool_options, field)

static const tool_option rows[] = {
    {"model", "M", "the network", MODEL, AT(model), .ask = tool_model_names, .text = "mlp"},
    {"batch", "N", "samples of a step (default: the model's own)", MODEL & ~FIT, AT(batch), 1,
     65536},
    {"batch", "N", "samples of the first step that is tried", FIT, AT(batch), 1, 65536,
     .number = 1},
    {"image", "PX",
     "size of images (default: 224, unet 256; a resnet up to 64 has the CIFAR stem and 10 classes)",
     MODEL, AT(image), 8, 1024},
    {"length", "T", "tokens of a text, leaves of a tree (default: the model's own)", MODEL,
     AT(length), 1, 65536},
    {"depth", "L", "layers of resnet, 6 k + 2 (default: 110)", MODEL, AT(depth), 8, 6002},
    {"device", "D",
     "cpu, cuda or cuda:1, or a machine to simulate such as sim:v100 or sim:p100,capacity=12GB",
     MODEL | TOOL_BIT_INFO | RUN | LEARN, AT(device), .text = "cpu"},
    {"threads", "T", "worker threads (default: WEIR_THREADS, else one for each core)",
     TRAIN | TOOL_BIT_INFO | RUN | FIT | LEARN, AT(threads), 1, 1024},
    {"guard", "W", "put guard zones around operands and workspaces", TRAIN, AT(guard),
     .words = "yes, no"},
    {"spill-dir", "FOLDER", "holds the file for offloaded values (default: WEIR_SPILL_DIR)",
     TRAIN | FIT | LEARN, AT(spill_dir)},
    {"precision", "P", "type of products, convolutions and attention; parameters stay f32", MODEL,
     AT(precision), .words = "f32, bf16, f16", .text = "f32"},
    {"steps", "K", "timed steps of each case", GRAPH, AT(steps), 1, 1000000, .number = 20},
    {"steps", "K", "timed steps of the largest batch; 0: only plan", FIT, AT(steps), 0, 1000000,
     .number = 3},
    {"ask", "W", "print each batch to try, and read from stdin whether it fits: a line fits or no",
     FIT, AT(ask), .words = "yes, no", .text = "no"},
    {"within", "PERCENT", "with --ask: by how much the result may be too small", FIT, AT(within), 0,
     99},
    {"steps", "K", "runs of the graph", RUN, AT(steps), 1, 1000000, .number = 1},
    {"inputs", "PAIRS",
     "NAME=FILE.npy,...: arrays for inputs (default: numbers from 0 to 1, 0 for integers)", RUN,
     AT(inputs)},
    {"outputs", "PAIRS", "NAME=FILE.npy,...: write outputs, parameters or states there", RUN,
     AT(outputs)},
    {"onnx", "FILE", "a model in an ONNX file, in inference, in place of --model", TOOL_BIT_DUMP,
     AT(onnx), .file = true},
    {"dims", "PAIRS", "sizes of an ONNX model's named dims: batch=8,seq=128", ONNX, AT(dims)},
    {"values", "NAMES", "inputs of an ONNX model that are read while it is recorded: shape,axes",
     ONNX & ~LEARN, AT(values)},
    {"steps", "K", "training steps, each over the next rows of the arrays", LEARN, AT(steps), 1,
     1000000000, .number = 100},
    {"data", "FILE", "X.npy: rows of the model's input; a batch has the rows of its first axis",
     LEARN, AT(data), .file = true},
    {"labels", "FILE", "Y.npy: a class for each row, or rows as the model's output", LEARN,
     AT(labels), .file = true},
    {"loss", "L", "the loss of output and labels; bce takes logits", LEARN, AT(loss),
     .words = "cross_entropy, mse, bce", .text = "cross_entropy"},
    {"optim", "O", "the optimiser; sgd has momentum 0.9", LEARN, AT(optim),
     .words = "sgd, adam, adamw, rmsprop, adagrad", .text = "adamw"},
    {"lr", "RATE", "the learning rate", LEARN, AT(lr), .text = "0.001"},
    {"frozen", "NAMES", "parameters that are not trained, separated by commas", LEARN,
     AT(frozen)},
    {"rounds", "R", "rounds over which the steps are spread, off and on alternating", GRAPH,
     AT(rounds), 1, 10000, .number = 10},
    {"case", "C", "train with the graph on or off", TOOL_BIT_WORKER, AT(graph), .words = "on, off",
     .text = "on"},
    {"micro", "K", "split the batch into K micro-batches and apply the sum of their gradients",
     TOOL_BIT_WORKER, AT(micro), 1, 1024},
    {"level", "L", "0 or 1: all passes that keep every bit; -1: none, in the recorded order", TRAIN,
     AT(level), .words = "-1, 0, 1"},
    {"disable", "PASSES", "passes to leave out, separated by commas", TRAIN, AT(disable),
     .ask = weir_pass_names, .open = true},
    {"budget", "BYTES", "most bytes that the whole step may take: 512MB, 0.5GiB, 75%, auto",
     STEP | LEARN, AT(budget)},
    {"memory", "BYTES", "most bytes that the whole step may take: 8GB, 512MiB, auto (what is free)",
     FIT, AT(budget), .text = "auto"},
    {"off-budget", "BYTES", "the budget with the graph off: 512MB, 75% of its peak without one",
     GRAPH, AT(off_budget)},
    {"off-policy", "P", "what is evicted first with the graph off", GRAPH, AT(off_policy),
     .words = "dtr, dtr:eq, dtr:local, dtr:lru, dtr:size, dtr:msps", .text = "dtr"},
    {"policy", "P", "how to fit the budget, such as auto:recompute (--policy help lists all)",
     STEP | FIT | LEARN, AT(policy), .list = weir_policy_names, .text = "auto"},
    {"measure", "W", "time kernels while planning for a budget", TRAIN, AT(measure),
     .words = "yes, no", .text = "no"},
    {"profile-steps", "N", "measure N steps within a budget and plan again if they surprise", TRAIN,
     AT(profile_steps), 1, 1000000},
    {"cache", "FOLDER", "stores plans for reuse (default: WEIR_PLAN_CACHE)", STEP | FIT | LEARN,
     AT(cache)},
    {"link", "GB/S", "speed of copies to the host and back: 12 or 12,25 (default: no offloading)",
     TOOL_BIT_PLAN, AT(link)},
    {"memory", "GB/S", "speed of compression and decompression (default: 600)", TOOL_BIT_PLAN,
     AT(memory), 1, 1000000},
    {"moves", "N", "decisions that the search tries (default: by the step's size)", TOOL_BIT_PLAN,
     AT(moves), 1, INT64_MAX},
    {"placement", "P", "how offsets are found", STEP & ~TOOL_BIT_WORKER & ~RUN, AT(placement),
     .ask = weir_placement_names},
    {"placement", "P", "how offsets are found", TOOL_BIT_PLACE, AT(placement),
     .ask = weir_placement_names},
    {"align", "BYTES", "alignment of offsets, a power of two", TOOL_BIT_PLAN | TOOL_BIT_PLACE,
     AT(align), 1, 1 << 20, .number = 1},
    {"capacity", "BYTES", "a height that is low enough (default: as low as possible)",
     TOOL_BIT_PLACE, AT(capacity)},
    {"nodes", "N", "most nodes of the exact search (default: by the number of buffers)",
     TOOL_BIT_PLACE, AT(nodes), 1, INT64_MAX},
    {"curve", "BASE",
     "plan for ever smaller budgets by each policy (a,b,c or all): a table, BASE.csv, BASE.svg",
     TOOL_BIT_PLAN, AT(curve), .file = true},
    {"check", "GRAPH", "check a plan for the step in GRAPH and print its time and memory",
     TOOL_BIT_PLAN, AT(check), .file = true},
    {"explain", "FILE", "write the decision for each tensor, its reason and its cost (-: stdout)",
     TOOL_BIT_PLAN, AT(explain), .file = true},
    {"picture", "FILE", "draw the plan as SVG: live bytes over time, and the streams",
     TOOL_BIT_PLAN, AT(picture), .file = true},
    {"what", "W", "the text to write", TOOL_BIT_DUMP, AT(what),
     .words = "graph, plan, cost, dot, timeline, addresses, html, json, outline, explain, profile, "
              "trace",
     .text = "plan"},
    {"levels", "N", "levels of layers to show (default: all)", TOOL_BIT_SUMMARY, AT(levels), 1,
     100},
    {"times", "T", "times of the operations in an outline", TOOL_BIT_DUMP, AT(times),
     .words = "roofline, estimate, measured", .text = "roofline"},
    {"out", "FILE", "write the trained model there, as an ONNX file", LEARN, AT(out),
     .file = true},
    {"out", "FILE", "write the result there (default: stdout)",
     TOOL_BIT_DUMP | TOOL_BIT_VIEW | TOOL_BIT_PLAN | TOOL_BIT_PLACE, AT(out), .file = true},
    {"json", "FILE", "write the facts as JSON (-: stdout, instead of the table)", FACTS, AT(json),
     .file = true},
    {"format", "F", "print the help as a document, a completion script or a list of options",
     TOOL_BIT_HELP, AT(format), .words = "text, man, markdown, bash, zsh, fish, list",
     .text = "text"},
};

const tool_option *tool_option_next(const tool_command *c, const tool_option *before)
{
    for (const tool_option *r = before ? before + 1 : rows; r < rows + sizeof rows / sizeof *rows;
         r++)
        if (!c || r->commands & c->bit)
            return r;
    return NULL;
}

const char *tool_option_words(const tool_option *r)
{
    return r->ask ? r->ask() : r->words;
}
