"""Records the names that torch has: run this with the torch to be compared with.

    python record.py SPELLED

Reads the names that libraries spell (walk.py) and writes beside this file

    used.txt    each name shortened to what exists in torch, and the libraries that use it
    public.txt  the public names of torch's documented namespaces

A name ends at the first value that is neither a module nor a class: `torch.float32.itemsize`
counts as `torch.float32`.  A name that torch does not have is left out: libraries keep names of
older and newer releases behind a test of the version.  `!` marks a function that only raises in
torch too.  Run this where tensorboard is installed, or torch.utils.tensorboard will be missing.
"""
import importlib
import inspect
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from presence import MISSING, only_raises, resolve

# Namespaces of the documentation.  Those that are left out are lists of another namespace's
# implementation, as torch.nn.modules.conv is.
NAMESPACES = """
torch torch.Tensor torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad
torch.autograd.function torch.autograd.functional torch.autograd.grad_mode torch.autograd.gradcheck
torch.autograd.graph torch.autograd.profiler torch.backends torch.backends.cpu torch.backends.cuda
torch.backends.cudnn torch.backends.mkl torch.backends.mkldnn torch.backends.mps
torch.backends.openmp torch.backends.opt_einsum torch.compiler torch.cpu torch.cpu.amp torch.cuda
torch.cuda.amp torch.cuda.comm torch.cuda.graphs torch.cuda.memory torch.cuda.nvtx
torch.cuda.random torch.distributed torch.distributions torch.distributions.constraint_registry
torch.distributions.constraints torch.distributions.kl torch.distributions.transforms
torch.export torch.fft torch.func torch.functional torch.futures torch.fx
torch.hub torch.jit torch.library torch.linalg torch.masked
torch.monitor torch.mps torch.mtia torch.multiprocessing torch.nested torch.nn torch.nn.attention
torch.nn.attention.bias torch.nn.attention.flex_attention torch.nn.functional torch.nn.init
torch.nn.modules torch.nn.parallel torch.nn.parameter torch.nn.utils
torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune
torch.nn.utils.rnn torch.nn.utils.stateless torch.onnx torch.optim torch.optim.lr_scheduler
torch.optim.optimizer torch.optim.swa_utils torch.overrides torch.package torch.profiler
torch.random torch.return_types torch.serialization torch.signal.windows torch.sparse
torch.special torch.storage torch.testing torch.types torch.utils torch.utils.benchmark
torch.utils.checkpoint torch.utils.collect_env torch.utils.cpp_extension torch.utils.data
torch.utils.data.dataloader torch.utils.data.dataset torch.utils.data.distributed
torch.utils.data.sampler torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks
torch.utils.model_zoo torch.utils.module_tracker torch.version torch.xpu
""".split()


def shorten(spelled):
    """The longest prefix that torch has, up to the first plain value; None without one."""
    name, *rest = spelled.split(".")
    value = importlib.import_module(name)
    for part in rest:
        if not (inspect.ismodule(value) or inspect.isclass(value)):
            return name
        value = resolve(f"{name}.{part}")
        if value is MISSING:
            return None
        name += f".{part}"
    return name


def used_names(spelled):
    users = {}
    for line in open(spelled):
        dotted, *libraries = line.split()
        name = shorten(dotted)
        if name:
            users.setdefault(name, set()).update(libraries)
    return users


def is_foreign(value):
    """A module or object of Python's own library, or of another package."""
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] not in ("torch", "functorch")


def is_public(namespace, name):
    value = resolve(f"{namespace}.{name}")
    builtin = getattr(value, "__module__", None) in (None, "builtins")
    return builtin or not is_foreign(value)


def is_typing(value):
    return getattr(type(value), "__module__", "") == "typing"


def public_names(namespace):
    """The names of `__all__`, by torch's own policy; of dir() where there is no such list."""
    space = resolve(namespace)
    names = getattr(space, "__all__", None) or dir(space)
    return sorted(name for name in set(names) if not name.startswith("_")
                  and not is_typing(getattr(space, name, None)) and is_public(namespace, name))


def write(file, name, *columns):
    print(*columns, *["!"] if only_raises(resolve(name)) else [], file=file)


def main(spelled):
    warnings.simplefilter("ignore")
    with open(HERE / "used.txt", "w") as file:
        for name, libraries in sorted(used_names(spelled).items()):
            write(file, name, name, *sorted(libraries))
    with open(HERE / "public.txt", "w") as file:
        for namespace in NAMESPACES:
            for name in public_names(namespace):
                write(file, f"{namespace}.{name}", namespace, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
