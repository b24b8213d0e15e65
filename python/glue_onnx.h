/* glue_onnx.h - ONNX models for Python: lists in place of numbered names; included by weir.i. */
%{
typedef const char *(*weir_py_name_fn)(const weir_onnx *m, size_t i);

/* [name, ...] */
static PyObject *weir_py_names(const weir_onnx *m, size_t n, weir_py_name_fn name)
{
    PyObject *const list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++)
        PyList_SetItem(list, (Py_ssize_t)i, PyUnicode_DecodeUTF8(
            name(m, i), (Py_ssize_t)strlen(name(m, i)), "replace"));
    return list;
}

/* Appends (name, role, tensor) for n tensors of a model. */
static bool weir_py_add_tensors(PyObject *list, const weir_model *m, size_t n, weir_role role,
                                weir_tensor *(*at)(const weir_model *, size_t))
{
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        weir_tensor *const t = at(m, i);
        PyObject *const    item = Py_BuildValue("(siN)", weir_tensor_name(t), (int)role,
                                                weir_py_wrap(t));
        ok = item && PyList_Append(list, item) == 0;
        Py_XDECREF(item);
    }
    return ok;
}
%}

%newobject onnx_open;
%inline %{
/* A model by its path, or by its bytes if path is None. */
weir_onnx *onnx_open(weir_device *d, const char *path, PyObject *bytes, const char *dims,
                     const char *values, const char *frozen)
{
    const weir_onnx_options how = {.dims = dims, .values = values, .frozen = frozen};
    Py_buffer               b;

    if (path)
        return weir_onnx_open(d, path, &how);
    if (PyObject_GetBuffer(bytes, &b, PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    weir_onnx *const m = weir_onnx_open_bytes(d, b.buf, (size_t)b.len, &how);
    PyBuffer_Release(&b);
    return m;
}

PyObject *onnx_inputs(weir_onnx *m)
{
    return weir_py_names(m, weir_onnx_input_count(m), weir_onnx_input_name);
}

PyObject *onnx_outputs(weir_onnx *m)
{
    return weir_py_names(m, weir_onnx_output_count(m), weir_onnx_output_name);
}

/* (dtype, shape) of input i. */
weir_desc onnx_input(weir_onnx *m, size_t i)
{
    weir_desc         d;
    const weir_status s = weir_onnx_input_desc(m, i, &d);

    if (s != WEIR_OK)
        weir_py_raise(s);
    return d;
}

/* Of each node (name, operator, [output, ...]). */
PyObject *onnx_nodes(weir_onnx *m)
{
    const size_t    n = weir_onnx_node_count(m);
    PyObject *const list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *const outputs = PyList_New(0);
        for (size_t k = 0; outputs && *weir_onnx_node_output(m, i, k); k++) {
            PyObject *const name = PyUnicode_FromString(weir_onnx_node_output(m, i, k));
            if (name)
                PyList_Append(outputs, name);
            Py_XDECREF(name);
        }
        PyList_SetItem(list, (Py_ssize_t)i, Py_BuildValue(
            "(ssN)", weir_onnx_node_name(m, i), weir_onnx_node_op(m, i), outputs));
    }
    return list;
}

/* [(name, role, tensor), ...] of its parameters and states. */
PyObject *onnx_tensors(weir_onnx *m)
{
    const weir_model *const of = weir_onnx_model(m);
    PyObject *const         list = PyList_New(0);

    if (list && weir_py_add_tensors(list, of, weir_model_param_count(of), WEIR_ROLE_PARAM,
                                    weir_model_param) &&
        weir_py_add_tensors(list, of, weir_model_state_count(of), WEIR_ROLE_STATE,
                            weir_model_state))
        return list;
    Py_XDECREF(list);
    return NULL;
}

/* Its outputs for these inputs; train: as in training. */
PyObject *onnx_apply(weir_onnx *m, Py_ssize_t n, weir_tensor **list, bool train)
{
    const size_t        room = weir_onnx_output_count(m);
    weir_tensor **const out = calloc(room + 1, sizeof *out);
    PyObject           *all = NULL;

    if (!out)
        return PyErr_NoMemory();
    weir_model_train(weir_onnx_model(m), train);
    const weir_status s = weir_onnx_apply(m, (size_t)n, list, room, out);
    if (s != WEIR_OK)
        weir_py_raise(s);
    else
        all = room ? weir_py_list(weir_tensor_device(out[0]), (Py_ssize_t)room, out)
                   : PyList_New(0);
    free(out);
    return all;
}

/* The operators that Weir reads. */
PyObject *onnx_operators(void)
{
    PyObject *const list = PyList_New(0);

    for (size_t i = 0; list && weir_onnx_operator(i); i++) {
        PyObject *const name = PyUnicode_FromString(weir_onnx_operator(i));
        if (name)
            PyList_Append(list, name);
        Py_XDECREF(name);
    }
    return list;
}

/* weir_graph_save_onnx with its options. */
PyObject *graph_save_onnx(weir_graph *g, const char *path, int opset, const char *outputs,
                          bool external)
{
    const weir_onnx_save_options how = {.opset = opset, .outputs = outputs, .external = external};

    return weir_py_none(weir_graph_save_onnx(g, path, &how));
}
%}
weir_status weir_onnx_select(weir_onnx *m, const char *names);
size_t weir_onnx_folded(const weir_onnx *m);
