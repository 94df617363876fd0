"""Names of TorchScript's lists, dicts and errors in torch._C."""
from . import jit
from .jit._containers import ScriptDict, ScriptDictIterator, ScriptDictKeyIterator, ScriptList, ScriptListIterator

JITException = jit.Error  # the error of compiled functions and of the compiler

__all__ = ["JITException", "ScriptDict", "ScriptDictIterator", "ScriptDictKeyIterator", "ScriptList", "ScriptListIterator"]
