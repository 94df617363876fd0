"""Exported programs as JSON text and bytes: what `torch.export.save` puts into an archive, without the archive."""
import dataclasses
import io
import json

from ... import serialization
from ...export._load import parse_model, program_of
from ...export._save import program_json
from ...export._schema import FormatError as SerializeError

__all__ = ["ExportedProgramDeserializer", "ExportedProgramSerializer", "SerializeError", "SerializedArtifact", "deserialize",
           "serialize"]


class Fields:
    """Fields of the format as attributes; `type` and `value` are the name and the content of a choice, which has one field."""

    def __init__(self, found):
        self.__dict__["found"] = found

    def __getattr__(self, name):
        found = self.__dict__["found"]
        if name in ("type", "value") and len(found) == 1 and name not in found:
            (kind, value), = found.items()
            return kind if name == "type" else _view(value)
        if name not in found:
            raise AttributeError(name)
        return _view(found[name])

    def __setattr__(self, name, value):
        self.found[name] = value.found if isinstance(value, Fields) else value

    def __repr__(self):
        return f"Fields({self.found!r})"


_MAPS = "range_constraints", "opset_version", "tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "metadata"


def _view(x):
    if isinstance(x, dict):
        return Fields(x)
    return [_view(item) for item in x] if isinstance(x, list) else x


class Program(Fields):
    """The fields of a program.  Tables with names of the program as keys are dicts."""

    def __getattr__(self, name):
        found = self.__dict__["found"]
        if name in _MAPS and name in found:
            return {key: _view(value) for key, value in found[name].items()}
        return super().__getattr__(name)


@dataclasses.dataclass
class SerializedArtifact:
    """A program's JSON text, and its tensors and example inputs as torch.save writes them."""

    exported_program: bytes
    state_dict: bytes
    constants: bytes
    example_inputs: bytes


@dataclasses.dataclass
class _SerializedProgram:
    exported_program: Program
    state_dict: bytes
    constants: bytes
    example_inputs: bytes


def _saved(x, protocol):
    buffer = io.BytesIO()
    serialization.save(x, buffer, pickle_protocol=protocol)
    return buffer.getvalue()


def _loaded(data):
    if not isinstance(data, bytes):
        return data
    return serialization.load(io.BytesIO(data), weights_only=True) if data else None


class ExportedProgramSerializer:
    """Describes exported programs by the fields of the format of `.pt2` files."""

    def __init__(self, opset_version=None, pickle_protocol=2):
        self.opset_version, self.pickle_protocol = opset_version or {}, pickle_protocol

    def serialize(self, exported_program):
        """The fields of a program, and its tensors and example inputs as bytes."""
        found = json.loads(json.dumps(program_json(exported_program), allow_nan=False))
        return _SerializedProgram(Program(found), *(_saved(x, self.pickle_protocol) for x in (
            exported_program.state_dict, exported_program.constants, exported_program.example_inputs)))


class ExportedProgramDeserializer:
    """Makes programs of what ExportedProgramSerializer made."""

    def __init__(self, expected_opset_version=None):
        self.expected_opset_version = expected_opset_version or {}

    def deserialize(self, exported_program, state_dict, constants, example_inputs=None):
        """The program of fields, or of their JSON text as a dict; tensors and inputs are bytes or objects."""
        found = exported_program.found if isinstance(exported_program, Fields) else exported_program
        return program_of(found, _loaded(state_dict) or {}, _loaded(constants) or {}, _loaded(example_inputs))


def serialize(exported_program, opset_version=None, pickle_protocol=2):
    """The SerializedArtifact of an exported program, which deserialize() reads."""
    made = ExportedProgramSerializer(opset_version, pickle_protocol).serialize(exported_program)
    return SerializedArtifact(json.dumps(made.exported_program.found).encode(), made.state_dict, made.constants, made.example_inputs)


def deserialize(artifact, expected_opset_version=None):
    """The exported program of a SerializedArtifact.  Nothing of it is run."""
    found = parse_model(artifact.exported_program)
    return ExportedProgramDeserializer(expected_opset_version).deserialize(found, artifact.state_dict, artifact.constants,
                                                                           artifact.example_inputs)
