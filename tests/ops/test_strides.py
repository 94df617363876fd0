"""Sizes and strides of results for tensors of several layouts, compared with torch's (stride_calls.py)."""
import json
import lzma
import os

import pytest

import cresset as torch
import stride_calls
from table import BY_KEY

with lzma.open(stride_calls.FILE, "rt") as file:
    RECORDED = json.load(file)

# Entries with other strides than torch's: results of pooling and convolution in one dim and of index have the order of self's
# dims there; the rest are small.
with open(os.path.join(os.path.dirname(stride_calls.FILE), "strides_differing.txt")) as file:
    DIFFERING = set(file.read().split())


@pytest.mark.parametrize("key", [k for k in RECORDED if k in BY_KEY])
def test_strides_are_torchs(key):
    differ = {}
    for entry, call, args, kwargs in stride_calls.drawn([BY_KEY[key]]):
        if call not in RECORDED[key]:
            continue
        try:
            made = entry.call(args, kwargs)
        except (RuntimeError, TypeError):
            continue
        got = stride_calls.described(torch, made)
        if got != RECORDED[key][call]:
            differ[call] = (got, RECORDED[key][call])
    assert bool(differ) == (key in DIFFERING), differ
