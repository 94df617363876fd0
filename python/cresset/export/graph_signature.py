"""The signature of an exported graph: what each of its inputs and outputs is."""
import dataclasses
from enum import Enum, auto
from types import MappingProxyType

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
           "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument",
           "TokenArgument"]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: object = None


@dataclasses.dataclass
class ConstantArgument:
    """A number, text or None, which is the same in every call."""

    name: str
    value: object


class InputKind(Enum):
    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """What a placeholder is; target: the path of a parameter, buffer or constant."""

    kind: InputKind
    arg: object
    target: str | None
    persistent: bool | None = None

    def __post_init__(self):
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


class OutputKind(Enum):
    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class OutputSpec:
    """What a result is; target: the path or name of the tensor that it replaces."""

    kind: OutputKind
    arg: object
    target: str | None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


def _named(specs, *kinds):
    return [s for s in specs if s.kind in kinds]


def _user_value(arg):
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph in their order: parameters, buffers, constants and the user's inputs; new
    contents of buffers and inputs, then the user's outputs."""

    input_specs: list
    output_specs: list

    def _targets(self, *kinds):
        return tuple(s.target for s in _named(self.input_specs, *kinds))

    def _inputs_to(self, *kinds):
        return MappingProxyType({s.arg.name: s.target for s in _named(self.input_specs, *kinds)})

    def _outputs_to(self, kind):
        return MappingProxyType({s.arg.name: s.target for s in _named(self.output_specs, kind)})

    @property
    def parameters(self):
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self):
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        return tuple(s.target for s in _named(self.input_specs, InputKind.BUFFER) if s.persistent is False)

    @property
    def lifted_tensor_constants(self):
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self):
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self):
        return tuple(_user_value(s.arg) for s in _named(self.input_specs, InputKind.USER_INPUT))

    @property
    def user_outputs(self):
        return tuple(_user_value(s.arg) for s in _named(self.output_specs, OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT))

    @property
    def inputs_to_parameters(self):
        return self._inputs_to(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        return self._inputs_to(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        return self._inputs_to(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self):
        return self._inputs_to(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self):
        return self._outputs_to(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        return self._outputs_to(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        return self._outputs_to(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self):
        loss = _named(self.output_specs, OutputKind.LOSS_OUTPUT)
        if not loss:
            return None
        return ExportBackwardSignature(dict(self._outputs_to(OutputKind.GRADIENT_TO_PARAMETER)),
                                       dict(self._outputs_to(OutputKind.GRADIENT_TO_USER_INPUT)), loss[0].arg.name)

    @property
    def assertion_dep_token(self):
        return None

    @property
    def input_tokens(self):
        return tuple(s.arg.name for s in _named(self.input_specs, InputKind.TOKEN))

    @property
    def output_tokens(self):
        return tuple(s.arg.name for s in _named(self.output_specs, OutputKind.TOKEN))

    def replace_all_uses(self, old, new):
        """Replaces the name of a node in all specs."""
        if not (isinstance(old, str) and isinstance(new, str)):
            raise AssertionError(f"expected names, got {type(old)} and {type(new)}")
        for spec in [*self.input_specs, *self.output_specs]:
            if spec.arg.name == old and not isinstance(spec.arg, ConstantArgument):
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs=False):
        """A function for GraphModule.register_replace_node_hook that renames outputs."""
        def replace(old, new, user):
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)
        return replace

    def __str__(self):
        lines = ["", "# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""]
        return "\n".join(lines)
