"""NumPy functions on tensors: arrays whose NumPy calls become calls of the operator table.

`array.ndarray` wraps a tensor.  NumPy gives it every call that takes such an array: `ufuncs.py` has the
element functions, `functions.py`, `linalg.py` and `fft.py` the others, by NumPy's names.  A name without an
entry there runs in NumPy on the tensor's memory, and CR_LOG=numpy says so; names.py lists which names do.
Result dtypes are NumPy's own: its promotion (NEP 50) is asked, not imitated.

The arrays work on eager tensors; compile() only decides when to wrap and unwrap.
"""
