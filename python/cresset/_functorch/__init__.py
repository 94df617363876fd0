"""Functions of graphs and derivatives."""
import sys

_TRANSFORMS = {f"{__name__}.eager_transforms", f"{__name__}.functionalize", f"{__name__}.vmap"}


def _are_functorch_transforms_active():
    """Whether the caller runs inside of vmap, grad, vjp, jvp or functionalize, whose frames are then on the thread's stack."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") not in _TRANSFORMS:
        frame = frame.f_back
    return frame is not None


def refuse_inside(name, more):
    """Raises inside of a transform; called where any thread runs one."""
    if _are_functorch_transforms_active():
        raise RuntimeError(f"You are attempting to call Tensor.{name}() {more}inside of a function being transformed by a functorch "
                           "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
                           f"jacfwd, hessian) or call {name}() outside of a function being transformed instead.")
