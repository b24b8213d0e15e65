/* glue_operators.h - functions of weir.autograd and methods of Tensor that call the core at once.
 *
 * Each is a builtin in front of a function of Python: see glue_eager.h for which calls it takes
 * itself. The tables name the functions of the core; Python asks for a builtin by that name. */
#ifndef WEIR_PYTHON_GLUE_OPERATORS_H
#define WEIR_PYTHON_GLUE_OPERATORS_H

#include "glue_tape.h"

/* Functions of one tensor and of two that broadcast. */
#define WEIR_PY_UNARY(do_)                                                                         \
    do_(weir_relu) do_(weir_sigmoid) do_(weir_tanh) do_(weir_exp) do_(weir_log) do_(weir_sqrt)      \
    do_(weir_abs) do_(weir_neg) do_(weir_reciprocal) do_(weir_erf) do_(weir_square)                 \
    do_(weir_sin) do_(weir_cos) do_(weir_tan) do_(weir_asin) do_(weir_acos) do_(weir_atan)          \
    do_(weir_sinh) do_(weir_cosh) do_(weir_asinh) do_(weir_acosh) do_(weir_atanh)                   \
    do_(weir_sign) do_(weir_ceil) do_(weir_floor) do_(weir_round) do_(weir_round_even)              \
    do_(weir_softplus) do_(weir_softsign) do_(weir_relu6) do_(weir_gelu) do_(weir_silu)             \
    do_(weir_hardswish) do_(weir_log_sigmoid)
#define WEIR_PY_BINARY(do_)                                                                        \
    do_(weir_add) do_(weir_sub) do_(weir_mul) do_(weir_div) do_(weir_pow) do_(weir_matmul)

typedef struct weir_py_operator {
    const char  *name;                          /* of the core's function */
    weir_tensor *(*one)(weir_tensor *);         /* one of these two */
    weir_tensor *(*two)(weir_tensor *, weir_tensor *);
    PyObject    *function, *kind, *text;        /* of autograd: the general way, its class, help */
    PyObject    *method, *method_kind;          /* of Tensor: the general way, its class */
    PyMethodDef  function_def, method_def;
} weir_py_operator;

#define WEIR_PY_NUMBER(f) weir_py_number_##f,
enum { WEIR_PY_UNARY(WEIR_PY_NUMBER) WEIR_PY_BINARY(WEIR_PY_NUMBER) weir_py_n_operators };

#define WEIR_PY_ONE(f) {.name = #f, .one = f},
#define WEIR_PY_TWO(f) {.name = #f, .two = f},
static weir_py_operator weir_py_operators[] = {
    WEIR_PY_UNARY(WEIR_PY_ONE) WEIR_PY_BINARY(WEIR_PY_TWO)};

/* True if calls on this device are computed at once. */
static bool weir_py_at_once(const weir_py_operand *a)
{
    return !weir_device_buffering(weir_tensor_device(a->t));
}

/* Looks at the arguments of an operator; false if they are not plain. */
static bool weir_py_operands(const weir_py_operator *op, PyObject *const *args,
                             weir_py_operand a[2])
{
    weir_py_enter();
    if (!weir_py_look(args[0], &a[0]))
        return false;
    if (op->one)
        return weir_py_is_real(a[0].dtype) && weir_py_at_once(&a[0]);
    PyObject *const f32 = weir_py_class.dtypes[WEIR_F32];
    return weir_py_look(args[1], &a[1]) && a[0].dtype == f32 && a[1].dtype == f32 &&
           weir_py_at_once(&a[0]);
}

/* True if a gradient flows through results of a Tensor: weir.tensor_methods says the same. */
static bool weir_py_is_taped(const weir_py_tensor *x)
{
    return weir_py_taping && x->requires_grad != Py_False &&
           (x->stores_grad != Py_False || (x->creator && x->creator != Py_None));
}

/* x op c of a Tensor x of float32 or float64 and a number, as weir.raw.arith has it: sets *y to the
 * result. False for other operators, types and numbers. */
static bool weir_py_with_number(const weir_py_operator *op, PyObject *const *args,
                                weir_py_operand *a, weir_tensor **y)
{
    PyObject *const *const d = weir_py_class.dtypes;
    const bool whole = PyLong_Check(args[1]);
    weir_py_enter();
    if (!whole && !PyFloat_Check(args[1]))
        return false;
    if (op->two != weir_add && op->two != weir_sub && op->two != weir_mul)
        return false;
    if (!weir_py_look(args[0], a) || (a->dtype != d[WEIR_F32] && a->dtype != d[WEIR_F64]) ||
        !weir_py_at_once(a) || weir_py_is_taped(a->x))
        return false;
    const double c = whole ? PyLong_AsDouble(args[1]) : PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred()) {                     /* too large for a double */
        PyErr_Clear();
        return false;
    }
    *y = op->two == weir_mul ? weir_affine(a->t, c, -0.0)
                             : weir_affine(a->t, 1.0, op->two == weir_add ? c : -c);
    return true;
}

static weir_tensor *weir_py_compute(const weir_py_operator *op, const weir_py_operand a[2])
{
    return op->one ? op->one(a[0].t) : op->two(a[0].t, a[1].t);
}

/* ---- functions of weir.autograd ---- */

/* The general way: function(*args, **names), of which the last values are those of names. */
static PyObject *weir_py_general(PyObject *function, PyObject *const *args, Py_ssize_t n,
                                 PyObject *names)
{
    PyObject *const positional = PyTuple_New(n);
    PyObject *const named = names ? PyDict_New() : NULL;
    PyObject       *result = NULL;
    bool            ok = positional && (!names || named);
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(positional, i, args[i]);
    }
    for (Py_ssize_t i = 0; ok && names && i < PyTuple_Size(names); i++)
        ok = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[n + i]) == 0;
    if (ok)
        result = PyObject_Call(function, positional, named);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return result;
}

static PyObject *weir_py_function(weir_py_operator *op, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    weir_py_operand a[2] = {{0}};
    if (names || n != (op->one ? 1 : 2) || !weir_py_operands(op, args, a))
        return weir_py_general(op->function, args, n, names);
    const bool first = a[0].x->requires_grad != Py_False;
    PyObject  *const requires_grad =
        first || op->one ? a[0].x->requires_grad : a[1].x->requires_grad;
    const bool taped = weir_py_taping && requires_grad != Py_False;
    if (!weir_py_begin(a, (int)n, taped))
        return NULL;
    return weir_py_end(weir_py_compute(op, a), a, (int)n, taped, requires_grad, op->kind, true);
}

/* ---- methods and operators of Tensor ---- */

static PyObject *weir_py_method(weir_py_operator *op, PyObject *self, PyObject *other)
{
    PyObject *const args[2] = {self, other};
    weir_py_operand a[2] = {{0}};
    weir_tensor    *y;
    if (op->two && weir_py_with_number(op, args, a, &y))
        return weir_py_made(y, a->device, Py_True, NULL, false);
    const int n = op->one ? 1 : 2;
    if (!weir_py_operands(op, args, a))
        return weir_py_general(op->method, args, n, NULL);
    const bool taped = weir_py_is_taped(a[0].x) || (n == 2 && weir_py_is_taped(a[1].x));
    if (!weir_py_begin(a, n, taped))
        return NULL;
    return weir_py_end(weir_py_compute(op, a), a, n, taped, Py_True,
                       taped ? op->method_kind : NULL, false);
}

#define WEIR_PY_CALLS(f)                                                                           \
    static PyObject *weir_py_function_##f(PyObject *self, PyObject *const *args, Py_ssize_t n,      \
                                          PyObject *names)                                          \
    {                                                                                               \
        (void)self;                                                                                 \
        return weir_py_function(&weir_py_operators[weir_py_number_##f], args, n, names);            \
    }                                                                                               \
    static PyObject *weir_py_method_##f(PyObject *self, PyObject *other)                            \
    {                                                                                               \
        return weir_py_method(&weir_py_operators[weir_py_number_##f], self, other);                 \
    }
WEIR_PY_UNARY(WEIR_PY_CALLS)
WEIR_PY_BINARY(WEIR_PY_CALLS)

#define WEIR_PY_POINTERS(f) {(PyCFunction)(void (*)(void))weir_py_function_##f, weir_py_method_##f},
static const struct {
    PyCFunction function, method;
} weir_py_builtins[] = {WEIR_PY_UNARY(WEIR_PY_POINTERS) WEIR_PY_BINARY(WEIR_PY_POINTERS)};

/* The number of the operator that calls a function of the core; -1 if there is none. */
static int weir_py_find(const char *name)
{
    for (int i = 0; i < weir_py_n_operators; i++)
        if (strcmp(weir_py_operators[i].name, name) == 0)
            return i;
    return -1;
}

/* What a builtin shows of itself; its texts are kept for good, as it points into them. */
static bool weir_py_show(PyMethodDef *def, const char *name, PyObject *text)
{
    char *const copy = strdup(name);
    const char *const doc = PyUnicode_AsUTF8AndSize(text, NULL);
    if (!copy)
        PyErr_NoMemory();
    if (!copy || !doc) {
        free(copy);
        return false;
    }
    Py_INCREF(text);
    def->ml_name = copy;
    def->ml_doc = doc;
    return true;
}

/* quick_function(core's name, name, text, function, class, module): a builtin before `function`;
 * the function itself if the core's is not in the tables or has a builtin already. */
static PyObject *weir_py_quick_function(PyObject *self, PyObject *args)
{
    const char *core, *name;
    PyObject   *text, *function, *kind, *module;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssOOOO", &core, &name, &text, &function, &kind, &module))
        return NULL;
    const int i = weir_py_find(core);
    if (i < 0 || weir_py_operators[i].function) {
        Py_INCREF(function);
        return function;
    }
    weir_py_operator *const op = &weir_py_operators[i];
    op->function_def.ml_meth = weir_py_builtins[i].function;
    op->function_def.ml_flags = METH_FASTCALL | METH_KEYWORDS;
    if (!weir_py_show(&op->function_def, name, text))
        return NULL;
    weir_py_set(&op->function, function);
    weir_py_set(&op->kind, kind);
    return PyCFunction_NewEx(&op->function_def, NULL, module);
}

/* quick_method(core's name, name, text, method, class): the same of a method of Tensor. */
static PyObject *weir_py_quick_method(PyObject *self, PyObject *args)
{
    const char *core, *name;
    PyObject   *text, *method, *kind;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssOOO", &core, &name, &text, &method, &kind))
        return NULL;
    const int i = weir_py_find(core);
    if (i < 0 || weir_py_operators[i].method) {
        Py_INCREF(method);
        return method;
    }
    weir_py_operator *const op = &weir_py_operators[i];
    op->method_def.ml_meth = weir_py_builtins[i].method;
    op->method_def.ml_flags = op->one ? METH_NOARGS : METH_O;
    if (!weir_py_show(&op->method_def, name, text))
        return NULL;
    weir_py_set(&op->method, method);
    weir_py_set(&op->method_kind, kind);
    return PyDescr_NewMethod(weir_py_tensor_base, &op->method_def);
}

/* ---- functions with arguments: quick_NAME(class of operators, x, its arguments) ---- */

/* Integers of a tuple or a list, or one; false, without an exception, for anything else. */
static bool weir_py_integers(PyObject *o, int *n, int64_t *value)
{
    const bool tuple = PyTuple_Check(o), list = PyList_Check(o);
    const Py_ssize_t count = tuple ? PyTuple_Size(o) : list ? PyList_Size(o) : 1;
    if (count > WEIR_MAX_DIMS)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *const item = tuple ? PyTuple_GetItem(o, i) : list ? PyList_GetItem(o, i) : o;
        int overflow = 1;
        if (PyLong_Check(item))
            value[i] = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow)
            return false;
    }
    *n = (int)count;
    return true;
}

/* True if x is an operand for a call at once, of real numbers. */
static bool weir_py_plain(PyObject *x, weir_py_operand *a)
{
    weir_py_enter();
    return weir_py_look(x, a) && weir_py_is_real(a->dtype) && weir_py_at_once(a);
}

/* Are calls on this operand of a function of autograd remembered? */
static bool weir_py_wants(const weir_py_operand *a)
{
    return weir_py_taping && a->x->requires_grad != Py_False;
}

/* The general way: class(arguments)(x)[0]. */
static PyObject *weir_py_operate(PyObject *const *args, Py_ssize_t n)
{
    if (n < 3) {
        PyErr_SetString(PyExc_TypeError, "expected a class of operators, x and arguments");
        return NULL;
    }
    PyObject *const operator = weir_py_general(args[0], args + 2, n - 2, NULL);
    PyObject *const results = operator ? weir_py_general(operator, args + 1, 1, NULL) : NULL;
    PyObject *const first = results ? PySequence_GetItem(results, 0) : NULL;
    Py_XDECREF(results);
    Py_XDECREF(operator);
    return first;
}

/* The result of an operator of the class args[0] with the arguments args[2] to args[n - 1]. */
static PyObject *weir_py_made_with(weir_tensor *y, const weir_py_operand *a, PyObject *const *args,
                                   Py_ssize_t n)
{
    PyObject *const made_by = n > 3 ? PyTuple_Pack(3, args[0], args[2], args[3])
                                    : PyTuple_Pack(2, args[0], args[2]);
    PyObject *const made =
        weir_py_end(y, a, 1, weir_py_wants(a), a->x->requires_grad, made_by, true);
    Py_XDECREF(made_by);
    return made;
}

/* quick_reshape(class, x, shape): a size of 0 is that of x. */
static PyObject *weir_py_quick_reshape(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    weir_py_operand a;
    int64_t         dim[WEIR_MAX_DIMS];
    int             ndim;
    (void)self;
    if (n != 3 || !weir_py_integers(args[2], &ndim, dim) || !weir_py_plain(args[1], &a))
        return weir_py_operate(args, n);
    const weir_desc d = weir_tensor_desc(a.t);
    for (int i = 0; i < ndim && i < d.ndim; i++)
        if (dim[i] == 0)
            dim[i] = d.dim[i];
    if (!weir_py_begin(&a, 1, weir_py_wants(&a)))
        return NULL;
    return weir_py_made_with(weir_reshape(a.t, ndim, dim), &a, args, n);
}

/* quick_transpose(class, x, order): None reverses the axes. */
static PyObject *weir_py_quick_transpose(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    weir_py_operand a;
    int64_t         order[WEIR_MAX_DIMS];
    int             axes[WEIR_MAX_DIMS], count = 0;
    unsigned        seen = 0;
    (void)self;
    const bool reversed = n == 3 && args[2] == Py_None;
    if (n != 3 || (!reversed && (!PyTuple_Check(args[2]) && !PyList_Check(args[2]))) ||
        (!reversed && !weir_py_integers(args[2], &count, order)) || !weir_py_plain(args[1], &a))
        return weir_py_operate(args, n);
    const int ndim = weir_tensor_desc(a.t).ndim;
    for (int i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= ndim)
            return weir_py_operate(args, n);
        axes[i] = (int)order[i];
        seen |= 1u << axes[i];
    }
    if (!reversed && (count != ndim || seen != (1u << ndim) - 1))
        return weir_py_operate(args, n);
    if (!weir_py_begin(&a, 1, weir_py_wants(&a)))
        return NULL;
    return weir_py_made_with(weir_transpose(a.t, reversed ? NULL : axes), &a, args, n);
}

/* quick_softmax(class, x, axis): of the last axis. */
static PyObject *weir_py_quick_softmax(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    weir_py_operand a;
    int64_t         axis;
    int             one;
    (void)self;
    if (n != 3 || !PyLong_Check(args[2]) || !weir_py_integers(args[2], &one, &axis) ||
        !weir_py_plain(args[1], &a))
        return weir_py_operate(args, n);
    const int ndim = weir_tensor_desc(a.t).ndim;
    if (ndim == 0 || (axis != -1 && axis != ndim - 1 && (ndim != 1 || axis != 1)))
        return weir_py_operate(args, n);
    if (!weir_py_begin(&a, 1, weir_py_wants(&a)))
        return NULL;
    return weir_py_made_with(weir_softmax(a.t, -1), &a, args, n);
}

/* The sum (or mean) over axes, None or a number or several; keepdims leaves them with size 1. */
static PyObject *weir_py_reduce(weir_tensor *(*reduce)(weir_tensor *, uint32_t, bool),
                                PyObject *const *args, Py_ssize_t n)
{
    weir_py_operand a;
    int64_t         axis[WEIR_MAX_DIMS];
    int             count = 0;
    uint32_t        dims = 0;
    if (n != 4 || (args[2] != Py_None && !weir_py_integers(args[2], &count, axis)) ||
        !weir_py_plain(args[1], &a))
        return weir_py_operate(args, n);
    const int ndim = weir_tensor_desc(a.t).ndim;
    for (int i = 0; i < count; i++) {
        const int64_t at = axis[i] < 0 ? axis[i] + ndim : axis[i];
        if (at < 0 || at >= ndim)
            return weir_py_operate(args, n);
        dims |= 1u << at;
    }
    const int keep = PyObject_IsTrue(args[3]);
    if (keep < 0)
        return NULL;
    if (!weir_py_begin(&a, 1, weir_py_wants(&a)))
        return NULL;
    return weir_py_made_with(reduce(a.t, dims, keep != 0), &a, args, n);
}

/* quick_sum(class, x, axes, keepdims) */
static PyObject *weir_py_quick_sum(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    return weir_py_reduce(weir_sum, args, n);
}

/* quick_mean(class, x, axes, keepdims) */
static PyObject *weir_py_quick_mean(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    return weir_py_reduce(weir_mean, args, n);
}

/* ---- what the module gets ---- */

/* set_taping(on): are calls remembered for gradients? */
static PyObject *weir_py_set_taping(PyObject *self, PyObject *on)
{
    const int taping = PyObject_IsTrue(on);
    (void)self;
    if (taping < 0)
        return NULL;
    weir_py_taping = taping;
    Py_RETURN_NONE;
}

/* set_classes(Tensor, CTensor, Value, element types by the core's numbers) */
static PyObject *weir_py_set_classes(PyObject *self, PyObject *args)
{
    PyObject *tensor, *raw, *value, *dtypes;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO!", &tensor, &raw, &value, &PyList_Type, &dtypes))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(dtypes) && i < WEIR_PY_DTYPES; i++)
        weir_py_set(&weir_py_class.dtypes[i], PyList_GetItem(dtypes, i));
    Py_INCREF(tensor);
    Py_INCREF(raw);
    Py_INCREF(value);
    weir_py_class.tensor = (PyTypeObject *)tensor;
    weir_py_class.raw = (PyTypeObject *)raw;
    weir_py_class.value = (PyTypeObject *)value;
    weir_py_class.new_tensor = (allocfunc)PyType_GetSlot(weir_py_class.tensor, Py_tp_alloc);
    weir_py_class.new_raw = (allocfunc)PyType_GetSlot(weir_py_class.raw, Py_tp_alloc);
    weir_py_class.new_value = (allocfunc)PyType_GetSlot(weir_py_class.value, Py_tp_alloc);
    Py_RETURN_NONE;
}

#define WEIR_PY_FAST(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL, NULL
static PyMethodDef weir_py_eager_functions[] = {
    {"set_classes", weir_py_set_classes, METH_VARARGS, NULL},
    {"set_taping", weir_py_set_taping, METH_O, NULL},
    {"quick_function", weir_py_quick_function, METH_VARARGS, NULL},
    {"quick_method", weir_py_quick_method, METH_VARARGS, NULL},
    {"quick_reshape", WEIR_PY_FAST(weir_py_quick_reshape)},
    {"quick_transpose", WEIR_PY_FAST(weir_py_quick_transpose)},
    {"quick_softmax", WEIR_PY_FAST(weir_py_quick_softmax)},
    {"quick_sum", WEIR_PY_FAST(weir_py_quick_sum)},
    {"quick_mean", WEIR_PY_FAST(weir_py_quick_mean)},
    {0}};

/* A type that Python classes derive from, in the module under this name; NULL with an exception. */
static PyTypeObject *weir_py_base(PyObject *module, const char *name, size_t size,
                                  PyType_Slot *slots)
{
    PyType_Spec spec = {
        .name = name, .basicsize = (int)size, .slots = slots,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC};
    PyObject *const type = PyType_FromSpec(&spec);
    if (type && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

/* Adds types and functions to the module; on failure an exception is set. */
static void weir_py_add_eager(PyObject *module)
{
    weir_py_call_type = weir_py_base(module, "weir._swig.Call", sizeof(weir_py_taped_call),
                                     weir_py_call_slots);
    if (!weir_py_call_type)
        return;
    weir_py_call_alloc = (allocfunc)PyType_GetSlot(weir_py_call_type, Py_tp_alloc);
    weir_py_tensor_base = weir_py_base(module, "weir._swig.TensorBase", sizeof(weir_py_tensor),
                                       weir_py_tensor_slots);
    if (weir_py_tensor_base &&
        weir_py_base(module, "weir._swig.RawBase", sizeof(weir_py_raw), weir_py_raw_slots) &&
        weir_py_base(module, "weir._swig.ValueBase", sizeof(weir_py_value), weir_py_value_slots))
        PyModule_AddFunctions(module, weir_py_eager_functions);
}

#endif
