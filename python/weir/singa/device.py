"""device - getting devices, and what one holds."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


from weir import _capi as capi
from weir import cuda
from weir import core
from weir.core import open_device
from weir.typing import Path
from .asserted import DeviceError
from . import singa_wrap as singa

__all__ = ["clock", "create_cpu_device", "create_cuda_gpu", "create_cuda_gpu_on",
           "create_cuda_gpus", "create_cuda_gpus_on", "create_opencl_device", "create_sim",
           "Device", "device_query", "enable_lazy_alloc", "get_default_device", "get_gpu_ids",
           "get_gpu_mem_size", "get_num_gpus", "get_num_opencl_devices", "get_num_opencl_platforms",
           "Memory", "memory", "open_cpu", "open_device", "reset_peak", "set_default_device"]


class Memory(TypedDict):
    """What memory returns: bytes by name."""

    persistent: int
    live: int
    live_peak: int
    pool: int
    arena: int
    total: int


class _Wrapper(type):
    def __instancecheck__(cls, device: object) -> bool:
        return isinstance(device, core.Device)


class Device(metaclass=_Wrapper):
    """SINGA's wrapper of 2020, Device(id, device of singa_wrap): the device itself, which has the
    wrapper's names set_rand_seed, set_buffer_flag, get_host and get_id."""

    def __new__(cls, id: int, device: core.Device) -> core.Device:         # type: ignore[misc]
        del id
        return device


# ---- the CPU ----

def create_cpu_device() -> core.Device:
    """Returns the CPU device that all callers share; weir.device.open_cpu opens further ones."""
    return core.cpu()


def open_cpu(threads: int = 0, seed: int = 0, spill_dir: Path | None = None,
             guard: bool | None = None) -> core.Device:
    """Opens another CPU device, with its own worker threads (0: one per core) and random stream.

    spill_dir: the folder of the file to which a budget offloads values; None: $WEIR_SPILL_DIR,
    else $TMPDIR, else /tmp.

    guard: True puts guard zones round every operand of kernels and callbacks, so that one that
    writes out of bounds fails with a DeviceError that names it; None: as $WEIR_GUARD says."""
    return open_device("cpu", -1, threads=threads, seed=seed, spill_dir=spill_dir, guard=guard)


def get_default_device() -> core.Device:
    """Returns the device on which tensors are made when none is given: the CPU, unless
    set_default_device has changed it."""
    return core.default_device()


def set_default_device(device: core.Device | None) -> None:
    """Sets the device on which Tensors are made when none is given; None: the CPU. Raises TypeError
    for anything else."""
    core.set_default_device(device)


def __getattr__(name: str) -> core.Device:
    if name == "default_device":
        return core.default_device()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enable_lazy_alloc(enable: bool) -> None:
    """SINGA's switch, which has no effect: blocks are always allocated at their first use."""
    core.Device.EnableLazyAlloc(enable)


def memory(device: core.Device | None = None) -> Memory:
    """Bytes by name: persistent (parameters, states, inputs, kept outputs), live (outside the
    arena), live_peak (the most since reset_peak), pool (held for blocks), arena (of the graphs),
    total (of the machine)."""
    counts = (device or core.default_device()).memory()
    return {"persistent": counts.persistent, "live": counts.live, "live_peak": counts.live_peak,
            "pool": counts.pool, "arena": counts.arena, "total": counts.total}


def reset_peak(device: core.Device | None = None) -> None:
    """Resets live_peak to the bytes that are live now."""
    capi.weir_device_reset_peak((device or core.default_device()).handle)


# ---- simulated machines ----

def create_sim(spec: str = "format", seed: int = 0) -> core.Device:
    """A simulated machine, which computes no values but counts time: a preset ("v100", "p100",
    "rtx2080ti", "h200", "laptop", "format"), numbers
    ("flops=14e12,memory=900e9,link=12e9,capacity=16GB,call=5e-6"), or a preset and then numbers
    ("v100,capacity=12GB"). Plans, times and out-of-memory errors are those of
    that machine; every value reads as zeros."""
    return open_device(f"sim:{spec}", -1, threads=1, seed=seed)


def clock(device: core.Device | None = None) -> float:
    """Seconds since the device was opened; simulated ones of create_sim's."""
    return capi.weir_device_clock((device or core.default_device()).handle)


# ---- CUDA ----

def _need_cuda() -> None:
    if not cuda.count():
        raise DeviceError(f"there is no CUDA device: {cuda.why()}")


def create_cuda_gpu(set_default: bool = False) -> core.Device:
    """The first GPU."""
    return create_cuda_gpu_on(0, set_default)


def create_cuda_gpu_on(device_id: int, set_default: bool = False) -> core.Device:
    """A GPU by its number, the one device of it; set_default: what is made without a device is on
    it from now on (the default in SINGA of 2020)."""
    gpu = create_cuda_gpus_on([device_id])[0]
    if set_default:
        set_default_device(gpu)
    return gpu


def create_cuda_gpus(num: int) -> list[core.Device]:
    """The first `num` GPUs."""
    return create_cuda_gpus_on(list(range(num)))


def create_cuda_gpus_on(device_ids: Sequence[int]) -> list[core.Device]:
    """The devices of these cards, a list of numbers from 0. DeviceError without CUDA."""
    _need_cuda()
    return singa.Platform.CreateCudaGPUsOn(device_ids)


def get_num_gpus() -> int:
    """The number of usable cards, 0 without a driver or the plugin."""
    return singa.Platform.GetNumGPUs()


def get_gpu_ids() -> list[int]:
    """The numbers of the usable cards, [] without any."""
    return singa.Platform.GetGPUIDs()


def get_gpu_mem_size(id: int) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    _need_cuda()
    return singa.Platform.GetGPUMemSize(id)


def device_query(id: int, verbose: bool = False) -> str:
    """Describes a GPU in a line; verbose: also the libraries used on it."""
    _need_cuda()
    return singa.Platform.DeviceQuery(id, verbose)


# ---- OpenCL: not supported ----

def _need_opencl() -> None:
    if not singa.USE_OPENCL:
        raise DeviceError("this build has no OpenCL")


def create_opencl_device() -> None:
    """A DeviceError: there is no OpenCL."""
    _need_opencl()


def get_num_opencl_platforms() -> None:
    """A DeviceError: there is no OpenCL."""
    _need_opencl()


def get_num_opencl_devices() -> None:
    """A DeviceError: there is no OpenCL."""
    _need_opencl()
