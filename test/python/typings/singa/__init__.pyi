# The names that the examples import from singa: under `python -m weir.singa` they are weir's.
from weir import autograd as autograd
from weir import device as device
from weir import layer as layer
from weir import model as model
from weir import opt as opt
from weir import optimizer as optimizer
from weir import tensor as tensor
