"""test_cuda - weir.device's cards, on the emulated one of the build folder; in processes of their
own, since a plugin is looked for once."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import weir

_EMULATED = pathlib.Path(weir.__file__).parent.parent.parent / "emulated"


def _run(code, plugins=_EMULATED):
    """Runs lines of Python with the plugin of that folder; what they print. Cards refuse guard
    zones, so they are opened without, whatever WEIR_GUARD says."""
    env = dict(os.environ, WEIR_PLUGINS=str(plugins),
               PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    env.pop("WEIR_GUARD", None)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


emulated = pytest.mark.skipif(not (_EMULATED / "libweir_cuda.so").exists(),
                              reason="the build has no emulated card")


@emulated
def test_cards_are_counted_and_shared():
    _run("""
        from weir import core, device
        from weir import singa_wrap as singa
        assert singa.USE_CUDA == 1 and singa.USE_CUDNN == 1
        assert device.get_num_gpus() == 1 and device.get_gpu_ids() == [0]
        gpu = device.create_cuda_gpu()
        assert gpu.id() == 0 and gpu.lang() == "cuda" and gpu.host() is core.cpu()
        assert device.get_default_device() is core.cpu()
        assert device.create_cuda_gpu_on(0, set_default=True) is gpu
        assert device.get_default_device() is gpu
        assert device.create_cuda_gpus(1) == [gpu] == device.create_cuda_gpus_on([0])
        free, total = device.get_gpu_mem_size(0)
        assert 0 < free <= total and singa.Platform.GetGPUMemSize() == [(free, total)]
        assert device.device_query(0).startswith("card 0: ")
        assert "device cuda" in device.device_query(0, verbose=True)
        gpu.EnableGraph(True)
        assert device.create_cuda_gpu() is gpu and not gpu.graph_enabled()
        gpu.Sync()
    """)


@emulated
def test_what_is_not_there_is_refused():
    _run("""
        import pytest
        from weir import device, errors
        with pytest.raises(errors.DeviceError, match="unknown card 5 .this machine has 1"):
            device.create_cuda_gpu_on(5)
        with pytest.raises(errors.DeviceError, match="unknown card 1"):
            device.create_cuda_gpus(2)
        with pytest.raises(TypeError, match="the number of a card must be an integer"):
            device.create_cuda_gpus_on(["first"])
    """)


@emulated
def test_tensors_go_there_and_back():
    _run("""
        import numpy as np
        import pytest
        from weir import core, device, errors, tensor
        gpu = device.create_cuda_gpu()
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        t = tensor.from_numpy(values).to_device(gpu)
        assert t.device is gpu and tensor.to_numpy(t).tolist() == values.tolist()
        u = t.clone()
        u.to_host()
        assert u.device is core.cpu() and t.device is gpu
        assert u.numpy().tolist() == values.tolist()
        u.to_device(gpu)
        assert u.device is gpu
        with pytest.raises(errors.DeviceError):
            t + tensor.from_numpy(values)

        # Others get copies: they cannot look into the memory of a card.
        assert np.asarray(t).tolist() == np.from_dlpack(t).tolist() == values.tolist()
        with pytest.raises(BufferError, match="the elements are on cuda:0"):
            t.__dlpack__(copy=False)
        with pytest.raises(ValueError, match="the elements are on cuda:0"):
            t.__array__(copy=False)
    """)


def test_without_the_plugin_everything_says_so():
    out = _run("""
        import weir
        from weir import device
        from weir import singa_wrap as singa
        assert singa.USE_CUDA == 0 == singa.USE_CUDNN == device.get_num_gpus()
        try:
            device.create_cuda_gpu()
        except AssertionError as error:
            print(error)
        weir.show_config()
    """, "/nowhere")
    assert "there is no CUDA device: weir_device_open" in out
    assert "/nowhere/libweir_cuda.so" in out and "CUDA: none" in out


def test_names_of_cards_are_those_of_the_cpu():
    """SINGA's names for cards serve on every device."""
    import numpy as np
    from weir import singa_wrap as singa
    from weir import tensor
    values = np.random.default_rng(0).normal(size=(2, 3, 5, 5)).astype(np.float32)
    x = tensor.from_numpy(values).data
    w = tensor.from_numpy(np.ones((4, 3, 3, 3), np.float32)).data
    b = tensor.from_numpy(np.zeros(4, np.float32)).data
    handle = singa.CudnnConvHandle(x, (3, 3), (1, 1), (1, 1), 3, 4, True, 1, 1 << 20, "autotune")
    y = singa.GpuConvForward(x, w, b, handle)
    assert y.shape() == (2, 4, 5, 5)
    np.testing.assert_array_equal(y.to_numpy(), singa.CpuConvForward(x, w, b, handle).to_numpy())
    ones = tensor.from_numpy(np.ones(3, np.float32)).data
    zeros = tensor.from_numpy(np.zeros(3, np.float32)).data
    bn = singa.CudnnBatchNormHandle(0.1, x)
    y, mean, inverse = singa.GpuBatchNormForwardTraining(bn, x, ones, zeros, zeros.Clone(),
                                                         ones.Clone())
    var = x.to_numpy().var(axis=(0, 2, 3))
    np.testing.assert_allclose(inverse.to_numpy(), 1 / np.sqrt(var + 1e-5), rtol=1e-5)
    dx, dscale, dbias = singa.GpuBatchNormBackward(bn, y, x, ones, mean, inverse)
    assert dx.shape() == x.shape() and dscale.shape() == (3,) == dbias.shape()
