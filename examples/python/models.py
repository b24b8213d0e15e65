"""models - convolutional models in SINGA's manner: CNN, AlexNet, ResNet, Xception."""
from collections.abc import Callable
from typing import cast

from weir import autograd, layer, model
from weir.tensor import Tensor


class Classifier(model.Model):
    """A model that train_one_batch trains with softmax and cross entropy."""

    forward: Callable[..., Tensor]      # which a network defines

    def train_one_batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, y)
        self.optimizer(loss)
        return out, loss


class ConvBN(layer.Layer):
    """A convolution without bias, batch normalisation and, if asked, ReLU."""

    def __init__(self, channels: int, kernel: int, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.conv = layer.Conv2d(channels, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn = layer.BatchNorm2d(momentum=0.1)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        return autograd.relu(x) if self.relu else x


class Chain(layer.Layer):
    """Layers one after the other."""

    def __init__(self, *layers: layer.Layer) -> None:
        super().__init__()
        self.layers = layers
        self.register_layers(*layers)

    def forward(self, x: Tensor) -> Tensor:
        for one in self.layers:
            x = cast("Tensor", one(x))
        return x


class DigitsCNN(Classifier):
    """(n, 1, 8, 8) -> (n, 10): two convolutions, a pool, dropout, a linear layer."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.first, self.second = ConvBN(32, 3), ConvBN(64, 3)
        self.pool = layer.MaxPool2d(2)
        self.drop = layer.Dropout(0.25)
        self.fc = layer.Linear(classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.second(self.first(x)))
        return self.fc(self.drop(autograd.flatten(x)))


class CNN(Classifier):
    """LeNet's plan: convolution and pool twice, two linear layers."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer.Conv2d(20, 5), layer.Conv2d(50, 5)
        self.pool1, self.pool2 = layer.MaxPool2d(2), layer.MaxPool2d(2)
        self.fc1, self.fc2 = layer.Linear(500), layer.Linear(classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool1(autograd.relu(self.conv1(x)))
        x = self.pool2(autograd.relu(self.conv2(x)))
        return self.fc2(autograd.relu(self.fc1(autograd.flatten(x))))


class AlexNet(Classifier):
    """Krizhevsky, Sutskever and Hinton (2012), of one column and kernels for small images."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        pool = layer.MaxPool2d
        convs = [layer.Conv2d(n, 3, padding=1, activation="RELU") for n in (64, 192, 384, 256, 256)]
        self.features = Chain(convs[0], pool(2), convs[1], pool(2), *convs[2:], pool(2))
        self.drop1, self.drop2 = layer.Dropout(0.5), layer.Dropout(0.5)
        self.fc1, self.fc2, self.out = (layer.Linear(n) for n in (1024, 1024, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop1(autograd.flatten(self.features(x)))
        x = self.drop2(autograd.relu(self.fc1(x)))
        return self.out(autograd.relu(self.fc2(x)))


class Block(layer.Layer):
    """relu(f(x) + shortcut(x)): two 3x3 convolutions, or 1x1, 3x3, 1x1 (a bottleneck)."""

    def __init__(self, width: int, stride: int, bottleneck: bool, project: bool) -> None:
        super().__init__()
        if bottleneck:
            out = 4 * width
            self.body = Chain(ConvBN(width, 1), ConvBN(width, 3, stride),
                              ConvBN(out, 1, relu=False))
        else:
            out = width
            self.body = Chain(ConvBN(width, 3, stride), ConvBN(out, 3, relu=False))
        self.shortcut = ConvBN(out, 1, stride, relu=False) if project else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return autograd.relu(autograd.add(y, self.shortcut(x) if self.shortcut else x))


class ResNet(Classifier):
    """He et al. (2016), depth 18, 34, 50 or 101; small: for images of 32 pixels."""

    DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}

    def __init__(self, depth: int = 18, classes: int = 10, small: bool = True) -> None:
        super().__init__()
        bottleneck = depth >= 50
        self.stem = ConvBN(64, 3) if small else ConvBN(64, 7, 2)
        self.pool = None if small else layer.MaxPool2d(3, 2, 1)
        blocks = []
        for stage, count in enumerate(self.DEPTHS[depth]):
            for i in range(count):
                stride = 2 if stage and not i else 1
                project = i == 0 and (stage > 0 or bottleneck)
                blocks.append(Block(64 << stage, stride, bottleneck, project))
        self.blocks = Chain(*blocks)
        self.fc = layer.Linear(classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.blocks(self.pool(x) if self.pool else x)
        return self.fc(autograd.flatten(autograd.globalaveragepool(x)))


class Separable(layer.Layer):
    """x' + two separable convolutions with batch normalisation and a pool (Chollet, 2017)."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.sep1 = layer.SeparableConv2d(channels, 3, padding=1)
        self.sep2 = layer.SeparableConv2d(channels, 3, padding=1)
        self.bn1, self.bn2 = layer.BatchNorm2d(), layer.BatchNorm2d()
        self.pool = layer.MaxPool2d(3, stride, 1) if stride > 1 else None
        self.shortcut = ConvBN(channels, 1, stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.sep1(autograd.relu(x)))
        y = self.bn2(self.sep2(autograd.relu(y)))
        return autograd.add(self.pool(y) if self.pool else y, self.shortcut(x))


class Xception(Classifier):
    """Chollet (2017), with fewer blocks, for images of 32 pixels."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = Chain(ConvBN(32, 3), ConvBN(64, 3))
        self.blocks = Chain(Separable(128, 2), Separable(256, 2), Separable(256, 1))
        self.fc = layer.Linear(classes)

    def forward(self, x: Tensor) -> Tensor:
        x = autograd.relu(self.blocks(self.stem(x)))
        return self.fc(autograd.flatten(autograd.globalaveragepool(x)))


MODELS = {"cnn": CNN, "alexnet": AlexNet, "resnet": ResNet, "xceptionnet": Xception}
