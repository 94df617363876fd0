"""ONNX: models of other libraries as files, checked by onnx and run by onnxruntime.

With torch, which records, only the models run.  `varies` is whether the file takes other sizes of the batch.
"""
import importlib.util
import tempfile
from pathlib import Path

import torch
from program import PROGRAMS, program, summary
from torch import nn

BATCHES = 3, 5


def beside(library):
    """The programs of another library, which has the models."""
    path = Path(__file__).with_name(f"{library}.py")
    spec = importlib.util.spec_from_file_location(f"programs_{library}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Logits(nn.Module):
    """The logits of a model of transformers."""

    def __init__(self, model, *names, **more):
        super().__init__()
        self.model, self.names, self.more = model, names, more

    def forward(self, *args):
        return self.model(**dict(zip(self.names, args)), **self.more).logits


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words, self.layer = nn.Embedding(50, 16), kind(16, 24, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(48, 5)

    def forward(self, x):
        return self.last(self.layer(self.words(x))[0][:, -1])


def block(into, out):
    return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True), nn.Conv2d(out, out, 3, padding=1),
                         nn.GroupNorm(4, out), nn.SiLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([block(3, 16), block(16, 32), block(32, 64)])
        self.up, self.smooth = nn.ConvTranspose2d(64, 32, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.join = nn.ModuleList([block(64, 32), block(48, 16)])
        self.last, self.pool = nn.Conv2d(16, 2, 1), nn.MaxPool2d(2)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](self.pool(a))
        y = self.join[0](torch.cat([self.up(self.down[2](self.pool(b))), b], 1))
        return self.last(self.join[1](torch.cat([self.smooth(y), a], 1)))


def check(module, make):
    """Numbers of the results of the file for batches of two sizes; with torch, of the module."""
    calls = []
    for n in BATCHES:
        torch.manual_seed(n)
        calls.append(make(n))
    with torch.no_grad():
        expected = [module(*args) for args in calls]
    if not torch.__version__.partition("+")[2].startswith("cresset"):
        return {"valid": True, "varies": True, "outputs": [summary(y) for y in expected]}
    import numpy
    import onnx
    import onnxruntime
    shapes = tuple({0: "batch"} for _ in calls[0])
    program = torch.onnx.export(module, calls[0], dynamic_shapes=(shapes,) if isinstance(module, Logits) else shapes)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        program.save(path)
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    out = []
    for args, y in zip(calls, expected):
        got, = session.run(None, {port.name: x.numpy() for port, x in zip(session.get_inputs(), args)})
        assert got.shape == y.shape
        numpy.testing.assert_allclose(got, y.numpy(), rtol=0, atol=1e-4 * max(1.0, float(y.abs().max())))
        out.append(summary(torch.from_numpy(got)))
    return {"valid": True, "varies": session.get_inputs()[0].shape[0] == "batch", "outputs": out}


# --- models ---

def images(size):
    return lambda n: (torch.randn(n, 3, size, size),)


library = beside("transformers")
PROGRAMS.clear()  # its programs are not programs of this file


def transformers_model(name):
    kind, _ = library.MODELS[name]
    model = library.make(name).eval()

    def words(n, length=12):
        return torch.randint(3, 99, (n, length))
    if kind == "ImageClassification":
        return check(Logits(model, "pixel_values"), images(32))
    if kind == "Seq2SeqLM":
        return check(Logits(model, "input_ids", "decoder_input_ids", use_cache=False), lambda n: (words(n), words(n, 7)))
    return check(Logits(model, "input_ids", **({"use_cache": False} if kind == "CausalLM" else {})), lambda n: (words(n),))


def timm_model(name):
    import timm
    torch.manual_seed(0)
    return check(timm.create_model(name, num_classes=10).eval(), images(64))


def torchvision_model(name):
    from torchvision.models import get_model
    torch.manual_seed(0)
    return check(get_model(name, weights=None, num_classes=10).eval(), images(64))


def own_model(make, inputs):
    torch.manual_seed(0)
    return check(make().eval(), inputs)


for _name in """albert bert big_bird deberta deberta-v2 distilbert electra mpnet roberta bloom cohere falcon gemma gemma2 gpt2 gpt_neo gpt_neox
        gptj granite llama mamba mistral olmo opt phi phi3 qwen2 qwen3 stablelm bart t5 vit""".split():
    program(f"transformers_{_name}")(lambda name=_name: transformers_model(name))
for _name in "resnet10t regnetx_002 repvgg_a0 dla34 mobilenetv3_small_050 lcnet_035".split():
    program(f"timm_{_name}")(lambda name=_name: timm_model(name))
for _name in "resnet18 densenet121 mobilenet_v2 shufflenet_v2_x0_5 efficientnet_b0 squeezenet1_1 swin_t".split():
    program(f"torchvision_{_name}")(lambda name=_name: torchvision_model(name))
program("lstm")(lambda: own_model(lambda: Recurrent(nn.LSTM), lambda n: (torch.randint(0, 50, (n, 11)),)))
program("gru")(lambda: own_model(lambda: Recurrent(nn.GRU), lambda n: (torch.randint(0, 50, (n, 11)),)))
program("unet")(lambda: own_model(UNet, images(32)))
program("transformer")(lambda: own_model(lambda: nn.Transformer(32, 4, 2, 2, 64, batch_first=True), lambda n: (torch.randn(n, 7, 32), torch.randn(n, 5, 32))))
