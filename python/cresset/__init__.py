"""Cresset: tensors, automatic differentiation and neural networks with torch's interface.

    import cresset as torch
"""
from . import _root

_root.settle(__name__)  # from here on, __name__ is the root's name
from . import _C
from ._C import *  # operators, dtypes, Tensor; some names shadow builtins from here on
from ._C import _scaled_mm
from . import _imports, _tensor  # _tensor completes Tensor
from . import _c_names  # completes _C
from .functional import *
from ._settings import *
from .version import __version__
from math import e, inf, nan, pi

newaxis = None
legacy_contiguous_format = contiguous_format

# Modules that are imported on first use, so that importing the package stays fast.
_MODULES = frozenset((
    "__config__", "_dynamo", "_guards", "_higher_order_ops", "_inductor", "_jit_internal", "_logging", "_subclasses", "accelerator", "amp",
    "ao", "autograd", "backends", "compiler",
    "cpu", "cuda", "distributed", "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "jit",
    "library", "linalg", "masked", "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "numa", "onnx", "ops", "optim",
    "overrides", "package", "profiler", "quasirandom", "random", "return_types", "safetensors", "serialization", "signal",
    "sparse", "special", "storage", "testing", "torch_version", "types", "utils", "version", "xpu"))
_LAZY = {"set_printoptions": "_tensor_str", "typename": "_utils", "fork_rng": "random",
         "autocast": "amp", "GradScaler": "amp", "TypedStorage": "storage", "StorageBase": "storage", "save": "serialization",
         "load": "serialization", "ScriptModule": "jit", "ScriptFunction": "jit",
         "compile": "_dynamo.eval_frame", "classes": "_classes", "lazy": "_lazy", "Tag": "_tags", "vmap": "func", "_grouped_mm": "_grouped", "cond": "_higher_order_ops",
         "while_loop": "_higher_order_ops",
         **dict.fromkeys((
             "has_lapack", "has_openmp", "has_spectral", "has_mkl", "is_vulkan_available", "is_distributed", "_is_functional_tensor",
             "cudnn_is_acceptable", "init_num_threads", "set_anomaly_enabled", "sym_constrain_range",
             "sym_constrain_range_for_size", "_shape_as_tensor", "_assert_async", "SymInt", "SymFloat",
             "SymBool"), "_features"), "PyTorchFileReader": "_archive", "Stream": "_streams", "Event": "_streams",
         "DispatchKey": "_dispatch_keys", "DispatchKeySet": "_dispatch_keys",
         **dict.fromkeys((
             "_check", "_check_with", "_check_is_size", "_check_index", "_check_value",
             "_check_type", "_check_not_implemented", "_check_tensor_all",
             "_check_tensor_all_with", "sym_int", "sym_float", "sym_not", "sym_max", "sym_min",
             "sym_sum", "sym_sqrt", "sym_ite", "get_device_module"), "_checks"),
         **dict.fromkeys(("sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor",
                         "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "spmm", "dsmm", "hsmm", "saddmm"), "_sparse"),
         **dict.fromkeys((
             "AnyType", "AwaitType", "BoolType", "ClassType", "ComplexType", "DeviceObjType", "DictType", "EnumType", "FloatType",
             "FutureType", "InferredType", "IntType", "InterfaceType", "ListType", "NoneType", "NumberType", "OptionalType",
             "PyObjectType", "RRefType", "StreamObjType", "StringType", "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type",
             "UnionType", "unify_type_list"), "_script_types"),
         **dict.fromkeys((f"{verb}_autocast_{kind}_{what}" for kind in ("ipu", "xla") for verb, what in (
             ("is", "enabled"), ("set", "enabled"), ("get", "dtype"), ("set", "dtype"))), "_features"),
         "FunctionSchema": "_ops", "Argument": "_ops", "parse_schema": "_library.parsed", "FileCheck": "testing", "Future": "futures",
         "AggregationType": "_features", "slice_inverse": "_features", "batch_norm_gather_stats": "_features",
         "batch_norm_gather_stats_with_counts": "_features", "fused_moving_avg_obs_fake_quant": "_features", "sym_fresh_size": "_features",
         "LockingLogger": "_features", "NoopLogger": "_features", "LoggerBase": "_features", "CompilationUnit": "jit",
         "JITException": "_jit_objects", "ScriptDict": "_jit_objects", "ScriptList": "_jit_objects",
         "ScriptDictIterator": "_jit_objects", "ScriptDictKeyIterator": "_jit_objects", "ScriptListIterator": "_jit_objects",
         "Value": "jit._graph", "Node": "jit._graph", "Block": "jit._graph", "Use": "jit._graph", "Graph": "jit._graph",
         "parse_ir": "jit._graph", "import_ir_module": "jit._loaded", "import_ir_module_from_buffer": "jit._loaded",
         "PyTorchFileWriter": "_archive", "AVG": "_features", "SUM": "_features", "FatalError": "_features", "lobpcg": "_lobpcg",
         "ThroughputBenchmark": "utils.throughput_benchmark", "thread_safe_generator": "random",
         "wait": "jit", "fork": "jit", "DisableTorchFunction": "overrides", "embedding_renorm_": "_features",
         **dict.fromkeys((
             "cudnn_affine_grid_generator", "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu",
             "cudnn_convolution_relu", "cudnn_convolution_transpose", "cudnn_grid_sampler", "mkldnn_convolution", "native_norm"),
             "_vendor_names"),
         "pca_lowrank": "_lowrank", "svd_lowrank": "_lowrank",
         **dict.fromkeys(("eig", "lstsq", "matrix_rank", "solve", "symeig"), "_linalg_utils"),
         **{f"{kind}Storage": "storage" for kind in (
             "Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double",
             "ComplexFloat", "ComplexDouble")}}

# Operator families are in separate modules.
for _name in [n for n in globals() if n.startswith(("linalg_", "special_", "fft_"))]:
    del globals()[_name]
del _name, ops, Node

_imports.run_whole(__name__)


def __getattr__(name):
    from importlib import import_module
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
        return value
    if name.startswith("_") and hasattr(_C.ops, name) and hasattr(_C, name):  # _standard_gamma
        value = globals()[name] = getattr(_C, name)
        return value
    if name == "torch":  # torch.torch, which some programs write
        import sys
        return sys.modules[__name__]
    if name == "__all__":  # `import *` takes the lazy names too, as torch's list has them
        return [n for n in __dir__() if n[0] != "_" and n not in _MODULES]
    if name.startswith("_foreach_"):
        return getattr(import_module(f"{__name__}._foreach"), name)
    from ._absent_names import missing
    raise missing(__name__, name)


def _register_device_module(device_type, module):
    """Makes a module torch.<device_type>, for a device of that kind."""
    import sys
    kind = device(device_type).type
    if kind in globals():
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with "
                           f"'{globals()[kind]}'")
    globals()[kind] = module
    sys.modules[f"{__name__}.{kind}"] = module


def __dir__():
    return sorted({*globals(), *_MODULES, *_LAZY})
