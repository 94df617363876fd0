/* Shared pieces of shape rules. */
#include "space/shape.h"
#include <string.h>

cr_status cr_refuse_dim(int64_t dim, int64_t n)
{
    return cr_fail(
        CR_INDEX,
        "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
        (long long)-n, (long long)n - 1, (long long)dim);
}

bool cr_expands(int ndim, const int64_t *size, int to_ndim, const int64_t *to)
{
    int more = to_ndim - ndim;

    for (int d = 0; more >= 0 && d < ndim; d++)
        if (size[d] != 1 && size[d] != to[d + more])
            return false;
    return more >= 0;
}

bool cr_shape_broadcast(cr_shape *to, int ndim, const int64_t *size)
{
    int more = ndim - to->ndim;

    if (more > 0) {
        memmove(to->size + more, to->size, (size_t)to->ndim * sizeof *to->size);
        for (int d = 0; d < more; d++)
            to->size[d] = 1;
        to->ndim = ndim;
    }
    for (int d = 0; d < ndim; d++) {
        int64_t *have = &to->size[to->ndim - ndim + d];
        if (*have != size[d] && *have != 1 && size[d] != 1)
            return false;
        *have = *have == 1 ? size[d] : *have;
    }
    return true;
}

cr_status cr_not_for_type(const char *name, const cr_view *v)
{
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name,
                   cr_legacy_name(v));
}
