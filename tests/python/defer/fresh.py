"""Tests in new threads."""
import concurrent.futures
import functools


def in_a_thread(test):
    """Runs a test in a new thread, in which no flush has missed a program yet."""
    @functools.wraps(test)
    def run(*args, **kwargs):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(test, *args, **kwargs).result() is None
    return run
