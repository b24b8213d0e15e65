"""models - the models of the sweep, by package: torchvision, timm, transformers. No downloads."""
import torch
from torch.nn import functional as F

CLASSES = 10

# Of torchvision beside its classification models.
SEGMENTATION = ("deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")

# More than 600 million parameters, of which a comparison needs nine copies.
TOO_LARGE = ("regnet_y_128gf", "vit_h_14")

# torchvision's own sizes of images, where a smaller one is no image of the model.
SIZE = {"inception_v3": 299, "maxvit_t": 224}
EXACT = ("vit_",)                       # take an argument image_size

# The smallest model of each family of timm. Left out: three families whose smallest has 87 to 412
# million parameters and images of 546 to 768 pixels (deepseek_vit, gemma4_vit, qwen3_vit), nasnet
# and pnasnet, which have only a large one.
TIMM = """
    beit_base_patch16_224 halonet_h1 test_byobnet cait_xxs24_224 coat_tiny convit_tiny
    convmixer_768_32 test_convnext cpubone_nano crossvit_tiny_240 csatv2 cs3darknet_focus_s
    cspnext_tiny davit_tiny deit_tiny_patch16_224 densenet121 dla46x_c dpn48b edgenext_xx_small
    efficientformer_l1 efficientformerv2_s0 test_efficientnet efficientvim_m1 efficientvit_b0
    efficientvit_m0 eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 focalnet_tiny_srf
    gcvit_xxtiny ghostnet_050 hardcorenas_b hgnetv2_b0 hiera_tiny_224 hieradet_small
    hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 inception_v3 inception_v4
    lcnetv2_small levit_128s lowformer_b0 test_mambaout test_coatnet poolformerv2_s12
    gmlp_ti16_224 mobilenetv3_small_050 mobilenetv5_base mobilevit_xxs mvitv2_tiny
    naflexvit_base_patch16_parfac_gap nest_tiny nextvit_small test_nfnet pit_ti_224 pvt_v2_b0
    rdnet_tiny regnetx_002 repghostnet_050 repvit_m1 res2next50 resnest14d test_resnet
    resnetv2_18 rexnet_100 selecsls42 legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18
    starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_tiny_window8_256
    swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small vgg11
    visformer_tiny test_vit vit_tiny_r_s16_p8_224 test_vit_relpos samvit_base_patch16_224
    vitamin_small_224 volo_d1_224 ese_vovnet19b_slim_dw legacy_xception xception41p
    xcit_nano_12_p8_224
""".split()


def torchvision_names():
    import torchvision
    names = torchvision.models.list_models(module=torchvision.models)
    return [*(name for name in names if name not in TOO_LARGE), *SEGMENTATION]


def timm_names():
    return TIMM


def transformers_names():
    from transformers_zoo import ARCHITECTURES
    return list(ARCHITECTURES)


def no_dropout(net):
    """Dropout and stochastic depth at p = 0, since both draw from other streams than torch's."""
    for module in net.modules():
        kind = type(module).__name__.lower()
        if "drop" in kind or "stochasticdepth" in kind:
            for name in ("p", "drop_prob"):
                if hasattr(module, name):
                    setattr(module, name, 0.0)
        for name in ("dropout", "dropout_p", "drop_rate", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return net


def first_tensor(result):
    """The result of a model, or the first of several, as of networks with heads beside."""
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    return result


def loss_of(result, target):
    """Cross entropy of the logits (n, classes, ...)."""
    return F.cross_entropy(first_tensor(result), target)


def build(package, name, batch, size=None, **transformer):
    """(model in training mode, loss function or None, batch); size: pixels of a side, where the
    model's own is not meant."""
    torch.manual_seed(7)
    if package == "transformers":
        from transformers_zoo import build as build_transformer
        net, example = build_transformer(name, batch, **transformer)
        return no_dropout(net).train(), None, example
    if package == "timm":
        import timm
        net = timm.create_model(name, num_classes=CLASSES)
        size = size or net.default_cfg.get("input_size", (3, 224, 224))[-1]
    else:
        import torchvision
        size = size or SIZE.get(name, 96)
        given = {}
        if name.startswith(EXACT):
            given["image_size"] = size
        if name not in SEGMENTATION:
            given["num_classes"] = CLASSES
        else:
            given.update(num_classes=CLASSES, weights_backbone=None)
        if name in ("googlenet", "inception_v3"):
            given["init_weights"] = True
        net = torchvision.models.get_model(name, weights=None, **given)
    images = torch.randn(batch, 3, size, size)
    shape = (batch, size, size) if name in SEGMENTATION else (batch,)
    return no_dropout(net).train(), loss_of, (images, torch.randint(0, CLASSES, shape))
