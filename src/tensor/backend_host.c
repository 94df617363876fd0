/* The execution of commands, for backends whose devices run host code. */
#include "device/cpu/cpu.h"
#include "emit/emit.h"
#include "num/view.h"
#include "space/space.h"

size_t cr_element_size(int dtype) { return cr_dtype_size((cr_dtype)dtype); }

void cr_launch_run(cr_kernel_function function, const cr_launch *l)
{
    int64_t size[3] = {l->size[0], l->size[1], l->size[2]};
    char *at[CR_SPACE_OPERANDS];
    void *pointer[CR_SPACE_OPERANDS];
    cr_space s;
    cr_place p;

    cr_space_start(&s, l->operands);
    for (int d = 0; d < l->outer; d++) {
        int64_t *step = cr_space_add(&s, l->outer_size[d], d);
        for (int k = 0; k < l->operands; k++)
            step[k] = l->numbers >> k & 1 ? 0 : l->outer_stride[k * l->outer + d];
    }
    for (int k = 0; k < l->operands; k++)
        at[k] = l->pointer[k];
    cr_place_seek(&p, &s, s.ndim, at, 0);
    for (int64_t n = cr_space_count(&s, s.ndim); n > 0; n--, cr_place_next(&p, &s, s.ndim)) {
        for (int k = 0; k < l->operands; k++)
            pointer[k] = p.at[k];
        function(pointer, l->stride, size, l->param);
        size[2] += l->size[0];
    }
}
