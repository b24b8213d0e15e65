/* glue_dlpack.h - tensors as DLPack capsules, and capsules as tensors.
 *
 * Out: the capsule holds a reference to the tensor, whose memory it names. In: the elements are
 * copied, since the core's memory is its own (aligned, counted, channels-last for images). */

%{
#include "dlpack.h"

/* An exported tensor: its sizes beside it, so that one block holds all. */
typedef struct weir_py_export {
    union {
        weir_dl_old       old;
        weir_dl_versioned versioned;
    } as;
    int64_t      shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
    weir_tensor *tensor;
} weir_py_export;

/* DLPack's code and bits of the core's types, by name. */
static const struct {
    const char *name;
    uint8_t     code, bits;
} weir_py_dl_type[] = {
    {"f32", WEIR_DL_FLOAT, 32}, {"f64", WEIR_DL_FLOAT, 64}, {"f16", WEIR_DL_FLOAT, 16},
    {"bf16", WEIR_DL_BFLOAT, 16}, {"i32", WEIR_DL_INT, 32}, {"i64", WEIR_DL_INT, 64},
    {"u8", WEIR_DL_UINT, 8}, {"bool", WEIR_DL_BOOL, 8}, {"i8", WEIR_DL_INT, 8},
    {"i16", WEIR_DL_INT, 16}, {"u16", WEIR_DL_UINT, 16}, {"u32", WEIR_DL_UINT, 32},
    {"u64", WEIR_DL_UINT, 64},
};
enum { WEIR_PY_DL_TYPES = sizeof weir_py_dl_type / sizeof weir_py_dl_type[0] };

/* Consumers may drop a tensor on any thread, without the interpreter lock, or after its end. */
static void weir_py_export_free(weir_py_export *e)
{
    if (!Py_IsInitialized())
        return;
    const PyGILState_STATE state = PyGILState_Ensure();
    weir_py_release(e->tensor);
    free(e);
    PyGILState_Release(state);
}

static void weir_py_delete_old(weir_dl_old *self)
{
    weir_py_export_free(self->owner);
}

static void weir_py_delete_versioned(weir_dl_versioned *self)
{
    weir_py_export_free(self->owner);
}

/* A capsule that nobody took. */
static void weir_py_drop_old(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, WEIR_DL_NAME))
        weir_py_delete_old(PyCapsule_GetPointer(capsule, WEIR_DL_NAME));
}

static void weir_py_drop_versioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, WEIR_DL_VERSIONED))
        weir_py_delete_versioned(PyCapsule_GetPointer(capsule, WEIR_DL_VERSIONED));
}

/* Everything but who owns it; false with an exception set. */
static bool weir_py_describe(weir_tensor *t, weir_py_export *e, weir_dl_tensor *d)
{
    const weir_desc   desc = weir_tensor_desc(t);
    const char *const name = weir_dtype_name(desc.dtype);
    int               type = 0;

    while (type < WEIR_PY_DL_TYPES && strcmp(weir_py_dl_type[type].name, name) != 0)
        type++;
    if (type == WEIR_PY_DL_TYPES) {
        PyErr_Format(PyExc_BufferError, "DLPack has no type for %s", name);
        return false;
    }
    *d = (weir_dl_tensor){.device_type = WEIR_DL_CPU,
                          .ndim = desc.ndim,
                          .code = weir_py_dl_type[type].code,
                          .bits = weir_py_dl_type[type].bits,
                          .lanes = 1,
                          .shape = e->shape,
                          .strides = e->stride};
    memcpy(e->shape, desc.dim, sizeof e->shape);
    const weir_status s = weir_tensor_memory(t, &d->data, e->stride);
    if (s != WEIR_OK)
        weir_py_raise(s);
    return s == WEIR_OK;
}

/* ---- in ---- */

/* What a capsule holds. */
typedef struct weir_py_import {
    weir_dl_tensor    *tensor;
    weir_dl_old       *old;
    weir_dl_versioned *versioned;
} weir_py_import;

static bool weir_py_open(PyObject *capsule, weir_py_import *in)
{
    *in = (weir_py_import){0};
    if (PyCapsule_IsValid(capsule, WEIR_DL_VERSIONED)) {
        in->versioned = PyCapsule_GetPointer(capsule, WEIR_DL_VERSIONED);
        in->tensor = &in->versioned->tensor;
        if (in->versioned->major == 1)
            return true;
        PyErr_Format(PyExc_BufferError, "DLPack version %u.%u is not known",
                     (unsigned)in->versioned->major, (unsigned)in->versioned->minor);
    } else if (PyCapsule_IsValid(capsule, WEIR_DL_NAME)) {
        in->old = PyCapsule_GetPointer(capsule, WEIR_DL_NAME);
        in->tensor = &in->old->tensor;
        return true;
    } else {
        PyErr_Format(PyExc_TypeError, "%R is no DLPack capsule, or was used before", capsule);
    }
    return false;
}

static void weir_py_close(PyObject *capsule, const weir_py_import *in)
{
    if (in->versioned) {
        PyCapsule_SetName(capsule, WEIR_DL_VERSIONED_USED);
        if (in->versioned->deleter)
            in->versioned->deleter(in->versioned);
    } else {
        PyCapsule_SetName(capsule, WEIR_DL_NAME_USED);
        if (in->old->deleter)
            in->old->deleter(in->old);
    }
}

static bool weir_py_import_desc(const weir_dl_tensor *d, weir_desc *desc)
{
    int type = 0, number = 0;

    if (d->device_type != WEIR_DL_CPU && d->device_type != WEIR_DL_CUDA_HOST) {
        PyErr_Format(PyExc_BufferError, "the elements lie on a device of DLPack type %d: copy them "
                     "to the host first", (int)d->device_type);
        return false;
    }
    while (type < WEIR_PY_DL_TYPES && (weir_py_dl_type[type].code != d->code ||
                                       weir_py_dl_type[type].bits != d->bits || d->lanes != 1))
        type++;
    while (type < WEIR_PY_DL_TYPES && weir_dtype_size((weir_dtype)number) > 0 &&
           strcmp(weir_dtype_name((weir_dtype)number), weir_py_dl_type[type].name) != 0)
        number++;
    if (type == WEIR_PY_DL_TYPES || weir_dtype_size((weir_dtype)number) == 0) {
        PyErr_Format(PyExc_TypeError, "elements of DLPack code %d, %d bits, %d lanes are not "
                     "supported", (int)d->code, (int)d->bits, (int)d->lanes);
        return false;
    }
    if (d->ndim < 0 || d->ndim > WEIR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%d axes, at most %d", (int)d->ndim, WEIR_MAX_DIMS);
        return false;
    }
    *desc = (weir_desc){.dtype = (weir_dtype)number, .ndim = d->ndim};
    for (int i = 0; i < d->ndim; i++)
        desc->dim[i] = d->shape[i];
    return true;
}

/* The elements row-major: where they lie, or gathered into *gathered, which the caller frees. NULL
 * without memory for it. */
static const void *weir_py_rows(const weir_dl_tensor *d, size_t count, size_t size, char **gathered)
{
    const char *const from = (const char *)d->data + d->byte_offset;
    int64_t           dense = 1, at[WEIR_MAX_DIMS] = {0};
    bool              rows = true;

    *gathered = NULL;
    for (int i = d->ndim; d->strides && i-- > 0;) {
        rows &= d->shape[i] == 1 || d->strides[i] == dense;
        dense *= d->shape[i];
    }
    if (rows || count == 0)
        return from;
    if (!(*gathered = malloc(count * size)))
        return NULL;
    for (size_t n = 0; n < count; n++) {
        int64_t offset = 0;
        for (int i = 0; i < d->ndim; i++)
            offset += at[i] * d->strides[i];
        memcpy(*gathered + n * size, from + offset * (int64_t)size, size);
        for (int i = d->ndim; i-- > 0 && ++at[i] == d->shape[i];)
            at[i] = 0;
    }
    return *gathered;
}
%}

%newobject dlpack_import;
%inline %{
/* A capsule that names the memory of t, (versioned) with DLPack's flags. */
PyObject *dlpack_export(weir_tensor *t, bool versioned, bool read_only, bool copied)
{
    weir_py_export *const e = calloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    if (!weir_py_describe(t, e, versioned ? &e->as.versioned.tensor : &e->as.old.tensor)) {
        free(e);
        return NULL;
    }
    if (versioned) {
        e->as.versioned.major = 1;
        e->as.versioned.owner = e;
        e->as.versioned.deleter = weir_py_delete_versioned;
        e->as.versioned.flags = (read_only ? WEIR_DL_READ_ONLY : 0u) | (copied ? WEIR_DL_COPIED : 0u);
    } else {
        e->as.old.owner = e;
        e->as.old.deleter = weir_py_delete_old;
    }
    PyObject *const capsule = PyCapsule_New(&e->as, versioned ? WEIR_DL_VERSIONED : WEIR_DL_NAME,
                                            versioned ? weir_py_drop_versioned : weir_py_drop_old);
    if (capsule)
        e->tensor = weir_retain(t);
    else
        free(e);
    return capsule;
}

/* A state with the elements of a capsule, which is used up. */
weir_tensor *dlpack_import(weir_device *d, PyObject *capsule)
{
    weir_py_import in;
    weir_desc      desc;
    char          *gathered = NULL;

    if (!weir_py_open(capsule, &in) || !weir_py_import_desc(in.tensor, &desc))
        return NULL;
    weir_tensor *t = weir_state(d, desc, NULL);
    if (!t)
        return NULL;
    const size_t      bytes = weir_tensor_bytes(t), size = weir_dtype_size(desc.dtype);
    const void *const rows = weir_py_rows(in.tensor, bytes / size, size, &gathered);
    const weir_status s = bytes == 0 ? weir_write_fill(t, 0)
                          : rows     ? weir_write(t, rows, bytes)
                                     : weir_fail(WEIR_ERR_NOMEM, "dlpack_import: out of memory");
    free(gathered);
    if (s == WEIR_OK)
        weir_py_close(capsule, &in);
    else
        weir_release(t);
    return s == WEIR_OK ? t : NULL;
}
%}
