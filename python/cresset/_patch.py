"""Settings with other values for a while."""


class Patch:
    """patch("name", value), patch({name: value}) or patch(name=value): a context manager and a decorator.

    A subclass says with `_owner(name)` which object holds a setting under which name; AttributeError: there is none. """

    def __init__(self, changes=None, value=None, **more):
        if isinstance(changes, str):
            changes = {changes: value}
        self.changes = [(*self._owner(name), value) for name, value in {**(changes or {}), **more}.items()]
        self.before = []

    def __enter__(self):
        self.before.append([(owner, name, getattr(owner, name)) for owner, name, _ in self.changes])
        for owner, name, value in self.changes:
            setattr(owner, name, value)

    def __exit__(self, *error):
        for owner, name, value in self.before.pop():
            setattr(owner, name, value)

    def __call__(self, fn):
        from functools import wraps

        @wraps(fn)
        def patched(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)
        return patched
