"""Functions of linear algebra that torch removed: a call says by which function to replace it."""

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _removed(name, advice):
    def call(input, *args, **kwargs):
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed.{advice}")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Was removed. {advice.strip()}"
    return call


eig = _removed("eig", " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors "
                      "mimicking complex tensors.")
lstsq = _removed("lstsq", " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\nIts arguments are reversed.")
matrix_rank = _removed("matrix_rank", "\nPlease use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was "
                                      "renamed in `torch.linalg.matrix_rank()` to 'hermitian'.")
solve = _removed("solve", " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments "
                          "reversed and does not return the LU factorization.")
symeig = _removed("symeig", " The default behavior has changed from using the upper triangular portion of the matrix by default to "
                            "using the lower triangular portion.")
