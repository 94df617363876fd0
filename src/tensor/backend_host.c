/* The execution of commands, for backends whose devices run host code. */
#include "device/cpu/cpu.h"
#include "emit/emit.h"
#include "num/view.h"
#include "space/space.h"

size_t cr_element_size(int dtype) { return cr_dtype_size((cr_dtype)dtype); }

const char *cr_indexed_run(const cr_indexed *c)
{
    return c->how == CR_COMBINE_READ ? cr_cpu_ops.indexed(0, c) : cr_cpu_ops.combine(0, c);
}

const char *cr_windows_run(const cr_windows *c) { return cr_cpu_ops.windows(0, c); }

const char *cr_array_move(const cr_array *to, const cr_array *from)
{
    return cr_cpu_ops.move(0, to, from);
}

const char *cr_array_fill(const cr_array *to, const void *element)
{
    return cr_cpu_ops.fill(0, to, element);
}

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
