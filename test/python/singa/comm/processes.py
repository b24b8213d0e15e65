"""processes - runs a case of ranks.py as processes of one machine."""
import json
import os
import secrets
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def ranks(case, world=2):
    """What each rank of a case of ranks.py found."""
    name = f"test-{os.getpid()}-{secrets.token_hex(4)}"
    env = os.environ | {"OMP_WAIT_POLICY": "passive", "WEIR_THREADS": "1"}
    started = [subprocess.Popen([sys.executable, os.path.join(HERE, "ranks.py"), case, name,
                                 str(rank), str(world)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=env)
               for rank in range(world)]
    done = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * world, [err for _, err in done]
    return [json.loads(out.splitlines()[-1]) for out, _ in done]


def arrays(world, shape=(4, 3)):
    return [(np.arange(np.prod(shape)).reshape(shape) * (r + 1) + r).astype(np.float32)
            for r in range(world)]
