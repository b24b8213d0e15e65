/* run_graph.c - weir run-graph: a saved graph, planned for this machine, run on arrays of NumPy. */
#include "tool/tool.h"

#include <inttypes.h>
#include <string.h>

static const char *const roles[] = {[WEIR_ROLE_INPUT] = "input", [WEIR_ROLE_PARAM] = "param",
                                    [WEIR_ROLE_STATE] = "state", [WEIR_ROLE_OUTPUT] = "output"};

/* ---- what is said of the graph ---- */

static void say_shape(FILE *to, const weir_tensor *t)
{
    const weir_desc d = weir_tensor_desc(t);

    fprintf(to, "%s(", weir_dtype_name(d.dtype));
    for (int i = 0; i < d.ndim; i++)
        fprintf(to, "%s%" PRId64, i ? "," : "", d.dim[i]);
    fprintf(to, ")");
}

static void say(const tool_options *o, const weir_binding *list, size_t n,
                const weir_graph_stats *s, const char *remark, double ms)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].role == WEIR_ROLE_PARAM || list[i].role == WEIR_ROLE_STATE)
            continue;
        printf("%-7s %s ", roles[list[i].role], list[i].name);
        say_shape(stdout, list[i].tensor);
        printf("\n");
    }
    printf("%zu operations, %zu instructions; %zu bytes planned, %zu of them for the step\n",
           s->nodes, s->instructions, s->planned_peak_bytes, s->arena_bytes);
    if (*remark)
        printf("warning: %s\n", remark);
    printf("%" PRId64 " step%s, %.3f ms each\n", o->steps, tool_plural((size_t)o->steps), ms);
}

static int write_json(const tool_options *o, const weir_binding *list, size_t n,
                      const weir_graph_stats *s, const char *remark, double ms)
{
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "file", o->file);
    tool_json_open(&j, "tensors", '[');
    for (size_t i = 0; i < n; i++) {
        tool_json_open(&j, NULL, '{');
        tool_json_text(&j, "name", list[i].name);
        tool_json_text(&j, "role", roles[list[i].role]);
        tool_json_count(&j, "bytes", weir_tensor_bytes(list[i].tensor));
        tool_json_close(&j, '}');
    }
    tool_json_close(&j, ']');
    tool_json_count(&j, "nodes", s->nodes);
    tool_json_count(&j, "instructions", s->instructions);
    tool_json_count(&j, "planned_peak_bytes", s->planned_peak_bytes);
    tool_json_count(&j, "arena_bytes", s->arena_bytes);
    tool_json_text(&j, "remark", remark);
    tool_json_number(&j, "ms", ms);
    return tool_json_end(&j);
}

/* ---- the command ---- */

static int run(const tool_options *o, weir_graph *g)
{
    const weir_binding *list;
    size_t              n;
    weir_graph_stats    s;

    if (weir_graph_bindings(g, &list, &n) != WEIR_OK || weir_graph_stats_of(g, &s) != WEIR_OK)
        return tool_failed(o);
    int code = tool_npy_names(o, g, o->inputs);
    code = code == TOOL_DONE ? tool_npy_names(o, g, o->outputs) : code;
    code = code == TOOL_DONE ? tool_npy_inputs(o, list, n) : code;
    const double begin = tool_now_ms();
    for (int64_t i = 0; i < o->steps && code == TOOL_DONE; i++)
        if (weir_graph_run(g) != WEIR_OK)
            code = tool_failed(o);
    const double ms = (tool_now_ms() - begin) / (double)o->steps;
    code = code == TOOL_DONE ? tool_npy_outputs(o, list, n) : code;
    if (code == TOOL_DONE && !tool_quiet(o))
        say(o, list, n, &s, weir_graph_remark(g), ms);
    return code == TOOL_DONE && o->json ? write_json(o, list, n, &s, weir_graph_remark(g), ms)
                                        : code;
}

int tool_run_graph(const tool_options *o)
{
    const weir_device_options with = {.threads = (int)o->threads};
    const weir_plan_options   plan = {.budget = o->budget, .policy = o->policy, .cache = o->cache};

    if (!o->file)
        return tool_say(o, TOOL_USAGE, "needs a file: weir run-graph MODEL.safetensors");
    weir_device *const d = weir_device_open(o->device, &with);
    weir_graph *const  g = d ? weir_graph_load(d, o->file, &plan) : NULL;
    const int          code = g ? run(o, g) : tool_failed(o);
    weir_graph_free(g);
    weir_device_close(d);
    return code;
}
