"""Switches of torch's fusers of TorchScript.  Programs run without these fusers; a switch stores what is set and
returns what it was."""

_values = {}


def _setter(name, default):
    def set_value(value):
        before, _values[name] = _values.get(name, default), value
        return before
    return set_value


def _getter(name, default):
    return lambda: _values.get(name, default)


_jit_override_can_fuse_on_cpu = _setter("cpu", False)
_jit_can_fuse_on_cpu = _getter("cpu", False)
_jit_override_can_fuse_on_gpu = _setter("gpu", True)
_jit_can_fuse_on_gpu = _getter("gpu", True)
_jit_set_texpr_fuser_enabled = _setter("texpr", True)
_jit_texpr_fuser_enabled = _getter("texpr", True)
_jit_set_nvfuser_enabled = _setter("nvfuser", False)
_jit_nvfuser_enabled = _getter("nvfuser", False)
_jit_set_nvfuser_guard_mode = _setter("nvfuser_guard", True)
_jit_set_nvfuser_single_node_mode = _setter("nvfuser_single", False)
_jit_set_nvfuser_horizontal_mode = _setter("nvfuser_horizontal", True)
_jit_set_profiling_executor = _setter("profiling_executor", True)
_jit_set_profiling_mode = _setter("profiling_mode", True)
_jit_set_num_profiled_runs = _setter("profiled_runs", 1)
_jit_set_bailout_depth = _setter("bailout_depth", 20)
