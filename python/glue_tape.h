/* glue_tape.h - plain calls that are remembered for gradients.
 *
 * The core's tape remembers the call. What Python needs to ask for its gradients, and to find the
 * Tensors that store them, is a Call: handles that keep no elements alive, and the sources. The
 * operator that a script sees as `creator` is made of it when it is asked for. */
#ifndef WEIR_PYTHON_GLUE_TAPE_H
#define WEIR_PYTHON_GLUE_TAPE_H

#include "glue_eager.h"

enum { WEIR_PY_INPUTS = 2 };

typedef struct weir_py_taped_call {
    PyObject_HEAD
    PyObject    *weak;
    PyObject    *made_by;       /* a class of operators, or a tuple of it and its arguments */
    PyObject    *device;
    PyObject    *operator;      /* a weak reference to the operator that was made of it, or NULL */
    /* Of each input: its creator or its Call or None, and the Tensor if it stores its gradient, else
     * a weak reference to it if nothing made it, else True. A tuple, whose deallocation bounds the
     * depth of long chains. */
    PyObject    *sources;
    void        *input[WEIR_PY_INPUTS], *result;    /* of id() */
    bool         stores[WEIR_PY_INPUTS];
    weir_tensor *in[WEIR_PY_INPUTS], *out;          /* hollow, owned */
    int          n;
} weir_py_taped_call;

static PyTypeObject *weir_py_call_type;
static allocfunc     weir_py_call_alloc;

static int weir_py_call_traverse(PyObject *self, visitproc visit, void *arg)
{
    weir_py_taped_call *const c = (weir_py_taped_call *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->made_by);
    Py_VISIT(c->device);
    Py_VISIT(c->operator);
    Py_VISIT(c->sources);
    return 0;
}

static int weir_py_call_clear(PyObject *self)
{
    weir_py_taped_call *const c = (weir_py_taped_call *)self;
    for (int i = 0; i < c->n; i++) {
        weir_tensor *const in = c->in[i];
        c->in[i] = NULL;
        if (in)
            weir_py_release(in);
    }
    weir_tensor *const out = c->out;
    c->out = NULL;
    if (out)
        weir_py_release(out);
    Py_CLEAR(c->made_by);
    Py_CLEAR(c->device);
    Py_CLEAR(c->operator);
    Py_CLEAR(c->sources);
    return 0;
}

static void weir_py_call_dealloc(PyObject *self)
{
    weir_py_dealloc(self, weir_py_call_clear, ((weir_py_taped_call *)self)->weak);
}

/* sources(): a list of (creator or Call or None, Tensor or weak reference or True, id, does it store
 * its gradient?) */
static PyObject *weir_py_call_sources(PyObject *self, PyObject *none)
{
    weir_py_taped_call *const c = (weir_py_taped_call *)self;
    PyObject *const list = PyList_New(c->n);
    (void)none;
    for (int i = 0; list && i < c->n; i++) {
        PyObject *const id = PyLong_FromVoidPtr(c->input[i]);
        PyObject *const source = id
            ? PyTuple_Pack(4, PyTuple_GetItem(c->sources, 2 * i),
                           PyTuple_GetItem(c->sources, 2 * i + 1), id,
                           c->stores[i] ? Py_True : Py_False) : NULL;
        Py_XDECREF(id);
        if (!source) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, i, source);
    }
    return list;
}

/* handles(): (device, hollow handles of the inputs, of the result) */
static PyObject *weir_py_call_handles(PyObject *self, PyObject *none)
{
    weir_py_taped_call *const c = (weir_py_taped_call *)self;
    PyObject *const in = PyList_New(c->n), *const out = PyList_New(1);
    (void)none;
    for (int i = 0; in && i < c->n; i++)
        PyList_SetItem(in, i, weir_py_wrap(c->in[i]));
    if (out)
        PyList_SetItem(out, 0, weir_py_wrap(c->out));
    return in && out ? Py_BuildValue("(ONN)", c->device, in, out) : NULL;
}

static PyObject *weir_py_call_result(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(((weir_py_taped_call *)self)->result);
}

static PyMemberDef weir_py_call_members[] = {
    WEIR_PY_OFFSET("__weaklistoffset__", weir_py_taped_call, weak),
    {"made_by", T_OBJECT_EX, offsetof(weir_py_taped_call, made_by), READONLY, NULL},
    WEIR_PY_OPTIONAL(weir_py_taped_call, "operator", operator),
    {0}};
static PyGetSetDef weir_py_call_attributes[] = {
    {"result", weir_py_call_result, NULL, NULL, NULL}, {0}};
static PyMethodDef weir_py_call_methods[] = {
    {"sources", weir_py_call_sources, METH_NOARGS, NULL},
    {"handles", weir_py_call_handles, METH_NOARGS, NULL},
    {0}};
static PyType_Slot weir_py_call_slots[] = {
    {Py_tp_doc, "A call that the core's tape remembers."},
    {Py_tp_dealloc, weir_py_call_dealloc},
    {Py_tp_traverse, weir_py_call_traverse},
    {Py_tp_clear, weir_py_call_clear},
    {Py_tp_members, weir_py_call_members},
    {Py_tp_getset, weir_py_call_attributes},
    {Py_tp_methods, weir_py_call_methods},
    {0, NULL}};

/* ---- a call ---- */

/* Has the core watch an input that wants a gradient, as weir.taping.prepare does; an input that does
 * not is detached. False with an exception. */
static bool weir_py_watch(weir_py_operand *a)
{
    const bool watched = weir_tensor_needs_grad(a->t);
    if (a->x->requires_grad != Py_False) {
        const weir_status s = watched ? WEIR_OK : weir_tensor_set_needs_grad(a->t, true);
        if (s != WEIR_OK)
            weir_py_raise(s);
        return s == WEIR_OK;
    }
    if (watched)
        a->t = weir_detach(a->t);
    if (!a->t)
        weir_py_raise(weir_error_status());
    return a->t != NULL;
}

/* Before a call of the core on n operands: if it is taped, turns the tape on and prepares them. False
 * with an exception, the tape off. */
static bool weir_py_begin(weir_py_operand *a, int n, bool taped)
{
    if (!taped)
        return true;
    weir_device *const device = weir_tensor_device(a[0].t);
    weir_no_grad_end(device);
    bool ok = weir_py_watch(&a[0]) && (n == 1 || weir_py_watch(&a[1]));
    if (ok && n == 2 && a[0].t == a[1].t) {     /* the same input twice: each its own gradient */
        const weir_desc d = weir_tensor_desc(a[1].t);
        a[1].t = weir_reshape(a[1].t, d.ndim, d.dim);
        ok = a[1].t != NULL;
        if (!ok)
            weir_py_raise(weir_error_status());
    }
    if (!ok)
        weir_no_grad_begin(device);
    return ok;
}

/* What made an input, as far as it is known without making it; a new reference. */
static PyObject *weir_py_creator(const weir_py_tensor *x)
{
    PyObject *const creator = x->creator ? x->creator : Py_None;
    Py_INCREF(creator);
    return creator;
}

/* The Call of operands and a result; NULL with an exception. */
static PyObject *weir_py_taped_new(const weir_py_operand *a, int n, weir_tensor *y,
                                  PyObject *made_by)
{
    weir_py_taped_call *const c =
        (weir_py_taped_call *)weir_py_call_alloc(weir_py_call_type, 0);
    if (!c)
        return NULL;
    c->n = n;
    weir_py_set(&c->made_by, made_by);
    weir_py_set(&c->device, a[0].device);
    bool ok = (c->sources = PyTuple_New(2 * n)) != NULL && (c->out = weir_hollow(y)) != NULL;
    for (int i = 0; ok && i < n; i++) {
        weir_py_tensor *const x = a[i].x;
        c->input[i] = x;
        c->stores[i] = x->stores_grad != Py_False;
        if (c->stores[i])
            Py_INCREF((PyObject *)x);
        PyObject *const creator = weir_py_creator(x);
        PyObject *const holder = c->stores[i] ? (PyObject *)x
                                 : creator == Py_None ? PyWeakref_NewRef((PyObject *)x, NULL)
                                                      : Py_True;
        if (holder == Py_True)
            Py_INCREF(holder);
        PyTuple_SetItem(c->sources, 2 * i, creator);
        ok = holder && (c->in[i] = weir_hollow(a[i].t)) != NULL;
        if (holder)
            PyTuple_SetItem(c->sources, 2 * i + 1, holder);
    }
    if (ok)
        return (PyObject *)c;
    if (!PyErr_Occurred())
        weir_py_raise(weir_error_status());
    Py_DECREF((PyObject *)c);
    return NULL;
}

/* The Tensor of a call's result y, after weir_py_begin; NULL with an exception. `axes` as in
 * weir_py_made. */
static PyObject *weir_py_end(weir_tensor *y, const weir_py_operand *a, int n, bool taped,
                             PyObject *requires_grad, PyObject *made_by, bool axes)
{
    if (!taped)
        return weir_py_made(y, a[0].device, requires_grad, made_by, axes);
    weir_device *const device = weir_tensor_device(a[0].t);
    if (y && axes && weir_tensor_desc(y).ndim == 0)
        y = weir_reshape(y, 1, (const int64_t[]){1});
    weir_no_grad_begin(device);
    PyObject *const call = y ? weir_py_taped_new(a, n, y, made_by) : NULL;
    if (!call && PyErr_Occurred())
        return NULL;
    PyObject *const made = weir_py_made(y, a[0].device, Py_True, NULL, false);
    if (made) {
        ((weir_py_tensor *)made)->creator = call;
        ((weir_py_taped_call *)call)->result = made;
    } else {
        Py_XDECREF(call);
    }
    return made;
}

#endif
