"""Checks of texts: strings that come in order, on one line, or not at all."""

__all__ = ["FileCheck"]


class FileCheck:
    """FileCheck().check("a").check_next("b").check_not("c").run(text)."""

    def __init__(self):
        self._checks = []

    def __str__(self):
        return "FileCheck checks:\n" + "".join(f"\t{kind}: {text}\n" for kind, text, *_ in self._checks)

    def _add(self, *check):
        self._checks.append(check)
        return self

    def check(self, test_string):
        """The string comes later."""
        return self._add("CHECK", test_string)

    def check_not(self, test_string):
        """The string does not come before the next match."""
        return self._add("CHECK-NOT", test_string)

    def check_same(self, test_string):
        """The string comes later on the same line."""
        return self._add("CHECK-SAME", test_string)

    def check_next(self, test_string):
        """The string comes on the next line."""
        return self._add("CHECK-NEXT", test_string)

    def check_count(self, test_string, count, exactly=False):
        """The string comes `count` times; exactly: not once more before the next match."""
        return self._add("CHECK-COUNT", test_string, count, exactly)

    def check_dag(self, test_string):
        """The string comes later; neighbours of this kind in any order."""
        return self._add("CHECK-DAG", test_string)

    def check_source_highlighted(self, test_string):
        """The string comes later, at a place that the line below marks with ~."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", test_string)

    @staticmethod
    def _refuse(kind, text, why):
        raise RuntimeError(f'Expected to {why} "{text}" but did{"" if kind == "CHECK-NOT" else " not"} find it\nFrom {kind}: {text}')

    def _find(self, text, kind, wanted, at, end=None):
        found = text.find(wanted, at, len(text) if end is None else end)
        return self._refuse(kind, wanted, "find") if found < 0 else found

    def _one(self, text, check, at):
        """The position behind the match of a check."""
        kind, wanted, *more = check
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if kind == "CHECK-SAME":
            return self._find(text, kind, wanted, at, line_end) + len(wanted)
        if kind == "CHECK-NEXT":
            after = text.find("\n", line_end + 1)
            return self._find(text, kind, wanted, line_end, len(text) if after < 0 else after) + len(wanted)
        if kind == "CHECK-SOURCE-HIGHLIGHTED":
            return self._highlighted(text, wanted, at)
        for _ in range(more[0] if kind == "CHECK-COUNT" else 1):
            at = self._find(text, kind, wanted, at) + len(wanted)
        if kind == "CHECK-COUNT" and more[1] and wanted in text[at:]:
            self._refuse("CHECK-NOT", wanted, "not find")
        return at

    def _highlighted(self, text, wanted, at):
        found = self._find(text, "CHECK-SOURCE-HIGHLIGHTED", wanted, at)
        while found >= 0:
            begin, end = text.rfind("\n", 0, found) + 1, text.find("\n", found)
            below = "" if end < 0 else text[end + 1:].partition("\n")[0]
            if below[found - begin:found - begin + len(wanted)] == "~" * len(wanted):
                return end + 1 + len(below)
            found = text.find(wanted, found + 1)
        return self._refuse("CHECK-SOURCE-HIGHLIGHTED", wanted, "find highlighted")

    def run(self, test_string):
        """Raises RuntimeError for the first check that fails."""
        text, at, absent, dag = str(test_string), 0, [], []
        for check in [*self._checks, ("END", "")]:
            kind, wanted = check[:2]
            if kind == "CHECK-NOT":
                absent.append(wanted)
                continue
            if kind == "CHECK-DAG":
                dag.append(self._find(text, kind, wanted, at) + len(wanted))
                continue
            at, dag = max([at, *dag]), []
            behind = len(text) if kind == "END" else self._one(text, check, at)
            before = len(text) if kind == "END" else behind - len(wanted)
            for missing in absent:
                if text.find(missing, at, before) >= 0:
                    self._refuse("CHECK-NOT", missing, "not find")
            at, absent = behind, []
