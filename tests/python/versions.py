"""Texts of CPython that differ between its versions, as CPython 3.11 writes them."""
import re
import sys


def _end(text, at):
    """Returns the index after the bracket that closes the one at text[at]."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if not depth:
            return i + 1
    return len(text)


def _items(text):
    """Splits the text of a dict's items."""
    start = at = 0
    while at < len(text):
        if text[at] in "([{":
            at = _end(text, at)
        elif text[at] == ",":
            yield text[start:at].strip()
            start = at = at + 1
        else:
            at += 1
    if text[start:].strip():
        yield text[start:].strip()


def ordered_dicts(text):
    """Since 3.12, OrderedDict({'a': 1}); before, OrderedDict([('a', 1)])."""
    found = re.search(r"OrderedDict\(\{", text)
    if not found:
        return text
    end = _end(text, found.end() - 1)
    pairs = (item.partition(": ") for item in _items(text[found.end():end - 1]))
    inside = ", ".join(f"({key}, {ordered_dicts(value)})" for key, _, value in pairs)
    return f"{text[:found.start()]}OrderedDict([{inside}]{ordered_dicts(text[end:])}"


def says_fork(message):
    """Since 3.12, a process with threads that forks gets a DeprecationWarning."""
    return "multi-threaded, use of fork()" in str(message)


def same_error(ours, recorded):
    """Compares errors of CPython's unpickler: 3.12 has other line breaks, and 3.13 finds that data
    is truncated where earlier versions find something else."""
    if sys.version_info >= (3, 13) and ours == "_pickle.UnpicklingError: pickle data was truncated":
        return recorded.startswith("_pickle.UnpicklingError: ")
    return ours.split() == recorded.split()
