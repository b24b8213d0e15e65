/* glue_api.h - functions of weir._capi in place of those whose arguments are arrays, structs of
 * arrays or function pointers. Everything here is wrapped. */

%{
/* A sequence of tensors (None: NULL) as an array; *out is freed by weir_py_free. */
static bool weir_py_tensors(PyObject *o, swig_type_info *type, Py_ssize_t *n, weir_tensor ***out)
{
    const Py_ssize_t count = PySequence_Check(o) ? PySequence_Size(o) : -1;
    *out = NULL;
    if (count < 0 || count > INT32_MAX) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "expected a sequence of tensors, got %R", o);
        return false;
    }
    weir_tensor **const list = calloc((size_t)count + 1, sizeof *list);
    bool                ok = list != NULL;
    if (!list)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && ok; i++) {
        PyObject *const item = PySequence_GetItem(o, i);
        void           *p = NULL;
        ok = item && SWIG_IsOK(SWIG_ConvertPtr(item, &p, type, 0));
        if (item && !ok)
            PyErr_Format(PyExc_TypeError, "item %zd is %R, not a tensor", i, item);
        list[i] = p;
        Py_XDECREF(item);
    }
    if (!ok) {
        free(list);
        return false;
    }
    *n = count;
    *out = list;
    return true;
}

/* Returns a list that holds references to n tensors; then clears the scope that they are in. */
static PyObject *weir_py_list(weir_device *d, Py_ssize_t n, weir_tensor *const *t)
{
    PyObject *const list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++)
        PyList_SetItem(list, i, weir_py_wrap(t[i]));
    weir_scope_clear(d);
    return list;
}

static PyObject *weir_py_failed(weir_status s)
{
    weir_py_raise(s);
    return NULL;
}

static PyObject *weir_py_none(weir_status s)
{
    if (s != WEIR_OK)
        return weir_py_failed(s);
    Py_RETURN_NONE;
}

/* Pairs of n parameters and gradients; freed by free. NULL is an exception. */
static weir_pair *weir_py_pairs(Py_ssize_t n, weir_tensor **param, weir_tensor **grad)
{
    weir_pair *const pairs = calloc((size_t)n + 1, sizeof *pairs);
    if (!pairs)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; pairs && i < n; i++)
        pairs[i] = (weir_pair){param[i], grad[i]};
    return pairs;
}

/* ([gradient of a pair, ...], extra or None), or the exception of a failure; frees pairs. */
static PyObject *weir_py_changed(weir_status s, weir_pair *pairs, Py_ssize_t n, weir_tensor **grad,
                                 weir_tensor *extra)
{
    PyObject *both = NULL;

    if (s != WEIR_OK)
        weir_py_raise(s);
    else if (n > 0) {
        for (Py_ssize_t i = 0; i < n; i++)
            grad[i] = pairs[i].grad;
        PyObject *const last = weir_py_wrap(extra);
        both = Py_BuildValue("(NN)", weir_py_list(weir_tensor_device(grad[0]), n, grad), last);
    } else {
        both = Py_BuildValue("([]N)", weir_py_wrap(extra));
    }
    free(pairs);
    return both;
}

/* ---- a callback op whose functions are Python's ---- */

typedef struct weir_py_call {
    PyObject         *forward, *backward;
    int               nin, nout;
    weir_callback_def def;
} weir_py_call;

static bool weir_py_push(PyObject *list, const weir_desc *d, const void *data, bool writes)
{
    PyObject *view = Py_None;
    Py_INCREF(view);
    if (data) {
        Py_ssize_t bytes = (Py_ssize_t)weir_dtype_size(d->dtype);
        for (int i = 0; i < d->ndim; i++)
            bytes *= (Py_ssize_t)d->dim[i];
        Py_DECREF(view);
        view = PyMemoryView_FromMemory((char *)(uintptr_t)data, bytes,
                                       writes ? PyBUF_WRITE : PyBUF_READ);
    }
    PyObject *const desc = view ? weir_py_from_desc(d) : NULL;
    PyObject *const item = desc ? Py_BuildValue("(NN)", desc, view) : NULL;
    const bool      ok = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return ok;
}

/* Calls f(reads, writes), lists of (desc, memoryview or None). The exception stays set for
 * weir_py_raise if the thread goes on holding the interpreter lock; a run without it carries it. */
static weir_status weir_py_invoke(const char *name, PyObject *f, PyObject *reads, PyObject *writes,
                                  bool ok)
{
    PyObject *const done =
        ok && reads && writes ? PyObject_CallFunctionObjArgs(f, reads, writes, NULL) : NULL;
    Py_XDECREF(reads);
    Py_XDECREF(writes);
    Py_XDECREF(done);
    return done ? WEIR_OK : weir_fail(WEIR_ERR_STATE, "%s: its Python function failed", name);
}

static weir_status weir_py_forward(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const weir_py_call    *c = ctx;
    const PyGILState_STATE state = PyGILState_Ensure();
    weir_py_hold();
    PyObject *const        reads = PyList_New(0), *const writes = PyList_New(0);
    bool                   ok = reads && writes;

    for (int i = 0; i < c->nin && ok; i++)
        ok = weir_py_push(reads, &x[i].desc, x[i].data, false);
    for (int i = 0; i < c->nout && ok; i++)
        ok = weir_py_push(writes, &y[i].desc, y[i].data, true);
    const weir_status s = weir_py_invoke(c->def.name, c->forward, reads, writes, ok);
    weir_py_let_go();
    PyGILState_Release(state);
    return s;
}

static weir_status weir_py_backward(void *ctx, const weir_host_in *x, const weir_host_in *y,
                                    const weir_host_in *dy, const weir_host_out *dx)
{
    const weir_py_call    *c = ctx;
    const PyGILState_STATE state = PyGILState_Ensure();
    weir_py_hold();
    PyObject *const        reads = PyList_New(0), *const writes = PyList_New(0);
    bool                   ok = reads && writes;

    (void)x;
    (void)y;
    for (int i = 0; i < c->nout && ok; i++)
        ok = weir_py_push(reads, &dy[i].desc, dy[i].data, false);
    for (int i = 0; i < c->nin && ok; i++)
        ok = weir_py_push(writes, &dx[i].desc, dx[i].data, true);
    const weir_status s = weir_py_invoke(c->def.name, c->backward, reads, writes, ok);
    weir_py_let_go();
    PyGILState_Release(state);
    return s;
}

static void weir_py_call_free(PyObject *capsule)
{
    weir_py_call *const c = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(c->forward);
    Py_XDECREF(c->backward);
    free((char *)(uintptr_t)c->def.name);
    free(c);
}

/* A capsule; NULL with an exception set. Its backward takes y, though Python's does not see it: so a
 * graph whose gradients are wanted runs forward too, which sets what backward goes by. */
static PyObject *weir_py_call_new(const char *name, PyObject *forward, PyObject *backward,
                                  Py_ssize_t nin, Py_ssize_t nout)
{
    weir_py_call *const c = calloc(1, sizeof *c);
    char *const         copy = c ? strdup(name) : NULL;
    PyObject *const     owner = copy ? PyCapsule_New(c, NULL, weir_py_call_free) : NULL;

    if (!owner) {
        free(copy);
        free(c);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    *c = (weir_py_call){.forward = forward,
                        .backward = backward == Py_None ? NULL : backward,
                        .nin = (int)nin,
                        .nout = (int)nout,
                        .def = {.name = copy,
                                .forward = weir_py_forward,
                                .backward = backward == Py_None ? NULL : weir_py_backward,
                                .backward_without_x = true}};
    Py_INCREF(forward);
    Py_XINCREF(c->backward);
    return owner;
}

/* ---- progress of planning, and Ctrl-C meanwhile ---- */

static PyObject *weir_py_progress_hook;     /* a function, or NULL */

/* At the first poll of a planning and then at most every 20 ms: runs the handlers of signals that came, if this is the main thread, and
 * calls the hook with what is known. Returns false with an exception set, or if the hook returns
 * False. The exception stays with the thread, which the run carries (weir_py_invoke). */
static bool weir_py_progress(void *context, const weir_progress *p)
{
    (void)context;
    if (weir_py_told >= 0 && p->seconds - weir_py_told < 0.02)
        return true;
    weir_py_told = p->seconds;
    const PyGILState_STATE state = PyGILState_Ensure();
    bool                   on = PyErr_CheckSignals() == 0;
    if (on && weir_py_progress_hook) {
        PyObject *const answer = PyObject_CallFunction(
            weir_py_progress_hook, "sddKnd", p->phase, p->fraction, p->seconds,
            (unsigned long long)p->plans, (Py_ssize_t)p->best_bytes, p->best_extra_ms);
        on = answer && answer != Py_False;
        Py_XDECREF(answer);
    }
    PyGILState_Release(state);
    return on;
}

/* ---- a checkpoint whose function is Python's ---- */

enum { WEIR_PY_RESULTS = 4 };

/* Views of the results, which the scope holds when their list is gone; places left over repeat the
 * first. The tape is closed between Python's operators: not here. */
static weir_status weir_py_part_results(Py_ssize_t n, weir_tensor *const *list, weir_tensor **out)
{
    weir_device *const d = weir_tensor_device(list[0]);
    weir_status        s = weir_no_grad_end(d);

    if (s != WEIR_OK)
        return s;
    for (Py_ssize_t i = 0; i < WEIR_PY_RESULTS; i++) {
        const weir_desc desc = weir_tensor_desc(list[i < n ? i : 0]);
        out[i] = i < n ? weir_reshape(list[i], desc.ndim, desc.dim) : out[0];
        if (!out[i])
            s = weir_error_status();
    }
    const weir_status end = weir_no_grad_begin(d);
    return s != WEIR_OK ? s : end;
}

/* Calls f([input, ...]) -> [result, ...]. */
static weir_status weir_py_part(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    PyObject *const  f = PyTuple_GetItem(ctx, 0);
    const Py_ssize_t nin = PyLong_AsSsize_t(PyTuple_GetItem(ctx, 1));
    PyObject *const  inputs = PyList_New(nin);

    weir_py_hold();
    for (Py_ssize_t i = 0; inputs && i < nin; i++)
        PyList_SetItem(inputs, i, weir_py_wrap(in[i]));
    PyObject *const made = inputs ? PyObject_CallFunctionObjArgs(f, inputs, NULL) : NULL;
    weir_tensor   **list = NULL;
    Py_ssize_t      n = 0;
    weir_status     s = WEIR_ERR_STATE;
    const bool      fine = made && weir_py_tensors(made, SWIGTYPE_p_weir_tensor, &n, &list) &&
                           n >= 1 && n <= WEIR_PY_RESULTS;
    Py_XDECREF(inputs);
    if (fine)
        s = weir_py_part_results(n, list, out);
    else
        s = weir_fail(s, "checkpoint: its Python function failed");
    weir_py_free(list);
    Py_XDECREF(made);
    weir_py_let_go();
    return s;
}

static void weir_py_part_free(PyObject *capsule)
{
    Py_DECREF((PyObject *)PyCapsule_GetPointer(capsule, NULL));
}
%}

%rename(write) tensor_write;
%rename(read) tensor_read;
%rename(memory) tensor_memory;
%rename(split) tensor_split;
%rename(topk) tensor_topk;
%inline %{
/* The exception classes, by status number. */
PyObject *set_errors(PyObject *classes)
{
    Py_INCREF(classes);
    Py_XDECREF(weir_py_errors);
    weir_py_errors = classes;
    Py_RETURN_NONE;
}

/* Planning on the device runs signal handlers and calls the hook. */
PyObject *watch_planning(weir_device *d)
{
    const weir_status s = weir_device_set_progress(d, weir_py_progress, NULL);
    if (s != WEIR_OK) {
        weir_py_raise(s);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The hook of all devices: f(phase, fraction, seconds, plans, best bytes, best extra ms); None: no
 * hook. */
PyObject *set_planning_hook(PyObject *f)
{
    PyObject *const old = weir_py_progress_hook;
    weir_py_progress_hook = f == Py_None ? NULL : f;
    Py_XINCREF(weir_py_progress_hook);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* The address that names the handle. */
size_t address(weir_tensor *t)
{
    return (size_t)t;
}

/* t from a C-contiguous buffer of exactly its bytes; the caller has checked the element type. */
PyObject *tensor_write(weir_tensor *t, PyObject *buffer)
{
    Py_buffer b;
    if (PyObject_GetBuffer(buffer, &b, PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    const weir_status s = weir_write(t, b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return weir_py_none(s);
}

PyObject *tensor_read(weir_tensor *t, PyObject *buffer)
{
    Py_buffer b;
    if (PyObject_GetBuffer(buffer, &b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0)
        return NULL;
    const weir_status s = weir_read(t, b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return weir_py_none(s);
}

/* (address, strides in elements) of the elements where they lie; good while t is held. */
PyObject *tensor_memory(weir_tensor *t)
{
    int64_t           stride[WEIR_MAX_DIMS];
    void             *data;
    const weir_status s = weir_tensor_memory(t, &data, stride);
    if (s != WEIR_OK)
        return weir_py_failed(s);
    weir_desc like = weir_tensor_desc(t);
    memcpy(like.dim, stride, sizeof like.dim);
    PyObject *const both = weir_py_from_desc(&like);
    PyObject *const result = both ? Py_BuildValue("(KO)", (unsigned long long)(uintptr_t)data,
                                                  PyTuple_GetItem(both, 1))
                                  : NULL;
    Py_XDECREF(both);
    return result;
}

/* Parts of x along an axis, sizes one after the other. */
PyObject *tensor_split(weir_tensor *x, int axis, int ndim, const int64_t *dim)
{
    weir_tensor      *out[WEIR_MAX_DIMS];
    const weir_status s = weir_split(x, axis, ndim, dim, out);
    return s == WEIR_OK ? weir_py_list(weir_tensor_device(x), ndim, out) : weir_py_failed(s);
}

/* (values, places) of weir_topk. */
PyObject *tensor_topk(weir_tensor *x, int64_t k, int axis, bool largest)
{
    weir_tensor      *values, *places;
    const weir_status s = weir_topk(x, k, axis, largest, &values, &places);
    return s == WEIR_OK ? Py_BuildValue("(NN)", weir_py_wrap(values), weir_py_wrap(places))
                        : weir_py_failed(s);
}

/* [(name, role, tensor), ...] of weir_graph_bindings; the graph owns the tensors, too. */
PyObject *graph_bindings(weir_graph *g)
{
    const weir_binding *list;
    size_t              count;
    const weir_status   s = weir_graph_bindings(g, &list, &count);

    if (s != WEIR_OK)
        return weir_py_failed(s);
    PyObject *const all = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; all && i < count; i++)
        PyList_SetItem(all, (Py_ssize_t)i, Py_BuildValue("(siN)", list[i].name, (int)list[i].role,
                                                         weir_py_wrap(list[i].tensor)));
    return all;
}

/* weir_graph_save with its options. */
PyObject *graph_save(weir_graph *g, const char *path, bool keep_previous)
{
    const weir_save_options how = {.keep_previous = keep_previous};

    return weir_py_none(weir_graph_save(g, path, &how));
}

/* weir_summary_text of rows (depth, name, kind, (dtype, shape) of the result or None, shared,
 * parameters, trainable, bytes, states, bytes, flops, multiply-adds). */
PyObject *summary_text(PyObject *rows, weir_desc x, int depth)
{
    const Py_ssize_t        n = PyList_Check(rows) ? PyList_Size(rows) : 0;
    weir_summary_row *const list = calloc((size_t)n + 1, sizeof *list);
    bool                    ok = list != NULL;

    if (!ok)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && ok; i++) {
        weir_summary_row *const r = &list[i];
        PyObject               *output;
        int                     shared;
        ok = PyArg_ParseTuple(PyList_GetItem(rows, i), "issOpnnnnndd", &r->depth, &r->name,
                              &r->kind, &output, &shared, &r->params, &r->trainable,
                              &r->param_bytes, &r->states, &r->state_bytes, &r->flops,
                              &r->multiply_adds) &&
             (output == Py_None || weir_py_desc(output, &r->output));
        r->applied = ok && output != Py_None;
        r->shared = ok && shared;
    }
    char *const     text = ok ? weir_summary_text((size_t)n, list, x,
                                                  &(weir_summary_options){.depth = depth}) : NULL;
    PyObject *const result = text ? PyUnicode_FromString(text)
                             : ok ? weir_py_failed(weir_error_status()) : NULL;
    weir_text_free(text);
    free(list);
    return result;
}
%}

%apply (Py_ssize_t n, weir_tensor **list) { (Py_ssize_t ny, weir_tensor **y),
                                            (Py_ssize_t nx, weir_tensor **x),
                                            (Py_ssize_t ndy, weir_tensor **dy),
                                            (Py_ssize_t nparam, weir_tensor **param),
                                            (Py_ssize_t ngrad, weir_tensor **grad) };
%inline %{
/* Gradients of x, given those of y, of all that was computed between them; None where none flows. */
PyObject *vjp(Py_ssize_t ny, weir_tensor **y, Py_ssize_t ndy, weir_tensor **dy, Py_ssize_t nx,
              weir_tensor **x)
{
    if (ny != ndy || ny == 0) {
        PyErr_Format(PyExc_ValueError, "%zd results need as many gradients, got %zd", ny, ndy);
        return NULL;
    }
    weir_tensor **const dx = calloc((size_t)nx + 1, sizeof *dx);
    if (!dx)
        return PyErr_NoMemory();
    weir_device *const d = weir_tensor_device(y[0]);
    const weir_status  s = weir_vjp_from((size_t)ny, y, dy, (size_t)nx, x, dx);
    PyObject *const    list = s == WEIR_OK ? weir_py_list(d, nx, dx) : weir_py_failed(s);
    free(dx);
    return list;
}

/* Gradients of the n tensors x from y, given dy (None: ones); None where y does not depend on one. */
PyObject *gradients(weir_tensor *y, weir_tensor *dy, Py_ssize_t nx, weir_tensor **x)
{
    weir_tensor **const dx = calloc((size_t)nx + 1, sizeof *dx);
    if (!dx)
        return PyErr_NoMemory();
    const weir_status s = weir_gradients_from(y, dy, (size_t)nx, x, dx);
    PyObject *const   list = s == WEIR_OK ? weir_py_list(weir_tensor_device(y), nx, dx)
                                          : weir_py_failed(s);
    free(dx);
    return list;
}

/* ([clipped gradient, ...], norm or None): by value if `norm` is false. */
PyObject *clip(Py_ssize_t nparam, weir_tensor **param, Py_ssize_t ngrad, weir_tensor **grad,
               double limit, bool norm)
{
    const Py_ssize_t n = nparam < ngrad ? nparam : ngrad;
    weir_pair *const pairs = weir_py_pairs(n, param, grad);
    weir_tensor     *total = NULL;

    if (!pairs)
        return NULL;
    const weir_status s = norm ? weir_clip_norm(pairs, (size_t)n, limit, pairs, &total)
                               : weir_clip_value(pairs, (size_t)n, limit, pairs);
    return weir_py_changed(s, pairs, n, grad, total);
}

/* ([unscaled gradient, ...], finite). */
PyObject *unscale(Py_ssize_t nparam, weir_tensor **param, Py_ssize_t ngrad, weir_tensor **grad,
                  weir_tensor *scale)
{
    const Py_ssize_t n = nparam < ngrad ? nparam : ngrad;
    weir_pair *const pairs = weir_py_pairs(n, param, grad);
    weir_tensor     *finite = NULL;

    if (!pairs)
        return NULL;
    const weir_status s = weir_unscale(pairs, (size_t)n, scale, pairs, &finite);
    return weir_py_changed(s, pairs, n, grad, finite);
}

/* [y] of weir_attention_with, or, without k and v, of weir_attention_packed. */
PyObject *attention(weir_tensor *q, weir_tensor *k, weir_tensor *v, int64_t heads,
                    int64_t kv_heads, int causal, double scale, double dropout, weir_tensor *mask,
                    weir_tensor *lengths)
{
    const weir_attention_options o = {.heads = heads,
                                      .kv_heads = kv_heads,
                                      .causal = (weir_attention_causal)causal,
                                      .scale = scale,
                                      .dropout = dropout,
                                      .mask = mask,
                                      .lengths = lengths};
    weir_tensor *y = k || v ? weir_attention_with(q, k, v, &o) : weir_attention_packed(q, &o);

    return y ? weir_py_list(weir_tensor_device(q), 1, &y) : weir_py_failed(weir_error_status());
}

/* [y, hn, cn] of an LSTM, [y, hn] of a GRU. w: (w_ih, w_hh, b_ih, b_hh) of each layer and direction
 * in a row. */
PyObject *rnn(bool lstm, weir_tensor *input, Py_ssize_t nx, weir_tensor **x, weir_tensor *h0,
              weir_tensor *c0, int layers, bool bidirectional, weir_tensor *mask)
{
    const Py_ssize_t       cells = (Py_ssize_t)layers * (bidirectional ? 2 : 1);
    const weir_rnn_options options = {.layers = layers, .bidirectional = bidirectional, .mask = mask};
    weir_rnn_weights      *w;
    weir_tensor           *out[3] = {NULL};

    if (layers < 1 || nx != 4 * cells) {
        PyErr_Format(PyExc_ValueError, "%d layers need %zd weights, got %zd", layers, 4 * cells, nx);
        return NULL;
    }
    if (!(w = calloc((size_t)cells, sizeof *w)))
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < cells; i++)
        w[i] = (weir_rnn_weights){x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
    out[0] = lstm ? weir_lstm(input, w, h0, c0, &options, &out[1], &out[2])
                  : weir_gru(input, w, h0, &options, &out[1]);
    free(w);
    if (!out[0])
        return weir_py_failed(weir_error_status());
    return weir_py_list(weir_tensor_device(input), lstm ? 3 : 2, out);
}

/* (owner, [result, ...]): function([input, ...]) gives 1 to 4 results, and runs once more for the
 * gradient; the list has 4, the first again where there are fewer. The owner must be held as long as
 * any graph or result that may call it. */
PyObject *checkpoint(PyObject *function, Py_ssize_t nx, weir_tensor **x)
{
    weir_tensor    *out[WEIR_PY_RESULTS];
    PyObject *const part = Py_BuildValue("(On)", function, nx);
    PyObject *const owner = part ? PyCapsule_New(part, NULL, weir_py_part_free) : NULL;

    if (!owner) {
        Py_XDECREF(part);
        return NULL;
    }
    const weir_status s = weir_checkpoint(weir_py_part, part, (int)nx, x, WEIR_PY_RESULTS, out);
    if (s != WEIR_OK) {
        Py_DECREF(owner);
        return weir_py_failed(s);
    }
    return Py_BuildValue("(NN)", owner,
                         weir_py_list(weir_tensor_device(x[0]), WEIR_PY_RESULTS, out));
}

/* (owner, [result, ...]): forward(x, y) and backward(dy, dx) get lists of (desc, memoryview or
 * None) and fill the second. backward None: no gradient. The owner, a new one or the one given for
 * equal numbers of inputs and results, must be held as long as any graph or result that may call
 * them. */
PyObject *callback(PyObject *owner, const char *name, PyObject *forward, PyObject *backward,
                   Py_ssize_t nx, weir_tensor **x, PyObject *descs)
{
    enum { MOST = 4 };
    weir_desc        desc[MOST];
    weir_tensor     *out[MOST] = {NULL};
    const Py_ssize_t nout = PyList_Check(descs) ? PyList_Size(descs) : 0;

    if (nx < 1 || nout < 1 || nout > MOST) {
        PyErr_Format(PyExc_ValueError, "%s: needs an input and 1 to %d results, has %zd and %zd",
                     name, MOST, nx, nout);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < nout; i++)
        if (!weir_py_desc(PyList_GetItem(descs, i), &desc[i]))
            return NULL;
    if (owner == Py_None)
        owner = weir_py_call_new(name, forward, backward, nx, nout);
    else
        Py_INCREF(owner);
    weir_py_call *const c = owner ? PyCapsule_GetPointer(owner, NULL) : NULL;
    if (c && (c->nin != nx || c->nout != nout))
        PyErr_Format(PyExc_ValueError, "%s: this owner is for %d inputs and %d results", name,
                     c->nin, c->nout);
    else if (c && weir_callback(&c->def, c, (int)nx, x, (int)nout, desc, out) != WEIR_OK)
        weir_py_raise(weir_error_status());
    if (!out[0]) {
        Py_XDECREF(owner);
        return NULL;
    }
    return Py_BuildValue("(NN)", owner, weir_py_list(weir_tensor_device(x[0]), nout, out));
}
%}
