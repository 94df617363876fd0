"""torchvision: classification models, operators, detection models, transforms and data sets."""
import struct
import tempfile
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from program import gradient_size, program, summary, train
from torchvision import ops, tv_tensors
from torchvision.models import detection, get_model, list_models, segmentation
from torchvision.transforms import v2

# --- models ---

SIZES = {"googlenet": 96, "inception_v3": 128, "maxvit_t": 224, "vit_h_14": 56, "alexnet": 96}
OPTIONS = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False, "aux_logits": False},
           "maxvit_t": {"input_size": (224, 224)}}
DOUBLE = "resnet101", "resnet152"  # untrained, their float32 gradients have two correct digits


def run_model(name):
    size = SIZES.get(name, 64)
    options = {"image_size": size} if name.startswith("vit_") else OPTIONS.get(name, {})
    torch.manual_seed(0)
    model = get_model(name, weights=None, num_classes=10, **options)
    torch.manual_seed(1)
    x, labels = torch.randn(2, 3, size, size), torch.tensor([3, 7])
    if name in DOUBLE:
        model, x = model.double(), x.double()
    with torch.no_grad():
        before = summary(model.eval()(x))
    torch.manual_seed(2)
    output = model.train()(x)
    parts = output if isinstance(output, tuple) else (output,)
    loss = sum(torch.nn.functional.cross_entropy(part, labels) for part in parts)
    loss.backward()
    return {"parameters": [sum(p.numel() for p in model.parameters())], "output": before, "loss": [loss.item()],
            "gradients": [gradient_size(model)]}


for _name in list_models(module=torchvision.models):
    program(f"model {_name}", 1e-3)(lambda name=_name: run_model(name))


@program("models of segmentation", 1e-3)
def _():
    out = {}
    for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
        torch.manual_seed(0)
        model = getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=4)
        torch.manual_seed(1)
        x, labels = torch.randn(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64))
        loss = torch.nn.functional.cross_entropy(model.train()(x)["out"], labels)
        loss.backward()
        out[name] = [loss.item(), gradient_size(model)]
    return out


def boxes(n, size, seed=0):
    torch.manual_seed(seed)
    first = torch.rand(n, 2) * size * 0.7
    return torch.cat([first, first + 1 + torch.rand(n, 2) * size * 0.3], 1)


def detect(make, **more):
    """Computes losses in float64: in float32, rounding decides which boxes are proposed."""
    torch.manual_seed(0)
    model = make(weights=None, weights_backbone=None, num_classes=4, **more).double()
    torch.manual_seed(1)
    images = [torch.rand(3, 96, 112).double(), torch.rand(3, 100, 90).double()]
    targets = [{"boxes": boxes(2, 90, i).double(), "labels": torch.tensor([1, 2]), "masks": torch.ones(2, *x.shape[1:],
                dtype=torch.uint8)} for i, x in enumerate(images)]
    losses = model.train()(images, targets)
    sum(losses.values()).backward()
    return {**{k: [v.item()] for k, v in losses.items()}, "gradients": [gradient_size(model)]}


@program("detection fasterrcnn", 1e-3)
def _():
    return detect(detection.fasterrcnn_mobilenet_v3_large_320_fpn)


@program("detection maskrcnn", 1e-3)
def _():
    return detect(detection.maskrcnn_resnet50_fpn, min_size=96, max_size=128)


@program("detection retinanet", 1e-3)
def _():
    return detect(detection.retinanet_resnet50_fpn, min_size=96, max_size=128)


@program("detection ssdlite", 1e-3)
def _():
    return detect(detection.ssdlite320_mobilenet_v3_large)


# --- operators ---

@program("nms")
def _():
    b = boxes(200, 100)
    scores, groups = torch.rand(200), torch.randint(0, 5, (200,))
    return {"nms": [ops.nms(b, scores, t).tolist() for t in (0.0, 0.1, 0.5, 0.9, 1.0)],
            "batched": ops.batched_nms(b, scores, groups, 0.3).tolist(),
            "small": ops.remove_small_boxes(b, 15).tolist(), "clipped": summary(ops.clip_boxes_to_image(b, (80, 60))),
            "iou": summary(ops.box_iou(b, b[:20])), "generalized": summary(ops.generalized_box_iou(b, b[:20])),
            "complete": summary(ops.complete_box_iou(b, b[:20])), "distance": summary(ops.distance_box_iou(b, b[:20])),
            "losses": [f(b[:100], b[100:], reduction="mean").item() for f in
                       (ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss)]}


def with_gradient(function, *tensors):
    tensors = [t.clone().requires_grad_() for t in tensors]
    out = function(*tensors)
    (out * out).sum().backward()
    return [*summary(out), *[x for t in tensors for x in summary(t.grad)]]


@program("roi_align")
def _():
    regions = [boxes(5, 40, 1), boxes(3, 40, 2)]
    torch.manual_seed(3)
    x = torch.randn(2, 8, 20, 24)
    out = {f"{aligned} {samples}": with_gradient(lambda v: ops.roi_align(v, regions, (3, 2), 0.5, samples, aligned), x)
           for aligned in (False, True) for samples in (-1, 2)}
    pyramid = ops.MultiScaleRoIAlign(["a", "b"], 3, 2)
    out["pyramid"] = with_gradient(lambda a, b: pyramid({"a": a, "b": b}, regions, [(40, 48), (40, 48)]),
                                   x, torch.randn(2, 8, 10, 12))
    return out


@program("roi pools")
def _():
    regions = [boxes(5, 36, 1), boxes(3, 36, 2)]
    torch.manual_seed(3)
    x = torch.randn(2, 12, 20, 24)
    return {"pool": with_gradient(lambda v: ops.roi_pool(v, regions, (3, 2), 0.5), x),
            "ps_align": with_gradient(lambda v: ops.ps_roi_align(v, regions, (3, 2), 0.5, 2), x),
            "ps_pool": with_gradient(lambda v: ops.ps_roi_pool(v, regions, (3, 2), 0.45), x)}


@program("deform_conv2d")
def _():
    torch.manual_seed(0)
    layer = ops.DeformConv2d(6, 8, 3, stride=2, padding=1, dilation=1, groups=2)
    x, offset, mask = torch.randn(2, 6, 14, 13), torch.randn(2, 36, 7, 7), torch.rand(2, 18, 7, 7)
    return {"masked": with_gradient(layer, x, offset, mask), "plain": with_gradient(layer, x, offset),
            "weights": [gradient_size(layer)]}


@program("other operators")
def _():
    torch.manual_seed(0)
    x, y = torch.randn(4, 8, 6, 6), torch.rand(4, 8, 6, 6).round()
    pyramid = ops.FeaturePyramidNetwork([8, 8], 4)({"a": x, "b": torch.randn(4, 8, 3, 3)})
    return {"focal": [ops.sigmoid_focal_loss(x, y, reduction="mean").item()],
            "excite": summary(ops.SqueezeExcitation(8, 2)(x)), "pyramid": [summary(v) for v in pyramid.values()],
            "drop": summary(ops.drop_block2d(x, 0.3, 3)), "depth": summary(ops.stochastic_depth(x, 0.5, "row")),
            "frozen": summary(ops.FrozenBatchNorm2d(8)(x)), "masks": summary(ops.masks_to_boxes(y[0] > 0).float()),
            "formats": [summary(ops.box_convert(boxes(9, 30), "xyxy", f)) for f in ("xywh", "cxcywh")]}


# --- transforms ---

def picture(seed=0, size=(40, 50)):
    torch.manual_seed(seed)
    smooth = torch.nn.functional.interpolate(torch.rand(1, 3, 5, 6), size, mode="bilinear")[0]
    return (smooth * 255).to(torch.uint8)


TRANSFORMS = {
    "resize": v2.Resize((33, 29), antialias=True), "resize_smaller": v2.Resize(17), "crop": v2.CenterCrop(24),
    "random_crop": v2.RandomCrop(24, padding=4, pad_if_needed=True), "resized_crop": v2.RandomResizedCrop(24),
    "five": v2.Compose([v2.FiveCrop(20), lambda views: torch.stack(views)]), "pad": v2.Pad(3, padding_mode="reflect"),
    "flip": v2.RandomHorizontalFlip(1.0), "vertical": v2.RandomVerticalFlip(1.0), "rotate": v2.RandomRotation(40),
    "affine": v2.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 10), "perspective": v2.RandomPerspective(0.4, 1.0),
    "elastic": v2.ElasticTransform(30.0), "zoom": v2.RandomZoomOut(p=1.0), "jitter": v2.ColorJitter(0.4, 0.4, 0.4, 0.2),
    "gray": v2.Grayscale(3), "permute": v2.RandomChannelPermutation(), "distort": v2.RandomPhotometricDistort(p=1.0),
    "blur": v2.GaussianBlur(5), "noise": v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.GaussianNoise()]),
    "invert": v2.RandomInvert(1.0), "posterize": v2.RandomPosterize(3, 1.0), "solarize": v2.RandomSolarize(100, 1.0),
    "sharpness": v2.RandomAdjustSharpness(2, 1.0), "contrast": v2.RandomAutocontrast(1.0),
    "equalize": v2.RandomEqualize(1.0), "erase": v2.RandomErasing(1.0), "auto": v2.AutoAugment(),
    "rand": v2.RandAugment(), "trivial": v2.TrivialAugmentWide(), "mix": v2.AugMix(),
    "normalize": v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)])}


@program("transforms v2 of tensors", 2e-3)
def _():
    out = {}
    for name, transform in TRANSFORMS.items():
        x = picture()
        torch.manual_seed(5)
        y = transform(x)
        out[name] = [list(y.shape), str(y.dtype), *summary(y)[1:]]
    return out


@program("transforms v2 of images", 2e-3)
def _():
    out = {}
    for name in ("resize", "crop", "random_crop", "resized_crop", "rotate", "affine", "jitter", "auto", "trivial"):
        image = Image.fromarray(picture().permute(1, 2, 0).numpy())
        torch.manual_seed(5)
        y = v2.functional.to_image(TRANSFORMS[name](image))
        out[name] = [list(y.shape), *summary(y)[1:]]
    return out


@program("transforms v2 of boxes and masks", 2e-3)
def _():
    chain = v2.Compose([v2.RandomIoUCrop(), v2.RandomHorizontalFlip(0.5), v2.RandomAffine(15), v2.Resize((32, 32)),
                        v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes(labels_getter=None)])
    out = {}
    for seed in range(4):
        target = {"boxes": tv_tensors.BoundingBoxes(boxes(6, 36, seed), format="XYXY", canvas_size=(40, 50)),
                  "mask": tv_tensors.Mask((picture(seed)[:1] > 127).to(torch.uint8))}
        torch.manual_seed(seed)
        image, got = chain(tv_tensors.Image(picture(seed)), target)
        out[seed] = [*summary(image), *summary(got["boxes"]), *summary(got["mask"]), type(got["boxes"]).__name__,
                     type(image).__name__]
    return out


@program("cutmix and mixup", 2e-3)
def _():
    out = {}
    for name, transform in (("cutmix", v2.CutMix(num_classes=5)), ("mixup", v2.MixUp(num_classes=5))):
        torch.manual_seed(0)
        x, labels = transform(torch.rand(4, 3, 16, 16), torch.tensor([0, 1, 2, 3]))
        out[name] = [*summary(x), *labels.flatten().tolist()]
    return out


# --- data sets ---

def write_digits(folder, name, images, labels):
    raw = Path(folder) / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    (raw / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, *images.shape) + images.tobytes())
    (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, len(labels)) + labels.tobytes())


def classifier(channels, size, classes):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(channels, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                               torch.nn.Flatten(), torch.nn.Linear(8 * (size // 2) ** 2, classes))


@program("MNIST", 1e-3)
def _():
    random = numpy.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("train", "t10k"):
            labels = random.integers(0, 10, 64).astype("uint8")
            images = (random.integers(0, 40, (64, 28, 28)) + labels[:, None, None] * 20).astype("uint8")
            write_digits(folder, name, images, labels)
        transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.13,), (0.3,))])
        data = torchvision.datasets.MNIST(folder, train=True, transform=transform)
        torch.manual_seed(1)
        loader = iter(torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2))
        model = classifier(1, 28, 10)
        losses = train(model, lambda: batch_loss(model, loader), steps=6)
        test = torchvision.datasets.MNIST(folder, train=False, transform=transform)
        return {"losses": losses, "test": [len(test), test[5][1], *summary(test[5][0])], "text": [str(test).splitlines()[0]]}


def batch_loss(model, loader):
    x, labels = next(loader)
    return torch.nn.functional.cross_entropy(model(x), labels)


@program("ImageFolder", 1e-3)
def _():
    with tempfile.TemporaryDirectory() as folder:
        for i in range(24):
            path = Path(folder) / ("cat", "dog", "owl")[i % 3] / f"{i}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(picture(i, (20, 24)).permute(1, 2, 0).numpy()).save(path)
        transform = v2.Compose([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.ToImage(),
                                v2.ToDtype(torch.float32, scale=True)])
        data = torchvision.datasets.ImageFolder(folder, transform)
        torch.manual_seed(1)
        loader = iter(torch.utils.data.DataLoader(data, batch_size=6, shuffle=True))
        model = classifier(3, 16, 3)
        losses = train(model, lambda: batch_loss(model, loader), steps=4)
        return {"losses": losses, "classes": [data.classes, list(data.class_to_idx.values()), len(data)]}


@program("grids and drawings")
def _():
    x = torch.stack([picture(i) for i in range(5)])
    b = boxes(3, 30)
    return {"grid": summary(torchvision.utils.make_grid(x.float() / 255, nrow=3, normalize=True, padding=1)),
            "boxes": summary(torchvision.utils.draw_bounding_boxes(x[0], b, colors=["red", "blue", "white"], width=2)),
            "masks": summary(torchvision.utils.draw_segmentation_masks(x[0], x[1] > 128, alpha=0.4, colors=["red"] * 3)),
            "points": summary(torchvision.utils.draw_keypoints(x[0], b[:, None, :2], colors="blue", radius=2))}
