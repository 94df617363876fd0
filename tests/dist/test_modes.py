"""Calls between ranks, and training, inside of modes (__torch_dispatch__)."""
import os

import pytest

import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_modes.py")


@pytest.mark.parametrize("name", ["training_in_modes", "names_of_groups", "arguments_of_operators", "forms_that_modes_see",
                                  "real_tensors_in_fake_mode"])
def test_two_ranks(name):
    result = ranks.run(HERE, name, 2, BACKENDS[-1])
    assert not result.late and result.codes == [0, 0], result
