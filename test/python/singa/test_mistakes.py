"""test_mistakes - what SINGA asserts is refused, with Python's -O too, by the exception that users
of NumPy and PyTorch expect; it is an AssertionError as well, which scripts of SINGA catch."""
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import weir
from weir import autograd as A, device, layer, model, opt, singa_wrap as singa, tensor
from weir.operators import recurrent
from weir.tensor import Tensor


def ones(*shape, dtype=np.float32):
    return tensor.from_numpy(np.ones(shape, dtype))


def convolution(x):
    handle = singa.ConvHandle(ones(1, 2, 4, 4).data, (3, 3), (1, 1), (0, 0), 2, 2)
    return A.conv2d(handle, x, ones(2, 2, 3, 3), ones(2))


def tuned(prefer):
    return singa.CudnnConvHandle(ones(1, 2, 4, 4).data, (3, 3), (1, 1), (0, 0), 2, 2, True, 1, 0,
                                 prefer)


def mode_of(handle_mode):
    return recurrent.weight_shapes(SimpleNamespace(mode=handle_mode), 3)


def normalised(channels):
    norm = layer.BatchNorm2d()
    norm(ones(1, 2, 3, 3))
    return norm(ones(1, channels, 3, 3))


class Net(model.Model):
    def forward(self, x):
        return x

    def train_one_batch(self, x):
        return x


def recorded_without_tensors():
    net = Net()
    net.compile([ones(2)], is_train=True, use_graph=True)
    return net(3)


def pads(mode, numbers):
    return A.pad(ones(2, 3), mode, numbers)


SHAPES = [
    (lambda: ones(2, 3).reshape((4, 2)), r"reshape: .*\(2, 3\).*\(4, 2\)"),
    (lambda: ones(2, 3).copy_from_numpy(np.ones(5, np.float32)),
     r"copy_from_numpy: an array of shape \(5,\) .* shape \(2, 3\)"),
    (lambda: ones(2, 3).copy_from_numpy(np.ones(5, np.float32), 4),
     r"copy_from_numpy: .*\(5,\) from element 4 .*\(2, 3\)"),
    (lambda: ones(2, 3).copy_data(ones(5)), r"copy_data: .*\(5,\).*\(2, 3\)"),
    (lambda: tensor.copy_from_numpy(ones(2).data, np.ones(3)),
     r"copy_from_numpy: .*\(3,\).*\(2,\)"),
    (lambda: tensor.sum_columns(ones(3)), r"sum_columns: M has shape \(3,\)"),
    (lambda: tensor.sum_rows(ones(3)), r"sum_rows: M has shape \(3,\)"),
    (lambda: A.add_bias(ones(3), ones(3)), r"add_bias: x has shape \(3,\)"),
    (lambda: A.add_bias(ones(2, 3), ones(2, 3)), r"add_bias: b has shape \(2, 3\)"),
    (lambda: A.sum(ones(2), ones(3)), r"sum: shapes \[\(2,\), \(3,\)\] differ"),
    (lambda: A.softmax_cross_entropy(ones(3), ones(3)), r"x has shape \(3,\)"),
    (lambda: A.softmax_cross_entropy(ones(3, 2), ones(3, 2, 1)), r"t has shape \(3, 2, 1\)"),
    (lambda: A.mse_loss(ones(3), ones(2)), r"mse_loss: shapes \(3,\) and \(2,\) differ"),
    (lambda: A.cossim(ones(3), ones(3)), r"cossim: a has shape \(3,\)"),
    (lambda: A.squeeze(ones(2, 3), 1), r"axis 1 of shape \(2, 3\) has size 3, must be 1"),
    (lambda: A.split(ones(2, 3), 1, None, 2), r"axis 1 of shape \(2, 3\).* 2 equal parts"),
    (lambda: pads("edge", [0, 0]), r"2 pads for shape \(2, 3\), must be 4"),
    (lambda: A.upsample(ones(2, 3), "nearest", [2]), r"1 scales for shape \(2, 3\), must be 2"),
    (lambda: A.depth_to_space(ones(1, 3, 2, 2), 2, "CRD"), r"\(1, 3, 2, 2\).* 3 channels.*4"),
    (lambda: A.space_to_depth(ones(1, 3, 3, 2), 2, "CRD"), r"\(1, 3, 3, 2\).*blocks of 2 x 2"),
    (lambda: A.scatter_elements(ones(2), np.zeros((1, 1)), np.zeros((1, 1))),
     r"x has shape \(2,\), must have 2 axes"),
    (lambda: convolution(ones(2, 4, 4)), r"x has shape \(2, 4, 4\), must have 4 axes"),
    (lambda: normalised(3), r"BatchNorm2d: x has shape \(1, 3, 3, 3\).*2 channels"),
    (lambda: opt.SGD().apply("w", ones(2), ones(3)),
     r"SGD: w has shape \(2,\), its gradient \(3,\)"),
]
VALUES = [
    (lambda: A.add_bias(ones(2, 3), ones(3), 2), "add_bias: axis 2, must be 0 or 1"),
    (lambda: A.add_all(), "add_all: there is no input"),
    (lambda: A.max(), "Max#.*: there is no input"),
    (lambda: A.sum(), "sum: there is no input"),
    (lambda: pads("mirror", [0] * 4), "pad: unknown mode 'mirror'"),
    (lambda: A.upsample(ones(2), "linear", [2]),
     "upsample: unknown mode 'linear' .expected nearest"),
    (lambda: A.depth_to_space(ones(1, 4, 2, 2), 2, "X"), "unknown mode 'X' .expected DCR or CRD"),
    (lambda: A.split(ones(2), 0, None), "split: parts or num_output is needed"),
    (lambda: A.constant_of_shape(tensor.from_numpy(np.array([2, -1], np.int32))),
     r"shape \(2, -1\) has a negative size"),
    (lambda: tuned("slowest"), "CudnnConvHandle: prefer is 'slowest', must be one of"),
    (lambda: mode_of(4), r"mode 4, must be 0 \(ReLU\), 1 \(tanh\), 2 \(LSTM\) or 3 \(GRU\)"),
    (lambda: layer.CudnnRNN(2, use_mask=True)(ones(1, 2, 3)), "CudnnRNN: .*seq_lengths"),
    (lambda: recorded_without_tensors(), "needs a Tensor"),
]
ELEMENT_TYPES = [
    (lambda: tensor.from_numpy(np.ones(2, np.uint8)), "no conversion from uint8"),
    (lambda: opt.SGD().apply("w", ones(2, dtype=np.int32), ones(2)),
     "SGD: w has element type int32, the optimiser's is float32"),
]
TYPES = [
    (lambda: tensor.from_numpy("x"), "from_numpy: .*str"),
    (lambda: ones(2).copy_from_numpy([1, 2]), "copy_from_numpy: .*list"),
    (lambda: ones(2).copy_data(np.ones(2)), "copy_data: .*ndarray"),
    (lambda: Net().compile(ones(2)), "compile: inputs .*Tensor"),
    (lambda: A._RNN(None, use_mask=True), "_RNN: .*seq_lengths, a Tensor"),
]
DEVICES = [
    (lambda: device.create_opencl_device(), "this build has no OpenCL"),
    (lambda: A.greater(Tensor(data=np.ones(2, np.float32)), ones(2)).creator.backward(None),
     "has no gradient"),
]
KINDS = [(weir.ShapeError, ValueError, SHAPES), (weir.InvalidError, ValueError, VALUES),
         (weir.DtypeError, TypeError, ELEMENT_TYPES), (weir.Error, TypeError, TYPES),
         (weir.Error, RuntimeError, DEVICES)]


@pytest.mark.parametrize("ours, builtin, call, text", [
    (ours, builtin, call, text) for ours, builtin, calls in KINDS for call, text in calls])
def test_mistake(ours, builtin, call, text):
    with pytest.raises(builtin, match=text) as caught:
        call()
    assert isinstance(caught.value, ours) and isinstance(caught.value, AssertionError)


def test_a_file_that_exists(tmp_path):
    net = Net()
    net.compile([ones(2)])
    net.save_states(tmp_path / "x")
    with pytest.raises(FileExistsError, match="save_states: .*x exists already") as caught:
        net.save_states(tmp_path / "x")
    assert isinstance(caught.value, (weir.FileError)) and isinstance(caught.value, AssertionError)


def test_checks_do_not_go_with_the_asserts_of_python():
    done = subprocess.run([sys.executable, "-O", "-c", "import weir\n"
                           "weir.ones((2, 3)).reshape((4, 2))"], capture_output=True, text=True)
    assert "ShapeError: reshape" in done.stderr


def test_without_a_card():
    if not device.get_num_gpus():
        with pytest.raises(RuntimeError, match="there is no CUDA device") as caught:
            device.create_cuda_gpu()
        assert isinstance(caught.value, weir.DeviceError)
        assert isinstance(caught.value, AssertionError)
