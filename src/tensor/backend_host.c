/* The execution of commands, for backends whose devices run host code. */
#include "device/cpu/cpu.h"
#include "emit/emit.h"
#include "num/view.h"
#include "tensor/internal.h"

size_t cr_element_size(int dtype) { return cr_dtype_size((cr_dtype)dtype); }

const char *cr_indexed_run(const cr_indexed *c)
{
    return c->how == CR_COMBINE_READ ? cr_cpu_ops.indexed(0, c) : cr_cpu_ops.combine(0, c);
}

const char *cr_windows_run(const cr_windows *c) { return cr_cpu_ops.windows(0, c); }

static cr_view host_view(const cr_array *a)
{
    return (cr_view){a->data,           a->size, a->stride, (uint8_t)a->ndim,
                     (uint8_t)a->dtype, CR_HOST, false};
}

const char *cr_array_move(const cr_array *to, const cr_array *from)
{
    cr_view a = host_view(to), b = host_view(from);

    return cr_copy_elements(&a, &b) ? cr_error_message() : NULL;
}

const char *cr_array_fill(const cr_array *to, const void *element)
{
    return cr_cpu_ops.fill(0, to, element);
}

/* Calls the kernel for all indices of the outer dims from `d` on. */
static void launch_planes(cr_kernel_function fn, const cr_launch *l, int d,
                          void *const *pointer, int64_t *first)
{
    int64_t size[3] = {l->size[0], l->size[1], *first};
    void *at[CR_EMIT_OPERANDS];

    if (d == l->outer) {
        fn(pointer, l->stride, size, l->param);
        *first += l->size[0];
        return;
    }
    for (int64_t i = 0; i < l->outer_size[d]; i++) {
        for (int k = 0; k < l->operands; k++)
            at[k] = (char *)pointer[k] +
                    (l->numbers >> k & 1 ? 0 : i * l->outer_stride[k * l->outer + d]);
        launch_planes(fn, l, d + 1, at, first);
    }
}

void cr_launch_run(cr_kernel_function function, const cr_launch *l)
{
    int64_t first = l->size[2];

    launch_planes(function, l, 0, l->pointer, &first);
}
