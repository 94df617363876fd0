"""Functions in other processes, references to their results, and gradients through them."""
import os
import signal

import pytest

import cresset.distributed as dist
import ranks

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="wants Gloo")

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_rpc.py")


def passes(tmp_path, name, size, killed=()):
    result = ranks.run(HERE, name, size, "gloo", RPC_FILE=str(tmp_path / "store"))
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result


@pytest.mark.parametrize("size", [1, 2])
def test_calls_and_the_tensors_that_they_carry(tmp_path, size):
    passes(tmp_path, "calls", size)


def test_errors_are_the_callers(tmp_path):
    passes(tmp_path, "errors", 2)


def test_a_killed_process_hangs_no_other(tmp_path):
    passes(tmp_path, "killed", 3, killed=[1])


def test_references_keep_values_until_the_last_is_gone(tmp_path):
    passes(tmp_path, "references", 3)


def test_gradients_and_steps_are_those_of_one_process(tmp_path):
    passes(tmp_path, "gradients", 3)


def test_processes_join_a_group_without_a_size(tmp_path):
    passes(tmp_path, "joining", 3)


def test_modules_in_other_processes(tmp_path):
    passes(tmp_path, "remote_modules", 2)


@pytest.mark.parametrize("size", [1, 3])
def test_profiles_have_what_other_processes_did(tmp_path, size):
    passes(tmp_path, "profiles", size)
