"""Names of torch._C that are written in Python.  Each is loaded when it is first read."""
from . import _C

_HOMES = {**dict.fromkeys(("_DistError", "_DistBackendError", "_DistNetworkError", "_DistStoreError"), "distributed._errors"),
          "DispatchKey": "_dispatch_keys", "Future": "futures", "DispatchKeySet": "_dispatch_keys",
          "_ExcludeDispatchKeyGuard": "_dispatch_keys", "PyTorchFileReader": "_archive", "PyTorchFileWriter": "_archive",
          **dict.fromkeys(("Value", "Node", "Block", "Use", "Graph", "parse_ir", "_create_function_from_graph"), "jit._graph"), "JITException": "_jit_objects",
          **dict.fromkeys(("ScriptDict", "ScriptList", "ScriptDictIterator", "ScriptDictKeyIterator", "ScriptListIterator"),
                          "_jit_objects"), "CompilationUnit": "jit",
          "import_ir_module": "jit._loaded", "import_ir_module_from_buffer": "jit._loaded",
          "_get_tracing_state": "jit", "ScriptFunction": "jit", "_freeze_module": "jit._freezing", "ScriptModule": "jit",
          **dict.fromkeys((
              "AnyType", "AwaitType", "BoolType", "ClassType", "ComplexType", "DeviceObjType", "DictType", "EnumType", "FloatType",
              "FutureType", "InferredType", "IntType", "InterfaceType", "ListType", "NoneType", "NumberType", "OptionalType",
              "PyObjectType", "RRefType", "StreamObjType", "StringType", "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type",
              "UnionType", "unify_type_list"), "_script_types"),
          **dict.fromkeys(("FunctionSchema", "Argument"), "_ops"), "parse_schema": "_library.parsed", "FileCheck": "testing",
          "_are_functorch_transforms_active": "_functorch",
          **dict.fromkeys(("_debug_only_display_vmap_fallback_warnings", "_debug_only_are_vmap_fallback_warnings_enabled"),
                          "_functorch.vmap"),
          **dict.fromkeys((
              "_jit_pass_inline", "_jit_pass_cse", "_jit_pass_dce", "_jit_pass_constant_propagation", "_jit_pass_constant_pooling",
              "_jit_pass_peephole", "_jit_pass_peephole_list_idioms", "_jit_pass_constant_loop_unrolling", "_jit_pass_remove_mutation",
              "_jit_pass_canonicalize", "_jit_pass_lint", "_jit_pass_remove_dropout", "_jit_pass_fold_frozen_conv_bn",
              "_jit_pass_fold_frozen_linear_bn", "_jit_pass_fold_frozen_conv_add_or_sub",
              "_jit_pass_fold_frozen_conv_mul_or_div"), "jit._passes"),
          "_jit_clear_class_registry": "jit._state",
          **dict.fromkeys((
              "_jit_can_fuse_on_cpu", "_jit_can_fuse_on_gpu", "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu",
              "_jit_set_nvfuser_enabled", "_jit_set_nvfuser_guard_mode", "_jit_set_profiling_executor", "_jit_set_profiling_mode",
              "_jit_set_texpr_fuser_enabled", "_jit_texpr_fuser_enabled", "_jit_nvfuser_enabled", "_jit_set_nvfuser_single_node_mode",
              "_jit_set_nvfuser_horizontal_mode", "_jit_set_num_profiled_runs", "_jit_set_bailout_depth",
              "_jit_get_inline_everything_mode", "_jit_can_fuse_on_cpu_legacy",
              "_jit_override_can_fuse_on_cpu_legacy", "_jit_set_inline_everything_mode"), "_jit_switches")}


_NN_HOMES = {"_parse_to": "nn.modules.module", "pad_sequence": "nn.utils.rnn"}


def _finder(module, homes):
    def find(name):
        if name not in homes:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
        from importlib import import_module
        value = getattr(import_module(f"{__package__}.{homes[name]}"), name)
        setattr(module, name, value)
        return value
    return find


def _log_api_usage_once(event):
    """Does nothing; torch counts events here."""


def _get_accelerator(check=None):
    """Returns the device of the accelerator; the host without one."""
    from . import accelerator
    return accelerator.current_accelerator() or _C.device("cpu")


def _get_default_device():
    """Returns the type of the device on which factories make tensors."""
    return _C.get_default_device().type


def _set_print_stack_traces_on_fatal_signal(print):
    """Whether a signal that ends the process prints the stacks of its threads first."""
    import faulthandler
    if print:
        faulthandler.enable(all_threads=True)
    else:
        faulthandler.disable()


def _is_torch_function_mode_enabled():
    """Whether calls go to a TorchFunctionMode."""
    return _C._has_torch_function(())


_C._get_accelerator = _get_accelerator
_C._get_default_device = _get_default_device
_C._is_torch_function_mode_enabled = _is_torch_function_mode_enabled
_C._set_print_stack_traces_on_fatal_signal = _set_print_stack_traces_on_fatal_signal
_C.__getattr__ = _finder(_C, _HOMES)
_C._nn.__getattr__ = _finder(_C._nn, _NN_HOMES)
_C._log_api_usage_once = _log_api_usage_once

# Modules below torch._C: _distributed_c10d, _functorch.
_C.__path__ = [__file__.replace("_c_names.py", f"{folder}/_c") for folder in ("distributed", "_functorch")]
