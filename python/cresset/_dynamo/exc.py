"""Errors of compile()."""


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class ResetRequired(TorchDynamoException):
    pass


class Unsupported(TorchDynamoException):
    """Part of the function cannot be in a graph, and fullgraph=True."""

    def __init__(self, msg, *, case_name=None, real_stack=None):
        super().__init__(msg)
        self.msg, self.case_name, self.real_stack = msg, case_name, real_stack


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A function that an operator takes does something that a graph cannot do (torch.cond, torch.while_loop, ...)."""


class UserError(Unsupported):
    pass


class FailOnRecompileLimitHit(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    """No recording fits a call, and error_on_recompile is set."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised `inner_exception`."""

    def __init__(self, backend_fn, inner_exception, first_useful_frame=None):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class ConstraintViolationError(RuntimeError):
    """A size that was marked dynamic cannot vary; torch has this name in torch.fx.experimental.
    symbolic_shapes."""
