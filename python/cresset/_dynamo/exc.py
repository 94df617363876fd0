"""Errors of compiling."""


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class ResetRequired(TorchDynamoException):
    pass


class Unsupported(TorchDynamoException):
    """fullgraph=True, and a part of the function cannot be in a graph."""

    def __init__(self, msg, *, case_name=None, real_stack=None):
        super().__init__(msg)
        self.msg, self.case_name, self.real_stack = msg, case_name, real_stack


class UserError(Unsupported):
    pass


class FailOnRecompileLimitHit(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    """error_on_recompile is set, and no recording fits a call."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised; `inner_exception` is what."""

    def __init__(self, backend_fn, inner_exception, first_useful_frame=None):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class ConstraintViolationError(RuntimeError):
    """A size that was said to vary cannot; torch.fx.experimental.symbolic_shapes has the name."""
