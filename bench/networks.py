"""networks.py - the networks of src/tool/bench_case.c, written out in PyTorch.

Layer for layer those of src/model/nets*.c; ReLUs overwrite their inputs wherever torchvision's do.
MODELS says what a model is trained on. Needs torch.
"""
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

SMALL_IMAGE = 64        # up to this size a resnet has the CIFAR stem and ten classes


def mlp(widths):
    layers = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1]))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers[:-1])


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def conv_bn(inside, out, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out))


def digits_cnn():
    return nn.Sequential(
        conv_bn(1, 32, 3), nn.ReLU(), conv_bn(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(1024, 10))


class Block(nn.Module):
    """y = relu(f(x) + shortcut(x)), ResNet v1.5; ReLU overwrites its input, as torchvision's."""

    def __init__(self, inside, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        if bottleneck:
            parts = [conv_bn(inside, width, 1), conv_bn(width, width, 3, stride),
                     conv_bn(width, out, 1)]
        else:
            parts = [conv_bn(inside, width, 3, stride), conv_bn(width, out, 3)]
        self.parts = nn.ModuleList(parts)
        project = stride != 1 or inside != out
        self.shortcut = conv_bn(inside, out, 1, stride) if project else nn.Identity()

    def forward(self, x):
        y = x
        for i, part in enumerate(self.parts):
            y = part(y)
            if i + 1 < len(self.parts):
                y = F.relu(y, inplace=True)
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


def resnet(depth, image):
    small = image <= SMALL_IMAGE
    counts = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    layers = [conv_bn(3, 64, 3) if small else conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True)]
    if not small:
        layers.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for i in range(count):
            layers.append(Block(inside, width, 2 if stage and not i else 1, depth == 50))
            inside = 4 * width if depth == 50 else width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10 if small else 1000)]
    return nn.Sequential(*layers)


def vgg16(image):
    layers = []
    inside = 3
    for out in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if out:
            layers += [nn.Conv2d(inside, out, 3, padding=1), nn.ReLU(inplace=True)]
            inside = out
        else:
            layers.append(nn.MaxPool2d(2))
    side = image // 32
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(512 * side * side, 4096), nn.ReLU(inplace=True),
        nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 1000))


class Inverted(nn.Module):
    """1x1 that widens, 3x3 on each channel alone, 1x1 that narrows; x added where shapes agree."""

    def __init__(self, inside, out, stride, expand):
        super().__init__()
        hidden = inside * expand
        layers = [conv_bn(inside, hidden, 1), nn.ReLU6(inplace=True)] if expand != 1 else []
        layers += [conv_bn(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6(inplace=True),
                   conv_bn(hidden, out, 1)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inside == out

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2():
    layers = [conv_bn(3, 32, 3, 2), nn.ReLU6(inplace=True)]
    inside = 32
    for expand, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            layers.append(Inverted(inside, out, stride if i == 0 else 1, expand))
            inside = out
    return nn.Sequential(
        *layers, conv_bn(inside, 1280, 1), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


def bn_conv(inside, out, kernel):
    return nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU(inplace=True),
                         nn.Conv2d(inside, out, kernel, padding=kernel // 2, bias=False))


class Dense(nn.Module):
    """y = (x, f(x)) along the channels."""

    def __init__(self, inside):
        super().__init__()
        self.layers = nn.Sequential(bn_conv(inside, 128, 1), bn_conv(128, 32, 3))

    def forward(self, x):
        return torch.cat((x, self.layers(x)), 1)


def densenet121():
    layers = [conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [bn_conv(inside, inside // 2, 1), nn.AvgPool2d(2)]
            inside //= 2
        for _ in range(count):
            layers.append(Dense(inside))
            inside += 32
    return nn.Sequential(*layers, nn.BatchNorm2d(inside), nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


class UNet(nn.Module):
    """Four levels down and up again, transposed convolutions on the way up."""

    LEVELS = 4

    def __init__(self, inside, classes, width):
        super().__init__()

        def twice(a, b):
            return nn.Sequential(conv_bn(a, b, 3), nn.ReLU(inplace=True),
                                 conv_bn(b, b, 3), nn.ReLU(inplace=True))

        widths = [width << i for i in range(self.LEVELS + 1)]
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([inside, *widths], widths))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.up = nn.ModuleList(twice(2 * w, w) for w in widths[:-1])
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down[:-1]:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[-1](x)
        for level in reversed(range(self.LEVELS)):
            x = self.up[level](torch.cat((skips[level], self.rise[level](x)), 1))
        return self.out(x)


class Decoder(nn.Module):
    """A block of the transformer, layer norm first; GELU is the exact one."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Tokens (n, t) -> logits (n t, vocab); learned positions."""

    def __init__(self, vocab, context, width, heads, layers):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Decoder(width, heads) for _ in range(layers)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        for table in (self.token, self.position):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, x):
        y = self.token(x) + self.position.weight[:x.shape[1]]
        return self.out(self.norm(self.blocks(y))).flatten(0, 1)


class CharLSTM(nn.Module):
    """Tokens (n, t) -> logits (n t, vocab)."""

    def __init__(self, vocab, width):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, x):
        return self.out(self.lstm(self.token(x))[0]).flatten(0, 1)


@dataclass(frozen=True)
class Model:
    """What is trained, and on what."""

    batch: int
    make: Callable                  # the network, of the size of an image
    classes: int
    shape: tuple = (3, 0, 0)        # of an example; 0: the size of an image
    size: int = 0                   # of an image, if it may have another
    per_pixel: bool = False         # a label for each pixel
    text: bool = False              # examples are tokens, a label for each


MODELS = {
    "mlp": Model(128, lambda px: mlp([784, 1024, 1024, 10]), 10, (784,)),
    "cnn": Model(64, lambda px: digits_cnn(), 10, (1, 8, 8)),
    "lenet": Model(64, lambda px: lenet(), 10, (1, 28, 28)),
    "resnet18": Model(16, lambda px: resnet(18, px), 1000, size=224),
    "resnet50": Model(16, lambda px: resnet(50, px), 1000, size=224),
    "vgg16": Model(8, vgg16, 1000, size=224),
    "densenet121": Model(16, lambda px: densenet121(), 1000, size=224),
    "mobilenetv2": Model(16, lambda px: mobilenet_v2(), 1000, size=224),
    "unet": Model(2, lambda px: UNet(3, 2, 64), 2, size=256, per_pixel=True),
    "tiny": Model(8, lambda px: mlp([8] * 7), 8, (8,)),
    "gpt": Model(8, lambda px: GPT(256, 256, 384, 6, 6), 256, (256,), text=True),
    "lstm": Model(16, lambda px: CharLSTM(128, 128), 128, (32,), text=True),
}


def build(name, batch=0, image=0):
    """The network, a synthetic batch (floats in [-1, 1), or tokens) and its labels."""
    model = MODELS[name]
    batch, image = batch or model.batch, image or model.size
    shape = [batch, *(n or image for n in model.shape)]
    small = name.startswith("resnet") and image <= SMALL_IMAGE
    labels = [batch, image, image] if model.per_pixel else [batch]
    if model.text:
        labels = [batch * shape[1]]
        x = torch.randint(0, model.classes, shape)
    else:
        x = torch.rand(*shape) * 2 - 1
    return model.make(image), x, torch.randint(0, 10 if small else model.classes, labels)
