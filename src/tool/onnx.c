/* onnx.c - weir run: a model from an ONNX file, recorded for inference, planned, run and timed. */
#include "tool/tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static bool make_inputs(tool_onnx *t)
{
    t->n = weir_onnx_input_count(t->model);
    t->in = calloc(t->n + 1, sizeof *t->in);
    for (size_t i = 0; t->in && i < t->n; i++) {
        weir_desc d;
        if (weir_onnx_input_desc(t->model, i, &d) != WEIR_OK)
            return false;
        t->in[i] = (weir_binding){.name = weir_onnx_input_name(t->model, i),
                                  .role = WEIR_ROLE_INPUT, .tensor = weir_input(t->d, d)};
        if (!t->in[i].tensor)
            return false;
    }
    return t->in != NULL;
}

/* Calls the model; its outputs are kept and named, as far as they depend on inputs. */
static bool record(tool_onnx *t, weir_tensor **in, weir_tensor **out, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        in[i] = t->in[i].tensor;
    if (weir_onnx_apply(t->model, t->n, in, n, out) != WEIR_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!weir_keep(out[i]))
            return false;
    return true;
}

/* Inputs that the graph does not read have no name in it. */
static bool name_tensors(const tool_onnx *t, weir_tensor *const *out, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        (void)weir_graph_bind(t->graph, t->in[i].tensor, WEIR_ROLE_INPUT, t->in[i].name);
    for (size_t i = 0; i < n; i++)
        if (weir_graph_bind(t->graph, out[i], WEIR_ROLE_OUTPUT,
                            weir_onnx_output_name(t->model, i)) != WEIR_OK)
            return false;
    return true;
}

static bool plan_model(tool_onnx *t, const weir_plan_options *plan)
{
    const size_t        n = weir_onnx_output_count(t->model);
    weir_tensor **const in = calloc(t->n + 1, sizeof *in), **const out = calloc(n + 1, sizeof *out);

    t->graph = in && out ? weir_graph_begin(t->d) : NULL;
    const bool done = t->graph && record(t, in, out, n) &&
                      weir_graph_end(t->graph, plan) == WEIR_OK && name_tensors(t, out, n);
    free(in);
    free(out);
    return done;
}

int tool_onnx_open(tool_onnx *t, const tool_options *o, const char *path,
                   const weir_plan_options *plan)
{
    const weir_device_options with = {.threads = (int)o->threads, .spill_dir = o->spill_dir};
    const weir_onnx_options   how = {.dims = o->dims, .values = o->values};

    *t = (tool_onnx){.d = weir_device_open(o->device, &with)};
    t->model = t->d ? weir_onnx_open(t->d, path, &how) : NULL;
    if (!t->model || !make_inputs(t))
        return tool_failed(o);
    const int code = tool_npy_inputs(o, t->in, t->n);
    if (code != TOOL_DONE)
        return code;
    return plan_model(t, plan) ? TOOL_DONE : tool_failed(o);
}

void tool_onnx_close(tool_onnx *t)
{
    weir_graph_free(t->graph);
    for (size_t i = 0; t->in && i < t->n; i++)
        weir_release(t->in[i].tensor);
    free(t->in);
    weir_onnx_free(t->model);
    weir_device_close(t->d);
}

/* ---- running ---- */

typedef struct facts {
    weir_graph_stats s;
    size_t           measured;          /* bytes of the step */
    double           p50, p99;          /* milliseconds of a run */
} facts;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs the graph --steps times, after one that is not timed and that measures the memory. */
static int run(const tool_options *o, weir_graph *g, facts *f)
{
    double *const ms = calloc((size_t)o->steps, sizeof *ms);

    if (!ms || weir_graph_measure(g, &f->measured) != WEIR_OK) {
        free(ms);
        return tool_failed(o);
    }
    for (int64_t i = 0; i < o->steps; i++) {
        const double begin = tool_now_ms();
        if (weir_graph_run(g) != WEIR_OK) {
            free(ms);
            return tool_failed(o);
        }
        ms[i] = tool_now_ms() - begin;
    }
    qsort(ms, (size_t)o->steps, sizeof *ms, by_size);
    f->p50 = ms[o->steps / 2];
    f->p99 = ms[(o->steps * 99 + 99) / 100 - 1];
    free(ms);
    return weir_graph_stats_of(g, &f->s) == WEIR_OK ? TOOL_DONE : tool_failed(o);
}

static void say(const tool_options *o, const weir_binding *list, size_t n, const facts *f)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].role != WEIR_ROLE_INPUT && list[i].role != WEIR_ROLE_OUTPUT)
            continue;
        const weir_desc d = weir_tensor_desc(list[i].tensor);
        printf("%-7s %s %s(", list[i].role == WEIR_ROLE_INPUT ? "input" : "output", list[i].name,
               weir_dtype_name(d.dtype));
        for (int k = 0; k < d.ndim; k++)
            printf("%s%" PRId64, k ? "," : "", d.dim[k]);
        printf(")\n");
    }
    printf("%zu operations; %zu bytes planned, %zu of them for the step, %zu measured\n",
           f->s.nodes, f->s.planned_peak_bytes, f->s.arena_bytes, f->measured);
    printf("%" PRId64 " run%s: p50 %.3f ms, p99 %.3f ms\n", o->steps, tool_plural((size_t)o->steps),
           f->p50, f->p99);
}

static int write_json(const tool_options *o, const facts *f)
{
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "file", o->file);
    tool_json_count(&j, "nodes", f->s.nodes);
    tool_json_count(&j, "planned_peak_bytes", f->s.planned_peak_bytes);
    tool_json_count(&j, "arena_bytes", f->s.arena_bytes);
    tool_json_count(&j, "measured_bytes", f->measured);
    tool_json_number(&j, "p50_ms", f->p50);
    tool_json_number(&j, "p99_ms", f->p99);
    return tool_json_end(&j);
}

static int run_named(const tool_options *o, weir_graph *g)
{
    const weir_binding *list;
    size_t              n;
    facts               f = {.measured = 0};

    if (weir_graph_bindings(g, &list, &n) != WEIR_OK)
        return tool_failed(o);
    int code = tool_npy_names(o, g, o->inputs);
    code = code == TOOL_DONE ? tool_npy_names(o, g, o->outputs) : code;
    code = code == TOOL_DONE ? run(o, g, &f) : code;
    code = code == TOOL_DONE ? tool_npy_outputs(o, list, n) : code;
    if (code == TOOL_DONE && !tool_quiet(o))
        say(o, list, n, &f);
    return code == TOOL_DONE && o->json ? write_json(o, &f) : code;
}

int tool_run(const tool_options *o)
{
    const weir_plan_options plan = {.budget = o->budget, .policy = o->policy, .cache = o->cache};
    tool_onnx               t;

    if (!o->file)
        return tool_say(o, TOOL_USAGE, "needs a file: weir run MODEL.onnx");
    int code = tool_onnx_open(&t, o, o->file, &plan);
    code = code == TOOL_DONE ? run_named(o, t.graph) : code;
    tool_onnx_close(&t);
    return code;
}
