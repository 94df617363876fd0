"""Switches of torch's fusers, profilers and inliner of TorchScript.  Programs run without them, so each switch is off: turning it
off does nothing, and turning it on is refused."""


def _getter():
    return lambda: False


def _setter(what):
    def set_value(value):
        if value:
            raise NotImplementedError(f"TorchScript's programs run without {what}, which cannot be turned on")
        return False
    return set_value


_jit_override_can_fuse_on_cpu = _setter("a fuser for CPUs")
_jit_can_fuse_on_cpu = _getter()
_jit_override_can_fuse_on_cpu_legacy = _setter("a fuser for CPUs")
_jit_can_fuse_on_cpu_legacy = _getter()
_jit_override_can_fuse_on_gpu = _setter("a fuser for GPUs")
_jit_can_fuse_on_gpu = _getter()
_jit_set_texpr_fuser_enabled = _setter("the fuser of tensor expressions")
_jit_texpr_fuser_enabled = _getter()
_jit_set_nvfuser_enabled = _setter("nvfuser")
_jit_nvfuser_enabled = _getter()
_jit_set_nvfuser_guard_mode = _setter("nvfuser")
_jit_set_nvfuser_single_node_mode = _setter("nvfuser")
_jit_set_nvfuser_horizontal_mode = _setter("nvfuser")
_jit_set_profiling_executor = _setter("the profiling executor")
_jit_set_profiling_mode = _setter("the profiling executor")
_jit_set_num_profiled_runs = _setter("profiled runs")
_jit_set_bailout_depth = _setter("bailouts of profiled code")
_jit_get_inline_everything_mode = _getter()
_jit_set_inline_everything_mode = _setter("calls that are inlined as they are compiled (`inlined_graph` has them)")
