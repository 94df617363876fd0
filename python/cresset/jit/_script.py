"""Names of torch.jit._script that programs import."""
from .._C import _ScriptFunction as ScriptFunction  # noqa: F401
from . import script, script_method  # noqa: F401
from ._loaded import RecursiveScriptModule, ScriptModule  # noqa: F401
