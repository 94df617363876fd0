"""Kinds of devices and of recorded activities."""
import enum

DeviceType = enum.Enum("DeviceType", {
    name: i for i, name in enumerate(
        ("CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "Vulkan",
         "Metal", "XPU", "MPS", "Meta", "HPU", "VE", "Lazy", "IPU", "MTIA", "PrivateUse1"))},
    module=__name__)
DeviceType.__str__ = lambda self: f"DeviceType.{self.name}"


class ProfilerActivity(enum.Enum):
    """What a profile records; this build records CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class RecordScope(enum.IntEnum):
    """Kinds of events."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
