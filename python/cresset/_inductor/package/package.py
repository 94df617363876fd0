"""Loading packages of aoti_compile_and_package()."""
import io
import json
import os
import tempfile
import zipfile

from ... import _C, Tensor, no_grad, strided
from ...export.exported_program import in_order
from ...utils._pytree import tree_flatten, tree_unflatten, treespec_loads


class AOTICompiledModel:
    """A compiled program: a callable with the arguments and results of the exported module.

    Arguments must have the dtypes and sizes of the program; others raise ValueError with the condition."""

    def __init__(self, loader):
        self.loader = loader
        self._spec = json.loads(loader.spec.decode())
        self._in_spec, self._out_spec = (treespec_loads(self._spec[name]) for name in ("in_spec", "out_spec"))

    def __call__(self, *args, **kwargs):
        flat = tree_flatten(in_order(self._in_spec, args, kwargs))[0]
        self._check_numbers(flat)
        with no_grad():
            inputs = [self._input(flat[i]) for i in self._spec["inputs"]]
            given = [x.contiguous() for x in inputs]
            found = self.loader.run(given, self._spec["written"])
            for k in self._spec["written"]:
                if not inputs[k].is_contiguous():
                    inputs[k].copy_(given[k])
        return tree_unflatten([found[i] if isinstance(i, int) else i[0] for i in self._spec["results"]], self._out_spec)

    def _check_numbers(self, flat):
        """Arguments that are no tensors are a part of the code."""
        for i, name, value in self._spec["numbers"]:
            if isinstance(flat[i], Tensor) or flat[i] != value:
                raise ValueError(f"argument {name} must be {value!r}, as in the exported program, not {flat[i]!r}")

    @staticmethod
    def _input(x):
        if not isinstance(x, Tensor):
            raise TypeError(f"the program takes a tensor, not {type(x).__name__}")
        if x.layout != strided or x.device.type != "cpu":
            raise ValueError(f"the program takes strided tensors on the device cpu, not {x.layout} on {x.device}")
        return x.detach()

    def get_metadata(self):
        """The metadata of the settings aot_inductor.metadata, and the device."""
        return {"AOTI_DEVICE_KEY": "cpu", **self._spec["metadata"]}

    def get_constant_fqns(self):
        """The names of parameters, buffers and constants."""
        return list(self._spec["weights"])

    def load_constants(self, constants_map, *, check_full_update, user_managed=False, allow_h2d_copy=False):
        """Replaces parameters, buffers and constants by tensors of the same sizes and dtypes, whose elements are copied.

            check_full_update  raises ValueError unless all are given
        """
        weights = self._spec["weights"]
        unknown = set(constants_map) - set(weights)
        if unknown or (check_full_update and set(weights) - set(constants_map)):
            names = sorted(unknown or set(weights) - set(constants_map))
            raise ValueError(f"the program has {'no' if unknown else 'also the'} constants {', '.join(names)}")
        data = bytearray(self.loader.weights())
        for name, value in constants_map.items():
            place = weights[name]
            if place is None:
                raise ValueError(f"{name} cannot be replaced: it was folded into other constants, or the program writes it")
            found = _packed(name, value, place)
            data[place["offset"]:place["offset"] + len(found)] = found
        self.loader.set_weights(data)


def _packed(name, value, place):
    """The bytes of a constant in the layout of the package."""
    value = value.detach().cpu().contiguous()
    if list(value.shape) != place["shape"] or str(value.dtype).partition(".")[2] != place["dtype"]:
        raise ValueError(f"{name} must have the sizes {place['shape']} and the dtype {place['dtype']}, not {list(value.shape)} and "
                         f"{value.dtype}")
    if place["panel"]:
        panel, depth, columns = place["panel"], place["depth"], place["columns"]
        panels = value.new_zeros(-(-columns // panel) * panel, depth)
        panels[:columns] = value.as_strided((columns, depth), (place["wide"], place["deep"]))
        value = panels.view(-1, panel, depth).transpose(1, 2).contiguous()
    return value.view(-1).view(_uint8()).numpy().tobytes()


def _uint8():
    from ... import uint8
    return uint8


def load_package(path, model_name="model", run_single_threaded=False, num_runners=1, device_index=-1):
    """Loads a package; see aoti_load_package().  num_runners has no effect: calls of a model wait for each other."""
    if model_name != "model":
        raise RuntimeError(f"the package has no model {model_name!r}; packages of this library have the model 'model'")
    if device_index != -1:
        raise RuntimeError("packages are compiled for the processor: device_index must be -1")
    if not isinstance(path, (str, os.PathLike)) and not hasattr(path, "tell"):
        raise AttributeError(f"{type(path).__name__!r} object has no attribute 'tell'")
    if hasattr(path, "read"):
        content = path.read()
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise RuntimeError("Failed to initialize zip archive: not a ZIP archive")
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
            file.write(content)
            file.flush()
            return load_package(file.name, model_name, run_single_threaded, num_runners, device_index)
    path = os.fspath(path)
    if os.path.isdir(path):
        raise RuntimeError(f"Failed to find a generated cpp file or so file for model 'model' in the directory.\n{path} is a folder; a "
                           "package is a file")
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"Failed to initialize zip archive: file open failed: {path}")
    if not zipfile.is_zipfile(path):
        raise RuntimeError(f"Failed to initialize zip archive: {path} is not a ZIP archive")
    return AOTICompiledModel(_C.AotModel(path, int(run_single_threaded)))
