/* glue_fit.h - the search for the largest batch, whose steps Python plans; included by weir.i. */
%{
typedef struct weir_py_steps {
    PyObject *fits, *needs;
} weir_py_steps;

/* Ends the search; the exception says why. */
static weir_status weir_py_search_stop(void)
{
    return weir_fail(WEIR_ERR_STATE, "largest_batch: a Python function failed");
}

/* Calls fits(batch) -> bool. */
static weir_status weir_py_batch_fits(void *ctx, int64_t batch)
{
    const weir_py_steps *const steps = ctx;
    PyObject *const answer = PyObject_CallFunction(steps->fits, "L", (long long)batch);
    const int       fits = answer ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return fits > 0 ? WEIR_OK
           : fits == 0 ? weir_fail(WEIR_ERR_BUDGET, "a batch of %lld does not fit", (long long)batch)
                       : weir_py_search_stop();
}

/* Calls needs(batch) -> weir_graph_needs, or None: too much to tell. */
static weir_status weir_py_batch_needs(void *ctx, int64_t batch, weir_graph_needs *needs)
{
    const weir_py_steps *const steps = ctx;
    PyObject *const answer = PyObject_CallFunction(steps->needs, "L", (long long)batch);
    void           *found = NULL;
    weir_status     s = WEIR_OK;

    if (!answer)
        return weir_py_search_stop();
    if (answer == Py_None) {
        s = weir_fail(WEIR_ERR_NOMEM, "a batch of %lld needs too much", (long long)batch);
    } else if (SWIG_ConvertPtr(answer, &found, SWIGTYPE_p_weir_graph_needs, 0) < 0) {
        PyErr_SetString(PyExc_TypeError, "largest_batch: needs must return a weir_graph_needs");
        s = weir_py_search_stop();
    } else {
        *needs = *(const weir_graph_needs *)found;
    }
    Py_DECREF(answer);
    return s;
}
%}

%inline %{
/* weir_largest_batch for fits(batch) -> bool and needs(batch) -> weir_graph_needs or None; 0 if no
 * batch fits. */
PyObject *largest_batch(PyObject *fits, PyObject *needs, size_t limit, int64_t first, int64_t most)
{
    weir_py_steps           steps = {fits, needs};
    const weir_batch_search search = {.fits = weir_py_batch_fits, .needs = weir_py_batch_needs,
                                      .ctx = &steps, .limit = limit, .first = first, .most = most};
    int64_t                 batch;
    const weir_status       s = weir_largest_batch(&search, &batch);

    if (PyErr_Occurred())
        return NULL;
    return s == WEIR_OK || s == WEIR_ERR_BUDGET ? PyLong_FromLongLong(batch) : weir_py_failed(s);
}
%}
