"""Trains models of other libraries on an NVIDIA GPU with Cresset as torch, and with torch, and compares the losses.

    python bench/cuda_libraries.py [TEXT...]     only the programs whose names contain a TEXT; --device cpu for the host

The environment has torch and some of transformers, timm, torchvision, accelerate and lightning; PYTHONPATH names the
folder that has `cresset`.  An environment whose torch is Cresset is made beside it, with links to the libraries.  A program
takes three steps of SGD (Trainer, accelerate and lightning: their own loops) from parameters that NumPy draws, without dropout.
float32 is not rounded to TF32.  Programs named `...64` repeat those of images in float64: batch norm of few elements enlarges
the rounding of float32, in both systems."""
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCHVISION = """alexnet vgg11_bn resnet18 resnet50 resnext50_32x4d densenet121 squeezenet1_1 googlenet shufflenet_v2_x1_0 mobilenet_v2
mobilenet_v3_small mnasnet1_0 efficientnet_b0 efficientnet_v2_s regnet_y_400mf regnet_x_400mf convnext_tiny vit_b_16 swin_t swin_v2_t""".split()
TIMM = """resnet18 resnetv2_18 seresnet18 res2net50_26w_4s resnest14d densenet121 dla34 hrnet_w18_small xception41 repvgg_a0 ghostnet_050
efficientnet_b0 convnext_atto convnextv2_atto mixer_s32_224 vit_tiny_patch16_224 swin_tiny_patch4_window7_224 pvt_v2_b0 levit_128s
mobilevit_xxs poolformer_s12""".split()
LOOPS = ["trainer_gpt2", "trainer_bert", "trainer_bf16", "accelerate", "accelerate_bf16", "lightning", "lightning_bf16"]
WIDE = {"mixer_s32_224", "levit_128s", "swin_tiny_patch4_window7_224", "vit_tiny_patch16_224"}  # images of 224 pixels
NEAR = {"": 1e-3, "64": 1e-6, "bf16": 2e-2}


def transformers_programs():
    """tests/libraries/programs/transformers.py."""
    sys.path.insert(0, str(ROOT / "tests/libraries"))
    spec = importlib.util.spec_from_file_location("transformers_programs", ROOT / "tests/libraries/programs/transformers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- a program, in a process whose torch is one of the two ---

def settle(model):
    """NumPy's numbers as parameters, and no dropout."""
    import numpy
    import torch
    draw = numpy.random.RandomState(0)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters(), key=lambda item: item[0]):
            x = draw.standard_normal(tuple(p.shape))
            if p.dim() == 1:
                x = 1 + 0.05 * x if name.endswith("weight") else 0.02 * x
            elif p.dim():
                x = x * 0.5 / max(1, p[0].numel()) ** 0.5
            p.copy_(torch.from_numpy(numpy.ascontiguousarray(x)))
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name or name == "p" and ("Drop" in type(module).__name__ or "Stochastic" in type(module).__name__)):
                setattr(module, name, 0.0)
    return model


def drawn(seed, *size):
    import numpy
    import torch
    return torch.from_numpy(numpy.random.RandomState(seed).standard_normal(size).astype("float32"))


def steps(model, compute_loss, lr):
    import torch
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compute_loss()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_transformer(name, device):
    programs = transformers_programs()
    model = settle(programs.make(name)).train().to(device)
    inputs = {key: value.to(device) for key, value in programs.inputs_of(name).items()}
    return steps(model, lambda: model(**inputs).loss, 1e-2)


def train_on_images(library, name, device, wide):
    import torch
    side = 224 if name in WIDE else 64
    if library == "torchvision":
        import torchvision
        more = {"image_size": side} if name.startswith("vit_") else {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
        model = torchvision.models.get_model(name, weights=None, num_classes=10, **more)
    else:
        import timm
        model = timm.create_model(name, num_classes=10)
    model, x, y = settle(model).train().to(device), drawn(1, 4, 3, side, side).to(device), torch.arange(4, device=device)
    if wide:
        model, x = model.double(), x.double()

    def loss():
        out = model(x)
        return torch.nn.functional.cross_entropy(out[0] if isinstance(out, tuple) else out, y)
    return steps(model, loss, 1e-3)


def train_by_trainer(name, device):
    import numpy
    import torch
    import transformers
    programs, losses = transformers_programs(), []

    class Log(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more):
            losses.extend([float(logs["loss"])] if "loss" in logs else [])
    ids = torch.from_numpy(numpy.random.RandomState(4).randint(3, 99, (64, 10)))
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(folder, logging_steps=1, report_to="none", max_steps=6, disable_tqdm=True,
                                                  bf16="bf16" in name, use_cpu=device == "cpu")
        trainer = transformers.Trainer(settle(programs.make("bert" if "bert" in name else "gpt2")), settings,
                                       train_dataset=[{"input_ids": i, "labels": i} for i in ids], callbacks=[Log()])
        trainer.train()
    return losses


def small_problem():
    import torch
    nn = torch.nn
    net = settle(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5)))
    return net, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(drawn(3, 24, 16), torch.arange(24) % 5), batch_size=8)


def train_by_accelerate(name, device):
    import accelerate
    import torch
    accelerator = accelerate.Accelerator(mixed_precision="bf16" if "bf16" in name else "no", cpu=device == "cpu")
    net, loader = small_problem()
    net, optimizer, loader = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-3), loader)
    losses = []
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(net(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_by_lightning(name, device):
    import torch
    try:
        import lightning
    except ImportError:
        import pytorch_lightning as lightning
    losses, (made, loader) = [], small_problem()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = made

        def training_step(self, batch, index):
            losses.append(torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))
            return losses[-1]

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)
    lightning.Trainer(max_steps=3, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                      accelerator="gpu" if device == "cuda" else "cpu", devices=1,
                      precision="bf16-mixed" if "bf16" in name else "32-true").fit(Module(), loader)
    return [float(loss) for loss in losses]


def run(program, device):
    library, name = program.split(":")
    if library == "transformers":
        return train_transformer(name, device)
    if library in ("torchvision", "timm"):
        return train_on_images(library, name.removesuffix("-64"), device, name.endswith("-64"))
    return {"trainer": train_by_trainer, "accelerate": train_by_accelerate, "lightning": train_by_lightning}[name.partition("_")[0]](name, device)


def work(device, programs):
    """Prints a line of JSON for each program."""
    import torch
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    for program in programs:
        try:
            row = {"losses": run(program, device)}
        except Exception as error:  # a program that one system cannot run is a row
            place = traceback.extract_tb(error.__traceback__)[-1]
            row = {"error": f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"[:300]}
        print("ROW " + json.dumps({"program": program, **row}), flush=True)


# --- both systems ---

def all_programs():
    there = {name for name in ("transformers", "torchvision", "timm", "accelerate", "lightning") if importlib.util.find_spec(name)}
    if "transformers" in there:
        yield from (f"transformers:{name}" for name in transformers_models())
    for library, names in (("torchvision", TORCHVISION), ("timm", TIMM)):
        if library in there:
            yield from (f"{library}:{name}{wide}" for wide in ("", "-64") for name in names)
    for name in LOOPS:
        if {"trainer": "transformers"}.get(name.partition("_")[0], name.partition("_")[0]) in there:
            yield f"loops:{name}"


def transformers_models():
    import torch  # noqa: F401 - the module needs it
    return list(transformers_programs().MODELS)


def make_environment(folder):
    """A virtual environment with links to the libraries of this one, whose torch is Cresset."""
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    packages = Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, text=True, capture_output=True).stdout.strip())
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("torch-", "torchaudio", "triton", "cresset", "__pycache__", "_virtualenv", "sitecustomize")) and \
                entry.name not in ("torch", "functorch", "torchgen") and entry.suffix != ".pth" and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    (packages / "cresset.pth").write_text(str(Path(importlib.util.find_spec("cresset").origin).parent.parent))
    subprocess.run([python, "-m", "cresset", "install-torch"], check=True, stdout=subprocess.DEVNULL)
    return python


def rows_of(python, device, programs):
    """Rows by program; a process that ends is started again behind the program that ended it.  Loops of libraries that
    keep settings in the process have one each."""
    rows, left = {}, list(programs)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    while left:
        loop = left[0].startswith("loops:")
        batch = left[:1] if loop else [p for p in left if not p.startswith("loops:")]
        done = subprocess.run([python, __file__, "--work", device, *batch], env=environment, text=True, capture_output=True, check=False)
        for line in done.stdout.splitlines():
            if line.startswith("ROW "):
                row = json.loads(line[4:])
                rows[row["program"]] = row
                left.remove(row["program"])
        ended = [p for p in batch if p in left]
        if ended:
            rows[ended[0]] = {"error": f"the process ended with {done.returncode}: {done.stderr[-200:]}"}
            left.remove(ended[0])
    return rows


def version_of_torch():
    """The version of the torch that is compared; None where it is missing, or is Cresset."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    return None if "cresset" in version else version


def main(device, texts):
    programs = [p for p in all_programs() if not texts or any(text in p for text in texts)]
    start, counts = time.time(), {}
    with tempfile.TemporaryDirectory() as folder:
        ours = rows_of(make_environment(Path(folder) / "env"), device, programs)
    peer = rows_of(sys.executable, device, programs)
    for program in programs:
        a, b = ours[program], peer[program]
        library = program.split(":")[0] + ("-64" if program.endswith("-64") else "")
        count = counts.setdefault(library, [0, 0, 0])
        count[0] += 1
        if "losses" not in a or "losses" not in b:
            print(f"{program}: Cresset {a.get('error', 'runs')}; torch {b.get('error', 'runs')}")
            continue
        count[1] += 1
        apart = max((abs(x - y) / max(1e-3, abs(y)) for x, y in zip(a["losses"], b["losses"], strict=True)), default=0)
        near = NEAR["64" if program.endswith("-64") else "bf16" if program.endswith("bf16") else ""]
        count[2] += apart <= near
        print(f"{program}: {apart:.1e}" + ("" if apart <= near else f", Cresset {a['losses']}, torch {b['losses']}"))
    for library, (all_, run_, near_) in counts.items():
        print(f"{library}: {all_} programs, {run_} run in both, losses of {near_} are near")
    print(f"{time.time() - start:.0f} s, torch {version_of_torch()}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3:])
    elif version_of_torch() is None or importlib.util.find_spec("cresset") is None:
        print("bench/cuda_libraries.py compares with torch: install torch in this environment, and set PYTHONPATH to the folder that "
              "has cresset", file=sys.stderr)
        sys.exit(2)
    else:
        chosen = "cpu" if "--device" in sys.argv and sys.argv[sys.argv.index("--device") + 1] == "cpu" else "cuda"
        main(chosen, [a for a in sys.argv[1:] if a not in ("--device", "cpu", "cuda")])
