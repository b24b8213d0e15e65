"""torch_models - small models of PyTorch, each with a loss and a batch, to test weir.torch."""
import torch
from torch import nn
from torch.nn import functional as F


def classes(logits, target):
    """Cross-entropy of logits (..., c) with classes (...)."""
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


class SmallCnn(nn.Module):
    """Batch norm, pools, a skip in place, dropout."""

    def __init__(self, p=0.0):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8)
        self.pool, self.drop, self.fc = nn.MaxPool2d(2), nn.Dropout(p), nn.Linear(8, 4)

    def forward(self, x):
        h = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        h = F.relu(h + self.bn2(self.conv2(h)))
        return self.fc(self.drop(F.adaptive_avg_pool2d(h, 1).flatten(1)))


class Basic(nn.Module):
    """A residual block of ResNet."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False),
                                  nn.BatchNorm2d(cout)) if stride != 1 or cin != cout else None

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        h += x if self.down is None else self.down(x)
        return F.relu(h, inplace=True)


class ResNet18(nn.Module):
    """ResNet-18 for small images, an eighth as wide."""

    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.pool = nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.Sequential(*[
            nn.Sequential(Basic(a, b, 1 if i == 0 else 2), Basic(b, b, 1))
            for i, (a, b) in enumerate(zip(sizes, sizes[1:]))])
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8 * width, 10)

    def forward(self, x):
        h = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(torch.flatten(self.avgpool(self.layers(h)), 1))


class Gpt(nn.Module):
    """A decoder block with tied weights, positions, causal attention."""

    def __init__(self, words=13, width=16, heads=4, p=0.0):
        super().__init__()
        self.heads, self.p = heads, p
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(8, width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        n, t = x.shape
        h = self.tokens(x) + self.places(torch.arange(t))
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.ln1(h)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        h = h + self.out(a.transpose(1, 2).reshape(n, t, -1))
        h = h + self.down(F.gelu(self.up(self.ln2(h)), approximate="tanh"))
        return self.head(h)


class Tagger(nn.Module):
    """An LSTM in both directions."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(10, 4)

    def forward(self, x):
        return self.fc(self.lstm(self.words(x))[0])


def numbers(seed):
    return torch.Generator().manual_seed(seed)


def build(name):
    """(model, loss function, batch), the same at each call."""
    torch.manual_seed(7)
    g = numbers(11)
    if name == "mlp":
        return (Perceptron(), classes,
                (torch.randn(5, 6, generator=g), torch.randint(0, 3, (5,), generator=g)))
    if name == "images":        # activations are most of its memory
        return (SmallCnn(), classes, (torch.randn(16, 3, 16, 16, generator=g),
                                      torch.randint(0, 4, (16,), generator=g)))
    if name in ("cnn", "resnet18"):
        size, model = (8, SmallCnn()) if name == "cnn" else (64, ResNet18())
        return (model, classes, (torch.randn(4, 3, size, size, generator=g),
                                 torch.randint(0, 4, (4,), generator=g)))
    if name == "gpt":
        return (Gpt(), classes, (torch.randint(0, 13, (3, 8), generator=g),
                                 torch.randint(0, 13, (3, 8), generator=g)))
    return (Tagger(), classes, (torch.randint(0, 11, (3, 5), generator=g),
                                torch.randint(0, 4, (3, 5), generator=g)))


NAMES = ("mlp", "cnn", "resnet18", "gpt", "lstm")
