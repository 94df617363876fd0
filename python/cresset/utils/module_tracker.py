"""Which module runs."""
import weakref

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside of a `with` block, `parents` has the full names of the modules that run, and "Global".

    Names start with the class of the outermost module: "Net.linear".
    """

    def __init__(self):
        self.parents = {"Global"}
        self._names, self._known = weakref.WeakKeyDictionary(), weakref.WeakSet()
        self._hooks = []

    def __enter__(self):
        from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
        self._hooks = [register_module_forward_pre_hook(self._before),
                       register_module_forward_hook(self._after, always_call=True)]
        return self

    def __exit__(self, *exception):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    @property
    def is_bw(self):
        """Whether a backward pass runs."""
        from .._C import _current_graph_task_id
        return _current_graph_task_id() != -1

    def _name(self, module):
        if module not in self._known:
            self._name_tree(module, type(module).__name__)
        return self._names[module]

    def _name_tree(self, module, name):
        self._names[module] = name
        self._known.add(module)
        for child_name, child in module.named_children():
            self._name_tree(child, f"{name}.{child_name}")

    def _before(self, module, inputs):
        self.parents.add(self._name(module))

    def _after(self, module, inputs, output):
        self.parents.discard(self._name(module))
