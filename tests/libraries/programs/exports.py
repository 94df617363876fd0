"""torch.export: models of other libraries, exported, saved, read again and run on two batches.

With torch, which records, only the models run.  `same` is whether the program and the file give the module's bits, `varies`
whether one program takes both batches (and lengths, for models of words).
"""
import importlib.util
import io
import sys
from pathlib import Path

import checkout
import torch
from program import PROGRAMS, program, summary
from torch.utils._pytree import tree_leaves

OURS = torch.__version__.partition("+")[2].startswith("cresset")


def beside(library):
    """The programs of another library, which has the models."""
    path = Path(__file__).with_name(f"{library}.py")
    spec = importlib.util.spec_from_file_location(f"programs_{library}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    PROGRAMS.clear()  # its programs are not programs of this file
    return module


class Tensors(torch.nn.Module):
    """The tensors of a module's result that are no caches; arguments by name."""

    def __init__(self, model, *names, **more):
        super().__init__()
        self.model, self.names, self.more = model, names, more

    def forward(self, *args):
        named = dict(zip(self.names, args))
        out = self.model(*args[len(named):], **named, **self.more)
        found = [getattr(out, name) for name in ("logits", "sample") if getattr(out, name, None) is not None]
        return found or [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]


def equal(found, expected):
    return len(found) == len(expected) and all(torch.equal(x, y) for x, y in zip(found, expected))


def check(module, make, dims=1):
    """make(k): the arguments of call k, of which the first `dims` dims vary."""
    calls = []
    for k in (0, 1):
        torch.manual_seed(k)
        calls.append(make(k))
    with torch.no_grad():
        expected = [module(*args) for args in calls]
        outputs = [summary(y[0]) for y in expected]
        if not OURS:
            return {"same": True, "varies": True, "outputs": outputs}
        shapes = tuple({d: torch.export.Dim.AUTO for d in range(dims)} for _ in calls[0])
        exported = torch.export.export(module, calls[0], dynamic_shapes=(shapes,))
        file = io.BytesIO()
        torch.export.save(exported, file)
        read = torch.export.load(io.BytesIO(file.getvalue()))
        same = equal(exported.module()(*calls[0]), expected[0]) and equal(read.module()(*calls[0]), expected[0])
        try:
            varies = equal(read.module()(*calls[1]), expected[1])
        except AssertionError:  # a guard: the size is that of the first call
            varies = False
    return {"same": same, "varies": varies, "outputs": outputs}


def images(size, channels=3):
    return lambda k: (torch.randn(2 + k, channels, size, size),)


# --- models ---

transformers, timm, torchvision, diffusers = map(beside, ("transformers", "timm", "torchvision", "diffusers"))


def words(k):
    return torch.randint(3, 99, (2 + k, 12 - 3 * k))


def transformers_model(name):
    kind, _ = transformers.MODELS[name]
    model = transformers.make(name).eval()
    if kind == "ImageClassification":
        return check(Tensors(model, "pixel_values"), images(32))
    if kind == "AudioClassification":
        return check(Tensors(model, "input_values"), lambda k: (torch.randn(2 + k, 400),))
    if kind == "Seq2SeqLM":
        return check(Tensors(model, "input_ids", "decoder_input_ids", use_cache=False), lambda k: (words(k), words(k)[:, :7]), 2)
    if name == "mamba":  # the model pads to whole chunks, which fixes the length in torch, too
        return check(Tensors(model, "input_ids", use_cache=False), lambda k: (words(k) if not k else torch.randint(3, 99, (3, 12)),))
    return check(Tensors(model, "input_ids", **({"use_cache": False} if kind == "CausalLM" else {})), lambda k: (words(k),), 2)


def timm_model(name):
    from timm import create_model
    size = timm.FIXED.get(name, 64)
    torch.manual_seed(0)
    model = create_model(name, num_classes=10, **(timm.MODELS[name] if size == 64 else {}))
    return check(Tensors(model.eval()), images(size))


def torchvision_model(name):
    size = torchvision.SIZES.get(name, 64)
    options = {"image_size": size} if name.startswith("vit_") else torchvision.OPTIONS.get(name, {})
    torch.manual_seed(0)
    return check(Tensors(torchvision.get_model(name, weights=None, num_classes=10, **options).eval()), images(size))


def nanogpt():
    sys.path.insert(0, str(checkout.ROOT / "nanoGPT"))
    from model import GPT, GPTConfig
    torch.manual_seed(0)
    model = GPT(GPTConfig(block_size=32, vocab_size=99, n_layer=2, n_head=2, n_embd=32, dropout=0.0)).eval()
    return check(Tensors(model), lambda k: (words(k), words(k)), 2)


def autoencoder():
    torch.manual_seed(0)
    model = diffusers.diffusers.AutoencoderKL(block_out_channels=(16,), norm_num_groups=8, latent_channels=2)
    return check(Tensors(model.eval(), sample_posterior=False), images(8))


for _name in transformers.MODELS:
    program(f"transformers_{_name}")(lambda name=_name: transformers_model(name))
for _name in """resnet10t resnet18 resnet26d resnext26ts seresnext26t_32x4d ecaresnet26t resnetv2_18 skresnet18 res2net50_26w_4s
        resnest14d gcresnext26ts botnet26t_256 lambda_resnet26t nf_regnet_b0 densenet121 vgg11_bn darknet17 cspresnet50 dla34 dpn48b
        hrnet_w18_small inception_next_tiny regnetx_002 regnety_002 regnetz_005 repvgg_a0 mobileone_s0 rexnet_100 ghostnet_050
        mobilenetv1_100 mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small mnasnet_small spnasnet_100 fbnetc_100
        efficientnet_lite0 efficientnet_b0 tf_efficientnetv2_b0 tinynet_e lcnet_035 mixnet_s convnext_atto convnextv2_atto
        edgenext_xx_small fastvit_t8 repvit_m0_9 starnet_s1 hgnetv2_b0 ese_vovnet19b_dw poolformer_s12 mobilevit_xxs efficientformer_l1
        focalnet_tiny_srf pvt_v2_b0 mixer_s32_224 levit_128s coat_lite_tiny crossvit_tiny_240 vit_tiny_patch16_224
        deit_tiny_patch16_224 swin_tiny_patch4_window7_224 pit_ti_224 mvitv2_tiny""".split():
    program(f"timm_{_name}", 1e-3)(lambda name=_name: timm_model(name))
for _name in """alexnet convnext_tiny densenet121 densenet169 efficientnet_b0 efficientnet_b1 efficientnet_v2_s googlenet inception_v3
        maxvit_t mnasnet0_5 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_x_800mf regnet_y_400mf
        regnet_y_800mf resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 squeezenet1_0 squeezenet1_1
        swin_t swin_v2_t vgg11_bn vit_b_32""".split():
    program(f"torchvision_{_name}", 1e-3)(lambda name=_name: torchvision_model(name))
program("nanogpt")(nanogpt)
program("diffusers_unet", 5e-4)(lambda: check(Tensors(diffusers.unet().eval()), lambda k: (*images(8, 1)(k), torch.arange(2 + k))))
program("diffusers_autoencoder", 5e-4)(autoencoder)
