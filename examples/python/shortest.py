"""shortest - the shortest whole program: two layers learn which of two numbers is the larger."""
import numpy as np
from weir import autograd, device, layer, opt, tensor

dev = device.get_default_device()
hidden, out, sgd = layer.Linear(16), layer.Linear(2), opt.SGD(0.1, momentum=0.9)
x, y = tensor.zeros((64, 2)), tensor.zeros((64,), dtype=tensor.int32)

autograd.training = True
with dev.graph() as step:                               # recorded from here on
    logits = out(autograd.relu(hidden(x)))
    loss = autograd.softmax_cross_entropy(logits, y)
    sgd(loss)                                           # gradients and updates

draw = np.random.default_rng(1)
for i in range(201):
    numbers = draw.random((64, 2), np.float32)
    larger = (numbers[:, 0] < numbers[:, 1]).astype(np.int32)
    x.copy_from_numpy(numbers)
    y.copy_from_numpy(larger)
    step.run()                                          # allocates nothing
    if i % 50 == 0:
        right = (logits.numpy().argmax(1) == larger).sum()
        print(f"step {i:3}  loss {loss.item():.4f}  right {right} of 64")
