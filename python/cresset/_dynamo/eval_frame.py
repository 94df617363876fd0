"""compile() and disable()."""
import functools
import sys

from .. import _C, _root
from . import config
from .capture import compile_function

OWN_NAMES = ("inductor", "cresset")  # names of the backend that is this package's programs
default_backend = "inductor"


def is_module(x):
    modules = sys.modules.get(f"{_root.NAME}.nn.modules.module")
    return modules is not None and isinstance(x, modules.Module)


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None,
            disable=False, recompile_limit=None, isolate_recompiles=False):
    """Compiles a function or module to fused programs.

    Python's code runs in the first calls, and operators wait until a value is needed; equal runs of
    operators are one program.  Where all that the code reads is known, later calls run one program without
    the code while these objects are unchanged.  With model=None it is a decorator.

        fullgraph  True: an error when the code branches on a tensor's elements or writes them as a text
        dynamic    True: sizes are symbols from the first call on; False: never; None: when they change
        backend    "inductor" (this package's programs; the default), "eager", "aot_eager", or a
                   callable with the arguments GraphModule and example inputs
        mode       "default"; "reduce-overhead" (the same on CPUs); "max-autotune": schedules are
                   measured; "lite": operators are not fused
        options    settings of the backend by name (torch._inductor.list_options()); {"fast": True}
                   allows results that differ from eager's by rounding
        name       the function's name in logs and errors
        disable    True: returns `model`
        recompile_limit     most recordings, after which calls are deferred; None: torch._dynamo.config.recompile_limit
        isolate_recompiles  ignored: every call of compile() has separate recordings

    Example::

        >>> f = torch.compile(lambda x: torch.relu(x) * 2 + 1)
        >>> f(torch.tensor([-1., 2.]))
        tensor([1., 5.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        def decorate(model):
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                           name=name, disable=disable, recompile_limit=recompile_limit)
        return decorate
    how = How(backend, fullgraph, dynamic, disable, name, recompile_limit)
    if options is not None or mode is not None:
        how.set_options(mode, options)
    return how(model)


class How:
    """compile() with its options: applied to functions and modules, and a decorator."""

    def __init__(self, backend=None, nopython=False, dynamic=None, disable=False, name=None, limit=None):
        if dynamic not in (None, True, False):
            raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
        self.backend_name, self.backend = default_backend if backend is None else backend, None
        if not isinstance(self.backend_name, str) or self.backend_name not in OWN_NAMES:
            from .backends.registry import lookup_backend
            self.backend = lookup_backend(self.backend_name)
        self.nopython, self.dynamic, self.disable, self.name, self.limit = nopython, dynamic, disable, name, limit
        self.mode = self.options = None
        self.settings = {}

    def set_options(self, mode, options):
        """Sets mode and options.  Backends other than this package's get them as keywords."""
        self.mode, self.options = mode, options
        if self.backend is None:
            from .._inductor import options_of
            self.settings = options_of(mode, options)
            return
        keywords = {"mode": mode} if mode not in (None, "default") else {"options": options} if options else {}
        if keywords:
            self.backend = functools.partial(self.backend, **keywords)

    def __call__(self, fn):
        if is_module(fn):
            from .optimized_module import OptimizedModule
            return OptimizedModule(fn, self)
        if isinstance(fn, type):
            fn.__call__ = self.function(fn.__call__)
            return fn
        return self.function(fn)

    def function(self, fn):
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        fn = getattr(fn, "_torchdynamo_orig_callable", fn)
        if self.disable or getattr(fn, "_torchdynamo_disable", False) or config.disable:
            return fn
        compiled = compile_function(fn, self.backend, self.backend_name, self.nopython, self.dynamic, self.settings)
        compiled._compiler.given_name, compiled._compiler.limit = self.name, self.limit
        if isinstance(fn, functools.partial) or not hasattr(fn, "__name__"):
            compiled.__name__ = getattr(fn, "__name__", type(fn).__name__)
        else:
            functools.update_wrapper(compiled, fn)
        compiled._torchdynamo_orig_callable = fn
        compiled._torchdynamo_inline = fn
        compiled.aot_compile = functools.partial(_aot_compile, fn)
        return compiled

    def __reduce__(self):
        given = self.backend_name, self.nopython, self.dynamic, self.disable, self.name, self.limit
        return _again, (given, self.mode, self.options)


def _aot_compile(fn, example_inputs):
    """Compiles the function for the arguments (args, kwargs); the result can be saved to a file."""
    from .ahead import aot_compile
    return aot_compile(fn, example_inputs)


def _again(given, mode, options):
    how = How(*given)
    if mode is not None or options is not None:
        how.set_options(mode, options)
    return how


def optimize(backend=None, *, nopython=False, guard_export_fn=None, guard_fail_fn=None, disable=False,
             dynamic=None, **unused):
    """The compiler as a decorator; most programs use compile()."""
    return How(backend, nopython, dynamic, disable)


def optimize_assert(backend, **options):
    return optimize(backend, nopython=True, **options)


class _Plain:
    """Inside, compiled functions of this thread call the plain function; also a decorator."""

    def __enter__(self):
        _C._compiled_off(1)

    def __exit__(self, *error):
        _C._compiled_off(-1)

    def __call__(self, fn):
        return disable(fn)


def disable(fn=None, recursive=True, *, reason=None):
    """Makes `fn` and the functions it calls run eagerly.  It ends the graph of a compiled function that
    calls it; an error with fullgraph=True."""
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if is_module(fn):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    fn = getattr(fn, "_torchdynamo_orig_callable", fn)

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        _C._break_graph(f"{getattr(fn, '__qualname__', fn)} is disabled"
                        f"{': ' + reason if reason else ''}")
        with _Plain():
            return fn(*args, **kwargs)
    plain._torchdynamo_disable, plain._torchdynamo_disable_recursive = True, recursive
    plain._torchdynamo_orig_callable = fn
    return plain


def is_dynamo_supported():
    """Whether compile() makes programs in this process: always."""
    return True


def __getattr__(name):
    if name == "OptimizedModule":  # a module needs nn, which compile() does not
        from .optimized_module import OptimizedModule
        return OptimizedModule
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
