"""torch - models of PyTorch whose training step runs in Weir, within a budget in bytes.

    step = weir.torch.Step(model, loss_fn, optimizer, (x, y), budget="512MB")
    for x, y in loader:
        loss = step(x, y)
    model = torch.compile(model, backend="weir", options={"budget": "512MB"})

PyTorch is needed here alone: `import weir` works without it.
"""
from __future__ import annotations

from .capture import Captured as Captured, capture as capture
from .dynamo import backend as backend, compiled_graphs as compiled_graphs
from .inference import Module as Module, from_module as from_module
from .step import Step as Step
from .table import Refused as Refused, rules as rules
from .translate import Unsupported as Unsupported, UnsupportedError as UnsupportedError

__all__ = ["Captured", "Module", "Refused", "Step", "Unsupported", "UnsupportedError", "backend",
           "capture", "compiled_graphs", "from_module", "rules"]
