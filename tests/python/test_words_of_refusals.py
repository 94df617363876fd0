"""Sizes and dtypes that entries refuse: torch 2.13's class and text, recorded by
evaluating the calls of words_of_refusals_expected.json with torch."""
import json
import pathlib

import cresset as torch
import pytest

CASES = json.loads((pathlib.Path(__file__).parent / "words_of_refusals_expected.json").read_text())


@pytest.mark.parametrize("call, kind, message", CASES, ids=[call for call, _, _ in CASES])
def test_refused_calls_have_torchs_words(call, kind, message):
    with pytest.raises(Exception) as error:
        eval(call)  # noqa: S307, a call of this file's list
    assert type(error.value).__name__ == kind
    assert str(error.value) == message
