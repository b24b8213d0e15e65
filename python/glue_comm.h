/* glue_comm.h - communicators for Python: options as arguments, results returned; included by weir.i.
 */
%inline %{
weir_comm *comm_open(weir_device *d, const char *spec, double timeout, const char *order)
{
    return weir_comm_open(spec, d, &(weir_comm_options){.timeout_s = timeout, .order = order});
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
