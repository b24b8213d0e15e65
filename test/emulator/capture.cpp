/* capture.cpp - streams captured into graphs, and graphs launched. See runtime.h.
 *
 * While a stream is captured, its work items become nodes that follow the nodes of its frontier. A
 * stream that waits for an event recorded in a capture joins it. A launch is one work item of a
 * stream; its nodes run in any order that the edges allow. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

std::unordered_map<uint64_t, emulate_graph *> emulate_graphs;
std::unordered_map<uint64_t, emulate_exec *>  emulate_execs;
std::set<emulate_capture *>                   emulate_captures;

namespace {

thread_local cudaStreamCaptureMode manners = cudaStreamCaptureModeGlobal;   /* capture mode */

enum { NODE_SHIFT = 24 };       /* node n of graph g: g << 24 | n + 1 */

cudaGraphNode_t node_handle(uint64_t graph, size_t n)
{
    return (cudaGraphNode_t)(uintptr_t)(graph << NODE_SHIFT | (n + 1));
}

bool forbids(const emulate_capture *c)
{
    const bool own = pthread_equal(c->thread, pthread_self());

    if (c->mode == cudaStreamCaptureModeRelaxed || manners == cudaStreamCaptureModeRelaxed)
        return false;
    return own || (c->mode == manners && manners == cudaStreamCaptureModeGlobal);
}

uint64_t graph_new(void)
{
    const uint64_t id = emulate_id();
    emulate_graphs[id] = new emulate_graph{std::make_shared<emulate_body>()};
    return id;
}

uint64_t id_of(const emulate_graph *g)
{
    for (const auto &at : emulate_graphs)
        if (at.second == g)
            return at.first;
    return 0;
}

void graph_free(uint64_t id)
{
    delete emulate_graphs[id];
    emulate_graphs.erase(id);
}

/* True if all captured work precedes the end of the origin: other streams have no loose nodes. */
bool is_joined(const emulate_capture *c, const emulate_stream *origin)
{
    const std::vector<emulate_node> &nodes = c->graph->body->nodes;
    std::vector<bool>                seen(nodes.size());
    std::vector<int>                 todo = origin->frontier;
    size_t                           n = 0;

    while (!todo.empty()) {
        const int at = todo.back();
        todo.pop_back();
        if (seen[at])
            continue;
        seen[at] = true;
        n++;
        todo.insert(todo.end(), nodes[at].before.begin(), nodes[at].before.end());
    }
    return n == nodes.size();
}

void capture_free(emulate_capture *c)
{
    for (const auto &at : emulate_streams)
        if (at.second->capture == c) {
            at.second->capture = NULL;
            at.second->frontier.clear();
        }
    emulate_captures.erase(c);
    delete c;
}

cudaError_t capture_end(emulate_stream *s, cudaGraph_t *graph)
{
    emulate_capture *const c = s->capture;

    if (c->origin != s->id)
        return cudaErrorStreamCaptureUnmatched;
    if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    const cudaError_t e = c->invalid          ? cudaErrorStreamCaptureInvalidated
                          : !is_joined(c, s) ? cudaErrorStreamCaptureUnjoined
                                             : cudaSuccess;
    const uint64_t id = id_of(c->graph);
    capture_free(c);
    if (e != cudaSuccess)
        graph_free(id);
    *graph = e == cudaSuccess ? (cudaGraph_t)(uintptr_t)id : NULL;
    return e;
}

/* Adds the nodes of a launched graph to the one that is being captured. */
void splice(emulate_stream *s, const emulate_body *from)
{
    std::vector<emulate_node> &to = s->capture->graph->body->nodes;
    const int                  base = (int)to.size();
    const std::vector<int>     roots = s->frontier;
    std::vector<int>           ends;

    for (const emulate_node &n : from->nodes) {
        emulate_node copy(n.work);
        copy.work->users++;
        for (const int b : n.before)
            copy.before.push_back(base + b);
        for (const int a : n.after)
            copy.after.push_back(base + a);
        if (n.before.empty()) {
            copy.before = roots;
            for (const int r : roots)
                to[r].after.push_back((int)to.size());
        }
        if (n.after.empty())
            ends.push_back((int)to.size());
        to.push_back(copy);
    }
    if (!ends.empty())
        s->frontier = ends;
}

/* From a launch on, the event stands for its node in that launch. */
uint64_t promise(uint64_t event)
{
    emulate_event *const e = emulate_find(emulate_events, (void *)event);
    const uint64_t       signal = emulate_signal_new();

    if (e) {
        e->recorded = true;
        e->captured = e->ended = false;
        e->at = emulate_mark{0, signal};
    }
    return signal;
}

void launch(emulate_stream *s, emulate_exec *x)
{
    const std::vector<emulate_node> &nodes = x->body->nodes;

    if (s->capture)
        return splice(s, x->body.get());
    emulate_work *const wait = emulate_work_new(WAIT, 0);
    wait->until = x->last;
    emulate_push(s, wait);
    emulate_work *const w = emulate_work_new(REPLAY, 0);
    w->run = new emulate_run{x->body, {}, {}, {}, nodes.size()};
    for (size_t n = 0; n < nodes.size(); n++) {
        const emulate_work *const node = nodes[n].work;
        w->run->signals.push_back(node->kind == RECORD ? promise(node->event) : 0);
        w->run->missing.push_back((int)nodes[n].before.size());
        if (nodes[n].before.empty())
            w->run->ready.push_back((int)n);
    }
    x->last = emulate_push(s, w);
}

cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t graph)
{
    const emulate_graph *const g = emulate_find(emulate_graphs, graph);

    if (!g || !exec)
        return cudaErrorInvalidValue;
    const uint64_t id = emulate_id();
    /* A copy of the body, since the graph may grow afterwards. */
    const std::shared_ptr<emulate_body> body = std::make_shared<emulate_body>(*g->body);
    for (const emulate_node &n : body->nodes)
        n.work->users++;
    emulate_execs[id] = new emulate_exec{body, {0, 0}};
    *exec = (cudaGraphExec_t)(uintptr_t)id;
    return cudaSuccess;
}

cudaGraphNodeType type_of(const emulate_work *w)
{
    return w->kind == KERNEL       ? cudaGraphNodeTypeKernel
           : w->kind == COPY       ? cudaGraphNodeTypeMemcpy
           : w->kind == FILL       ? cudaGraphNodeTypeMemset
           : w->kind == HOST       ? cudaGraphNodeTypeHost
           : w->kind == RECORD     ? cudaGraphNodeTypeEventRecord
           : w->kind == WAIT_EVENT ? cudaGraphNodeTypeWaitEvent
                                   : cudaGraphNodeTypeEmpty;
}

cudaStreamCaptureStatus status_of(const emulate_stream *s)
{
    return !s->capture          ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

}

emulate_body::~emulate_body()
{
    for (const emulate_node &n : nodes)
        emulate_work_drop(n.work);
}

void emulate_capture_add(emulate_stream *s, emulate_work *w)
{
    std::vector<emulate_node> &nodes = s->capture->graph->body->nodes;
    const int                  at = (int)nodes.size();
    emulate_node               node(w);

    node.before = s->frontier;
    for (const int b : node.before)
        nodes[b].after.push_back(at);
    nodes.push_back(node);
    s->frontier.assign(1, at);
}

emulate_capture *emulate_capture_of(uint64_t id)
{
    for (emulate_capture *c : emulate_captures)
        if (c->id == id)
            return c;
    return NULL;
}

cudaError_t emulate_unsafe(void)
{
    bool any = false;

    for (emulate_capture *c : emulate_captures)
        if (forbids(c))
            c->invalid = any = true;
    return any ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t emulate_unsafe_on(emulate_stream *s)
{
    if (!s->capture)
        return emulate_unsafe();
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t emulate_implicit(emulate_stream *s)
{
    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->id != EMULATE_LEGACY)
        return cudaSuccess;
    for (const auto &at : emulate_streams)
        if (at.second->capture && !(at.second->flags & cudaStreamNonBlocking)) {
            at.second->capture->invalid = true;
            return cudaErrorStreamCaptureImplicit;
        }
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    EMULATE_ENTER;
    const cudaStreamCaptureMode old = manners;
    manners = *mode;
    *mode = old;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    if (s->id == EMULATE_LEGACY)
        return entry.say(cudaErrorStreamCaptureUnsupported);
    if (s->capture)
        return entry.say(cudaErrorIllegalState);
    const uint64_t graph = graph_new();
    s->capture = new emulate_capture{emulate_id(), mode, pthread_self(), s->id,
                                     emulate_graphs[graph], false};
    s->frontier.clear();
    emulate_captures.insert(s->capture);
    return cudaSuccess;
}

/* Ends the capture, whatever the result. */
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
    static emulate_point  point = {__func__, 0, NULL};
    const emulate_entry   entry(&point);
    emulate_stream *const s = emulate_stream_of(handle);

    *graph = NULL;
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t e = s->capture ? capture_end(s, graph) : cudaErrorIllegalState;
    if (entry.error == cudaSuccess)
        return entry.say(e);
    if (*graph)
        graph_free((uint64_t)(uintptr_t)*graph);
    *graph = NULL;
    return entry.say(entry.error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t e = s->capture ? cudaSuccess : emulate_implicit(s);
    *status = status_of(s);
    return entry.say(e);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *n)
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **nodes, size_t *n)
#endif
{
    static thread_local std::vector<cudaGraphNode_t> shown;
    EMULATE_ENTER;
    const emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    *status = status_of(s);
    if (*status != cudaStreamCaptureStatusActive)
        return cudaSuccess;
    const uint64_t g = id_of(s->capture->graph);
    shown.clear();
    for (const int at : s->frontier)
        shown.push_back(node_handle(g, (size_t)at));
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = (cudaGraph_t)(uintptr_t)g;
    if (nodes)
        *nodes = shown.data();
    if (n)
        *n = shown.size();
#if CUDART_VERSION >= 13000
    if (edges)
        *edges = NULL;
#endif
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    EMULATE_ENTER;
    const emulate_graph *const g = emulate_find(emulate_graphs, graph);
    if (!g || !n)
        return entry.say(cudaErrorInvalidValue);
    const size_t all = g->body->nodes.size();
    for (size_t i = 0; nodes && i < *n; i++)
        nodes[i] = i < all ? node_handle((uint64_t)(uintptr_t)graph, i) : NULL;
    *n = nodes && *n < all ? *n : all;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type)
{
    EMULATE_ENTER;
    const uint64_t             handle = (uint64_t)(uintptr_t)node;
    const size_t               n = (handle & ((1 << NODE_SHIFT) - 1)) - 1;
    const emulate_graph *const g = emulate_find(emulate_graphs, (void *)(handle >> NODE_SHIFT));
    if (!g || n >= g->body->nodes.size())
        return entry.say(cudaErrorInvalidValue);
    *type = type_of(g->body->nodes[n].work);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    EMULATE_ENTER;
    return entry.say(instantiate(exec, graph));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long)
{
    EMULATE_ENTER;
    return entry.say(instantiate(exec, graph));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMULATE_ENTER;
    return entry.say(emulate_find(emulate_execs, exec) && emulate_stream_of(stream)
                         ? cudaSuccess
                         : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMULATE_ENTER;
    emulate_exec *const   x = emulate_find(emulate_execs, exec);
    emulate_stream *const s = emulate_stream_of(stream);
    if (!x || !s)
        return entry.say(x ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    const cudaError_t e = emulate_implicit(s);
    if (e == cudaSuccess)
        launch(s, x);
    return entry.say(e);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    EMULATE_ENTER;
    emulate_exec *const x = emulate_find(emulate_execs, exec);
    if (!x)
        return entry.say(cudaErrorInvalidValue);
    emulate_execs.erase((uint64_t)(uintptr_t)exec);
    delete x;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    EMULATE_ENTER;
    if (!emulate_find(emulate_graphs, graph))
        return entry.say(cudaErrorInvalidValue);
    graph_free((uint64_t)(uintptr_t)graph);
    return cudaSuccess;
}

}
