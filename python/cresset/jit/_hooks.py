"""Declarations of hooks of compiled modules: what they take and return."""
from .. import _C


def _inside(kind):
    """The types inside of a tuple's text."""
    from ._graph import _split
    return [] if kind == "Tuple[()]" else _split(kind[len("Tuple["):-1])


class _Declaration:
    """A hook beside the `forward` of its module."""

    def __init__(self, cls, name, owner, before):
        self.name, self.owner, self.before = name, owner, before
        self.word = "Pre-hook" if before else "Hook"
        self.inputs = [kind for _, kind, _ in _C._script_params(f"{cls}.forward")[1:]]
        self.tuple = f"Tuple[{', '.join(self.inputs) or '()'}]"
        self.given = [kind for _, kind, _ in _C._script_params(f"{cls}.{name}")]
        self.result = _C._script_result(f"{cls}.{name}")

    def refuse(self, why, expected, line="\n"):
        kind = "pre-hook" if self.before else "hook"
        where = f"'{self.owner}'" if self.before else self.owner
        raise RuntimeError(
            f"{self.word} '{self.name}' on module '{self.owner}' {why}{line}This error occurred while scripting the forward "
            f"{kind} '{self.name}' on module {where}. If you did not want to script this {kind} remove it from the original NN "
            f"module before scripting. {expected}\n")

    def check_inputs(self, count, expected):
        if len(self.given) != count:
            self.refuse(f"was expected to only have exactly {count} inputs but it had {len(self.given)} inputs.", expected, " ")

    def check_tuple(self, expected):
        given = self.given[1]
        if not given.startswith("Tuple["):
            self.refuse(f"expected the input argument to be typed as a Tuple but found type: '{given}' instead.", expected)
        if not self.inputs and given != "Tuple[()]":
            self.refuse(f"was expecting Tuple[()] as the input type. Received type: '{given}'.", expected)
        if len(_inside(given)) != len(self.inputs):
            self.refuse(f"has the wrong number of contained types for the input argument's Tuple. Received type: '{given}'.", expected)
        if given != self.tuple:
            self.refuse(f"has the wrong inner types for the input tuple argument. Received type: '{given}'.", expected)

    # --- before forward ---

    def check_before(self, annotated):
        single = len(self.inputs) == 1 and not self.inputs[0].startswith("Tuple[")
        results = f"'None', '{self.inputs[0]}', or '{self.tuple}'" if single else f"'None' or '{self.tuple}'"
        expected = (f"Pre-hooks for module '{self.owner}' are expected to have the following signature: {self.name}(self, input: "
                    f"{self.tuple}) with a return type of either {results}.")
        self.check_inputs(2, expected)
        self.check_tuple(expected)
        if not annotated:
            self.refuse("is missing a return annotation. Return annotations are required, please add one.", expected)
        allowed = ["NoneType", self.tuple] + self.inputs[:1] * single
        if self.result not in allowed:
            why, line = self._why(single)
            self.refuse(f"returned the wrong type of: '{self.result}'.{why}", expected, line)

    def _why(self, single):
        if not self.inputs:
            return " Was expecting either 'None' or 'Tuple[()]' since forward had no arguments.", "\n"
        if not self.result.startswith("Tuple["):
            return "", ""
        if len(self.inputs) == 1 and not single:
            return (" When forward has a single tuple input argument, the return needs to be 'None' or a nested tuple containing "
                    f"forward's input tuple argument as in: '{self.tuple}'."), "\n"
        part = "number of contained types" if len(_inside(self.result)) != len(self.inputs) else "inner types"
        return f" The returned tuple contains the wrong {part}.", "\n"

    # --- after forward ---

    def check_after(self, output):
        expected = (f"This hook was expected to have the following signature: {self.name}(self, input: {self.tuple}, output: "
                    f"{output}). The type of the output arg is the returned type from either the forward method or the previous "
                    "hook if it exists. Note that hooks can return anything, but if the hook is on a submodule the outer module is "
                    "expecting the same return type as the submodule's forward.")
        self.check_inputs(3, expected)
        self.check_tuple(expected)
        if self.given[2] != output:
            self.refuse(f"has the wrong type for the output argument. Received type: '{self.given[2]}'. Expected type: '{output}'.",
                        expected)


def check_hook(cls, name, hook, owner, before, output):
    """Compiles a hook and refuses one with another declaration than torch asks for.  `output` is the type of what `forward`
    or the hook before this one returns; the hook's own result type is returned."""
    _C._script_compile(f"{cls}.{name}")
    declared = _Declaration(cls, name, owner, before)
    if before:
        declared.check_before("return" in getattr(hook, "__annotations__", {}))
    else:
        declared.check_after(output)
    return declared.result
