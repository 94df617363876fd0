"""Summaries: the records of event files."""
import io

import numpy
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

__all__ = ["hparams", "scalar", "histogram", "histogram_raw", "image", "text"]


def make_np(x):
    """Returns a tensor, number, list or array as an array."""
    return x.detach().cpu().float().numpy() if str(getattr(x, "dtype", "")) == "torch.bfloat16" else (
        x.detach().cpu().numpy() if hasattr(x, "detach") else numpy.asarray(x))


def _metadata(plugin, content=b""):
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """A number."""
    value = make_np(tensor).squeeze()
    if value.ndim != 0:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {value.size} and "
                             f"{value.ndim} dimensions.")
    value = float(value)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=value)])
    kind = {"double_val": [value], "dtype": "DT_DOUBLE"} if double_precision else {"float_val": [value],
                                                                                  "dtype": "DT_FLOAT"}
    return Summary(value=[Summary.Value(tag=name, tensor=TensorProto(**kind), metadata=_metadata("scalars"))])


def _default_bins():
    """Limits that grow by a tenth, around zero."""
    positive, v = [], 1e-12
    while v < 1e20:
        positive.append(v)
        v *= 1.1
    return [-v for v in reversed(positive)] + [0] + positive


def _trimmed(counts, limits):
    """Drops empty bins at both ends, but one at the beginning."""
    used = numpy.flatnonzero(counts)
    start, end = used[0], used[-1] + 1
    counts = counts[start - 1:end] if start > 0 else numpy.concatenate([[0], counts[:end]])
    return counts, limits[start:end + 1]


def histogram(name, values, bins, max_bins=None):
    """The distribution of values in bins: limits, their number, or "tensorflow" for growing ones."""
    values = make_np(values).astype(float).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    bins = _default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = numpy.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        rest = len(counts) % step
        if rest:
            counts = numpy.pad(counts, (0, step - rest))
        counts = counts.reshape(-1, step).sum(-1)
        limits = numpy.concatenate([limits[:-1][::step], limits[-1:]])
    if not counts.any():
        raise ValueError("The histogram is empty, please file a bug report.")
    counts, limits = _trimmed(counts, limits)
    return histogram_raw(name, values.min(), values.max(), len(values), values.sum(), values.dot(values),
                         limits.tolist(), counts.tolist())


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A distribution that is known."""
    made = HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
                          bucket=bucket_counts)
    return Summary(value=[Summary.Value(tag=name, histo=made)])


# --- images ---

def _grid(images, columns=8):
    """Puts images (N, H, W, 3) into one."""
    n, height, width, channels = images.shape
    columns = min(n, columns)
    rows = -(-n // columns)
    out = numpy.zeros((rows * height, columns * width, channels), dtype=images.dtype)
    for i, one in enumerate(images):
        y, x = i // columns * height, i % columns * width
        out[y:y + height, x:x + width] = one
    return out


def convert_to_HWC(tensor, input_format):
    """Returns an image (H, W, 3) of an array with the dims `input_format`."""
    order = input_format.upper()
    if len(set(order)) != len(order):
        raise AssertionError(f"You can not use the same dimension shordhand twice.         input_format: {input_format}")
    if len(order) != tensor.ndim:
        raise AssertionError(f"size of input tensor and input format are different.         tensor shape: "
                             f"{tensor.shape}, input_format: {input_format}")
    if order == "HW":
        return numpy.stack([tensor] * 3, 2)
    wanted = "NHWC" if len(order) == 4 else "HWC"
    image_ = tensor.transpose([order.index(c) for c in wanted])
    if image_.shape[-1] == 1:
        image_ = numpy.concatenate([image_] * 3, -1)
    return _grid(image_) if len(order) == 4 else image_


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """An image: bytes, or numbers from 0 to 1."""
    array = convert_to_HWC(make_np(tensor), dataformats)
    scale = 1 if array.dtype == numpy.uint8 else 255
    array = (array.astype(numpy.float32) * scale).clip(0, 255).astype(numpy.uint8)
    return Summary(value=[Summary.Value(tag=tag, image=_encoded(array, rescale))])


def _encoded(array, rescale=1):
    from PIL import Image
    height, width, channels = array.shape
    picture = Image.fromarray(array)
    if rescale != 1:
        picture = picture.resize((int(width * rescale), int(height * rescale)), Image.LANCZOS)
    data = io.BytesIO()
    picture.save(data, format="PNG")
    return Summary.Image(height=picture.height, width=picture.width, colorspace=channels,
                         encoded_image_string=data.getvalue())


# --- texts and hyperparameters ---

def text(tag, text):
    """A text in Markdown."""
    value = TensorProto(dtype="DT_STRING", string_val=[text.encode(encoding="utf_8")],
                        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    return Summary(value=[Summary.Value(tag=tag + "/text_summary", metadata=_metadata("text"), tensor=value)])


def _described(name, value, values):
    """Returns the description of a hyperparameter, and adds its value to `values`."""
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams.api_pb2 import DataType, HParamInfo
    if isinstance(value, (int, float)):
        values[name].number_value = value
        return HParamInfo(name=name, type=DataType.Value("DATA_TYPE_FLOAT64"))
    if isinstance(value, str):
        values[name].string_value = value
        return HParamInfo(name=name, type=DataType.Value("DATA_TYPE_STRING"))
    if hasattr(value, "detach"):
        values[name].number_value = make_np(value)[()].item() if make_np(value).ndim == 0 else make_np(value)[0].item()
        return HParamInfo(name=name, type=DataType.Value("DATA_TYPE_FLOAT64"))
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Three summaries: of the experiment, of the start and of the end of a run with hyperparameters."""
    from tensorboard.plugins.hparams.api_pb2 import Experiment, MetricInfo, MetricName, Status
    from tensorboard.plugins.hparams.metadata import (EXPERIMENT_TAG, PLUGIN_DATA_VERSION, PLUGIN_NAME,
                                                      SESSION_END_INFO_TAG, SESSION_START_INFO_TAG)
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
    for what, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {what} should be a dictionary, nothing logged.")
    start = SessionStartInfo()
    infos = [_described(name, value, start.hparams) for name, value in hparam_dict.items() if value is not None]
    for info in infos:
        if hparam_domain_discrete and info.name in hparam_domain_discrete:
            info.domain_discrete.extend(hparam_domain_discrete[info.name])
    metrics = [MetricInfo(name=MetricName(tag=name)) for name in metric_dict]

    def summary(tag, **content):
        data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content).SerializeToString()
        return Summary(value=[Summary.Value(tag=tag, metadata=_metadata(PLUGIN_NAME, data))])
    return (summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=metrics)),
            summary(SESSION_START_INFO_TAG, session_start_info=start),
            summary(SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))))
