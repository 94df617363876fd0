"""Metadata of nodes, kept while their graph is run to make another graph."""
import contextlib

__all__ = ["preserve_node_meta", "has_preserved_node_meta", "set_stack_trace", "format_stack",
           "set_current_meta", "get_current_meta", "annotate"]

_current_meta = {}
_preserving = False


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """Inside, nodes made by tracing get the metadata of the node that is being run."""
    global _preserving, _current_meta
    before = _preserving, _current_meta
    _preserving, _current_meta = enable, dict(_current_meta)
    try:
        yield
    finally:
        _preserving, _current_meta = before


def has_preserved_node_meta():
    """Returns whether metadata is kept."""
    return _preserving


def set_stack_trace(stack):
    """Sets the stack trace of new nodes."""
    if _preserving and stack:
        _current_meta["stack_trace"] = "".join(stack)


def format_stack():
    """Returns the stack as lines: the kept stack, or the current one."""
    import traceback
    if _preserving:
        return [_current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def annotate(annotation_dict):
    """Inside, nodes get the entries of a dict under meta["custom"]."""
    before = _current_meta.get("custom")
    _current_meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            del _current_meta["custom"]
        else:
            _current_meta["custom"] = before


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """Inside, the metadata of `node` is the current metadata, if metadata is kept."""
    global _current_meta
    if not _preserving or not node.meta:
        yield
        return
    before = _current_meta
    _current_meta = node.meta.copy()
    try:
        yield
    finally:
        _current_meta = before


def get_current_meta():
    """Returns the metadata for new nodes."""
    return _current_meta
