"""Metal: not in this build."""


def is_available():
    """Returns whether tensors can be on Metal's device: False."""
    return False


def is_built():
    """Returns whether the package was built for Metal: False."""
    return False


def is_macos_or_newer(major, minor):
    """Whether the system is this macOS or a later one."""
    import platform
    version = platform.mac_ver()[0]
    return bool(version) and tuple(map(int, version.split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor=0):
    """Whether the system is this macOS 13 or a later one."""
    return is_macos_or_newer(13, minor)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
