/* The base layer with missing arguments: every call returns a status and torch's message. */
#include "base/test.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "nn/nn.h"

#define cr_view cr_view_operator
#include "cresset.h"
#undef cr_view

static cr_tensor *zeros(int64_t a, int64_t b)
{
    int64_t size[] = {a, b};
    cr_tensor *t = NULL;

    OK(cr_init());
    OK(cr_zeros(&t, size, 2, CR_F32));
    return t;
}

static void says(const char *text) { EQ_STR(cr_error_message(), text); }

TEST(a_missing_tensor_is_refused_by_name)
{
    cr_tensor *x = zeros(2, 3), *out = NULL;

    FAILS(CR_TYPE, cr_add(&out, x, NULL, cr_scalar_int(1)));
    says("add(): argument 'other' (position 2) must be Tensor, not NoneType");
    FAILS(CR_TYPE, cr_relu(&out, NULL));
    says("relu(): argument 'input' (position 1) must be Tensor, not NoneType");
    FAILS(CR_TYPE, cr_relu_(NULL));
    FAILS(CR_TYPE, cr_linear(&out, x, NULL, NULL));
    says("linear(): argument 'weight' (position 2) must be Tensor, not NoneType");
    EQ(out, NULL);
    cr_drop(x);
}

TEST(a_null_result_pointer_is_refused)
{
    cr_tensor *x = zeros(2, 3);

    FAILS(CR_TYPE, cr_relu(NULL, x));
    says("relu(): the place of a result is NULL");
    FAILS(CR_TYPE, cr_item(NULL, x));
    cr_drop(x);
}

TEST(missing_lists_and_items_are_refused)
{
    cr_tensor *x = zeros(2, 3), *out = NULL, *some[] = {x, NULL};

    FAILS(CR_TYPE, cr_zeros(&out, NULL, 2, CR_F32));
    says("zeros(): argument 'size' (position 1) must be tuple of ints, not NoneType");
    FAILS(CR_TYPE, cr_cat(&out, some, 2, 0));
    FAILS(CR_TYPE, cr_cat(&out, NULL, 2, 0));
    EQ(out, NULL);
    cr_drop(x);
}

TEST(invalid_dtype_numbers_are_refused)
{
    int64_t size[] = {2}, many[CR_MAX_DIMS + 9] = {0};
    cr_tensor *out = NULL;

    OK(cr_init());
    FAILS(CR_VALUE, cr_zeros(&out, size, 1, (cr_dtype)77));
    says("77 is no dtype");
    FAILS(CR_VALUE, cr_tensor_from(&out, (cr_dtype)77, 1, size, size));
    CHECK(cr_zeros(&out, many, CR_MAX_DIMS + 9, CR_F32) != CR_OK);
    EQ(cr_dtype_bytes((cr_dtype)77), 0);
    EQ_STR(cr_dtype_text((cr_dtype)77), "");
    EQ(out, NULL);
}

TEST(shapes_and_dtypes_that_do_not_fit_are_refused_in_torchs_words)
{
    cr_tensor *a = zeros(2, 3), *b = zeros(4, 5), *i = NULL, *out = NULL;

    FAILS(CR_RUNTIME, cr_add(&out, a, b, cr_scalar_int(1)));
    says("The size of tensor a (3) must match the size of tensor b (5) at non-singleton "
         "dimension 1");
    FAILS(CR_RUNTIME, cr_matmul(&out, a, b));
    says("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    OK(cr_to_dtype(&i, a, CR_I64));
    FAILS(CR_RUNTIME, cr_set_requires_grad(i, true));
    says("only Tensors of floating point and complex dtype can require gradients");
    EQ(out, NULL);
    cr_drop(i);
    cr_drop(b);
    cr_drop(a);
}

TEST(properties_of_null_are_empty)
{
    EQ(cr_tensor_ndim(NULL), 0);
    EQ(cr_tensor_numel(NULL), 0);
    EQ(cr_tensor_size(NULL), NULL);
    EQ(cr_tensor_data(NULL), NULL);
    EQ(cr_tensor_grad(NULL), NULL);
    EQ(cr_tensor_requires_grad(NULL), false);
    EQ(cr_tensor_dtype(NULL), CR_DTYPE_NONE);
}

TEST(gradients_of_null_are_refused)
{
    cr_tensor *none = NULL;
    cr_backward_call call = {.roots = &none, .root_count = 1};

    OK(cr_init());
    FAILS(CR_TYPE, cr_backward(&call, NULL));
    FAILS(CR_TYPE, cr_set_requires_grad(NULL, true));
    FAILS(CR_TYPE, cr_set_grad(NULL, NULL));
    FAILS(CR_TYPE, cr_retain_grad(NULL));
}

TEST(elements_of_null_are_refused)
{
    int64_t size[] = {2}, empty[] = {0};
    cr_tensor *t = NULL;

    OK(cr_init());
    FAILS(CR_TYPE, cr_tensor_from(&t, CR_F32, 1, size, NULL));
    FAILS(CR_TYPE, cr_tensor_from(&t, CR_F32, 1, NULL, size));
    FAILS(CR_TYPE, cr_tensor_borrow(&t, CR_F32, 1, size, NULL, NULL, NULL));
    EQ(t, NULL);
    OK(cr_tensor_from(&t, CR_F32, 1, empty, NULL));
    EQ(cr_tensor_numel(t), 0);
    cr_drop(t);
}

TEST(missing_files_are_refused)
{
    cr_safetensors *s = NULL;
    cr_tensor *t = NULL;

    OK(cr_init());
    FAILS(CR_IO, cr_safetensors_open(&s, "/nowhere/at/all"));
    FAILS(CR_TYPE, cr_safetensors_open(&s, NULL));
    FAILS(CR_TYPE, cr_safetensors_parse(&s, NULL, 9));
    FAILS(CR_INDEX, cr_safetensors_tensor(&t, NULL, 0));
    EQ(cr_safetensors_find(NULL, "x"), -1);
    EQ(cr_safetensors_count(NULL), 0);
}
