#!/usr/bin/env python3
"""jax_peer.py - the JAX side of a comparison: trains on command, the whole step under jit.

Speaks the protocol of bench/pytorch.py. A step is forward, cross entropy, backward and SGD with
momentum 0.9 on one fixed synthetic batch, in f32 (products too, unless --tf32): the networks of
networks.py in plain JAX, channels-last, what a step replaces donated to it. Needs jax.
"""
import argparse
import os

# Memory is taken as it is needed, so that peaks are those of the step and other programs fit too.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax                                  # noqa: E402
import jax.numpy as jnp                     # noqa: E402
from jax import lax, nn, random             # noqa: E402
from serve import serve                     # noqa: E402

WARM_UP = 2
SMALL_IMAGE = 64        # up to this size a resnet has the CIFAR stem and ten classes
# Model: default batch, default size of images (0: none), channels.
MODELS = {"mlp": (128, 0, 0), "tiny": (8, 0, 0), "lenet": (64, 28, 1), "resnet18": (16, 224, 3),
          "resnet50": (16, 224, 3)}


class Parameters:
    """Parameters and running statistics by the order in which a network asks for them: made in the
    first pass, handed out in the others, where new statistics are collected."""

    def __init__(self, key=None, params=(), states=()):
        self.key = key
        self.params, self.states, self.moved = list(params), list(states), []
        self.param_at = self.state_at = 0

    def param(self, shape, fan=0):
        if self.key is not None:
            self.key, key = random.split(self.key)
            self.params.append(random.normal(key, shape) * (2 / fan) ** 0.5 if fan else
                               jnp.zeros(shape))
        self.param_at += 1
        return self.params[self.param_at - 1]

    def state(self, shape):
        if self.key is not None:
            self.states.append(jnp.zeros(shape))
        self.state_at += 1
        return self.states[self.state_at - 1]


def linear(p, x, out):
    w, b = p.param((x.shape[-1], out), x.shape[-1]), p.param((out,))
    return x @ w + b


def conv(p, x, out, kernel, stride=1, pad=0, bias=False):
    w = p.param((kernel, kernel, x.shape[-1], out), kernel * kernel * x.shape[-1])
    y = lax.conv_general_dilated(x, w, (stride, stride), ((pad, pad), (pad, pad)),
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p.param((out,)) if bias else y


def batch_norm(p, x, momentum=0.1):
    scale, shift = p.param((x.shape[-1],)), p.param((x.shape[-1],))
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    for new in (mean, var):
        p.moved.append((1 - momentum) * p.state(new.shape) + momentum * new)
    return (x - mean) * lax.rsqrt(var + 1e-5) * (1 + scale) + shift


def conv_bn(p, x, out, kernel, stride=1):
    return batch_norm(p, conv(p, x, out, kernel, stride, kernel // 2))


def max_pool(x, size, stride, pad=0):
    around = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1),
                             around)


def mlp(p, x, widths):
    for width in widths[:-1]:
        x = nn.relu(linear(p, x, width))
    return linear(p, x, widths[-1])


def lenet(p, x):
    for out in (20, 50):
        x = max_pool(nn.relu(conv(p, x, out, 5, bias=True)), 2, 2)
    return mlp(p, x.reshape(len(x), -1), (500, 10))


def block(p, x, width, stride, bottleneck):
    """y = relu(f(x) + shortcut(x)), ResNet v1.5."""
    out = 4 * width if bottleneck else width
    parts = (((width, 1, 1), (width, 3, stride), (out, 1, 1)) if bottleneck else
             ((width, 3, stride), (out, 3, 1)))
    y = x
    for i, (channels, kernel, step) in enumerate(parts):
        y = conv_bn(p, y if i == 0 else nn.relu(y), channels, kernel, step)
    if stride != 1 or x.shape[-1] != out:
        x = conv_bn(p, x, out, 1, stride)
    return nn.relu(y + x)


def resnet(p, x, depth):
    small = x.shape[1] <= SMALL_IMAGE
    x = nn.relu(conv_bn(p, x, 64, 3) if small else conv_bn(p, x, 64, 7, 2))
    if not small:
        x = max_pool(x, 3, 2, 1)
    for stage, count in enumerate({18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]):
        for i in range(count):
            x = block(p, x, 64 << stage, 2 if stage and not i else 1, depth == 50)
    return linear(p, x.mean((1, 2)), 10 if small else 1000)


def network(model):
    """The function of (parameters, batch), and the width of its input where that is no image."""
    return {"mlp": (lambda p, x: mlp(p, x, (1024, 1024, 10)), 784),
            "tiny": (lambda p, x: mlp(p, x, (8,) * 6), 8),
            "lenet": (lenet, 0),
            "resnet18": (lambda p, x: resnet(p, x, 18), 0),
            "resnet50": (lambda p, x: resnet(p, x, 50), 0)}[model]


class Trial:
    """A model in training with its one batch."""

    def __init__(self, args):
        batch, image, channels = MODELS[args.model]
        self.batch, image = args.batch or batch, args.image or image
        forward, width = network(args.model)
        shape = (self.batch, width) if width else (self.batch, image, image, channels)
        key = random.PRNGKey(1)
        self.x = random.normal(key, shape)
        made = Parameters(key)
        classes = forward(made, self.x).shape[-1]
        self.y = jnp.arange(self.batch) % classes
        self.params, self.states = made.params, made.states
        self.momentum = [jnp.zeros_like(w) for w in self.params]

        def loss(params, states, x, y):
            p = Parameters(None, params, states)
            logits = forward(p, x)
            picked = jnp.take_along_axis(nn.log_softmax(logits), y[:, None], 1)
            return -picked.mean(), p.moved

        def step(params, states, momentum, x, y):
            (value, moved), grads = jax.value_and_grad(loss, has_aux=True)(params, states, x, y)
            momentum = [0.9 * m + g for m, g in zip(momentum, grads)]
            params = [w - 0.01 * m for w, m in zip(params, momentum)]
            return value, params, moved, momentum

        self.compiled = jax.jit(step, donate_argnums=(0, 1, 2))
        for _ in range(WARM_UP):
            self.step()

    def step(self):
        value, self.params, self.states, self.momentum = self.compiled(
            self.params, self.states, self.momentum, self.x, self.y)
        jax.block_until_ready((value, self.params, self.momentum))

    def persistent(self):
        """Bytes of parameters, running statistics, momentum and the batch."""
        return sum(a.nbytes for a in (*self.params, *self.states, *self.momentum, self.x, self.y))

    def step_peak(self):
        """What XLA's plan of the step takes beyond its arguments; results take their places."""
        plan = self.compiled.lower(self.params, self.states, self.momentum, self.x,
                                   self.y).compile().memory_analysis()
        return plan.temp_size_in_bytes if plan else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch", type=int, default=0, help="default: the model's own")
    parser.add_argument("--image", type=int, default=0, help="size of the images")
    parser.add_argument("--threads", type=int, default=0, help="ignored: XLA uses all processors")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--tf32", action="store_true", help="products of f32 by TF32 units")
    args = parser.parse_args()
    jax.config.update("jax_platforms", args.device)
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if args.tf32 else "highest")
    trial = Trial(args)
    serve(trial, jax.__version__, trial.batch)


if __name__ == "__main__":
    main()
