/* Commands for backends whose devices run host code: copies that outlive the call of a function
 * of the table, and their execution. */
#include "device/cpu/cpu.h"
#include "emit/emit.h"
#include "num/view.h"
#include "tensor/internal.h"
#include <stdlib.h>
#include <string.h>

/* A block that is filled twice: first to measure it, with `at` NULL. */
typedef struct {
    char *at;
    size_t used;
    ptrdiff_t distance;
} keeper;

/* The place of a copy of n bytes; NULL for NULL. */
static void *keep(keeper *k, const void *from, size_t n)
{
    char *to = k->at ? k->at + k->used : NULL;

    if (!from)
        return NULL;
    if (to)
        memcpy(to, from, n);
    k->used += (n + 15) / 16 * 16;
    return to;
}

static void *keep_words(keeper *k, const void *from, int64_t n)
{
    return keep(k, from, (size_t)n * sizeof(int64_t));
}

/* An address of elements. */
static void *keep_address(const keeper *k, const void *p)
{
    return p ? (char *)(uintptr_t)p + k->distance : NULL;
}

static cr_array keep_array(keeper *k, const cr_array *a)
{
    return (cr_array){.data = keep_address(k, a->data),
                      .dtype = a->dtype,
                      .ndim = a->ndim,
                      .size = keep_words(k, a->size, a->ndim),
                      .stride = keep_words(k, a->stride, a->ndim)};
}

/* Copies what `from` names, as `fill` does it, behind a copy of its n bytes. */
static void *keep_all(const void *from, size_t n, ptrdiff_t distance,
                      void (*fill)(keeper *k, void *made, const void *from))
{
    keeper k = {.distance = distance};
    _Alignas(16) char unused[sizeof(cr_windows) + sizeof(cr_indexed)];

    keep(&k, from, n);
    fill(&k, unused, from);
    k.at = malloc(k.used);
    k.used = 0;
    if (!k.at)
        return NULL;
    void *made = keep(&k, from, n);
    fill(&k, made, from);
    return made;
}

static void keep_lone_array(keeper *k, void *made, const void *from)
{
    *(cr_array *)made = keep_array(k, from);
}

cr_array *cr_array_keep(const cr_array *a, ptrdiff_t distance)
{
    return keep_all(a, sizeof *a, distance, keep_lone_array);
}

static void keep_indexed(keeper *k, void *made, const void *from)
{
    const cr_indexed *c = from;
    cr_indexed *m = made;
    cr_array numbered;

    m->size = keep_words(k, c->size, c->ndim);
    m->dense_stride = keep_words(k, c->dense ? c->dense_stride : NULL, c->ndim);
    m->table_stride = keep_words(k, c->table_stride, c->ndim);
    m->index_stride = keep_words(k, c->index ? c->index_stride : NULL, c->ndim);
    m->dense = keep_address(k, c->dense);
    m->table = keep_address(k, c->table);
    m->index = keep_address(k, c->index);
    m->outside = keep(k, c->outside, c->outside ? strlen(c->outside) + 1 : 0);
    if (c->numbered) {
        numbered = keep_array(k, c->numbered);
        m->numbered = keep(k, &numbered, sizeof numbered);
    }
}

cr_indexed *cr_indexed_keep(const cr_indexed *c, ptrdiff_t distance)
{
    return keep_all(c, sizeof *c, distance, keep_indexed);
}

static void keep_windows(keeper *k, void *made, const void *from)
{
    const cr_windows *c = from;
    cr_windows *m = made;

    m->result = keep_array(k, &c->result);
    m->which = keep_array(k, &c->which);
    m->from = keep_array(k, &c->from);
    m->prepared = NULL;
    for (int i = 0; i < 3; i++) {
        const cr_window_axis *a = &c->dim[i];
        m->dim[i].start = keep_words(k, a->start, a->size + 1);
        m->dim[i].range = keep_words(k, a->range, 3 * a->start[a->size]);
        m->dim[i].count = keep_words(k, a->count, a->size);
        m->dim[i].share = keep_words(k, a->share, a->in);
    }
}

cr_windows *cr_windows_keep(const cr_windows *c, ptrdiff_t distance)
{
    return keep_all(c, sizeof *c, distance, keep_windows);
}

static void keep_launch(keeper *k, void *made, const void *from)
{
    const cr_launch *l = from;
    cr_launch *m = made;
    void **pointer = keep(k, l->pointer, (size_t)l->operands * sizeof *l->pointer);

    for (int i = 0; i < l->operands; i++) {
        bool number = l->numbers >> i & 1;
        void *at = number ? keep(k, l->pointer[i], 16) : keep_address(k, l->pointer[i]);
        if (pointer)
            pointer[i] = at;
    }
    m->pointer = pointer;
    m->stride = keep_words(k, l->stride, 2 * l->operands);
    m->param = keep(k, l->param, l->param_bytes);
    m->outer_size = keep_words(k, l->outer_size, l->outer);
    m->outer_stride = keep_words(k, l->outer_stride, (int64_t)l->outer * l->operands);
}

cr_launch *cr_launch_keep(const cr_launch *l, ptrdiff_t distance)
{
    return keep_all(l, sizeof *l, distance, keep_launch);
}

/* --- execution --- */

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
