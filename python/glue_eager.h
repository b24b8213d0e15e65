/* glue_eager.h - operators called with the graph off: Tensors in, one out.
 *
 * Such a call is short, so the general way through Python (weir/singa/tape.py) would take several
 * times as long as the core. Here a function finds the core's tensors in its arguments, calls the
 * core and makes the Tensor. Whatever is not plain - a graph that is recorded, mixed types, a name
 * for an argument - goes the general way, which says the same of every case. Calls that gradients
 * want are those of glue_tape.h.
 *
 * For that the Python classes Tensor, CTensor and Value derive from the three types here, whose
 * attributes C reads without a look-up. A new Tensor holds the core's tensor alone; its CTensor and
 * its Value are made when `data` is asked for, its name and its operator when they are. */
#ifndef WEIR_PYTHON_GLUE_EAGER_H
#define WEIR_PYTHON_GLUE_EAGER_H

#include <stddef.h>
#include <structmember.h>

/* ---- the types ---- */

/* A new Python reference to t; None for NULL. */
static PyObject *weir_py_wrap(weir_tensor *t)
{
    if (!t)
        Py_RETURN_NONE;
    return SWIG_NewPointerObj(weir_retain(t), SWIGTYPE_p_weir_tensor, SWIG_POINTER_OWN);
}

/* What weir.core.Value is made of: the attributes that its __init__ sets. */
typedef struct weir_py_value {
    PyObject_HEAD
    PyObject    *weak;
    PyObject    *device, *dtype, *shape;
    PyObject    *handle;        /* the proxy that Python sees; NULL until it is asked for */
    weir_tensor *t;             /* owned if there is no proxy, else the proxy's; NULL: look there */
    PyObject    *written, *state, *graph, *version, *shared, *lent, *shown;
} weir_py_value;

typedef struct weir_py_raw {
    PyObject_HEAD
    PyObject *weak;
    PyObject *value;
} weir_py_raw;

typedef struct weir_py_tensor {
    PyObject_HEAD
    PyObject    *weak, *dict;
    weir_tensor *t;             /* owned until `data` is made */
    PyObject    *data, *shape, *device, *dtype, *requires_grad, *stores_grad, *name, *creator,
                *leaf;
    PyObject    *made_by;       /* a class of operators, or a tuple of it and its arguments */
} weir_py_tensor;

enum { WEIR_PY_DTYPES = WEIR_BF16 + 1 };

/* Classes of Python that the types below are the bases of, and the numbers of element types by
 * those of the core; set once by weir_py_set_classes. */
static struct {
    PyTypeObject *tensor, *raw, *value;
    allocfunc     new_tensor, new_raw, new_value;
    PyObject     *dtypes[WEIR_PY_DTYPES];
} weir_py_class;

static PyTypeObject *weir_py_tensor_base;
static bool          weir_py_taping;    /* are calls remembered for gradients? */

static void weir_py_set(PyObject **place, PyObject *o)
{
    PyObject *const old = *place;
    Py_XINCREF(o);
    *place = o;
    Py_XDECREF(old);
}

static void weir_py_dealloc(PyObject *self, int (*clear)(PyObject *), PyObject *weak)
{
    PyTypeObject *const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (weak)
        PyObject_ClearWeakRefs(self);
    clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Raises AttributeError: the attribute is not set. */
static PyObject *weir_py_missing(PyObject *self, const char *name)
{
    PyErr_Format(PyExc_AttributeError, "%R has no attribute '%s' yet", Py_TYPE(self), name);
    return NULL;
}

/* ---- Value ---- */

#define WEIR_PY_EACH_OF_VALUE(do_)                                                                 \
    do_(v->device) do_(v->dtype) do_(v->shape) do_(v->handle) do_(v->written) do_(v->state)         \
    do_(v->graph) do_(v->version) do_(v->shared) do_(v->lent) do_(v->shown)

#define WEIR_PY_VISIT(x) Py_VISIT(x);
#define WEIR_PY_CLEAR(x) Py_CLEAR(x);

static int weir_py_value_traverse(PyObject *self, visitproc visit, void *arg)
{
    weir_py_value *const v = (weir_py_value *)self;
    Py_VISIT(Py_TYPE(self));
    WEIR_PY_EACH_OF_VALUE(WEIR_PY_VISIT)
    return 0;
}

static int weir_py_value_clear(PyObject *self)
{
    weir_py_value *const v = (weir_py_value *)self;
    weir_tensor *const   owned = v->handle ? NULL : v->t;
    v->t = NULL;
    WEIR_PY_EACH_OF_VALUE(WEIR_PY_CLEAR)
    if (owned)
        weir_py_release(owned);
    return 0;
}

static void weir_py_value_dealloc(PyObject *self)
{
    weir_py_dealloc(self, weir_py_value_clear, ((weir_py_value *)self)->weak);
}

static PyObject *weir_py_get_handle(PyObject *self, void *closure)
{
    weir_py_value *const v = (weir_py_value *)self;
    (void)closure;
    if (!v->handle && v->t)
        v->handle = SWIG_NewPointerObj(v->t, SWIGTYPE_p_weir_tensor, SWIG_POINTER_OWN);
    if (!v->handle && v->t)
        return NULL;
    PyObject *const handle = v->handle ? v->handle : Py_None;
    Py_INCREF(handle);
    return handle;
}

static int weir_py_set_handle(PyObject *self, PyObject *handle, void *closure)
{
    weir_py_value *const v = (weir_py_value *)self;
    weir_tensor *const   owned = v->handle ? NULL : v->t;
    (void)closure;
    v->t = NULL;
    weir_py_set(&v->handle, handle == Py_None ? NULL : handle);
    if (owned)
        weir_py_release(owned);
    return 0;
}

#define WEIR_PY_MEMBER(type, name, field) {name, T_OBJECT_EX, offsetof(type, field), 0, NULL}
#define WEIR_PY_OPTIONAL(type, name, field) {name, T_OBJECT, offsetof(type, field), 0, NULL}
#define WEIR_PY_OFFSET(name, type, field)                                                          \
    {name, T_PYSSIZET, offsetof(type, field), READONLY, NULL}

static PyMemberDef weir_py_value_members[] = {
    WEIR_PY_OFFSET("__weaklistoffset__", weir_py_value, weak),
    WEIR_PY_MEMBER(weir_py_value, "device", device),
    WEIR_PY_MEMBER(weir_py_value, "dtype", dtype),
    WEIR_PY_MEMBER(weir_py_value, "shape", shape),
    WEIR_PY_MEMBER(weir_py_value, "_written", written),
    WEIR_PY_MEMBER(weir_py_value, "_state", state),
    WEIR_PY_MEMBER(weir_py_value, "_graph", graph),
    WEIR_PY_MEMBER(weir_py_value, "_version", version),
    WEIR_PY_MEMBER(weir_py_value, "_shared", shared),
    WEIR_PY_OPTIONAL(weir_py_value, "_lent", lent),
    WEIR_PY_MEMBER(weir_py_value, "_shown", shown),
    {0}};
static PyGetSetDef weir_py_value_attributes[] = {
    {"_handle", weir_py_get_handle, weir_py_set_handle, NULL, NULL}, {0}};
static PyType_Slot weir_py_value_slots[] = {
    {Py_tp_doc, "The attributes of weir.core.Value."},
    {Py_tp_dealloc, weir_py_value_dealloc},
    {Py_tp_traverse, weir_py_value_traverse},
    {Py_tp_clear, weir_py_value_clear},
    {Py_tp_members, weir_py_value_members},
    {Py_tp_getset, weir_py_value_attributes},
    {0, NULL}};

/* True if a view has the newest elements of its base, a Value in memory of its own. */
static bool weir_py_is_fresh(weir_py_value *view)
{
    static PyObject *name;
    if (!name)
        name = PyUnicode_InternFromString("base");
    PyObject *const base = name ? PyObject_GetAttr((PyObject *)view, name) : NULL;
    PyErr_Clear();
    const weir_py_value *const b = (weir_py_value *)base;
    const bool fresh = base && Py_TYPE(base) == weir_py_class.value && b->written == Py_True &&
                       view->handle && b->version == view->version;
    Py_XDECREF(base);
    return fresh;
}

/* The core's tensor behind a Value or a view of one, or NULL. */
static weir_tensor *weir_py_value_tensor(weir_py_value *v)
{
    if (Py_TYPE((PyObject *)v) == weir_py_class.value ? v->written != Py_True
                                                      : !weir_py_is_fresh(v))
        return NULL;
    if (!v->t && v->handle) {
        void *p = NULL;
        if (SWIG_IsOK(SWIG_ConvertPtr(v->handle, &p, SWIGTYPE_p_weir_tensor, 0)))
            v->t = p;
    }
    return v->t;
}

/* The Value of a result of the core; takes the reference t. */
static PyObject *weir_py_value_new(weir_tensor *t, PyObject *device, PyObject *dtype,
                                   PyObject *shape)
{
    weir_py_value *const v = (weir_py_value *)weir_py_class.new_value(weir_py_class.value, 0);
    PyObject *const      zero = v ? PyLong_FromLong(0) : NULL;
    if (!zero) {
        Py_XDECREF((PyObject *)v);
        weir_py_release(t);
        return NULL;
    }
    v->t = t;
    weir_py_set(&v->device, device);
    weir_py_set(&v->dtype, dtype);
    weir_py_set(&v->shape, shape);
    weir_py_set(&v->written, Py_True);
    weir_py_set(&v->state, Py_False);
    weir_py_set(&v->shared, Py_False);
    weir_py_set(&v->shown, Py_False);
    weir_py_set(&v->graph, zero);
    weir_py_set(&v->version, zero);
    Py_DECREF(zero);
    return (PyObject *)v;
}

/* ---- CTensor ---- */

static int weir_py_raw_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((weir_py_raw *)self)->value);
    return 0;
}

static int weir_py_raw_clear(PyObject *self)
{
    Py_CLEAR(((weir_py_raw *)self)->value);
    return 0;
}

static void weir_py_raw_dealloc(PyObject *self)
{
    weir_py_dealloc(self, weir_py_raw_clear, ((weir_py_raw *)self)->weak);
}

static PyMemberDef weir_py_raw_members[] = {
    WEIR_PY_OFFSET("__weaklistoffset__", weir_py_raw, weak),
    WEIR_PY_MEMBER(weir_py_raw, "value", value),
    {0}};
static PyType_Slot weir_py_raw_slots[] = {
    {Py_tp_doc, "The attribute of CTensor."},
    {Py_tp_dealloc, weir_py_raw_dealloc},
    {Py_tp_traverse, weir_py_raw_traverse},
    {Py_tp_clear, weir_py_raw_clear},
    {Py_tp_members, weir_py_raw_members},
    {0, NULL}};

/* ---- Tensor ---- */

#define WEIR_PY_EACH_OF_TENSOR(do_)                                                                \
    do_(x->dict) do_(x->data) do_(x->shape) do_(x->device) do_(x->dtype) do_(x->requires_grad)      \
    do_(x->stores_grad) do_(x->name) do_(x->creator) do_(x->leaf) do_(x->made_by)

static int weir_py_tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    weir_py_tensor *const x = (weir_py_tensor *)self;
    Py_VISIT(Py_TYPE(self));
    WEIR_PY_EACH_OF_TENSOR(WEIR_PY_VISIT)
    return 0;
}

static int weir_py_tensor_clear(PyObject *self)
{
    weir_py_tensor *const x = (weir_py_tensor *)self;
    weir_tensor *const    owned = x->t;
    x->t = NULL;
    WEIR_PY_EACH_OF_TENSOR(WEIR_PY_CLEAR)
    if (owned)
        weir_py_release(owned);
    return 0;
}

static void weir_py_tensor_dealloc(PyObject *self)
{
    weir_py_dealloc(self, weir_py_tensor_clear, ((weir_py_tensor *)self)->weak);
}

/* Sets the shape of a Tensor whose core's tensor it is derived from. */
static bool weir_py_know_shape(weir_py_tensor *x)
{
    if (!x->shape && x->t) {
        const weir_desc d = weir_tensor_desc(x->t);
        x->shape = weir_py_shape(&d);
    }
    return x->shape != NULL;
}

static PyObject *weir_py_get_shape(PyObject *self, void *closure)
{
    weir_py_tensor *const x = (weir_py_tensor *)self;
    (void)closure;
    if (!weir_py_know_shape(x))
        return PyErr_Occurred() ? NULL : weir_py_missing(self, "shape");
    Py_INCREF(x->shape);
    return x->shape;
}

static int weir_py_set_shape(PyObject *self, PyObject *shape, void *closure)
{
    (void)closure;
    weir_py_set(&((weir_py_tensor *)self)->shape, shape);
    return 0;
}

static PyObject *weir_py_get_data(PyObject *self, void *closure)
{
    weir_py_tensor *const x = (weir_py_tensor *)self;
    (void)closure;
    if (!x->data && !x->t)
        return weir_py_missing(self, "data");
    if (!x->data) {
        weir_py_raw *const raw = weir_py_know_shape(x)
            ? (weir_py_raw *)weir_py_class.new_raw(weir_py_class.raw, 0) : NULL;
        if (!raw)
            return NULL;
        weir_tensor *const t = x->t;
        x->t = NULL;
        x->data = (PyObject *)raw;
        raw->value = weir_py_value_new(t, x->device, x->dtype, x->shape);
        if (!raw->value)
            return NULL;
    }
    Py_INCREF(x->data);
    return x->data;
}

static int weir_py_set_data(PyObject *self, PyObject *data, void *closure)
{
    weir_py_tensor *const x = (weir_py_tensor *)self;
    (void)closure;
    if (x->t && !weir_py_know_shape(x))
        return -1;
    weir_tensor *const owned = x->t;
    x->t = NULL;
    weir_py_set(&x->data, data);
    if (owned)
        weir_py_release(owned);
    return 0;
}

static PyMemberDef weir_py_tensor_members[] = {
    WEIR_PY_OFFSET("__weaklistoffset__", weir_py_tensor, weak),
    WEIR_PY_OFFSET("__dictoffset__", weir_py_tensor, dict),
    WEIR_PY_MEMBER(weir_py_tensor, "device", device),
    WEIR_PY_MEMBER(weir_py_tensor, "dtype", dtype),
    WEIR_PY_MEMBER(weir_py_tensor, "requires_grad", requires_grad),
    WEIR_PY_MEMBER(weir_py_tensor, "_stores_grad", stores_grad),
    WEIR_PY_OPTIONAL(weir_py_tensor, "_name", name),
    WEIR_PY_OPTIONAL(weir_py_tensor, "_creator", creator),
    WEIR_PY_OPTIONAL(weir_py_tensor, "_leaf", leaf),
    WEIR_PY_OPTIONAL(weir_py_tensor, "_made_by", made_by),
    {0}};
static PyGetSetDef weir_py_tensor_attributes[] = {
    {"data", weir_py_get_data, weir_py_set_data, NULL, NULL},
    {"shape", weir_py_get_shape, weir_py_set_shape, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0}};
static PyType_Slot weir_py_tensor_slots[] = {
    {Py_tp_doc, "The attributes of Tensor."},
    {Py_tp_dealloc, weir_py_tensor_dealloc},
    {Py_tp_traverse, weir_py_tensor_traverse},
    {Py_tp_clear, weir_py_tensor_clear},
    {Py_tp_members, weir_py_tensor_members},
    {Py_tp_getset, weir_py_tensor_attributes},
    {0, NULL}};

/* ---- operands and results ---- */

/* An argument of an operator, seen from the core. */
typedef struct weir_py_operand {
    weir_py_tensor *x;
    weir_tensor    *t;
    PyObject       *device, *dtype;     /* borrowed of x or of its value */
} weir_py_operand;

/* False if the argument is not a Tensor of plain elements; no exception is set. */
static bool weir_py_look(PyObject *o, weir_py_operand *a)
{
    if (Py_TYPE(o) != weir_py_class.tensor && !PyObject_TypeCheck(o, weir_py_tensor_base))
        return false;
    a->x = (weir_py_tensor *)o;
    if (a->x->t) {
        *a = (weir_py_operand){a->x, a->x->t, a->x->device, a->x->dtype};
        return true;
    }
    PyObject *const raw = a->x->data;
    if (!raw || Py_TYPE(raw) != weir_py_class.raw || !((weir_py_raw *)raw)->value)
        return false;
    weir_py_value *const v = (weir_py_value *)((weir_py_raw *)raw)->value;
    *a = (weir_py_operand){a->x, weir_py_value_tensor(v), v->device, v->dtype};
    return a->t != NULL;
}

static bool weir_py_is_real(const PyObject *dtype)
{
    PyObject *const *const d = weir_py_class.dtypes;
    return dtype == d[WEIR_F32] || dtype == d[WEIR_F64] || dtype == d[WEIR_F16] ||
           dtype == d[WEIR_BF16];
}

/* The Tensor of a result of the core, which stays the scope's; NULL with an exception. `made_by`
 * may be NULL: made by no operator. With `axes` a number becomes a tensor of one axis. */
static PyObject *weir_py_made(weir_tensor *y, PyObject *device, PyObject *requires_grad,
                              PyObject *made_by, bool axes)
{
    if (y && axes && weir_tensor_desc(y).ndim == 0)
        y = weir_reshape(y, 1, (const int64_t[]){1});
    if (!y) {
        weir_py_raise(weir_error_status());
        return NULL;
    }
    weir_py_adopt(y);
    weir_py_tensor *const made =
        (weir_py_tensor *)weir_py_class.new_tensor(weir_py_class.tensor, 0);
    if (!made) {
        weir_py_release(y);
        return NULL;
    }
    made->t = y;
    weir_py_set(&made->device, device);
    weir_py_set(&made->dtype, weir_py_class.dtypes[weir_tensor_desc(y).dtype]);
    weir_py_set(&made->requires_grad, requires_grad);
    weir_py_set(&made->stores_grad, Py_False);
    weir_py_set(&made->made_by, made_by);
    return (PyObject *)made;
}

#endif
