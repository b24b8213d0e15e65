"""eager - the step of a model as PyTorch runs it: forward, loss, backward, SGD."""
import torch


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)


def step_of(net, loss_fn, batch, optimizer, autocast=None):
    """A function that makes one step and returns its loss; gradients stay until the next. loss_fn:
    of the result and the last of the batch, or None where the model returns its loss. autocast:
    the type of halves in which operators run, or None."""
    inputs = batch if loss_fn is None else batch[:-1]

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            result = net(*inputs)
            loss = result if loss_fn is None else loss_fn(result, batch[-1])
        loss.backward()
        optimizer.step()
        return loss

    return step
