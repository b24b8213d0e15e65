/* weir.i - the public headers as the Python module weir._capi: typemaps, and what they leave out.
 *
 * A weir_tensor in Python is always a reference of its own; results are taken out of their scope at
 * once, so an unused one dies when Python drops it. None is NULL where a header allows NULL.
 * Failures raise the exceptions of weir/errors.py with the core's sentence. The helpers of glue.h
 * stand in for functions whose arguments are arrays or function pointers. */
%module(package="weir") _capi

%{
#include "glue.h"
#include "glue_operators.h"
%}
%init %{
    weir_py_add_eager(m);       /* on failure Python reports the exception that is set */
%}

%include <stdint.i>
#define WEIR_API
#define __attribute__(x)
%pythonnondynamic;
%feature("python:annotations", "c");     /* read by make_stubs.py */

/* ---- every call: waits while another thread's graph runs; a pending error comes first ---- */

/* Destructors never wait: who runs them may hold what the run is waiting for. */
%exception {
    if (strncmp("$symname", "delete_", 7) != 0)
        weir_py_enter();
    $action
    if (PyErr_Occurred())
        SWIG_fail;
}

/* Calls that take long let other Python threads go on. */
%define LONG_CALL(name)
%exception name {
    weir_py_enter();
    weir_py_run_begin();
    $action
    weir_py_run_end();
    if (PyErr_Occurred())
        SWIG_fail;
}
%enddef
LONG_CALL(weir_graph_end)
LONG_CALL(weir_graph_end_needs)
LONG_CALL(weir_graph_load)
LONG_CALL(weir_graph_run)
LONG_CALL(weir_graph_run_to_stop)
LONG_CALL(weir_graph_run_rest)
LONG_CALL(weir_graph_measure)
LONG_CALL(weir_graph_find_nonfinite)
LONG_CALL(weir_device_exec)
LONG_CALL(weir_device_sync)
LONG_CALL(comm_open)
LONG_CALL(weir_comm_share)
LONG_CALL(weir_comm_leave)
LONG_CALL(weir_comm_close)
LONG_CALL(weir_all_reduce)
LONG_CALL(weir_reduce_scatter)
LONG_CALL(weir_all_gather)
LONG_CALL(weir_broadcast_from)
LONG_CALL(weir_send_to)
LONG_CALL(weir_recv_from)

/* ---- results ---- */

%typemap(out) weir_status {
    if ($1 != WEIR_OK) {
        weir_py_raise($1);
        SWIG_fail;
    }
    $result = SWIG_Py_Void();
}

/* Functions named in OWNED give a reference; all others lend one. */
%typemap(out) weir_tensor * {
    if (!$1) {
        weir_py_raise(weir_error_status());
        SWIG_fail;
    }
    if (!$owner)
        weir_py_adopt($1);
    $result = SWIG_NewPointerObj($1, $descriptor(weir_tensor *), SWIG_POINTER_OWN);
}

%typemap(out) weir_graph *, weir_device *, weir_onnx *, weir_comm * {
    if (!$1) {
        weir_py_raise(weir_error_status());
        SWIG_fail;
    }
    $result = SWIG_NewPointerObj($1, $1_descriptor, $owner);
}

%typemap(newfree) char * "weir_text_free($1);"
%newobject weir_info_text;
%newobject weir_graph_text;
%newobject weir_graph_stepfile;
%newobject weir_graph_recorded;
%newobject weir_device_profile_text;
%newobject weir_device_trace_stop;
%newobject weir_comm_text;

%newobject weir_input;
%newobject weir_param;
%newobject weir_state;
%newobject weir_hollow;
%newobject weir_graph_begin;
%newobject weir_graph_load;
%typemap(newfree) weir_graph * ""
%typemap(newfree) weir_onnx * ""

/* ---- arguments ---- */

/* (dtype, shape) <-> weir_desc */
%typemap(in) weir_desc {
    if (!weir_py_desc($input, &$1))
        SWIG_fail;
}
%typemap(out) weir_desc {
    $result = weir_py_from_desc(&$1);
    if (!$result)
        SWIG_fail;
}

/* A sequence of at most WEIR_MAX_DIMS integers; the rest is 0. */
%typemap(in) (int ndim, const int64_t *dim) (int64_t buffer[WEIR_MAX_DIMS]) {
    if (!weir_py_dims($input, &$1, buffer))
        SWIG_fail;
    $2 = buffer;
}
%typemap(in) const int64_t * (int64_t buffer[WEIR_MAX_DIMS], int n) {
    if ($input == Py_None)
        $1 = NULL;
    else if (weir_py_dims($input, &n, buffer))
        $1 = buffer;
    else
        SWIG_fail;
}
%typemap(in) const int *axes (int buffer[WEIR_MAX_DIMS]) {
    if ($input == Py_None)
        $1 = NULL;
    else if (weir_py_axes($input, buffer))
        $1 = buffer;
    else
        SWIG_fail;
}
%typemap(in) int64_t [2] (int64_t buffer[WEIR_MAX_DIMS], int n) {
    if (!weir_py_dims($input, &n, buffer))
        SWIG_fail;
    if (n != 2) {
        PyErr_SetString(PyExc_ValueError, "expected two integers: (height, width)");
        SWIG_fail;
    }
    $1 = buffer;
}

/* A size is the result. */
%typemap(in, numinputs=0) size_t *arena_peak (size_t peak) "$1 = &peak;"
%typemap(argout) size_t *arena_peak {
    Py_XDECREF($result);
    $result = PyLong_FromSize_t(*$1);
}
%apply size_t *arena_peak { size_t *bytes };

/* A sequence of tensors. */
%typemap(in) (int n, weir_tensor *const *x) (weir_tensor **list = NULL) {
    Py_ssize_t count;
    if (!weir_py_tensors($input, $descriptor(weir_tensor *), &count, &list))
        SWIG_fail;
    $1 = (int)count;
    $2 = list;
}
%typemap(freearg) (int n, weir_tensor *const *x) "weir_py_free(list$argnum);"
%typemap(in) (Py_ssize_t n, weir_tensor **list) (weir_tensor **list = NULL) {
    if (!weir_py_tensors($input, $descriptor(weir_tensor *), &$1, &list))
        SWIG_fail;
    $2 = list;
}
%typemap(freearg) (Py_ssize_t n, weir_tensor **list) "weir_py_free(list$argnum);"

/* ---- what the headers have and Python does not need, or has through glue.h ---- */

%warnfilter(451) weir_plan_options;    /* texts: SWIG copies them */
%ignore weir_alloc_fn;
%ignore weir_free_fn;
%ignore weir_set_allocator;
%ignore weir_host_alloc;
%ignore weir_host_free;
%ignore weir_splitmix64;
%ignore weir_text_free;
%ignore weir_fail;
%ignore weir_fail_null;
%ignore weir_poison;
%ignore weir_scalar;
%ignore weir_1d;
%ignore weir_2d;
%ignore weir_3d;
%ignore weir_4d;
%ignore weir_desc;
%ignore weir_write;
%ignore weir_read;
%ignore weir_retain;
%ignore weir_release;
%ignore weir_escape;
%ignore weir_split;
%ignore weir_all_reduce_coalesced;
%ignore weir_topk;
%ignore weir_lstm;
%ignore weir_gru;
%ignore weir_attention_options;
%ignore weir_attention_with;
%ignore weir_attention_packed;
%ignore weir_rnn_weights;
%ignore weir_rnn_options;
%ignore weir_pair;
%ignore weir_backward;
%ignore weir_backward_from;
%ignore weir_progress;
%ignore weir_progress_fn;
%ignore weir_device_set_progress;
%ignore weir_sgd_options::step;      /* its tensor would have to outlive the options */
%ignore weir_gradients;
%ignore weir_gradients_from;
%ignore weir_vjp;
%ignore weir_vjp_from;
%ignore weir_checkpoint_fn;
%ignore weir_checkpoint;
%ignore weir_checkpoint_sequential;
%ignore weir_tensor_memory;
%ignore weir_clip_value;
%ignore weir_clip_norm;
%ignore weir_unscale;
%ignore weir_graph_free;
%ignore weir_graph_parse;      /* a text and its length: files alone */
%ignore weir_binding;
%ignore weir_graph_bindings;
%ignore weir_graph_save;       /* its options are file.h's */
%ignore weir_step_fn;
%ignore weir_step_options;
%ignore weir_step_new;
%ignore weir_step_run;
%ignore weir_step_graph;
%ignore weir_step_free;
%ignore weir_step_event;
%ignore weir_step_callback;
%ignore weir_step_loop_options;
%ignore weir_step_loop;
%ignore weir_batch_norm_options_default;
%ignore weir_adam_options_default;
%ignore weir_adagrad_options_default;
%ignore weir_rmsprop_options_default;

%ignore weir_comm_options;
%ignore weir_comm_open;
%ignore weir_comm_measure;
%ignore weir_comm_equal;
%ignore weir_comm_gather;

%nodefaultctor weir_tensor;
%nodefaultctor weir_graph;
%nodefaultctor weir_onnx;
%nodefaultctor weir_comm;
%nodefaultdtor weir_comm;
typedef struct weir_tensor {} weir_tensor;
typedef struct weir_graph {} weir_graph;
typedef struct weir_onnx {} weir_onnx;
typedef struct weir_comm {} weir_comm;
%extend weir_tensor {
    ~weir_tensor() { weir_py_release($self); }
}
%extend weir_graph {
    ~weir_graph() { weir_py_graph_free($self); }
}

%extend weir_onnx {
    ~weir_onnx() { weir_py_onnx_free($self); }
}

%include "weir/base.h"
%include "weir/device.h"
%include "weir/tensor.h"
%include "weir/op.h"
%include "weir/graph.h"
%include "weir/saved.h"
%include "weir/comm.h"
%include "glue_api.h"
%include "glue_dlpack.h"
%include "glue_fit.h"
%include "glue_onnx.h"
%include "glue_comm.h"
