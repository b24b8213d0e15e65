/* glue.h - what the interface file calls: conversions between Python's objects and the core's
 * arrays, exceptions, and the rule that a device belongs to one thread at a time.
 *
 * Only the stable ABI of CPython 3.11 is used. All state here is guarded by the interpreter lock.
 * While a graph runs without that lock (weir_py_run_begin to weir_py_run_end), and while a call of
 * Weir calls Python (weir_py_hold to weir_py_let_go), calls of other threads wait in weir_py_enter,
 * and handles that the garbage collector drops on another thread are put aside until it is over. */
#ifndef WEIR_PYTHON_GLUE_H
#define WEIR_PYTHON_GLUE_H

#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir.h"

/* ---- one thread at a time ---- */

static PyThread_type_lock weir_py_lock;         /* held while a graph runs or Python is called */
static unsigned long      weir_py_runner;       /* the thread that runs it */
static int                weir_py_running;      /* depth: a callback may run a graph of another device */
static PyThreadState     *weir_py_state;
static double             weir_py_told;         /* when the hook was called last, in seconds of
                                                 * planning; -1: not in this call of the core */
static pid_t              weir_py_process;      /* where it runs: not in a forked child */

typedef struct weir_py_late {
    weir_tensor *tensor;
    weir_graph  *graph;
    weir_onnx   *onnx;
} weir_py_late;
static weir_py_late *weir_py_dropped;           /* put aside until the run is over */
static size_t        weir_py_drops, weir_py_dropped_capacity;

/* Waits until no other thread runs a graph. In a forked child none does: the core refuses calls. */
static void weir_py_enter(void)
{
    while (weir_py_running && weir_py_runner != PyThread_get_thread_ident() &&
           weir_py_process == getpid()) {
        PyThreadState *const state = PyEval_SaveThread();
        PyThread_acquire_lock(weir_py_lock, WAIT_LOCK);
        PyThread_release_lock(weir_py_lock);
        PyEval_RestoreThread(state);
    }
}

static bool weir_py_elsewhere(void)
{
    return weir_py_running && weir_py_runner != PyThread_get_thread_ident();
}

/* Without memory for the note the handle is leaked: better than a race. */
static void weir_py_put_aside(weir_py_late late)
{
    if (weir_py_drops == weir_py_dropped_capacity) {
        const size_t  capacity = weir_py_dropped_capacity ? 2 * weir_py_dropped_capacity : 64;
        weir_py_late *more = realloc(weir_py_dropped, capacity * sizeof *more);
        if (!more)
            return;
        weir_py_dropped = more;
        weir_py_dropped_capacity = capacity;
    }
    weir_py_dropped[weir_py_drops++] = late;
}

static void weir_py_release(weir_tensor *t)
{
    if (weir_py_elsewhere())
        weir_py_put_aside((weir_py_late){.tensor = t});
    else
        weir_release(t);
}

static void weir_py_graph_free(weir_graph *g)
{
    if (weir_py_elsewhere())
        weir_py_put_aside((weir_py_late){.graph = g});
    else
        weir_graph_free(g);
}

static void weir_py_onnx_free(weir_onnx *m)
{
    if (weir_py_elsewhere())
        weir_py_put_aside((weir_py_late){.onnx = m});
    else
        weir_onnx_free(m);
}

static void weir_py_free_dropped(void)
{
    while (weir_py_drops > 0) {
        const weir_py_late late = weir_py_dropped[--weir_py_drops];
        weir_release(late.tensor);
        weir_graph_free(late.graph);
        weir_onnx_free(late.onnx);
    }
}

/* Keeps other threads out; the interpreter lock stays with the caller. True: it was not held yet. */
static bool weir_py_hold(void)
{
    if (weir_py_running++ > 0)
        return false;
    weir_py_told = -1;
    if (!weir_py_lock)
        weir_py_lock = PyThread_allocate_lock();
    if (weir_py_lock)
        PyThread_acquire_lock(weir_py_lock, WAIT_LOCK);
    weir_py_runner = PyThread_get_thread_ident();
    weir_py_process = getpid();
    return true;
}

static void weir_py_let_go(void)
{
    if (--weir_py_running > 0)
        return;
    if (weir_py_lock)
        PyThread_release_lock(weir_py_lock);
    weir_py_free_dropped();
}

static void weir_py_run_begin(void)
{
    if (weir_py_hold())
        weir_py_state = PyEval_SaveThread();
}

static void weir_py_run_end(void)
{
    if (weir_py_running == 1)
        PyEval_RestoreThread(weir_py_state);
    weir_py_let_go();
}

/* ---- errors ---- */

static PyObject *weir_py_errors;        /* a list of exception classes by status */

/* Raises the class of the status with the core's sentence; an exception that is on its way already
 * (of a callback) stays. */
static void weir_py_raise(weir_status s)
{
    if (PyErr_Occurred())
        return;
    PyObject *kind = weir_py_errors ? PyList_GetItem(weir_py_errors, (Py_ssize_t)s) : NULL;
    if (!kind) {
        PyErr_Clear();
        kind = PyExc_RuntimeError;
    }
    const char *const text = weir_error();
    PyErr_SetString(kind, text[0] ? text : weir_status_text(s));
}

/* ---- results ---- */

/* A borrowed result becomes the caller's, and whatever else the call left in the scope goes. */
static void weir_py_adopt(weir_tensor *t)
{
    weir_retain(t);
    weir_scope_clear(weir_tensor_device(t));
}

/* The dims as a tuple. */
static PyObject *weir_py_shape(const weir_desc *d)
{
    PyObject *const shape = PyTuple_New(d->ndim);
    for (int i = 0; shape && i < d->ndim; i++) {
        PyObject *const size = PyLong_FromLongLong(d->dim[i]);
        if (!size || PyTuple_SetItem(shape, i, size) < 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

static PyObject *weir_py_from_desc(const weir_desc *d)
{
    PyObject *const shape = weir_py_shape(d);
    return shape ? Py_BuildValue("(iN)", (int)d->dtype, shape) : NULL;
}

/* ---- arguments; all return false with an exception set ---- */

static bool weir_py_dims(PyObject *o, int *n, int64_t *dim)
{
    const Py_ssize_t count = PySequence_Check(o) ? PySequence_Size(o) : -1;
    if (count < 0 || count > WEIR_MAX_DIMS) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "expected a sequence of at most %d integers, got %R",
                     WEIR_MAX_DIMS, o);
        return false;
    }
    memset(dim, 0, WEIR_MAX_DIMS * sizeof *dim);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *const item = PySequence_GetItem(o, i);
        PyObject *const whole = item ? PyNumber_Index(item) : NULL;
        dim[i] = whole ? PyLong_AsLongLong(whole) : -1;
        Py_XDECREF(whole);
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return false;
    }
    *n = (int)count;
    return true;
}

static bool weir_py_axes(PyObject *o, int *axes)
{
    int64_t dim[WEIR_MAX_DIMS];
    int     n;
    if (!weir_py_dims(o, &n, dim))
        return false;
    for (int i = 0; i < WEIR_MAX_DIMS; i++) {
        if (dim[i] < INT32_MIN || dim[i] > INT32_MAX) {
            PyErr_Format(PyExc_ValueError, "axis %lld is out of range", (long long)dim[i]);
            return false;
        }
        axes[i] = i < n ? (int)dim[i] : i;
    }
    return true;
}

/* (dtype, shape) */
static bool weir_py_desc(PyObject *o, weir_desc *d)
{
    PyObject *shape;
    int       dtype;

    *d = (weir_desc){0};
    if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "iO", &dtype, &shape)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "expected (dtype, shape), got %R", o);
        return false;
    }
    d->dtype = (weir_dtype)dtype;
    return weir_py_dims(shape, &d->ndim, d->dim);
}

static void weir_py_free(void *p)
{
    free(p);
}

#endif
