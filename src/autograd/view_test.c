#include "autograd/helpers.h"

static cr_tensor *at(cr_tensor *t, int64_t i)
{
    return OP("select", T(t), cr_of_int(0), cr_of_int(i));
}

static cr_tensor *reversed_view(cr_tensor *t) /* of a 2 x 2 matrix made from four elements */
{
    return OP("t", T(OP("view", T(t), cr_of_ints((int64_t[]){2, 2}, 2))));
}

TEST(a_view_of_a_view_refers_to_the_base)
{
    cr_tensor *a = keep_tensor(VEC(1, 2, 3, 4)), *v = reversed_view(a);

    EQ(cr_base_of(v), a);
    EQ(cr_base_of(a), NULL);
    drop_kept();
}

TEST(gradients_flow_through_views)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3, 4)), *w = keep_tensor(VEC(10, 20));
    cr_tensor *row = at(reversed_view(a), 1);

    OK(backward_from(OP("sum", T(OP("mul", T(row), T(w)))), false, false));
    SAME(cr_grad_of(a), 0, 10, 0, 20);
    drop_kept();
}

TEST(changing_a_leaf_or_its_view_in_place_is_refused)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2));

    FAILS(CR_RUNTIME, INPLACE("mul", T(a), N(2)));
    SAYS("a leaf Variable that requires grad is being used in an in-place operation.");
    FAILS(CR_RUNTIME, INPLACE("mul", T(at(a, 0)), N(2)));
    SAYS(
        "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    SAME(a, 1, 2);
    cr_thread.no_grad = true;
    OK(INPLACE("mul", T(a), N(2)));
    cr_thread.no_grad = false;
    SAME(a, 2, 4);
    EQ(a->storage->version, 1);
    drop_kept();
}

TEST(a_tensor_changed_in_place_is_the_result_of_that_operation)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *x = keep_tensor(VEC(5, 7));

    OK(INPLACE("mul", T(x), T(w)));
    CHECK(cr_requires_grad(x) && !cr_is_leaf(x));
    EQ_STR(cr_node_name(x->grad->grad_fn), "MulBackward0");
    OK(backward_from(OP("sum", T(x)), false, false));
    SAME(cr_grad_of(w), 5, 7);
    drop_kept();
}

TEST(in_place_keeps_the_history_of_self)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *x = OP("mul", T(w), N(4));

    OK(INPLACE("add", T(x), T(w)));
    OK(INPLACE("mul", T(x), N(10)));
    OK(backward_from(OP("sum", T(x)), false, false));
    SAME(cr_grad_of(w), 50, 50);
    drop_kept();
}

TEST(in_place_with_itself_uses_the_old_value)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *x = OP("mul", T(w), N(1));

    OK(INPLACE("mul", T(x), T(x)));
    OK(backward_from(OP("sum", T(x)), false, false));
    SAME(cr_grad_of(w), 4, 6);
    drop_kept();
}

TEST(changing_a_view_changes_the_history_of_its_base)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3, 4)), *a = OP("mul", T(w), N(1)), *v = at(a, 0);
    cr_node *n;

    OK(INPLACE("mul", T(v), N(5)));
    EQ_STR(cr_node_name(a->grad->grad_fn), "CopySlices");
    OK(cr_grad_fn(&n, v));
    EQ_STR(cr_node_name(n), "AsStridedBackward0");
    OK(backward_from(OP("sum", T(OP("mul", T(a), T(a)))), false, false));
    SAME(cr_grad_of(w), 2 * 10 * 5, 6, 8);
    drop_kept();
}

TEST(a_plain_base_gains_history_through_a_view)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *out = keep_tensor(VEC(0, 0, 0)),
              *other = at(out, 0);

    OK(INPLACE("add", T(at(out, 1)), T(at(w, 0))));
    CHECK(cr_requires_grad(out) && cr_requires_grad(other) && !cr_is_leaf(other));
    OK(backward_from(OP("sum", T(OP("mul", T(out), T(out)))), false, false));
    SAME(cr_grad_of(w), 4, 0);
    drop_kept();
}

TEST(other_views_see_the_change)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = OP("mul", T(w), N(1)), *first = at(a, 0);

    OK(INPLACE("mul", T(a), N(7)));
    OK(backward_from(OP("mul", T(first), N(1)), false, false));
    SAME(cr_grad_of(w), 7, 0);
    drop_kept();
}

TEST(the_second_derivative_passes_a_changed_view)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = OP("mul", T(w), N(1)), *v = at(a, 0);

    OK(INPLACE("mul", T(v), T(at(w, 1)))); /* a = (w0 * w1, w1) */
    cr_tensor *y = OP("sum", T(OP("mul", T(a), T(a))));
    cr_tensor *g = gradient(y, w, true); /* (2 w0 w1^2, 2 w0^2 w1 + 2 w1) */
    SAME(g, 36, 30);
    SAME(gradient(OP("sum", T(g)), w, false), 18 + 24, 24 + 10);
    drop_kept();
}

TEST(overwriting_cuts_the_gradient)
{
    cr_value r;
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = OP("mul", T(w), N(1));

    OK(cr_call_named("zero_", (cr_value[]){T(at(a, 0))}, 1, &r));
    cr_drop(r.t);
    OK(backward_from(OP("sum", T(a)), false, false));
    SAME(cr_grad_of(w), 0, 1);
    drop_kept();
}

TEST(copy_passes_the_gradient_to_its_source)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = keep_tensor(VEC(9, 9, 9));
    cr_value r;

    OK(cr_call_named("copy_", (cr_value[]){T(at(a, 2)), T(at(w, 1))}, 2, &r));
    cr_drop(r.t);
    OK(backward_from(OP("sum", T(OP("mul", T(a), T(a)))), false, false));
    SAME(cr_grad_of(w), 0, 6);
    drop_kept();
}

TEST(views_made_under_no_grad_cannot_be_changed_with_grad_mode_on)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = OP("mul", T(w), N(1));

    cr_thread.no_grad = true;
    cr_tensor *v = at(a, 0);
    cr_thread.no_grad = false;
    FAILS(CR_RUNTIME, INPLACE("mul", T(v), N(2)));
    CHECK(!strncmp(cr_error_message(), "A view was created in no_grad mode and is being ", 48));
    drop_kept();
}

TEST(one_of_several_views_cannot_be_changed)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *a = OP("mul", T(w), N(1));
    cr_value r, arg[2] = {T(a), cr_of_int(0)};

    OK(cr_call_named("unbind", arg, 2, &r));
    FAILS(CR_RUNTIME, INPLACE("mul", r.list[0], N(2)));
    SAYS("Output 0 of Unbind is a view and is being modified inplace. This view is the output "
         "of a "
         "function that returns multiple views. Such functions do not allow the output views "
         "to be "
         "modified inplace. You should replace the inplace operation by an out-of-place one.");
    OK(backward_from(OP("mul", r.list[1], N(3)), false, false));
    SAME(cr_grad_of(w), 0, 3);
    cr_drop_values(&r, 1);
    drop_kept();
}

TEST(detaching_a_view_in_place_is_refused)
{
    cr_tensor *w = keep_tensor(VEC(2, 3));

    FAILS(CR_RUNTIME, cr_detach_inplace(at(w, 0)));
    CHECK(
        !strncmp(cr_error_message(), "Can't detach views in-place. Use detach() instead.", 50));
    drop_kept();
}

TEST(inference_tensors_cannot_be_changed_or_saved_outside_inference_mode)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3));

    cr_thread.inference = true;
    cr_tensor *t = OP("mul", T(w), N(2));
    cr_thread.inference = false;
    CHECK(t->inference && !cr_requires_grad(t));
    cr_tensor *y;
    FAILS(CR_RUNTIME, try_op(&y, "mul", 2, (cr_value[]){T(t), T(w)}));
    CHECK(!strncmp(cr_error_message(), "Inference tensors cannot be saved for backward. ", 48));
    FAILS(CR_RUNTIME, cr_set_requires_grad(t, true));
    SAYS(
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    FAILS(CR_RUNTIME, INPLACE("mul", T(t), T(w)));
    CHECK(!strncmp(cr_error_message(), "Inplace update to inference tensor outside Infer", 48));
    drop_kept();
}

TEST(retained_gradients_follow_a_change_in_place)
{
    cr_tensor *w = keep_tensor(LEAF(2, 3)), *y = OP("mul", T(w), N(2));

    OK(cr_retain_grad(y));
    OK(INPLACE("mul", T(y), N(3)));
    OK(backward_from(OP("sum", T(y)), false, false));
    SAME(cr_grad_of(y), 1, 1);
    SAME(cr_grad_of(w), 6, 6);
    drop_kept();
}

TEST(a_transposed_tensor_keeps_its_gradient)
{
    cr_tensor *w = keep_tensor(LEAF(1, 2, 3, 4)),
              *m = OP("view", T(OP("mul", T(w), N(1))), cr_of_ints((int64_t[]){2, 2}, 2));
    cr_value r;

    OK(cr_call_named("transpose_", (cr_value[]){T(m), cr_of_int(0), cr_of_int(1)}, 3, &r));
    cr_drop(r.t);
    OK(backward_from(OP("sum", T(OP("mul", T(at(m, 0)), T(keep_tensor(VEC(10, 20)))))), false,
                     false));
    SAME(cr_grad_of(w), 10, 0, 20, 0);
    drop_kept();
}

TEST(overlapping_views_add_up)
{
    cr_tensor *w = keep_tensor(LEAF(1, 2, 3, 4));
    cr_tensor *windows = OP("as_strided", T(w), cr_of_ints((int64_t[]){3, 2}, 2),
                            cr_of_ints((int64_t[]){1, 1}, 2));

    OK(backward_from(OP("sum", T(windows)), false, false));
    SAME(cr_grad_of(w), 1, 2, 2, 1);
    drop_kept();
}

TEST(overlapping_views_add_up_after_a_change_of_their_base)
{
    cr_tensor *w = keep_tensor(LEAF(1, 2, 3)), *a = OP("mul", T(w), N(1));
    cr_tensor *windows = OP("as_strided", T(a), cr_of_ints((int64_t[]){2, 2}, 2),
                            cr_of_ints((int64_t[]){1, 1}, 2));
    cr_tensor *rows = OP("expand", T(a), cr_of_ints((int64_t[]){4, 3}, 2));

    OK(INPLACE("mul", T(a), N(2)));
    OK(backward_from(OP("add", T(OP("sum", T(windows))), T(OP("sum", T(rows)))), false, false));
    SAME(cr_grad_of(w), 2 * (1 + 4), 2 * (2 + 4), 2 * (1 + 4));
    drop_kept();
}

TEST(a_result_saved_by_a_change_of_a_view_is_a_view_of_the_base_again)
{
    cr_tensor *w = keep_tensor(LEAF(0.5, 1)), *a = OP("mul", T(w), N(1)), *v = at(a, 0);

    OK(INPLACE("exp", T(v)));
    cr_tensor *g = gradient(OP("sum", T(a)), w, true), *y = OP("sum", T(OP("mul", T(g), T(a))));
    SAME(g, 1.6487212707001282, 1);
    OK(backward_from(y, false, false)); /* exp(w0)^2 + w1 */
    SAME(cr_grad_of(w), 2 * 2.718281828459045, 1);
    drop_kept();
}
