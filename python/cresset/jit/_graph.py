"""Graphs of compiled functions: values, nodes and blocks, read from the graph's text."""
import functools
import re
import weakref

from .. import _C, _script_types

_HEAD = re.compile(r"graph\((.*?)\):\n", re.S)
_KIND = re.compile(r"([\w^]+::\w+|\^\w+)")


def _split(text):
    """The parts of a list between commas that are outside of brackets and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1:i] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def _closing(text, start):
    """The index of the bracket that closes the one at `start`."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (c in "([{") - (c in ")]}")
            if not depth:
                return i
    raise RuntimeError(f"expected a closing bracket in {text!r}")


def _sides(line):
    """The results and the rest of a node's line; types of named tuples have ` = ` inside of brackets."""
    depth = 0
    for i, c in enumerate(line):
        depth += (c in "([{") - (c in ")]}")
        if not depth and line.startswith(" = ", i):
            return line[:i], line[i + 3:]
    return line, ""


def _number(text):
    """The value of an attribute's text."""
    if text[:1] == "[":
        return [_number(part) for part in _split(text[1:-1])]
    if text[:1] == '"':
        import ast
        return ast.literal_eval(text)
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Use:
    """A place where a value is read: the node, and the number of its input."""

    def __init__(self, user, offset):
        self.user, self.offset = user, offset


class Value:
    """A value of a graph: its name, its type, the node that makes it and the nodes that read it."""

    def __init__(self, name, kind, node=None):
        self._name, self._type, self._node, self._uses = name, kind, node, []

    def debugName(self):
        """The name without %."""
        return self._name

    def setDebugName(self, name):
        """Renames the value."""
        self._name = name

    def unique(self):
        """A number of the value in its graph."""
        return self._number

    def type(self):
        """The type: a torch._C.Type."""
        return _script_types.parse(self._type)

    def setType(self, kind):
        """Gives the value another type."""
        self._type = kind.str()
        return self

    def requiresGrad(self):
        """Whether the type says that it requires a gradient."""
        return "requires_grad=1" in self._type

    def isCompleteTensor(self):
        """Whether dtype, sizes and device of the tensor are known."""
        return "device=" in self._type

    def node(self):
        """The node whose result it is; of a parameter, the node prim::Param."""
        return self._node

    def uses(self):
        """The places where it is read."""
        return list(self._uses)

    def offset(self):
        """Its place among the results of its node."""
        return self._node._outputs.index(self)

    def requires_grad(self):
        """Whether the type says that it may require a gradient: tensors may."""
        return self._type.startswith("Tensor") or "requires_grad=1" in self._type

    def toIValue(self):
        """The value of a constant; None for another value."""
        node = self._node
        if node is None or node.kind() != "prim::Constant" or not node.hasAttribute("value"):
            return None
        value = node._attributes["value"]
        return bool(value) if self._type == "bool" else value

    def __repr__(self):
        return f"{self._name} defined in ({self._node if self._node is not None else f'%{self._name} : {self._type}'})"

    def _text(self):
        return f"%{self._name} : {self._type}"


class Node:
    """A node of a graph: its kind, inputs, results, attributes and blocks."""

    def __init__(self, kind, block):
        self._kind, self._block = kind, block
        self._inputs, self._outputs, self._blocks = [], [], []
        self._attributes, self._attribute_texts, self._place = {}, {}, ""
        self._shown, self._scalars = kind, None

    def kind(self):
        """The operator, such as aten::add."""
        return self._kind

    def inputs(self):
        """Goes through the values that it reads."""
        return iter(self._inputs)

    def outputs(self):
        """Goes through its results."""
        return iter(self._outputs)

    def blocks(self):
        """Goes through the blocks inside: of an if or a loop."""
        return iter(self._blocks)

    def inputsSize(self):
        """The number of inputs."""
        return len(self._inputs)

    def outputsSize(self):
        """The number of results."""
        return len(self._outputs)

    def hasMultipleOutputs(self):
        """Whether there is more than one result."""
        return len(self._outputs) > 1

    def hasUses(self):
        """Whether a result is read."""
        return any(value._uses for value in self._outputs)

    def input(self):
        """The only input."""
        [value] = self._inputs
        return value

    def output(self):
        """The only result."""
        if len(self._outputs) != 1:
            raise RuntimeError(f"expected one result of {self._kind}, there are {len(self._outputs)}")
        return self._outputs[0]

    def inputsAt(self, i):
        """An input."""
        return self._inputs[i]

    def outputsAt(self, i):
        """A result."""
        return self._outputs[i]

    def owningBlock(self):
        """The block that it is in."""
        return self._block

    def attributeNames(self):
        """The names of its attributes."""
        return list(self._attributes)

    def hasAttribute(self, name):
        """Whether it has an attribute."""
        return name in self._attributes

    def hasAttributes(self):
        """Whether it has attributes."""
        return bool(self._attributes)

    def kindOf(self, name):
        """The letter of an attribute's type: i, f, c, s or t, with an s for lists."""
        value = self._attributes[name]
        one = value[0] if isinstance(value, list) and value else value
        letter = {bool: "i", int: "i", float: "f", complex: "c", list: "i"}.get(type(one))
        if letter is None:
            letter = "s" if self._attribute_texts[name].startswith(('"', "[\"")) else "t"
        return letter + ("s" if isinstance(value, list) else "")

    def _attribute(self, name):
        if name not in self._attributes:
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        return self._attributes[name]

    i = f = s = c = t = is_ = fs = ss = ts = _attribute

    def pyname(self):
        """The name of the function of Python that it calls."""
        if not self._shown.startswith("^"):
            raise RuntimeError(f"{self._kind} calls no function of Python")
        return self._shown[1:]

    def sourceRange(self):
        """The place in the source: file, line and column."""
        return self._place

    def scopeName(self):
        """The module call that it is from; scopes are not kept."""
        return ""

    def schema(self):
        """The declaration without overload and types of an operator; "(no schema)" for others."""
        from .._ops import ops
        name = self._kind.partition("::")[2]
        return getattr(ops, name).__doc__.partition("\n")[0] if self._kind.startswith("aten::") and hasattr(ops, name) else "(no schema)"

    def findNode(self, kind, recurse=True):
        """The first node of a kind in its blocks, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind in its blocks."""
        return [node for block in self._blocks for node in block.findAllNodes(kind, recurse)]

    def _lines(self, indent):
        left = ", ".join(value._text() for value in self._outputs)
        attributes = ", ".join(f"{name}={text}" for name, text in self._attribute_texts.items())
        inputs = ", ".join(f"%{value._name}" for value in self._inputs)
        place = f" # {self._place}" if self._place else ""
        scalars = f"({self._scalars})" if self._scalars is not None else ""
        attributes = f"[{attributes}]" if attributes or scalars else ""
        yield f"{indent}{left}{' = ' if left else ''}{self._shown}{attributes}{scalars}({inputs}){place}\n"
        for i, block in enumerate(self._blocks):
            yield from block._lines(indent + "  ", f"block{i}")

    def __str__(self):
        return "".join(self._lines(""))

    __repr__ = __str__


class Block:
    """Nodes with parameters and results: a branch of an if, or the body of a loop."""

    def __init__(self, node):
        self._node, self._nodes = node, []
        self._param, self._return = Node("prim::Param", self), Node("prim::Return", self)

    def nodes(self):
        """Goes through the nodes, in order."""
        return iter(self._nodes)

    def inputs(self):
        """Goes through the parameters."""
        return iter(self._param._outputs)

    def outputs(self):
        """Goes through the results."""
        return iter(self._return._inputs)

    def paramNode(self):
        """The node whose results are the parameters."""
        return self._param

    def returnNode(self):
        """The node whose inputs are the results."""
        return self._return

    def owningNode(self):
        """The node that it is in; None for a graph's outer block."""
        return self._node

    def findNode(self, kind, recurse=True):
        """The first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind, in order."""
        found = []
        for node in self._nodes:
            found += [node] if node._kind == kind else []
            found += node.findAllNodes(kind) if recurse else []
        return found

    def _lines(self, indent, name):
        yield f"{indent}{name}({', '.join(value._text() for value in self.inputs())}):\n"
        for node in self._nodes:
            yield from node._lines(indent + "  ")
        yield f"{indent}  -> ({', '.join(f'%{value._name}' for value in self.outputs())})\n"


class _Reader:
    """Makes the nodes of a graph's text."""

    def __init__(self, text):
        self.values, self.text = {}, text
        head = _HEAD.match(text)
        if head is None:
            raise RuntimeError("expected `graph(...):` at the start of a graph")
        self.block = Block(None)
        self.define(head.group(1), self.block._param)
        self.lines = [line for line in text[head.end():].splitlines() if line.strip()]
        self.at = 0

    def define(self, text, node):
        for part in _split(text):
            name, _, kind = part.partition(" : ")
            value = Value(name.strip().lstrip("%"), kind.strip() or "Tensor", node)
            value._number = len(self.values)
            node._outputs.append(value)
            self.values[value._name] = value

    def read(self, text, node):
        for part in _split(text):
            value = self.values.get(part.lstrip("%"))
            if value is None:
                raise RuntimeError(f"unknown value {part} in a graph")
            value._uses.append(Use(node, len(node._inputs)))
            node._inputs.append(value)

    def nodes(self, block):
        """Reads nodes until the line with the block's results."""
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if line.startswith(("return (", "-> (")):
                self.at += 1
                self.read(line[line.index("(") + 1:line.rindex(")")], block._return)
                return
            self.node(line, block)
        raise RuntimeError("expected the results at the end of a graph's block")

    def node(self, line, block):
        left, right = _sides(line) if line.startswith("%") else ("", line.removeprefix("= "))
        found = _KIND.match(right)
        if found is None:
            raise RuntimeError(f"expected an operator in {line!r}")
        kind, rest = found.group(1), right[found.end():]
        node = Node("prim::PythonOp" if kind.startswith("^") else kind, block)
        node._shown = kind
        self.define(left, node)
        if rest.startswith("["):
            end = _closing(rest, 0)
            for part in _split(rest[1:end]):
                name, _, text = part.partition("=")
                node._attribute_texts[name], node._attributes[name] = text, _number(text)
            rest = rest[end + 1:]
        if kind.startswith("^"):
            end = _closing(rest, 0)
            node._scalars, rest = rest[1:end], rest[end + 1:]
        end = _closing(rest, 0)
        self.read(rest[1:end], node)
        node._place = rest[end + 1:].partition("#")[2].strip()
        block._nodes.append(node)
        self.at += 1
        while self.at < len(self.lines) and re.match(r"\s*block\d+\(", self.lines[self.at]):
            head = self.lines[self.at].strip()
            inner = Block(node)
            self.define(head[head.index("(") + 1:head.rindex("):")], inner._param)
            node._blocks.append(inner)
            self.at += 1
            self.nodes(inner)


class Graph:
    """The typed graph of a function.  Nodes are made from the text when they are first asked for.

    `after` gives the text after passes, whose names are in one string; `passes` are those that ran, a list that all
    graphs of one function share.
    """

    def __init__(self, text, after=None, passes=None):
        self._text, self._made, self._passes = text, None, [] if passes is None else passes
        self._function = None  # the compiled function that the graph is of
        self._after = after or functools.partial(_C._script_graph_after, text)

    def _run(self, name):
        """Runs a pass; nodes that were asked for before are those of the graph before it."""
        self._text = self._after(" ".join(self._passes + [name]))
        self._passes.append(name)
        self._made = None

    def __str__(self):
        return self._text

    __repr__ = __str__

    def block(self):
        """The outer block."""
        if self._made is None:
            reader = _Reader(self._text)
            reader.nodes(reader.block)
            self._made = reader.block
        return self._made

    def nodes(self):
        """Goes through the nodes of the outer block, in order."""
        return self.block().nodes()

    def inputs(self):
        """Goes through the parameters, in order."""
        return self.block().inputs()

    def outputs(self):
        """Goes through the results, in order."""
        return self.block().outputs()

    def param_node(self):
        """The node whose results are the parameters."""
        return self.block().paramNode()

    def return_node(self):
        """The node whose inputs are the results."""
        return self.block().returnNode()

    def findNode(self, kind, recurse=True):
        """The first node of a kind, or None."""
        return self.block().findNode(kind, recurse)

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind, in order."""
        return self.block().findAllNodes(kind, recurse)

    def str(self):
        """The text."""
        return self._text

    def lint(self):
        """Checks the text: raises for a value that is not defined."""
        self.block()

    def copy(self):
        """Another graph with the same text."""
        return Graph(self._text, self._after, list(self._passes))


_ran = weakref.WeakKeyDictionary()  # function, or object of a module -> {name of a method: passes that ran on its graph}


def graph_with(owner, name, after, passes):
    """The graph of a function, on which the passes that a program runs stay; after further `passes` it is a copy."""
    ran = _ran.setdefault(owner, {}).setdefault(name, [])
    used = ran + passes if passes else ran
    return Graph(after(" ".join(used)), after, used)


def graph_of(function, passes):
    """The graph of a compiled function after passes."""
    graph = graph_with(function, None, function.graph_after, passes.split())
    graph._function = None if passes else function
    return graph


def _create_function_from_graph(name, graph):
    """A ScriptFunction that runs a graph: that of `parse_ir`, or one that a trace made."""
    made = graph._function
    return made if made is not None and not graph._passes else _C._script_of_graph(_frontend_name(name), str(graph))


def _frontend_name(name):
    from . import _frontend
    return _frontend.free_name(f"__torch__.{name}")


def parse_ir(input, parse_tensor_constants=False):
    """The graph of a text such as str(graph)."""
    graph = Graph(input)
    graph.block()
    return graph
