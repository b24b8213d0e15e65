# wheel_use.py - what wheel.sh runs with the wheel alone: a recorded step, files, sharing, types.
import importlib.resources
import os
import tempfile

import numpy as np

import weir
from weir import autograd

x = weir.array(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
with weir.cpu().graph() as step:
    y = autograd.relu(x)
step.run(3)
assert np.array_equal(np.from_dlpack(y), np.maximum(np.from_dlpack(x), 0))
assert step.stats["runs"] == 3 and "relu" in step.text()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "t")
    weir.save_safetensors(path, {"x": x})
    assert np.array_equal(weir.load_safetensors(path)["x"].data.to_numpy(), x.data.to_numpy())
    weir.save_npz(path, {"x": x})
    assert np.array_equal(weir.load_npz(path)["x"].data.to_numpy(), x.data.to_numpy())
names = {entry.name for entry in importlib.resources.files(weir).iterdir()}
assert {"py.typed", "_capi.pyi", "_capi.py", "tensor.pyi", "singa"} <= names, names
