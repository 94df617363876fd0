/* Views, copies and factories as operators. */
#include "base/test.h"
#include "whole/whole_impl.h"
#include <string.h>

#define INTS(...)                                                                              \
    cr_of_ints((const int64_t[]){__VA_ARGS__},                                                 \
               sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define ARGS(...)                                                                              \
    (const cr_value[]){__VA_ARGS__},                                                           \
        (int)(sizeof((const cr_value[]){__VA_ARGS__}) / sizeof(cr_value))

static void start(void) { OK(cr_tensor_start()); }

/* 0, 1, 2, ... in the given sizes. */
static cr_tensor *count(cr_dtype dtype, int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;

    start();
    OK(cr_tensor_new(&t, dtype, CR_HOST, ndim, size));
    for (int64_t i = 0; i < t->numel; i++)
        cr_scalar_store(cr_scalar_int(i), dtype,
                        t->address + i * (int64_t)cr_dtype_size(dtype));
    return t;
}

static cr_tensor *call(const char *name, const cr_value *arg, int n)
{
    cr_value result = cr_of_none();

    OK(cr_call_named(name, arg, n, &result));
    CHECK(result.tag == CR_TENSOR);
    return result.tag == CR_TENSOR ? result.t : NULL;
}

static void shows(cr_tensor *t, const char *sizes, const char *strides, int64_t offset)
{
    cr_text size = {0}, stride = {0};

    cr_print_sizes(&size, t->ndim, t->size);
    cr_print_sizes(&stride, t->ndim, t->stride);
    EQ_STR(cr_text_str(&size), sizes);
    EQ_STR(cr_text_str(&stride), strides);
    EQ(t->offset, offset);
    EQ(t->contiguous, cr_is_contiguous(t->ndim, t->size, t->stride));
    cr_text_drop(&size);
    cr_text_drop(&stride);
}

/* Calls a view of a 3 x 4 tensor and compares its geometry. */
static void view(const char *name, const cr_value *more, int n, const char *sizes,
                 const char *strides, int64_t offset)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});
    cr_value arg[8] = {cr_of_tensor(t)};

    memcpy(arg + 1, more, (size_t)n * sizeof *more);
    cr_tensor *v = call(name, arg, n + 1);
    if (v) {
        shows(v, sizes, strides, offset);
        EQ(v->storage, t->storage);
    }
    cr_drop(v);
    cr_drop(t);
}

static void refused(cr_status kind, const char *name, const cr_value *more, int n,
                    const char *message)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});
    cr_value arg[8] = {cr_of_tensor(t)}, result;

    memcpy(arg + 1, more, (size_t)n * sizeof *more);
    FAILS(kind, cr_call_named(name, arg, n + 1, &result));
    EQ_STR(cr_error_message(), message);
    cr_drop(t);
}

TEST(views_have_torchs_geometry)
{
    view("view", ARGS(INTS(2, -1)), "[2, 6]", "[6, 1]", 0);
    view("transpose.int", ARGS(cr_of_int(0), cr_of_int(-1)), "[4, 3]", "[1, 4]", 0);
    view("t", ARGS(cr_of_none()), "[4, 3]", "[1, 4]", 0);
    view("permute", ARGS(INTS(1, 0)), "[4, 3]", "[1, 4]", 0);
    view("movedim.int", ARGS(cr_of_int(0), cr_of_int(1)), "[4, 3]", "[1, 4]", 0);
    view("select.int", ARGS(cr_of_int(0), cr_of_int(-1)), "[4]", "[1]", 8);
    view("select.int", ARGS(cr_of_int(1), cr_of_int(2)), "[3]", "[4]", 2);
    view("slice.Tensor", ARGS(cr_of_int(1), cr_of_int(1), cr_of_none(), cr_of_int(2)), "[3, 2]",
         "[4, 2]", 1);
    view("slice.Tensor", ARGS(cr_of_int(0), cr_of_int(5), cr_of_int(10), cr_of_int(2)),
         "[0, 4]", "[8, 1]", 12);
    view("narrow.default", ARGS(cr_of_int(0), cr_of_int(-1), cr_of_int(1)), "[1, 4]", "[4, 1]",
         8);
    view("expand", ARGS(INTS(2, -1, -1)), "[2, 3, 4]", "[0, 4, 1]", 0);
    view("unsqueeze", ARGS(cr_of_int(-1)), "[3, 4, 1]", "[4, 1, 1]", 0);
    view("unsqueeze", ARGS(cr_of_int(0)), "[1, 3, 4]", "[12, 4, 1]", 0);
    view("diagonal", ARGS(cr_of_int(1)), "[3]", "[5]", 1);
    view("diagonal", ARGS(cr_of_int(9)), "[0]", "[5]", 0);
    view("unfold", ARGS(cr_of_int(0), cr_of_int(2), cr_of_int(1)), "[2, 4, 2]", "[4, 1, 4]", 0);
    view("unflatten.int", ARGS(cr_of_int(1), INTS(2, -1)), "[3, 2, 2]", "[4, 2, 1]", 0);
    view("flatten.using_ints", ARGS(cr_of_int(0)), "[12]", "[1]", 0);
    view("as_strided", ARGS(INTS(2, 2), INTS(1, 5), cr_of_int(3)), "[2, 2]", "[1, 5]", 3);
    view("view.dtype", ARGS(cr_of_dtype(CR_I16)), "[3, 8]", "[8, 1]", 0);
    view("view.dtype", ARGS(cr_of_dtype(CR_I64)), "[3, 2]", "[2, 1]", 0);
    view("squeeze.dim", ARGS(cr_of_int(0)), "[3, 4]", "[4, 1]", 0);
    view("reshape", ARGS(INTS(4, 3)), "[4, 3]", "[3, 1]", 0);
}

TEST(impossible_views_are_refused_in_torchs_words)
{
    refused(CR_RUNTIME, "view", ARGS(INTS(5)), "shape '[5]' is invalid for input of size 12");
    refused(CR_RUNTIME, "view", ARGS(INTS(-1, -1)), "only one dimension can be inferred");
    refused(CR_RUNTIME, "view", ARGS(INTS(-2, 6)),
            "invalid shape dimension -2 at index 0 of shape [-2, 6]");
    refused(CR_INDEX, "transpose.int", ARGS(cr_of_int(0), cr_of_int(5)),
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    refused(
        CR_RUNTIME, "expand", ARGS(INTS(4, 4)),
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton "
        "dimension 0.  Target sizes: [4, 4].  Tensor sizes: [3, 4]");
    refused(
        CR_RUNTIME, "expand", ARGS(INTS(4)),
        "expand(torch.FloatTensor{[3, 4]}, size=[4]): the number of sizes provided (1) must be "
        "greater or equal to the number of dimensions in the tensor (2)");
    refused(CR_RUNTIME, "expand", ARGS(INTS(-1, 3, 4)),
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
            "dimension 0");
    refused(CR_INDEX, "select.int", ARGS(cr_of_int(0), cr_of_int(5)),
            "select(): index 5 out of range for tensor of size [3, 4] at dimension 0");
    refused(CR_RUNTIME, "narrow.default", ARGS(cr_of_int(0), cr_of_int(1), cr_of_int(5)),
            "start (1) + length (5) exceeds dimension size (3).");
    refused(CR_RUNTIME, "permute", ARGS(INTS(0, 0)),
            "permute(): duplicate dims are not allowed.");
    refused(
        CR_RUNTIME, "as_strided", ARGS(INTS(200), INTS(1)),
        "setStorage: sizes [200], strides [1], storage offset 0, and itemsize 4 requiring a "
        "storage size of 800 are out of bounds for storage of size 48");
    refused(CR_RUNTIME, "split.sizes", ARGS(INTS(1, 1)),
            "split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at "
            "dimension 0), but got split_sizes=[1, 1]");
    refused(
        CR_RUNTIME, "unflatten.int", ARGS(cr_of_int(0), INTS(2, 2)),
        "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 0 (3) in the "
        "input tensor");
    refused(CR_RUNTIME, "imag", ARGS(cr_of_none()),
            "imag is not implemented for tensors with non-complex dtypes.");
    refused(CR_RUNTIME, "clone",
            ARGS(((cr_value){.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CHANNELS_LAST})),
            "required rank 4 tensor to use channels_last format");
}

TEST(a_transposed_matrix_is_viewed_only_where_it_can_be)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4}), *s = call("t", ARGS(cr_of_tensor(t)));
    cr_value result;

    FAILS(CR_RUNTIME, cr_call_named("view", ARGS(cr_of_tensor(s), INTS(12)), &result));
    EQ_STR(cr_error_message(),
           "view size is not compatible with input tensor's size and stride (at "
           "least one dimension spans across two contiguous subspaces). Use .reshape(...) "
           "instead.");
    cr_tensor *r = call("reshape", ARGS(cr_of_tensor(s), INTS(12)));
    CHECK(r->storage != t->storage);
    EQ(((float *)(void *)r->address)[1], 4);
    cr_tensor *v = call("view", ARGS(cr_of_tensor(s), INTS(2, 2, 3)));
    shows(v, "[2, 2, 3]", "[2, 1, 4]", 0);
    cr_drop(v);
    cr_drop(r);
    cr_drop(s);
    cr_drop(t);
}

static void pieces(const char *name, const cr_value *more, int n, int expected,
                   const char *last)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});
    cr_value arg[4] = {cr_of_tensor(t)}, result;
    cr_text sizes = {0};

    memcpy(arg + 1, more, (size_t)n * sizeof *more);
    OK(cr_call_named(name, arg, n + 1, &result));
    EQ(result.len, expected);
    cr_tensor *v = result.list[result.len - 1].t;
    cr_print_sizes(&sizes, v->ndim, v->size);
    EQ_STR(cr_text_str(&sizes), last);
    cr_text_drop(&sizes);
    cr_drop_values(&result, 1);
    cr_drop(t);
}

TEST(pieces_of_a_dim)
{
    pieces("unbind.int", ARGS(cr_of_int(1)), 4, "[3]");
    pieces("split.Tensor", ARGS(cr_of_int(2)), 2, "[1, 4]");
    pieces("split.sizes", ARGS(INTS(0, 3)), 2, "[3, 4]");
    pieces("chunk", ARGS(cr_of_int(3), cr_of_int(1)), 2, "[3, 2]");
    pieces("tensor_split.sections", ARGS(cr_of_int(2)), 2, "[1, 4]");
    pieces("tensor_split.indices", ARGS(INTS(1, 7), cr_of_int(0)), 3, "[0, 4]");
    pieces("hsplit.int", ARGS(cr_of_int(2)), 2, "[3, 2]");
}

TEST(self_becomes_its_own_view)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});
    cr_tensor *r = call("transpose_", ARGS(cr_of_tensor(t), cr_of_int(0), cr_of_int(1)));

    EQ(r, t);
    shows(t, "[4, 3]", "[1, 4]", 0);
    EQ(t->storage->version, 1);
    cr_drop(r);
    cr_drop(call("unsqueeze_", ARGS(cr_of_tensor(t), cr_of_int(0))));
    shows(t, "[1, 4, 3]", "[4, 1, 4]", 0);
    cr_drop(call("squeeze_", ARGS(cr_of_tensor(t))));
    shows(t, "[4, 3]", "[1, 4]", 0);
    cr_drop(t);
}

TEST(copies_broadcast_convert_and_keep_the_order_of_dims)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4}), *row = count(CR_I64, 1, (int64_t[]){4});
    cr_value result;

    cr_drop(call("copy_", ARGS(cr_of_tensor(t), cr_of_tensor(row))));
    EQ(((float *)(void *)t->address)[7], 3);
    FAILS(CR_RUNTIME,
          cr_call_named("copy_", ARGS(cr_of_tensor(row), cr_of_tensor(t)), &result));
    EQ_STR(cr_error_message(),
           "output with shape [4] doesn't match the broadcast shape [3, 4]");
    cr_tensor *turned = call("t", ARGS(cr_of_tensor(t))),
              *copy = call("clone", ARGS(cr_of_tensor(turned)));
    shows(copy, "[4, 3]", "[1, 4]", 0);
    CHECK(copy->storage != t->storage);
    cr_tensor *plain = call("contiguous", ARGS(cr_of_tensor(turned)));
    shows(plain, "[4, 3]", "[3, 1]", 0);
    cr_tensor *same = call("contiguous", ARGS(cr_of_tensor(plain)));
    EQ(same, plain);
    cr_drop(same);
    same = call("to_dtype", ARGS(cr_of_tensor(plain), cr_of_dtype(CR_F32)));
    EQ(same, plain);
    cr_drop(same);
    cr_drop(plain);
    cr_drop(copy);
    cr_drop(turned);
    cr_drop(row);
    cr_drop(t);
}

TEST(fills_and_factories)
{
    cr_tensor *t = count(CR_I8, 2, (int64_t[]){3, 4});
    cr_value result;

    FAILS(CR_RUNTIME,
          cr_call_named("fill_.Scalar",
                        ARGS(cr_of_tensor(t), cr_of_number(cr_scalar_int(1000))), &result));
    EQ_STR(cr_error_message(), "value cannot be converted to type int8_t without overflow");
    cr_drop(call("fill_.Scalar", ARGS(cr_of_tensor(t), cr_of_number(cr_scalar_int(-7)))));
    EQ(t->address[11], -7);
    cr_drop(call("zero_", ARGS(cr_of_tensor(t))));
    EQ(t->address[11], 0);
    EQ(t->storage->version, 2);
    cr_tensor *one = call("ones_like", ARGS(cr_of_tensor(t), cr_of_dtype(CR_F64)));
    EQ(((double *)(void *)one->address)[11], 1);
    cr_drop(one);
    cr_drop(t);
}

TEST(resizing_keeps_the_elements_that_fit)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});

    cr_drop(call("resize_", ARGS(cr_of_tensor(t), INTS(100, 100))));
    shows(t, "[100, 100]", "[100, 1]", 0);
    EQ(((float *)(void *)t->address)[11], 11);
    cr_drop(t);
}

TEST(sums_undo_broadcasts)
{
    cr_tensor *t = count(CR_F32, 3, (int64_t[]){2, 3, 4}), *s = NULL;
    int64_t size[2] = {3, 1};

    start();
    OK(cr_reduce_to_size(&s, t, 2, size));
    shows(s, "[3, 1]", "[1, 1]", 0);
    EQ(((float *)(void *)s->address)[0], 0 + 1 + 2 + 3 + 12 + 13 + 14 + 15);
    cr_drop(s);
    size[0] = 5;
    FAILS(CR_RUNTIME, cr_reduce_to_size(&s, t, 2, size));
    EQ_STR(cr_error_message(), "size {[5, 1]} is not expandable to size {[2, 3, 4]}.");
    cr_drop(t);
}

TEST(complex_numbers_are_pairs)
{
    cr_tensor *t = count(CR_C64, 1, (int64_t[]){3}), *pairs, *imag, *back;

    ((cr_complex_float *)(void *)t->address)[1].im = 5;
    pairs = call("view_as_real", ARGS(cr_of_tensor(t)));
    shows(pairs, "[3, 2]", "[2, 1]", 0);
    imag = call("imag", ARGS(cr_of_tensor(t)));
    shows(imag, "[3]", "[2]", 1);
    EQ(((float *)(void *)imag->address)[2], 5);
    back = call("view_as_complex", ARGS(cr_of_tensor(pairs)));
    EQ(back->dtype, CR_C64);
    EQ(back->address, t->address);
    cr_drop(back);
    cr_drop(imag);
    cr_drop(pairs);
    cr_drop(t);
}

TEST(comparisons_give_numbers)
{
    cr_tensor *a = count(CR_F32, 1, (int64_t[]){5}), *b = count(CR_F64, 1, (int64_t[]){5});
    cr_value result;

    OK(cr_call_named("equal", ARGS(cr_of_tensor(a), cr_of_tensor(b)), &result));
    EQ(result.i, 1);
    FAILS(CR_RUNTIME,
          cr_call_named("allclose", ARGS(cr_of_tensor(a), cr_of_tensor(b)), &result));
    EQ_STR(cr_error_message(), "Float did not match Double");
    OK(cr_call_named("allclose", ARGS(cr_of_tensor(a), cr_of_tensor(a)), &result));
    EQ(result.i, 1);
    FAILS(CR_RUNTIME, cr_call_named("is_nonzero", ARGS(cr_of_tensor(a)), &result));
    EQ_STR(cr_error_message(), "Boolean value of Tensor with more than one value is ambiguous");
    cr_drop(b);
    cr_drop(a);
}

TEST(fakes_have_the_same_geometry)
{
    cr_tensor *t = NULL;
    int64_t size[2] = {3, 4};

    start();
    OK(cr_tensor_new(&t, CR_F32, CR_META_DEVICE, 2, size));
    cr_tensor *v = call("transpose.int", ARGS(cr_of_tensor(t), cr_of_int(0), cr_of_int(1)));
    cr_tensor *r = call("reshape", ARGS(cr_of_tensor(v), INTS(12)));
    shows(r, "[12]", "[1]", 0);
    EQ(r->address, NULL);
    cr_drop(call("zero_", ARGS(cr_of_tensor(r))));
    cr_drop(r);
    cr_drop(v);
    cr_drop(t);
}

/* --- failing allocations --- */

static cr_status and_drop(const char *name, const cr_value *arg, int n)
{
    cr_value result = cr_of_none();
    cr_status st = cr_call_named(name, arg, n, &result);

    if (!st)
        cr_drop_values(&result, 1);
    return st;
}

static cr_status scenario(cr_tensor *t)
{
    cr_value self = cr_of_tensor(t), axes[2] = {self, self};
    cr_tensor *row = NULL, *turned = NULL, *sum = NULL;
    cr_status st;

    CR_GO(and_drop("split.Tensor", ARGS(self, cr_of_int(2))));
    CR_GO(and_drop("chunk", ARGS(self, cr_of_int(2))));
    CR_GO(and_drop("tensor_split.indices", ARGS(self, INTS(1, 2))));
    CR_GO(and_drop("unbind.int", ARGS(self)));
    CR_GO(and_drop("unsqueeze", ARGS(self, cr_of_int(0))));
    CR_GO(and_drop("view", ARGS(self, INTS(1, 1, 1, 1, 1, 3, 1, 4))));
    CR_GO(cr_call_tensor(&turned, cr_entry.t, &self, 1));
    CR_GO(and_drop("reshape", ARGS(cr_of_tensor(turned), INTS(12))));
    CR_GO(and_drop("select_backward", ARGS(self, INTS(2, 3, 4), cr_of_int(0), cr_of_int(1))));
    CR_GO(and_drop("broadcast_tensors", &(cr_value){.tag = CR_TENSORS, .len = 2, .list = axes},
                   1));
    CR_GO(cr_tensor_new(&row, CR_F32, CR_HOST, 1, &(int64_t){3}));
    axes[0] = axes[1] = cr_of_tensor(row);
    CR_GO(and_drop("meshgrid", &(cr_value){.tag = CR_TENSORS, .len = 2, .list = axes}, 1));
    CR_GO(and_drop("resize_", ARGS(cr_of_tensor(row), INTS(3000))));
    CR_GO(and_drop("full_like", ARGS(self, cr_of_number(cr_scalar_int(3)))));
    CR_GO(cr_reduce_to_size(&sum, t, 1, &(int64_t){4}));
done:
    cr_drop(sum);
    cr_drop(turned);
    cr_drop(row);
    return st;
}

TEST(every_allocation_may_fail_without_a_leak)
{
    cr_tensor *t = count(CR_F32, 2, (int64_t[]){3, 4});
    cr_memory_stats before, after;
    cr_status st = CR_MEMORY;
    uint64_t n = 0;

    cr_cpu_memory_stats(&before);
    while (st && ++n < 1000) {
        cr_fail_alloc_after(n);
        st = scenario(t);
        CHECK(!st || st == CR_MEMORY);
        cr_fail_alloc_after(0);
        cr_cpu_memory_stats(&after);
        EQ(after.used, before.used);
    }
    OK(st);
    CHECK(n > 40);
    cr_drop(t);
}
