/* glue_comm.h - communicators for Python: options as arguments, results returned; included by weir.i.
 */
%inline %{
weir_comm *comm_open(weir_device *d, const char *spec, double timeout, const char *order,
                     const char *agree)
{
    return weir_comm_open(spec, d, &(weir_comm_options){.timeout_s = timeout, .order = order,
                                                        .agree = agree});
}

/* Do all ranks give the same bytes? */
PyObject *comm_equal(weir_comm *c, PyObject *bytes)
{
    Py_buffer b;
    bool      equal = false;

    if (PyObject_GetBuffer(bytes, &b, PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    const weir_status s = weir_comm_equal(c, b.buf, (size_t)b.len, &equal);
    PyBuffer_Release(&b);
    if (s != WEIR_OK)
        weir_py_raise(s);
    return s == WEIR_OK ? PyBool_FromLong(equal) : NULL;
}

/* The bytes of all ranks, one after another. */
PyObject *comm_gather(weir_comm *c, PyObject *bytes)
{
    Py_buffer b;

    if (PyObject_GetBuffer(bytes, &b, PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    PyObject *const all = PyBytes_FromStringAndSize(NULL, b.len * weir_comm_world(c));
    weir_status     s = WEIR_OK;
    if (all)
        s = weir_comm_gather(c, b.buf, (size_t)b.len, PyBytes_AsString(all));
    PyBuffer_Release(&b);
    if (s == WEIR_OK)
        return all;
    Py_DECREF(all);
    weir_py_raise(s);
    return NULL;
}

/* (constant, per_byte) */
PyObject *comm_measure(weir_comm *c)
{
    double            constant, per_byte;
    const weir_status s = weir_comm_measure(c, &constant, &per_byte);

    if (s != WEIR_OK)
        weir_py_raise(s);
    return s == WEIR_OK ? Py_BuildValue("(dd)", constant, per_byte) : NULL;
}
%}
