"""docs/tutorial.md: its sessions print what it says."""
import doctest
from pathlib import Path

import cresset as torch

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def test_the_tutorial(monkeypatch):
    text = TUTORIAL.read_text().replace("import cresset as torch", f"import {torch.__name__} as torch").replace(
        "from cresset", f"from {torch.__name__}")
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    parsed = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "tutorial", str(TUTORIAL), 0)
    out = []
    result = doctest.DocTestRunner(verbose=False).run(parsed, out=out.append)
    assert result.attempted > 40 and not result.failed, "".join(out)
