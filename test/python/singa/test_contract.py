"""test_contract - SINGA's Python API line by line: each name is there, each claim holds.

The rows follow the sections of SINGA's modules. NAMES has what must exist, CLAIMS what a call must
give, LEFT what is not tested here, with the reason; a claim of LEFT that is refused is tried.
"""
import collections
import math

import numpy as np
import pytest

import weir.singa  # noqa: F401
from weir import (autograd, core, data, device, image_tool, initializer, layer, model, module, opt,
                  optimizer, singa_wrap, snapshot, tensor, utils)
from weir.errors import InvalidError
from weir.tensor import Tensor

MODULES = {"autograd": autograd, "data": data, "device": device, "image_tool": image_tool,
           "initializer": initializer, "layer": layer, "model": model, "module": module, "opt": opt,
           "optimizer": optimizer, "singa_wrap": singa_wrap, "snapshot": snapshot,
           "tensor": tensor, "utils": utils}

# (line, where, names): where is a module, or a class or an object of one.
NAMES = [
    ("0 flags", "singa_wrap", "USE_CUDA USE_DIST USE_OPENCL USE_DNNL USE_CUDNN USE_PYTHON USE_JAVA "
     "SINGA_VERSION"),
    ("0 element types", "singa_wrap", "kFloat32 kFloat16 kInt kChar kDouble"),
    ("0 element types of tensor", "tensor", "float32 float16 int32"),
    ("1.1 queries", "singa_wrap.Tensor", "device data_type shape nDim Size MemSize transpose "
     "initialized"),
    ("1.1 from the host", "singa_wrap.Tensor", "SetFloatValue CopyFloatDataFromHostPtr "
     "CopyIntDataFromHostPtr CopyHalfFloatDataFromHostPtr"),
    ("1.1 to the host", "singa_wrap.Tensor", "GetFloatValue GetIntValue GetHalfFloatValue"),
    ("1.1 conversions", "singa_wrap.Tensor", "AsType ToType ToDevice ToHost ResetLike"),
    ("1.1 copies", "singa_wrap.Tensor", "CopyData Clone Repeat RepeatData L1 L2"),
    ("1.2 unary", "singa_wrap", "Abs Ceil Floor Round RoundE Exp Erf Log ReLU Sigmoid Sign Sqrt "
     "Square Cos Cosh Acos Acosh Sin Sinh Asin Asinh Tan Tanh Atan Atanh ReLUBackward SoftMax "
     "SoftMaxBackward"),
    ("1.2 binary", "singa_wrap", "__add__ __sub__ __mul__ __div__ Pow __lt__ __le__ __gt__ __ge__ "
     "__eq__ AddFloat SubFloat MultFloat DivFloat PowFloat LTFloat LEFloat GTFloat GEFloat "
     "EQFloat Add Sub EltwiseMult Div AddFloatWithRet SubFloatWithRet EltwiseMultFloatWithRet "
     "DivFloatWithRet PowWithRet PowFloatWithRet"),
    ("1.2 reductions", "singa_wrap", "Sum SumAsFloat SumAll Average SumRows SumColumns"),
    ("1.2 shapes", "singa_wrap", "Reshape Contiguous Transpose DefaultTranspose ConcatOn SliceOn "
     "CopyDataToFrom RepeatDataToFrom"),
    ("1.2 linear algebra", "singa_wrap", "Mult MultWithRet MultWithScale Axpy"),
    ("1.2 rows and columns", "singa_wrap", "AddRow AddColumn SubRow SubColumn MultRow MultColumn "
     "DivRow DivColumn AddRowWithScale AddColumnWithScale"),
    ("1.2 random", "singa_wrap", "Bernoulli Gaussian Uniform"),
    ("1.2 losses", "singa_wrap", "CrossEntropyFwd SoftmaxCrossEntropyBwd"),
    ("1.2 misc", "singa_wrap", "SizeOf Product InitLogging VecTensor VecInt VecVecSize Shape"),
    ("1.3 device", "device.default_device", "id host Sync Reset SetRandSeed EnableGraph "
     "graph_enabled RunGraph ResetGraph SetVerbosity SetSkipIteration PrintTimeProfiling "
     "EnableLazyAlloc"),
    ("1.3 platform", "singa_wrap.Platform", "GetDefaultDevice GetNumGPUs GetGPUIDs GetGPUMemSize "
     "DeviceQuery CreateCudaGPUs CreateCudaGPUsOn"),
    ("1.4 NCCL", "singa_wrap", "NcclIdHolder Communicator"),
    ("1.4 handles", "singa_wrap", "ConvHandle CpuConvForward CpuConvBackwardx CpuConvBackwardW "
     "CpuConvBackwardb PoolingHandle CpuPoolingForward CpuPoolingBackward BatchNormHandle "
     "CpuBatchNormForwardTraining CpuBatchNormForwardInference CpuBatchNormBackwardx"),
    ("1.4 GpuRNN*", "singa_wrap", "CudnnRNNHandle GpuRNNForwardTraining GpuRNNForwardInference "
     "GpuRNNBackwardx GpuRNNBackwardW GpuRNNSetParam GpuRNNGetParamCopy"),
    ("2 device", "device", "get_default_device create_cpu_device default_device create_cuda_gpu "
     "create_cuda_gpu_on create_cuda_gpus create_cuda_gpus_on get_num_gpus get_gpu_ids "
     "get_gpu_mem_size device_query create_opencl_device get_num_opencl_platforms "
     "get_num_opencl_devices enable_lazy_alloc set_default_device Device"),
    ("3.1 tensor", "tensor.Tensor", "tensor_count ndim size memsize is_empty is_transpose is_dummy "
     "__getitem__ transpose T reshape contiguous reset_like as_type to_type to_device to_host "
     "clone deepcopy copy copy_from_numpy copy_data copy_from set_value gaussian uniform "
     "bernoulli repeat l1 l2 add_column add_row div_column div_row mult_column mult_row "
     "__iadd__ __isub__ __imul__ __itruediv__ __add__ __sub__ __mul__ __truediv__ __floordiv__ "
     "__lt__ __le__ __gt__ __ge__ __eq__ __radd__ __rsub__ __rmul__ __rtruediv__ __repr__"),
    ("3.1 of a tensor", "a tensor", "shape device dtype data requires_grad stores_grad name "
     "creator"),
    ("3.2 functions", "tensor", "PlaceHolder CTensor from_numpy to_numpy to_host from_raw_tensor "
     "from_raw_tensors _call_singa_func copy_data_to_from copy_from_numpy concatenate zeros ones "
     "random zeros_like ones_like product sizeof reshape contiguous transpose repeat abs exp "
     "ceil log sigmoid sign sqrt square tanh sum pow average softmax lt le gt ge eq add sub "
     "eltwise_mult div mult axpy tensordot einsum bernoulli gaussian uniform add_column add_row "
     "sum_columns sum_rows"),
    ("4.1 engine", "autograd", "training Operator Operation Dummy infer_dependency backward "
     "gradients axis_helper back_broadcast ctensor2numpy make_slice add_all CTensor"),
    ("4.1 operator", "autograd.Operator", "__call__ _do_forward _do_backward output_name grad_name "
     "get_params forward backward op_count"),
    ("4.2 functions, elements", "autograd", "relu sigmoid tanh exp log sqrt abs negative "
     "reciprocal identity erf sin cos tan asin acos atan sinh cosh asinh acosh atanh sign ceil "
     "floor round rounde elu selu leakyrelu hardsigmoid softplus softsign prelu clip"),
    ("4.2 classes, elements", "autograd", "ReLU Sigmoid Tanh Exp Log Sqrt Abs Negative Reciprocal "
     "Identity Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Sign Ceil Floor Round "
     "Rounde Elu SeLU LeakyRelu HardSigmoid SoftPlus SoftSign PRelu Clip"),
    ("4.2 functions, several", "autograd",
     "add sub mul div pow sum mean max min less greater equal "
     "_and _or _xor _not matmul add_bias gemm softmax softmax_cross_entropy cross_entropy "
     "binary_cross_entropy mse_loss ranking_loss"),
    ("4.2 classes, several", "autograd", "Add Sub Mul Div Pow Sum Mean Max Min Less Greater Equal "
     "And Or Xor Not Matmul AddBias Gemm SoftMax SoftMaxCrossEntropy CrossEntropy "
     "BinaryCrossEntropy MeanSquareError RankingLoss"),
    ("4.2 functions, shapes", "autograd", "flatten reshape transpose squeeze unsqueeze expand cat "
     "split slice gather tile pad upsample depth_to_space space_to_depth scatter_elements "
     "reduce_sum reduce_mean globalaveragepool where embedding dropout cossim shape nonzero cast "
     "onehot constant_of_shape conv2d batchnorm_2d pooling_2d"),
    ("4.2 classes, shapes", "autograd", "Flatten Reshape Transpose Squeeze Unsqueeze Expand Concat "
     "Split Slice Gather Tile Pad UpSample DepthToSpace SpaceToDepth ScatterElements ReduceSum "
     "ReduceMean GlobalAveragePool Where Embedding Dropout CosSim Shape NonZero Cast OneHot "
     "ConstantOfShape _Conv2d _BatchNorm2d _Pooling2d _RNN"),
    ("4.3 aliases", "autograd", "Linear Conv2d SeparableConv2d BatchNorm2d Pooling2d MaxPool2d "
     "AvgPool2d MaxPool1d AvgPool1d RNN_Base RNN LSTM Layer"),
    ("5.1 layer", "layer.Layer", "initialize forward register_layers get_params set_params "
     "get_states set_states device_check dtype_check sep"),
    ("5.2 classes", "layer", "Linear Gemm Embedding Conv2d SeparableConv2d BatchNorm2d Pooling2d "
     "MaxPool2d AvgPool2d MaxPool1d AvgPool1d RNN LSTM CudnnRNN ReLU Sigmoid Add Flatten SoftMax "
     "SoftMaxCrossEntropy MeanSquareError CrossEntropy BinaryCrossEntropy Dropout Cat Reshape "
     "LayerMeta"),
    ("5.2 embedding", "layer.Embedding", "from_pretrained"),
    ("6.1 model", "model.Model", "compile forward train_one_batch train eval graph save_states "
     "load_states"),
    ("6.1 meta", "model", "ModelMeta"),
    ("7 opt", "opt", "DecayScheduler Constant ExponentialDecay Optimizer SGD RMSProp AdaGrad Adam "
     "DistOpt"),
    ("7 optimizer", "opt.SGD", "__call__ apply update backward_and_update step device_check "
     "get_states set_states"),
    ("7 DistOpt", "opt.DistOpt", "all_reduce fused_all_reduce all_reduce_half "
     "fused_all_reduce_half sparsification fused_sparsification wait update backward_and_update "
     "backward_and_update_half backward_and_partial_update backward_and_sparse_update"),
    ("8 initializer", "initializer", "he_uniform he_normal glorot_uniform glorot_normal "
     "lecun_uniform lecun_normal eye orthogonal gaussian xavier glorot msra"),
    ("9 utils", "utils", "update_progress get_padding_shape get_output_shape handle_odd_pad_fwd "
     "handle_odd_pad_bwd same_pad_shape_check re_new_handle force_unicode "
     "post_order_recursive"),
    ("9 snapshot", "snapshot.Snapshot", "write read"),
    ("9 data", "data.ImageBatchIter", "start __next__ end"),
    ("9 image_tool", "image_tool", "load_img crop crop_and_resize resize scale resize_by_hw "
     "color_cast enhance flip flip_down ImageTool"),
    ("11 device of 2020", "device.default_device", "SetBufferFlag GetBufferFlag ExecBuffOps "
     "set_rand_seed set_buffer_flag get_host get_id"),
    ("11 optimizer", "optimizer", "SGD Nesterov RMSProp AdaGrad Adam L2Regularizer L2Constraint"),
    ("11 optimizer, calls", "optimizer.SGD", "apply apply_with_lr"),
    ("11 module", "module.Module", "forward loss optim graph on_device train eval"),
]


def f32(*values):
    return tensor.from_numpy(np.array(values, np.float32))


def raw(*values):
    return f32(*values).data


def ints(*values):
    return tensor.from_numpy(np.array(values, np.int32))


def put(function, x, *args):
    """x after a function that writes to it."""
    function(*args)
    return x


def raises(kind, f):
    try:
        f()
    except kind:
        return True
    return False


def of(t):
    """Elements, as nested lists, of what a claim gives."""
    if isinstance(t, Tensor):
        return tensor.to_numpy(t).tolist()
    if isinstance(t, singa_wrap.Tensor):
        return tensor.to_numpy(tensor.from_raw_tensor(t)).tolist()
    return of_each(t) if isinstance(t, (tuple, list)) else t


def of_each(ts):
    return type(ts)(of(t) for t in ts)


def gradient(f, x):
    """The gradient of the sum of f(x)."""
    x.stores_grad = True
    y = f(x)
    while y.size() > 1 or y.shape != (1,):
        y = autograd.reduce_sum(y, keepdims=0)
    return autograd.gradients(y)[id(x)]


def pad_of(x, odd):
    return utils.handle_odd_pad_fwd(x, odd).shape()


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.conv1 = layer.Linear(3)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.conv1(x)

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def net():
    m = Net()
    m.optimizer = opt.SGD(0.1)
    m.compile([tensor.ones((2, 4))], is_train=True, use_graph=True)
    return m


DEV = device.get_default_device()
T = Tensor
M = [[1.0, 2.0], [3.0, 4.0]]

# (line, what must hold, its value): pairs of a function and what it gives.
CLAIMS = [
    ("0 version is a number", lambda: isinstance(singa_wrap.SINGA_VERSION, int), True),
    ("0 dtype ids", lambda: [int(getattr(singa_wrap, "k" + k)) for k in
                             ("Float32", "Float16", "Int", "Char", "Double")], [0, 1, 2, 3, 4]),
    ("0 dtype ids of tensor", lambda: (tensor.float32, tensor.float16, tensor.int32), (0, 1, 2)),
    ("0 flags are 0 or 1", lambda: {getattr(singa_wrap, f"USE_{x}") in (0, 1) for x in
                                    ("CUDA", "DIST", "OPENCL", "DNNL", "CUDNN")}, {True}),
    ("0 the CPU's id", lambda: DEV.id(), -1),
    ("0 devices are singletons", lambda: device.create_cpu_device() is DEV, True),
    ("0 raw shapes are tuples", lambda: singa_wrap.Tensor([2, 3]).shape(), (2, 3)),
    ("0 Size is a number", lambda: singa_wrap.Tensor((2, 3)).Size(), 6),
    ("0 a reduction of all has shape (1,)", lambda: tensor.sum(f32(1, 2)).shape, (1,)),
    ("0 shape () is empty", lambda: T().is_empty(), True),
    ("0 views share", lambda: (x := f32(*M), y := x.T(), x.set_value(5), of(y))[-1],
     [[5, 5], [5, 5]]),
    ("0 to_numpy honours strides", lambda: of(f32(*M).T()), [[1, 3], [2, 4]]),
    ("0 reshape of transposed copies", lambda: of(f32(*M).T().reshape((4,))), [1, 3, 2, 4]),
    ("0 broadcasting", lambda: (T((2, 1)).set_value(1) + T((3,)).set_value(2)).shape, (2, 3)),
    ("0 int with int", lambda: (ints(1) + ints(2)).dtype, 2),
    ("0 int with a float", lambda: (ints(1) + 1.5).dtype, 0),
    ("0 int with float32", lambda: (ints(1) + f32(1)).dtype, 0),
    ("0 comparisons are float32", lambda: (f32(1, 3) > 2).dtype, 0),
    ("0 int64 and float64 narrow", lambda: (tensor.from_numpy(np.arange(2)).dtype,
                                            tensor.from_numpy(np.zeros(2)).dtype), (2, 0)),
    ("0 uint8 is refused", lambda: raises(AssertionError, lambda: tensor.from_numpy(
        np.zeros(2, np.uint8))), True),
    ("0 == None is False", lambda: (f32(1) == None) is False, True),     # noqa: E711
    ("0 unhashable", lambda: raises(TypeError, lambda: hash(f32(1))), True),
    ("0 is not None decides", lambda: f32(1, 2) is not None, True),
    ("1.1 shallow copy shares", lambda: of(put(
        (x := raw(1, 2)).SetFloatValue, singa_wrap.Tensor(x), 3)), [3, 3]),
    ("1.1 shape(i), nDim, MemSize", lambda: ((x := singa_wrap.Tensor((2, 3))).shape(1), x.nDim(),
                                             x.MemSize()), (3, 2, 24)),
    ("1.1 initialized after the first write", lambda: (
        (x := singa_wrap.Tensor((2,))).initialized(), put(x.SetFloatValue, x, 1).initialized()),
     (False, True)),
    ("1.1 transpose tells strided", lambda: singa_wrap.DefaultTranspose(raw(*M)).transpose(), True),
    ("1.1 from a list", lambda: of(put((x := singa_wrap.Tensor((2,))).CopyFloatDataFromHostPtr, x,
                                       [1, 2])), [1, 2]),
    ("1.1 GetFloatValue(n)", lambda: raw(1, 2, 3).GetFloatValue(2).tolist(), [1, 2]),
    ("1.1 AsType makes, ToType changes", lambda: (
        (x := raw(1.5)).AsType(2).data_type(), x.data_type(), put(x.ToType, x, 2).data_type()),
     (2, 0, 2)),
    ("1.1 Repeat flattens at 9999", lambda: of(raw(*M).Repeat([2], 9999)),
     [1, 1, 2, 2, 3, 3, 4, 4]),
    ("1.1 L1 and L2 divide by n", lambda: (raw(3, -4).L1(), raw(3, -4).L2()), (3.5, 2.5)),
    ("1.2 Round, RoundE", lambda: (of(singa_wrap.Round(raw(0.5, 1.5, 2.5))),
                                   of(singa_wrap.RoundE(raw(0.5, 1.5, 2.5)))),
     ([1, 2, 3], [0, 2, 2])),
    ("1.2 ReLUBackward", lambda: of(singa_wrap.ReLUBackward(raw(5, 5), raw(-1, 1))), [0, 5]),
    ("1.2 SoftMax is stable", lambda: of(singa_wrap.SoftMax(raw([1000, 1000], [0, 1000]))),
     [[0.5, 0.5], [0, 1]]),
    ("1.2 Sum by axis", lambda: (of(singa_wrap.Sum(raw(*M), 0)), of(singa_wrap.Sum(raw(*M), 1))),
     ([4, 6], [3, 7])),
    ("1.2 SumAsFloat, SumAll", lambda: (singa_wrap.SumAsFloat(raw(*M)),
                                        singa_wrap.SumAll(raw(*M)).shape()), (10.0, (1,))),
    ("1.2 Average", lambda: of(singa_wrap.Average(raw(*M), 0)), [2, 3]),
    ("1.2 ConcatOn, SliceOn", lambda: of(singa_wrap.SliceOn(singa_wrap.ConcatOn(
        singa_wrap.VecTensor([raw(*M), raw(*M)]), 0), 1, 3, 0)), [[3, 4], [1, 2]]),
    ("1.2 CopyDataToFrom with offsets", lambda: of(put(
        singa_wrap.CopyDataToFrom, x := raw(0, 0, 0), x, raw(1, 2, 3), 2, 1, 0)), [0, 1, 2]),
    ("1.2 Mult: gemv and gemm", lambda: (of(singa_wrap.Mult(raw(*M), raw(1, 1))),
                                         of(singa_wrap.Mult(raw(*M), raw(*M)))),
     ([3, 7], [[7, 10], [15, 22]])),
    ("1.2 Mult: leading axes are broadcast", lambda: singa_wrap.Mult(
        T((1, 7, 6)).set_value(1).data, T((6, 5)).set_value(1).data).shape(), (1, 7, 5)),
    ("1.2 Mult honours strides", lambda: of(singa_wrap.Mult(singa_wrap.DefaultTranspose(raw(*M)),
                                                            raw(1, 1))), [4, 6]),
    ("1.2 Axpy takes numbers and tensors", lambda: of(put(
        singa_wrap.Axpy, y := raw(1, 1), raw(2), put(singa_wrap.Axpy, raw(1, 2), 3.0, raw(1, 2), y),
        y)), [6, 11]),
    ("1.2 AddRow in place", lambda: of(put(singa_wrap.AddRow, x := raw(*M), raw(1, 2), x)),
     [[2, 4], [4, 6]]),
    ("1.2 MultColumn in place", lambda: of(put(singa_wrap.MultColumn, x := raw(*M), raw(1, 2), x)),
     [[1, 2], [6, 8]]),
    ("1.2 CrossEntropyFwd: labels and one-hot", lambda: np.allclose(
        of((singa_wrap.CrossEntropyFwd(p := raw([0.5, 0.5], [0.25, 0.75]), ints(0, 1).data),
            singa_wrap.CrossEntropyFwd(p, raw([1, 0], [0, 1])))),
        [[math.log(2), math.log(4 / 3)]] * 2), True),
    ("1.2 SoftmaxCrossEntropyBwd", lambda: of(singa_wrap.SoftmaxCrossEntropyBwd(
        raw([0.5, 0.5], [0.25, 0.75]), ints(0, 1).data)), [[-0.5, 0.5], [0.25, -0.25]]),
    ("1.2 SizeOf, Product", lambda: (singa_wrap.SizeOf(0), singa_wrap.SizeOf(1),
                                     singa_wrap.Product([2, 3])), (4, 2, 6)),
    ("1.3 the default device", lambda: singa_wrap.Platform.GetDefaultDevice() is DEV, True),
    ("1.4 ConvHandle's attributes", lambda: [getattr(singa_wrap.ConvHandle(
        T((1, 2, 5, 5)).data, (3, 3), (1, 1), (1, 1), 2, 4, True, 1), k) for k in (
            "batchsize", "pad_h", "stride_w", "kernel_h", "channels", "num_filters", "group",
            "bias_term")], [1, 1, 1, 3, 2, 4, 1, True]),
    ("1.4 pooling rounds down", lambda: [getattr(singa_wrap.PoolingHandle(
        T((1, 2, 6, 5)).data, (3, 3), (2, 2), (0, 0)), k) for k in (
            "pooled_height", "pooled_width", "is_max_pooling")], [2, 2, True]),
    ("2 no CUDA is an AssertionError", lambda: device.get_num_gpus() > 0 or raises(
        AssertionError, device.create_cuda_gpu), True),
    ("2 no OpenCL is an AssertionError", lambda: raises(AssertionError,
                                                        device.create_opencl_device), True),
    ("3.1 dtype is the argument's", lambda: (T(data=np.array([1, 2])).dtype, T(
        data=np.array([1, 2]), dtype=tensor.int32).dtype), (0, 2)),
    ("3.1 generated names", lambda: (T().name.startswith("Dummy#"), T().is_dummy(),
                                     T(name="w").is_dummy()), (True, True, False)),
    ("3.1 the creator is a Dummy", lambda: type(f32(1).creator) is autograd.Dummy, True),
    ("3.1 PlaceHolder", lambda: tensor.PlaceHolder is T, True),
    ("3.1 an integer keeps its axis", lambda: (f32(*M)[0].shape, f32(*M)[-1, 0].shape),
     ((1, 2), (1, 1))),
    ("3.1 slices copy", lambda: (x := f32(*M), x[0:1].set_value(9), of(x))[-1], M),
    ("3.1 out of range", lambda: raises(ValueError, lambda: f32(*M)[2]), True),
    ("3.1 reshape that does not fit", lambda: raises(AssertionError, lambda: f32(*M).reshape((3,))),
     True),
    ("3.1 as_type makes", lambda: ((x := f32(1.5)).as_type("int").dtype, x.dtype), (2, 0)),
    ("3.1 to_type returns self", lambda: (x := f32(1.5)).to_type("int") is x, True),
    ("3.1 a bad type", lambda: raises(TypeError, lambda: f32(1).as_type("nothing")), True),
    ("3.1 copy shares, clone does not", lambda: (
        x := f32(1), y := x.copy(), z := x.clone(), x.set_value(5), of(y), of(z))[4:], ([5], [1])),
    ("3.1 copy_from_numpy: counts", lambda: raises(AssertionError, lambda: f32(1).copy_from_numpy(
        np.zeros(2, np.float32))), True),
    ("3.1 copy_from_numpy: flattened", lambda: of(put((x := f32(0, 0)).copy_from_numpy, x,
                                                      np.array([[1], [2]], np.float32))), [1, 2]),
    ("3.1 fills return self", lambda: [(x := f32(1, 2)).set_value(3) is x, x.gaussian(0, 1) is x,
                                       x.uniform(0, 1) is x, x.bernoulli(0.5) is x], [True] * 4),
    ("3.1 inplace=False", lambda: raises(NotImplementedError, lambda: f32(1).set_value(
        1, inplace=False)), True),
    ("3.1 repeat", lambda: (of(f32(*M).repeat(2, 0)), of(f32(*M).repeat([1, 2], 1)),
                            of(f32(1, 2).repeat(2, None))),
     ([[1, 2], [1, 2], [3, 4], [3, 4]], [[1, 2, 2], [3, 4, 4]], [1, 1, 2, 2])),
    ("3.1 repeat: a list needs an axis", lambda: raises(ValueError, lambda: f32(1, 2).repeat(
        [1, 2])), True),
    ("3.1 in place returns self", lambda: (x := f32(1), y := x, x.__iadd__(1) is y, of(x))[2:],
     (True, [2])),
    ("3.1 reflected", lambda: of([1 + f32(1), 5 - f32(1), 2 * f32(3), 6 / f32(3)]),
     [[2], [4], [6], [2]]),
    ("3.1 comparisons", lambda: of([f32(1, 2) < 2, f32(1, 2) >= 2]), [[1, 0], [0, 1]]),
    ("3.1 print", lambda: str(f32(1.5, 2)), "[1.5, 2. ], float32"),
    ("3.2 raw results", lambda: of(tensor._call_singa_func(singa_wrap.Abs, raw(-1))), [1]),
    ("3.2 concatenate", lambda: of(tensor.concatenate([f32(1), f32(2)], 0)), [1, 2]),
    ("3.2 product, sizeof", lambda: (tensor.product((2, 3)), tensor.sizeof(tensor.int32)), (6, 4)),
    ("3.2 sum", lambda: (of(tensor.sum(f32(*M), axis=0)), of(tensor.sum(f32(*M), axis=(0, 1))),
                         of(tensor.sum(f32(*M)))), ([4, 6], [10], [10])),
    ("3.2 average of a vector is a float", lambda: tensor.average(f32(1, 2)), 1.5),
    ("3.2 softmax per row", lambda: of(tensor.softmax(f32([0, 0], [1, 1]))), [[0.5] * 2] * 2),
    ("3.2 ret", lambda: (y := f32(0, 0), tensor.add(f32(1, 2), 1, y) is y, of(y))[1:],
     (True, [2, 3])),
    ("3.2 mult with C", lambda: of(tensor.mult(f32(*M), f32(*M), f32(*M), 2.0, 1.0)),
     [[15, 22], [33, 48]]),
    ("3.2 axpy", lambda: of(tensor.axpy(2.0, f32(1, 2), f32(1, 1))), [3, 5]),
    ("3.2 tensordot", lambda: of(tensor.tensordot(f32(*M), f32(*M), 1)), [[7, 10], [15, 22]]),
    ("3.2 einsum", lambda: of(tensor.einsum("ij,jk->ik", f32(*M), f32(*M))), [[7, 10], [15, 22]]),
    ("3.2 sum_rows, sum_columns", lambda: (tensor.sum_rows(f32(*M)).shape,
                                           tensor.sum_columns(f32(*M)).shape), ((1, 2), (2, 1))),
    ("4.1 names of operators", lambda: autograd.ReLU().name.startswith("ReLU#"), True),
    ("4.1 output_name, grad_name", lambda: ((o := autograd.ReLU("r")).output_name(1),
                                            o.grad_name(0).endswith("_g")), ("r:1", True)),
    ("4.1 results carry the creator", lambda: type(autograd.relu(f32(1)).creator), autograd.ReLU),
    ("4.1 src", lambda: [type(s[0]) for s in autograd.relu(f32(1)).creator.src], [autograd.Dummy]),
    ("4.1 infer_dependency", lambda: (
        x := f32(1), y := autograd.add(x, x), uses := autograd.infer_dependency(y.creator)[1],
        uses[id(x)])[-1], 2),
    ("4.1 several uses are summed", lambda: of(gradient(lambda x: autograd.add(x, x), f32(1, 2))),
     [2, 2]),
    ("4.1 y of one element", lambda: raises(ValueError, lambda: list(autograd.backward(
        autograd.relu(f32(1, 2))))), True),
    ("4.1 dy", lambda: (w := T(data=np.ones(1, np.float32), stores_grad=True),
                        of(autograd.gradients(autograd.mul(w, w), 3.0)[id(w)]))[-1], [6]),
    ("4.1 a loss's backward without dy", lambda: autograd.softmax_cross_entropy(
        f32(*M), ints(0, 1)).creator.backward().shape(), (2, 2)),
    ("4.2 leakyrelu, elu, hardsigmoid, clip", lambda: np.allclose(of([
        autograd.leakyrelu(f32(-1)), autograd.elu(f32(-1)), autograd.hardsigmoid(f32(1)),
        autograd.clip(f32(5), 0, 2)]), [[-0.01], [math.exp(-1) - 1], [0.7], [2]]), True),
    ("4.2 selu, softplus, softsign", lambda: np.allclose(of([
        autograd.selu(f32(1)), autograd.softplus(f32(0)), autograd.softsign(f32(1))]),
        [[1.0507], [math.log(2)], [0.5]]), True),
    ("4.2 prelu's slope has a gradient", lambda: of(gradient(
        lambda s: autograd.prelu(f32(-3, 2), s), f32(0.5))), [-3]),
    ("4.2 gradients are reduced", lambda: of(gradient(lambda b: autograd.add(f32(*M), b), f32(
        1, 1))), [2, 2]),
    ("4.2 int operands stay", lambda: autograd.div(ints(7), ints(2)).dtype, 2),
    ("4.2 max: the first of equals", lambda: of(autograd.max(
        f32(1, 2), f32(1, 3)).creator.backward(raw(1, 1))), ([1, 0], [0, 1])),
    ("4.2 sum, mean of tensors", lambda: of([autograd.sum(f32(1), f32(2)),
                                             autograd.mean(f32(1), f32(2))]), [[3], [1.5]]),
    ("4.2 comparisons have no gradient", lambda: raises(AssertionError, lambda: autograd.less(
        f32(1), f32(2)).creator.backward(raw(1))), True),
    ("4.2 add_bias axes", lambda: of([autograd.add_bias(f32(*M), f32(1, 2), 0),
                                      autograd.add_bias(f32(*M), f32(1, 2), 1)]),
     [[[2, 4], [4, 6]], [[2, 3], [5, 6]]]),
    ("4.2 add_bias checks", lambda: raises(AssertionError, lambda: autograd.add_bias(
        f32(1), f32(1))), True),
    ("4.2 gemm", lambda: of(autograd.gemm(f32(*M), f32(*M), f32(1, 1), 1.0, 2.0, 1, 0)),
     [[12, 16], [16, 22]]),
    ("4.2 softmax_cross_entropy: shape and mean", lambda: (
        autograd.softmax_cross_entropy(f32([0, 0], [0, 0]), ints(0, 1)).shape, round(
            of(autograd.softmax_cross_entropy(f32([0, 0], [0, 0]), ints(0, 1)))[0], 4)),
     ((1,), 0.6931)),
    ("4.2 its labels: (n, 1) and one-hot", lambda: np.ptp([of(autograd.softmax_cross_entropy(
        f32(*M), t))[0] for t in (ints(0, 1), ints([0], [1]), ints([1, 0], [0, 1]),
                                  f32([1, 0], [0, 1]))]) < 1e-6, True),
    ("4.2 mse_loss: of all elements", lambda: of(autograd.mse_loss(f32(*M), f32([0, 0], [0, 0]))),
     [7.5]),
    ("4.2 MeanSquareError(t)(x)", lambda: of(autograd.MeanSquareError(f32(1))(f32(3))[0]), [4]),
    ("4.2 cross_entropy", lambda: round(of(autograd.cross_entropy(
        f32([0.5, 0.5]), f32([1, 0])))[0], 4), 0.6931),
    ("4.2 ranking_loss", lambda: round(of(autograd.ranking_loss(f32(1, 0), f32(0, 1)))[0], 4), 0.6),
    ("4.2 reshape: 0 copies, -1 infers", lambda: autograd.reshape(T((2, 3, 4)), (0, -1)).shape,
     (2, 12)),
    ("4.2 flatten, squeeze, unsqueeze, expand", lambda: [
        autograd.flatten(T((2, 3, 4))).shape, autograd.squeeze(T((1, 2, 1))).shape,
        autograd.unsqueeze(T((2,)), [0, 2]).shape, autograd.expand(T((2, 1)), (2, 3)).shape],
     [(2, 12), (2,), (1, 2, 1), (2, 3)]),
    ("4.2 cat, split, slice", lambda: (
        autograd.cat([T((1, 2)), T((2, 2))], 0).shape, [t.shape for t in autograd.split(
            T((4, 2)), 0, [1, 3])], autograd.slice(T((4, 4)), [1], [3], [0], [1]).shape),
     ((3, 2), [(1, 2), (3, 2)], (2, 4))),
    ("4.2 gather by nested lists", lambda: of(autograd.gather(f32(*M), 0, [[0, 1], [1, -1]])),
     [[M[0], M[1]], [M[1], M[1]]]),
    ("4.2 tile, pad, upsample", lambda: (autograd.tile(T((2, 3)), 2).shape, of(autograd.pad(
        f32(1, 2), "constant", [1, 0], 9.0)), autograd.upsample(
            T((1, 1, 2, 2)), "nearest", [1, 1, 2, 2]).shape), ((4, 3), [9, 1, 2], (1, 1, 4, 4))),
    ("4.2 depth_to_space", lambda: autograd.depth_to_space(T((1, 4, 2, 2)), 2).shape,
     (1, 1, 4, 4)),
    ("4.2 reduce_sum keeps axes", lambda: (autograd.reduce_sum(f32(*M)).shape, autograd.reduce_sum(
        f32(*M), [0], 0).shape), ((1, 1), (2,))),
    ("4.2 globalaveragepool", lambda: (autograd.globalaveragepool(T((1, 2, 3, 4))).shape,
                                       autograd.globalaveragepool(T((1, 2, 3, 4)), "last").shape),
     ((1, 2, 1, 1), (1, 1, 1, 4))),
    ("4.2 where: x where true", lambda: of(autograd.where(f32(1, 2), f32(8, 9), [1, 0])), [1, 9]),
    ("4.2 embedding", lambda: autograd.embedding(ints([0, 1]), T((3, 5))).shape, (1, 2, 5)),
    ("4.2 dropout(x, seed)", lambda: autograd.dropout(f32(1, 2), 0.5).shape, (2,)),
    ("4.2 cossim of rows", lambda: of(autograd.cossim(f32([3, 4]), f32([3, 4])))[0] > 0.999, True),
    ("4.2 shape, nonzero, onehot, constant_of_shape", lambda: (
        of(autograd.shape(T((2, 3)))), of(autograd.nonzero(f32(0, 5))),
        of(autograd.onehot(-1, ints(1), 2, [0, 1])), of(autograd.constant_of_shape(ints(2), 3))),
     ([2, 3], [[1]], [[0, 1]], [3, 3])),
    ("4.3 aliases are the layers", lambda: autograd.Linear is layer.Linear and
     autograd.LSTM is layer.LSTM, True),
    ("5.1 initialize at the first call", lambda: (
        lin := layer.Linear(3), before := lin._initialized, lin(tensor.ones((2, 4))),
        (before, lin._initialized, lin.W.shape, lin.b.shape))[-1],
     (False, True, (4, 3), (3,))),
    ("5.1 dotted names", lambda: list(net().get_params()), ["conv1.W", "conv1.b"]),
    ("5.1 set_params takes arrays", lambda: (
        m := net(), m.set_params({"conv1.b": np.full(3, 2, np.float32)}), of(m.conv1.b))[-1],
     [2, 2, 2]),
    ("5.1 register_layers", lambda: (
        m := layer.Layer(), m.register_layers(layer.ReLU(), layer.Sigmoid()), list(m._layers))[-1],
     ["ReLU_0", "Sigmoid_1"]),
    ("5.1 sep", lambda: layer.Layer.sep, "."),
    ("5.2 legacy Linear(in, out)", lambda: layer.Linear(4, 3)(tensor.ones((2, 4))).shape, (2, 3)),
    ("5.2 legacy Conv2d(in, out, k)", lambda: layer.Conv2d(1, 2, 3)(tensor.ones(
        (1, 1, 5, 5))).shape, (1, 2, 3, 3)),
    ("5.2 Conv2d: SAME_UPPER, RELU", lambda: layer.Conv2d(
        2, 3, pad_mode="SAME_UPPER", activation="RELU")(tensor.ones((1, 1, 5, 5))).shape,
     (1, 2, 5, 5)),
    ("5.2 Conv2d: dilation, keywords", lambda: (
        raises(ValueError, lambda: layer.Conv2d(2, 3, dilation=2)(tensor.ones((1, 1, 5, 5)))),
        raises(TypeError, lambda: layer.Conv2d(2, 3, nothing=1))), (True, True)),
    ("5.2 BatchNorm2d's states", lambda: (
        bn := layer.BatchNorm2d(), bn(tensor.ones((2, 3, 2, 2))), list(bn.get_states()))[-1],
     ["scale", "bias", "running_mean", "running_var"]),
    ("5.2 pooling: stride is the kernel", lambda: [
        layer.MaxPool2d(2)(T((1, 1, 4, 4)).set_value(1)).shape,
        layer.AvgPool2d(3, 1, 2)(T((1, 1, 4, 4)).set_value(1)).shape], [(1, 1, 2, 2), (1, 1, 6,
         6)]),
    ("5.2 RNN", lambda: [type(y).__name__ for y in layer.RNN(4, 3)(
        [tensor.ones((2, 4))] * 2, tensor.zeros((2, 3)))], ["list", "Tensor"]),
    ("5.2 LSTM", lambda: len(layer.LSTM(4, 3)([tensor.ones((2, 4))] * 2, (
        tensor.zeros((2, 3)), tensor.zeros((2, 3))))), 3),
    ("5.2 CudnnRNN", lambda: [layer.CudnnRNN(3, return_sequences=r)(
        tensor.ones((2, 5, 4))).shape for r in (True, False)], [(2, 5, 3), (2, 3)]),
    ("6.1 model(x) trains or predicts", lambda: (
        m := net(), kind := type(m(tensor.ones((2, 4)), ints(0, 1))), m.eval(),
        m(tensor.ones((2, 4))).shape, kind)[-2:], ((2, 3), tuple)),
    ("6.1 flags", lambda: ((m := net()).training, m.graph_mode, m.sequential),
     (True, True, False)),
    ("6.2 graph or not: equal bits", lambda: (
        m := net(), e := Net(), setattr(e, "optimizer", opt.SGD(0.1)),
        e.compile([tensor.ones((2, 4))], is_train=True, use_graph=False),
        e.set_params({k: tensor.to_numpy(v) for k, v in m.get_params().items()}),
        losses := [[of(n(f32([1, 2, 3, 4], [0, 1, 0, 1]), ints(0, 1))[1]) for _ in range(3)]
         for n in (m, e)], losses[0] == losses[1] and losses[0][0] > losses[0][2])[-1], True),
    ("7 lr: a number or a scheduler", lambda: raises(TypeError, lambda: opt.SGD("fast")), True),
    ("7 ExponentialDecay", lambda: [round(of(opt.ExponentialDecay(1.0, 2, 0.25, stair)(
        f32(3)))[0], 4) for stair in (False, True)], [0.125, 0.25]),
    ("7 SGD: negative numbers", lambda: (raises(ValueError, lambda: opt.SGD(momentum=-1)),
                                         raises(ValueError, lambda: opt.SGD(weight_decay=-1))),
     (True, True)),
    ("7 SGD", lambda: (w := f32(1.0), s := opt.SGD(0.5), s.apply("w", w, f32(1)), of(w))[-1],
     [0.5]),
    ("7 SGD with momentum", lambda: (
        w := f32(1.0), s := opt.SGD(0.5, momentum=0.5), s.apply("w", w, f32(1)),
        s.apply("w", w, f32(1)), of(w))[-1], [-0.25]),
    ("7 RMSProp", lambda: (w := f32(1.0), opt.RMSProp(0.1, rho=0.0).apply("w", w, f32(4)),
                           round(of(w)[0], 4))[-1], 0.9),
    ("7 AdaGrad", lambda: (w := f32(1.0), opt.AdaGrad(0.1).apply("w", w, f32(4)),
                           round(of(w)[0], 4))[-1], 0.9),
    ("7 Adam", lambda: (w := f32(1.0), opt.Adam(0.1).apply("w", w, f32(4)),
                        round(of(w)[0], 4))[-1], 0.9),
    ("7 step", lambda: (s := opt.SGD(0.1), s.step(), of(s.step_counter))[-1], [1]),
    ("7 DistOpt of one process", lambda: ((d := opt.DistOpt(opt.SGD(), None, 0, 1)).world_size,
                                          d.local_rank, d.global_rank), (1, 0, 0)),
    ("8 he_uniform's limit", lambda: abs(abs(tensor.to_numpy(put(
        initializer.he_uniform, t := T((40, 90)), t))).max() - math.sqrt(6 / 40)) < 0.02, True),
    ("8 eye", lambda: of(put(initializer.eye, t := T((2, 2)), t)), [[1, 0], [0, 1]]),
    ("8 orthogonal", lambda: np.allclose((q := tensor.to_numpy(put(
        initializer.orthogonal, t := T((4, 4)), t))) @ q.T, np.eye(4), atol=1e-5), True),
    ("9 get_padding_shape", lambda: [list(map(int, x)) for x in utils.get_padding_shape(
        "SAME_UPPER", (5, 5), (2, 2), (1, 1))], [[0, 0, 0, 0], [0, 1, 0, 1]]),
    ("9 get_output_shape", lambda: list(utils.get_output_shape("SAME_UPPER", [5, 5], [3, 3],
                                                               [2, 2])), [3, 3]),
    ("9 odd padding", lambda: pad_of(T((1, 1, 2, 2)).set_value(1).data, (0, 1, 0, 1)),
     (1, 1, 3, 3)),
    ("11 flags of the buffer", lambda: (DEV.SetBufferFlag(True), DEV.GetBufferFlag(),
                                        DEV.SetBufferFlag(False), DEV.GetBufferFlag(),
                                        DEV.Reset())[1:4:2], (True, False)),
    ("11 optimizer's order of arguments", lambda: of(optimizer.SGD(lr=0.5).apply(
        0, f32(1), f32(1), "")), [0.5]),
    ("11 add_bias of (1, n)", lambda: of(autograd.add_bias(f32(*M), f32([1, 2]))),
     [[2, 4], [4, 6]]),
]

# (line, why no row is above, what shows it)
LEFT = [
    ("0 import enables faulthandler and logging", "a library does not change its process", None),
    ("1.3 GPU memory, DeviceQuery", "needs a card", None),
    ("1.4 CudnnConvHandle, GpuConv*, GpuBatchNorm*, GpuPooling* on a card",
     "needs a card; on the CPU test_raw_handles", None),
    ("1.4 Communicator of several processes", "comm/test_dist_opt",
     lambda: raises(InvalidError, lambda: opt.DistOpt(opt.SGD(), world_size=2))),
    ("0 if t: is true for any Tensor", "asks the one element; of several it is an error",
     lambda: raises(ValueError, lambda: bool(f32(1, 2)))),
    ("3.1 __repr__", "tells more; str is SINGA's text", None),
    ("6.2 the same result objects", "new tensors at each call", None),
    ("9 post_order_recursive", "sonnx is its only user; test_data has it", None),
    ("10 sonnx", "test_sonnx", None),
    ("12 upstream defects", "mended: test_autograd_*", None),
]


def place(path):
    if path == "a tensor":
        return tensor.ones((2,))
    parts = path.split(".")
    at = MODULES[parts[0]]
    for part in parts[1:]:
        at = getattr(at, part)
    return at


@pytest.fixture(autouse=True)
def trained():
    autograd.training = True
    yield
    autograd.training = False
    core.cpu().Reset()


@pytest.mark.parametrize("where, names", [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_names(where, names):
    missing = [name for name in names.split() if not hasattr(place(where), name)]
    assert not missing


@pytest.mark.parametrize("call, want", [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS])
def test_claims(call, want):
    assert of(call()) == want


@pytest.mark.parametrize("shown", [row[2] for row in LEFT if row[2]],
                         ids=[row[0] for row in LEFT if row[2]])
def test_what_is_left(shown):
    assert shown()


def test_counts(capsys):
    """Each row is one of the kinds, and no row is there twice."""
    ids = [row[0] for row in NAMES] + [row[0] for row in CLAIMS] + [row[0] for row in LEFT]
    assert not [name for name, n in collections.Counter(ids).items() if n > 1]
    assert all(reason for _, reason, _ in LEFT)
    names = sum(len(row[2].split()) for row in NAMES)
    with capsys.disabled():
        print(f"\ncontract: {len(ids)} rows: {len(NAMES)} of {names} names and {len(CLAIMS)} "
              f"claims tested, {len(LEFT)} left")
