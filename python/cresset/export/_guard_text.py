"""Texts of conditions on sizes, such as "L['x'].size()[0] > 5", as conditions."""
import re

from ._constraints import Condition
from .._size_expr import parse

_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]*\]|\.\w+(?!\())*)\.size\(\)\[(\d+)\]")
_TEST = re.compile(r" (==|!=|<=|>=|<|>) ")


def read_guard(text):
    """({symbol: (text of the argument, dim)}, Condition); None for a text of another form."""
    symbols, names = {}, {}

    def symbol(found):
        place = found[1] + found[2], int(found[3])
        if place not in names:
            names[place] = f"g{len(names)}"
            symbols[names[place]] = place
        return names[place]
    parts = _TEST.split(_SIZE.sub(symbol, text))
    if len(parts) != 3:
        return None
    try:
        return symbols, Condition(parse(parts[0]), parts[1], parse(parts[2]))
    except ValueError:
        return None
