#!/usr/bin/env python3
"""models.py - architectures exported by PyTorch with random weights: Weir beside onnxruntime.

    models.py [NAME...] [--folder FOLDER] [--export] [--steps N] [--budget SHARE]

Exports each network to FOLDER (default: a temporary one; what is there already is not exported
again) and runs it on the same input by onnxruntime and by Weir with the graph off and on. A row
says how far the outputs differ, relative to the largest of onnxruntime's, and whether the graph
keeps the bits. --steps: trains N steps by SGD towards outputs of 0 with the graph off, on, and on
within a share of the peak (50%), on a batch of TRAINED: as many samples as it takes for activations
to outweigh the parameters, which no plan can do without. The row then says whether losses and
weights have equal bits, and the planned and the measured bytes of the last. Needs torch,
torchvision, transformers, onnx, onnxscript, onnxruntime and the package weir (PYTHONPATH).
"""
import argparse
import os
import tempfile
import warnings

import numpy as np

VISION = ["alexnet", "vgg11", "resnet18", "resnet50", "resnext50_32x4d", "densenet121",
          "squeezenet1_0", "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small",
          "mobilenet_v3_large", "mnasnet0_5", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
          "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf", "regnet_x_400mf",
          "convnext_tiny", "googlenet", "vit_b_32", "swin_t", "swin_v2_t"]
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
TEXT = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", "gpt2": "GPT2",
        "electra": "Electra", "albert": "Albert", "opt": "OPT", "llama": "Llama", "qwen2": "Qwen2",
        "gpt_neox": "GPTNeoX", "mistral": "Mistral", "phi": "Phi", "stablelm": "StableLm"}
SMALL = {"hidden_size": 64, "dim": 64, "n_embd": 64, "num_hidden_layers": 2, "n_layers": 2,
         "n_layer": 2, "num_attention_heads": 4, "n_heads": 4, "n_head": 4,
         "num_key_value_heads": 2, "intermediate_size": 128, "hidden_dim": 128, "ffn_dim": 128,
         "vocab_size": 100, "max_position_embeddings": 64, "n_positions": 64,
         "word_embed_proj_dim": 64, "embedding_size": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}

# Samples of a training step, and the size of its images or its texts.
TRAINED = {**{name: (8, 48) for name in TEXT},
           "squeezenet1_0": (16, 64), "squeezenet1_1": (16, 64), "mobilenet_v2": (16, 64),
           "mobilenet_v3_small": (32, 64), "mobilenet_v3_large": (32, 64), "mnasnet0_5": (32, 64),
           "shufflenet_v2_x0_5": (32, 64), "shufflenet_v2_x1_0": (32, 64),
           "efficientnet_b0": (16, 64), "regnet_y_400mf": (32, 64), "regnet_x_400mf": (32, 64),
           "resnet18": (48, 64), "googlenet": (32, 64), "densenet121": (16, 64)}


def image_network(name, batch=2, size=0):
    import torch
    import torchvision
    if name in SEGMENTATION:
        made = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None,
                                                             num_classes=5)

        class Out(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = made

            def forward(self, x):
                return self.net(x)["out"]
        return Out(), torch.randn(1, 3, 64, 64)     # of one size only
    more = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    net = getattr(torchvision.models, name)(weights=None, num_classes=10, **more)
    size = size or (224 if name in ("vit_b_32", "swin_t", "swin_v2_t") else 64)
    return net, torch.randn(batch, 3, size, size)


def text_network(name, batch=2, size=16):
    import torch
    import transformers
    kind = TEXT[name]
    config = getattr(transformers, kind + "Config")()
    for key, value in SMALL.items():
        if hasattr(config, key):
            setattr(config, key, value)
    config.use_cache = False
    made = getattr(transformers, kind + "Model")(config)

    class Out(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = made

        def forward(self, tokens):
            return self.net(tokens)[0]
    return Out(), torch.randint(3, 90, (batch, size))


def export(name, folder, shape=()):
    """The paths of the model and of its input; made where they are missing."""
    import torch
    base = os.path.join(folder, "-".join([name, *map(str, shape)]))
    path, data = base + ".onnx", base + ".npy"
    if not (os.path.exists(path) and os.path.exists(data)):
        torch.manual_seed(0)
        net, x = (text_network if name in TEXT else image_network)(name, *shape)
        net.eval()
        torch.onnx.export(net, (x,), path, dynamo=True, opset_version=20,
                          optimize=name.startswith("shuffle"),
                          external_data=False, verbose=False)
        np.save(data, x.numpy())
    return path, data


def outputs_of(path, x):
    """(onnxruntime's first output, Weir's with the graph off, and on)."""
    import onnxruntime
    import weir
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    want = session.run(None, {session.get_inputs()[0].name: x})[0]
    net = weir.onnx.load(path)
    off = net.run([x])[0].numpy()
    t = weir.array(x)
    with weir.Graph(weir.cpu()) as graph:
        y = net.run([t])[0]
    graph.run()
    return want, off, y.numpy()


def row_of(name, folder):
    path, data = export(name, folder)
    want, off, on = outputs_of(path, np.load(data))
    away = float(np.max(np.abs(off - want)) / max(1e-30, float(np.max(np.abs(want)))))
    return f"{away:.1e} | {'yes' if off.tobytes() == on.tobytes() else 'no'}"


def trained(path, x, steps, **how):
    """(losses, bits of all states, planned bytes, arena, measured bytes) of a training."""
    import weir
    from weir import autograd, opt

    class Trained(weir.onnx.OnnxModel):
        def train_one_batch(self, x, target):
            loss = autograd.mse_loss(self.run([x])[0], target)
            self.optimizer(loss)
            return loss

    weir.cpu().SetRandSeed(1)
    net = Trained(path)
    net.optimizer = opt.SGD(lr=1e-4)
    given = weir.array(x)
    net.eval()
    target = weir.zeros(net.run([given])[0].shape)
    net.compile([given], is_train=True, **how)
    losses = [float(net(given, target).numpy().item()) for _ in range(steps)]
    states = b"".join(t.numpy().tobytes() for t in net.get_states().values())
    stats = net.graphs[0].stats if how.get("use_graph") else {}
    measured = net.graphs[0].measure() if stats else 0
    net.eval()
    return losses, states, stats.get("planned_peak_bytes"), stats.get("arena_bytes"), measured


def training_row(name, folder, steps, budget):
    path, data = export(name, folder, TRAINED[name])
    x = np.load(data)
    off = trained(path, x, steps)
    on = trained(path, x, steps, use_graph=True)
    half = trained(path, x, steps, use_graph=True, budget=budget)
    equal = off[:2] == on[:2] == half[:2]
    batch, size = TRAINED[name]
    return (f"{batch} x {size} | {off[0][0]:.3g} to {off[0][-1]:.3g} | {on[2]} | {half[2]} | "
            f"{'yes' if equal else 'no'} | {'yes' if half[3] == half[4] else 'no'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder")
    parser.add_argument("--export", action="store_true", help="only export")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--budget", default="50%")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.folder or tempfile.mkdtemp()
    every = list(TRAINED) if options.steps else [*VISION, *SEGMENTATION, *TEXT]
    for name in options.names or every:
        try:
            if options.export:
                export(name, folder)
                print(f"{name}: exported", flush=True)
                continue
            row = (training_row(name, folder, options.steps, options.budget) if options.steps
                   else row_of(name, folder))
            print(f"| {name} | {row} |", flush=True)
        except Exception as error:          # a network that one of the packages refuses
            print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:150]} | |",
                  flush=True)


if __name__ == "__main__":
    main()
