/* test_views.h - views and argument lists for unit tests of kernels. */
#ifndef CR_KERN_TEST_VIEWS_H
#define CR_KERN_TEST_VIEWS_H

#include "base/test.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"
#include "kern/move.h"

typedef struct {
    cr_view v;
    int64_t size[4], stride[4];
} test_view;

/* A row-major view; sizes end with -1.  The view points into `room`. */
static inline cr_view *test_dense(test_view *room, void *data, cr_dtype t, const int64_t *size)
{
    int n = 0;

    for (; size[n] >= 0; n++)
        room->size[n] = size[n];
    cr_dense_strides(room->stride, n, room->size);
    room->v = (cr_view){data, room->size, room->stride, (uint8_t)n, (uint8_t)t, CR_HOST, false};
    return &room->v;
}

/* VIEW(data, CR_F32, 2, 3): valid until the end of the enclosing block. */
#define VIEW(data, type, ...)                                                                  \
    test_dense(&(test_view){0}, data, type, (const int64_t[]){__VA_ARGS__, -1})
#define SCALAR_VIEW(data, type) test_dense(&(test_view){0}, data, type, (const int64_t[]){-1})

/* Exchanges two dimensions of a view made by VIEW. */
static inline cr_view *test_turned(cr_view *v, int a, int b)
{
    test_view *room = (test_view *)(void *)v;
    int64_t t = room->size[a];

    room->size[a] = room->size[b];
    room->size[b] = t;
    t = room->stride[a];
    room->stride[a] = room->stride[b];
    room->stride[b] = t;
    return v;
}

static inline cr_value of_view(const cr_view *v)
{
    return (cr_value){.tag = CR_VIEW, .view = v};
}
#define ARGS(...) ((const cr_value[]){__VA_ARGS__})
#define INTS(...)                                                                              \
    cr_of_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define LIST(...)                                                                              \
    ((cr_value){.tag = CR_TENSORS,                                                             \
                .len = sizeof(ARGS(__VA_ARGS__)) / sizeof(cr_value),                           \
                .list = ARGS(__VA_ARGS__)})

/* out = self, with source added at the places in dim 0 that an index names: one for each
 * position of source, or for each of its rows. */
static inline cr_status test_add_at(cr_view *out, const cr_view *self, const cr_view *index,
                                    const cr_view *source)
{
    int64_t table[CR_MAX_DIMS], at[CR_MAX_DIMS];
    cr_indexed m = {.how = CR_COMBINE_ADD,
                    .ndim = source->ndim,
                    .dtype = out->dtype,
                    .size = source->size,
                    .dense = source->data,
                    .dense_stride = source->stride,
                    .table = out->data,
                    .table_stride = table,
                    .index = index->data,
                    .index_stride = at,
                    .unit = cr_view_step(out, 0),
                    .extent = out->size[0],
                    .is32 = index->dtype == CR_I32,
                    .picked = 1};

    for (int d = 0; d < m.ndim; d++) {
        table[d] = d ? out->stride[d] : 0;
        at[d] = d < index->ndim ? index->stride[d] : 0;
    }
    cr_start_from(out, self);
    return cr_host_combine(0, &m) ? CR_RUNTIME : CR_OK;
}

#define SAME_INTS(have, ...)                                                                   \
    do {                                                                                       \
        const int64_t want_[] = {__VA_ARGS__};                                                 \
        for (size_t i_ = 0; i_ < CR_LEN(want_); i_++)                                          \
            EQ((have)[i_], want_[i_]);                                                         \
    } while (0)
#define SAME_FLOATS(have, ...)                                                                 \
    do {                                                                                       \
        const double want_[] = {__VA_ARGS__};                                                  \
        for (size_t i_ = 0; i_ < CR_LEN(want_); i_++)                                          \
            NEAR((have)[i_], want_[i_], 1e-6);                                                 \
    } while (0)

#endif
