"""torch_python - hands a test over to an interpreter with PyTorch where this one has none."""
import os
import subprocess
import sys


def need_torch(part):
    """Returns where PyTorch can be imported. Else the script runs again in $WEIR_TORCH_PYTHON, or
    ends with a sentence and the count of a part of the suite that did nothing."""
    try:
        import torch        # noqa: F401
        return
    except ImportError:
        pass
    other = os.environ.get("WEIR_TORCH_PYTHON")
    if other:               # of a virtual environment, perhaps: a link to this very interpreter
        env = {key: value for key, value in os.environ.items() if key != "WEIR_TORCH_PYTHON"}
        sys.exit(subprocess.call([other, *sys.argv], env=env))
    print(f"{part}: left out, the interpreter has no torch (WEIR_TORCH_PYTHON names another)")
    print(f"{part}: 0 passed, 0 failed")
    sys.exit(0)
