/* Parts of results compared with whole results. */
#include "base/memory.h"
#include "base/test.h"
#include "entry.h"
#include "tensor/part.h"
#include <string.h>

enum { ROWS = 5, COLUMNS = 7, MOST = 200 };

static cr_tensor *numbers(cr_dtype t, int64_t rows, int64_t below)
{
    cr_tensor *x = NULL;

    OK(cr_tensor_new(&x, t, CR_HOST, 2, (int64_t[2]){rows, COLUMNS}));
    for (int64_t i = 0; i < x->numel; i++)
        cr_scalar_store(cr_scalar_int(i * 5 % below), t,
                        x->address + i * (int64_t)cr_dtype_size(t));
    return x;
}

/* Every range of the call's result is that of the whole; tensors of `arg` are the first
 * ones. */
static void compare(const cr_op *op, const cr_value *arg, cr_tensor **tensor, int tensors)
{
    cr_value given[CR_MAX_ARGS], member[4], result;
    cr_view view[4];
    char *data[4];
    float got[MOST];
    cr_part *p = NULL;

    OK(cr_call(op, arg, &result));
    cr_view whole = cr_view_of(result.t);
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int k = 0; k < tensors; k++) {
        view[k] = cr_view_of(tensor[k]);
        data[k] = view[k].data;
        view[k].data = NULL;
        member[k] = (cr_value){.tag = CR_VIEW, .view = &view[k]};
    }
    for (int i = 0, k = 0; i < op->param_count; i++) {
        if (given[i].tag == CR_TENSORS)
            given[i].list = member;
        else if (given[i].tag == CR_TENSOR)
            given[i] = member[k++];
    }
    OK(cr_part_new(&p, op, given, &whole));
    for (int64_t at = 0; at < result.t->numel; at++)
        for (int64_t n = 1; at + n <= result.t->numel; n++) {
            const char *place = cr_part_place(p, data, at, n);
            CHECK(cr_part_read(p, data, at, n, (char *)got));
            CHECK(
                !memcmp(got, (float *)(void *)result.t->address + at, (size_t)n * sizeof *got));
            CHECK(!place || !memcmp(place, got, (size_t)n * sizeof *got));
        }
    cr_part_drop(p);
    cr_drop(result.t);
}

TEST(any_range_of_a_result_is_that_of_the_whole)
{
    OK(cr_tensor_start());
    cr_tensor *x = numbers(CR_F32, ROWS, 97), *i = numbers(CR_I64, ROWS, ROWS);
    int64_t by[2] = {2, -3}, dims[2] = {0, 1}, pads[4] = {1, 2, 0, 1};
    cr_value list[2] = {cr_of_tensor(x), cr_of_tensor(x)};

    compare(
        cr_ops_find("gather"),
        (cr_value[]){cr_of_tensor(x), cr_of_int(0), cr_of_tensor(i), {.tag = CR_TRUTH, .i = 0}},
        (cr_tensor *[]){x, i}, 2);
    compare(cr_ops_find("_roll"),
            (cr_value[]){cr_of_tensor(x), cr_of_ints(by, 2), cr_of_ints(dims, 2)}, &x, 1);
    compare(cr_ops_find("flip"), (cr_value[]){cr_of_tensor(x), cr_of_ints(dims, 2)}, &x, 1);
    compare(cr_ops_find("constant_pad_nd"),
            (cr_value[]){cr_of_tensor(x),
                         cr_of_ints(pads, 4),
                         {.tag = CR_NUMBER, .number = cr_scalar_float(0.5)}},
            &x, 1);
    compare(cr_ops_find("cat"),
            (cr_value[]){{.tag = CR_TENSORS, .len = 2, .list = list}, cr_of_int(1)},
            (cr_tensor *[]){x, x}, 2);
    cr_drop(x);
    cr_drop(i);
}
