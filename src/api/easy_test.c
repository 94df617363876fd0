/* The easy layer: ownership, errors, arguments. */
#include "base/test.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "nn/nn.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

#define cr_view cr_view_operator
#include "cresset.h"
#undef cr_view
#include "cresset_easy.h"
#include "cresset_easy_ops.h"

static int64_t bytes(void)
{
    cr_memory_stats m;

    cr_cpu_memory_stats(&m);
    return m.used;
}

static int errors;
static void count(const ct_error *e, void *context)
{
    (void)e;
    (void)context;
    errors++;
}

/* The message of the only error since the last call of this function; "" without an error. */
static const char *message(void)
{
    static char text[400];
    const ct_error *e = ct_failed();

    snprintf(text, sizeof text, "%s: %s", e ? e->kind_name : "", e ? e->message : "");
    ct_clear_error();
    return text;
}

TEST(a_scope_drops_the_tensors_made_in_it)
{
    ct_zeros(1);
    int64_t before = bytes();

    ct_scope
    {
        cr_tensor *x = ct_ones(1000);
        for (int i = 0; i < 10; i++)
            x = ct_add(x, 1);
        NEAR(ct_item(ct_mean(x)), 11, 0);
        CHECK(bytes() > before + 10 * 4000);
    }
    EQ(bytes(), before);
}

static double leave_by_return(void)
{
    ct_scope
    {
        ct_no_grad { return ct_item(ct_sum(ct_ones(1000))); }
    }
    return 0;
}

TEST(a_scope_ends_on_break_and_return)
{
    ct_zeros(1);
    int64_t before = bytes();

    ct_scope
    {
        ct_ones(1000);
        break;
    }
    EQ(bytes(), before);
    NEAR(leave_by_return(), 1000, 0);
    EQ(bytes(), before);
    CHECK(cr_tensor_requires_grad(ct_mul(ct_requires_grad(ct_ones(2)), 2)));
}

TEST(a_kept_tensor_belongs_to_the_enclosing_scope)
{
    cr_tensor *kept = NULL;
    ct_zeros(1);
    int64_t before = bytes();

    ct_scope
    {
        ct_scope
        {
            ct_ones(1000);
            kept = ct_keep(ct_full(CT_LIST(1000), 7.0));
        }
        CHECK(bytes() >= before + 4000 && bytes() < before + 8000);
        NEAR(ct_item(ct_mean(kept)), 7, 0);
    }
    EQ(bytes(), before);
}

TEST(arguments_are_given_by_position_by_name_and_as_numbers)
{
    ct_scope
    {
        cr_tensor *x = ct_reshape(ct_arange(6), 2, 3);
        EQ(ct_size(x, 0), 2);
        EQ(ct_size(x, -1), 3);
        EQ(ct_size(ct_sum(x, 1), 0), 2);
        EQ(ct_size(ct_sum(x, CT(dim, 0), CT(keepdim, true)), 0), 1);
        EQ(ct_size(ct_sum(x, CT_LIST(0, 1), true), 1), 1);
        NEAR(ct_item(ct_sum(ct_sub(10, x))), 45, 0);
        NEAR(ct_item(ct_max(x)), 5, 0);
        EQ(cr_tensor_dtype(x), CR_I64);
        EQ(cr_tensor_dtype(ct_zeros(2, CT(dtype, CR_F64))), CR_F64);
        EQ(cr_tensor_dtype(ct_zeros(2, CT(dtype, "int32"))), CR_I32);
        EQ(cr_tensor_dtype(ct_mul(x, 0.5)), CR_F32);
        EQ(cr_tensor_device(ct_zeros(2, CT(device, "meta"))), CR_META);
        EQ(ct_equal(x, ct_clone(x)), true);
    }
}

TEST(further_results_are_stored_through_pointers)
{
    ct_scope
    {
        cr_tensor *where = NULL, *x = ct_tensor(CT_FLOATS(3, 1, 2));
        cr_tensor *values = ct_topk(x, 2, &where);
        NEAR(ct_item(ct_select(values, 0, 1)), 2, 0);
        NEAR(ct_item(ct_select(where, 0, 1)), 2, 0);
        cr_drop(where);
        NEAR(ct_item(ct_max(x, 0)), 3, 0);
        cr_tensors parts = ct_split(x, 2);
        EQ(parts.len, 2);
        EQ(ct_size(ct_cat(parts), 0), 3);
    }
}

TEST(in_place_calls_return_their_argument)
{
    ct_scope
    {
        cr_tensor *x = ct_zeros(2, 2);
        EQ(ct_add_(x, 2), x);
        EQ(ct_fill_(x, 3), x);
        NEAR(ct_item(ct_sum(x)), 12, 0);
    }
}

TEST(backward_sets_gradients)
{
    ct_scope
    {
        cr_tensor *x = ct_requires_grad(ct_tensor(3.0));
        ct_backward(ct_mul(x, x));
        NEAR(ct_item(ct_grad(x)), 6, 0);
        ct_clear_grad(x);
        EQ(ct_grad(x), NULL);
        cr_tensor *slope = ct_gradient(ct_pow(x, 3), x, CT(create_graph, true));
        NEAR(ct_item(slope), 27, 0);
        NEAR(ct_item(ct_gradient(slope, x)), 18, 0);
    }
}

TEST(after_an_error_calls_do_nothing_until_it_is_cleared)
{
    ct_set_handler(count, NULL);
    errors = 0;
    ct_scope
    {
        cr_tensor *bad = ct_add(ct_zeros(2), ct_zeros(3));
        EQ(bad, NULL);
        EQ(ct_item(ct_mul(bad, 2)), 0);
        EQ(ct_Linear(2, 3), NULL);
        ct_backward(bad);
        EQ(errors, 1);
        EQ_STR(ct_failed()->call, "ct_add");
        EQ(ct_failed()->kind, CR_RUNTIME);
        CHECK(strstr(ct_failed()->file, "easy_test.c") != NULL);
        EQ_STR(message(),
               "RuntimeError: The size of tensor a (2) must match the size of tensor b "
               "(3) at non-singleton dimension 0");
        NEAR(ct_item(ct_tensor(2)), 2, 0);
    }
    ct_set_handler(NULL, NULL);
}

static jmp_buf out_of_here;
static void jump(const ct_error *e, void *context)
{
    (void)e;
    longjmp(*(jmp_buf *)context, 1);
}

TEST(a_handler_may_jump_out_of_scopes)
{
    ct_zeros(1);
    int64_t before = bytes();

    ct_set_handler(jump, &out_of_here);
    ct_scope
    {
        if (!setjmp(out_of_here)) {
            ct_block inner = cr_easy_enter();
            ct_ones(1000);
            ct_matmul(ct_zeros(2, 3), ct_zeros(2, 3));
            cr_easy_leave(&inner); /* not reached */
            CHECK(false);
        }
        CHECK(ct_failed() != NULL);
        ct_clear_error();
    }
    EQ(bytes(), before);
    ct_set_handler(NULL, NULL);
}

TEST(wrong_arguments_get_torchs_messages)
{
    ct_set_handler(count, NULL);
    ct_scope
    {
        cr_tensor *x = ct_zeros(2, 3);
        ct_add(x, NULL);
        EQ_STR(message(),
               "TypeError: add(): argument 'other' (position 2) must be Tensor, not NoneType");
        ct_matmul(x, 3);
        EQ_STR(message(),
               "TypeError: matmul(): argument 'other' (position 2) must be Tensor, not int");
        ct_relu(x, 3);
        EQ_STR(message(), "TypeError: relu() takes 1 positional argument but 2 were given");
        ct_sum(x, CT(dim, 1), CT(foo, 3));
        EQ_STR(message(), "TypeError: sum() got an unexpected keyword argument 'foo'");
        ct_topk(x);
        EQ_STR(message(), "TypeError: topk() missing 1 required positional arguments: \"k\"");
        ct_where(ct_gt(x, 0));
        EQ_STR(message(), "TypeError: where() with these arguments is ct_where_condition");
        ct_sum(x, CT(dim, 7));
        EQ_STR(message(),
               "IndexError: Dimension out of range (expected to be in range of [-2, 1], "
               "but got 7)");
        ct_size(x, 2);
        EQ_STR(message(),
               "IndexError: Dimension out of range (expected to be in range of [-2, 1], "
               "but got 2)");
        ct_ints(x);
        EQ_STR(message(), "RuntimeError: expected scalar type Long but found Float");
        ct_item(x);
        EQ_STR(message(),
               "RuntimeError: a Tensor with 6 elements cannot be converted to Scalar");
        ct_cat(CT_TENSORS(x, NULL), 0);
        EQ_STR(message(),
               "TypeError: expected Tensor as element 1 in argument 0, but got NoneType");
        ct_floats(NULL);
        EQ_STR(message(),
               "TypeError: data(): argument 'input' (position 1) must be Tensor, not NoneType");
    }
    ct_set_handler(NULL, NULL);
}

TEST(wrong_modules_optimizers_and_data_get_torchs_messages)
{
    ct_set_handler(count, NULL);
    ct_scope
    {
        cr_module *net = ct_Sequential(ct_Linear(2, 3), ct_ReLU());
        cr_tensor *x = ct_zeros(4, 2), *y = ct_zeros(5), *batch;
        ct_Linear(3);
        EQ_STR(message(),
               "TypeError: Linear.__init__() missing 1 required positional arguments: "
               "\"out_features\"");
        ct_module("Lineal", 3, 4);
        EQ_STR(message(), "AttributeError: module 'torch.nn' has no attribute 'Lineal'");
        ct_call(net, "2", x);
        EQ_STR(message(), "AttributeError: 'Sequential' object has no attribute '2'");
        ct_forward(ct_Module("Mine"), x);
        EQ_STR(message(),
               "NotImplementedError: Module [Mine] is missing the required \"forward\" "
               "function");
        ct_forward(NULL, x);
        EQ_STR(message(), "TypeError: forward(): argument 'self' must be Module, not NoneType");
        ct_SGD(ct_parameters(net), CT(lr, -1));
        EQ_STR(message(), "ValueError: Invalid learning rate: -1");
        ct_SGD(ct_parameters(ct_ReLU()), CT(lr, 1));
        EQ_STR(message(), "ValueError: optimizer got an empty parameter list");
        ct_step(NULL);
        EQ_STR(message(), "TypeError: step(): argument 'self' must be Optimizer, not NoneType");
        ct_loader(CT_TENSORS(x, y));
        EQ_STR(message(), "AssertionError: Size mismatch between tensors");
        ct_for_batches(ct_loader(CT_TENSORS(x, x)), &batch) CHECK(false);
        EQ_STR(message(), "ValueError: too many values to unpack (expected 1, got 2)");
        ct_load(net, "/nowhere/at/all");
        EQ_STR(message(), "OSError: [Errno 2] No such file or directory: '/nowhere/at/all'");
    }
    ct_set_handler(NULL, NULL);
}

static void *work(void *result)
{
    cr_tensor *x = ct_full(CT_LIST(1000), 3.0);

    ct_scope { *(double *)result = ct_item(ct_sum(ct_mul(x, x))); }
    return NULL;
}

TEST(scopes_belong_to_a_thread_and_end_with_it)
{
    pthread_t threads[3];
    double result[3];
    ct_zeros(1);
    int64_t before = bytes();

    for (int i = 0; i < 3; i++)
        EQ(pthread_create(&threads[i], NULL, work, &result[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        NEAR(result[i], 9000, 0);
    }
    EQ(bytes(), before);
}

TEST(large_integers_are_exact)
{
    ct_scope
    {
        EQ(ct_item_int(ct_add(ct_tensor(((int64_t)1 << 53)), 1)), ((int64_t)1 << 53) + 1);
        EQ(ct_item_int(ct_tensor(CT_LIST(7))), 7);
    }
}

TEST(an_epoch_drops_every_batch_and_may_end_early)
{
    ct_scope
    {
        cr_tensor *x = ct_arange(10, CT(dtype, CR_F32)), *batch;
        cr_loader *data = ct_loader(CT_TENSORS(x), CT(batch_size, 3));
        int64_t before = bytes();
        double total = 0;
        int n = 0;
        ct_for_batches(data, &batch)
        {
            total += ct_item(ct_sum(ct_mul(batch, 2)));
            n++;
        }
        EQ(n, 4);
        NEAR(total, 90, 0);
        EQ(bytes(), before);
        ct_for_batches(data, &batch)
        {
            ct_ones(1000);
            if (ct_item(ct_max(batch)) > 4)
                break;
        }
        CHECK(bytes() < before + 4000);
    }
}
