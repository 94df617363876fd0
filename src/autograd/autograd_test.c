#include "autograd/helpers.h"

/* --- derivatives --- */
TEST(the_gradient_of_a_factor_is_the_other_factor)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3)), *b = keep_tensor(LEAF(4, 5, 6));
    cr_tensor *y = OP("sum", T(OP("mul", T(a), T(b))));

    EQ_STR(cr_node_name(y->grad->grad_fn), "SumBackward0");
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 4, 5, 6);
    SAME(cr_grad_of(b), 1, 2, 3);
    drop_kept();
}

TEST(gradients_of_broadcast_inputs_are_summed)
{
    cr_tensor *a = keep_tensor(LEAF(2)), *b = keep_tensor(VEC(1, 2, 3));

    OK(backward_from(OP("sum", T(OP("mul", T(a), T(b)))), false, false));
    EQ(cr_grad_of(a)->ndim, 1);
    SAME(cr_grad_of(a), 6);
    drop_kept();
}

TEST(gradients_of_several_uses_add_up)
{
    cr_tensor *a = keep_tensor(LEAF(3, 5));
    cr_tensor *y = OP("add", T(OP("mul", T(a), T(a))), T(a));

    OK(backward_from(OP("sum", T(y)), false, false));
    SAME(cr_grad_of(a), 7, 11);
    drop_kept();
}

TEST(a_second_backward_adds_to_grad)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2));

    OK(backward_from(OP("sum", T(OP("mul", T(a), N(3)))), false, false));
    OK(backward_from(OP("sum", T(OP("mul", T(a), N(3)))), false, false));
    SAME(cr_grad_of(a), 6, 6);
    drop_kept();
}

TEST(a_real_input_of_a_wider_operation_gets_a_gradient_of_its_dtype)
{
    cr_tensor *a = NULL, *b = keep_tensor(VEC(2, 3));

    OK(cr_tensor_new(&a, CR_F32, CR_HOST, 1, (int64_t[]){2}));
    ((float *)(void *)a->address)[0] = ((float *)(void *)a->address)[1] = 1;
    leaf(keep_tensor(a));
    OK(backward_from(OP("sum", T(OP("mul", T(a), T(b)))), false, false));
    EQ(cr_grad_of(a)->dtype, CR_F32);
    SAME(cr_grad_of(a), 2, 3);
    drop_kept();
}

TEST(the_second_derivative_of_a_cube_is_six_x)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3));
    cr_tensor *y = OP("sum", T(OP("mul", T(OP("mul", T(a), T(a))), T(a))));
    cr_tensor *g = gradient(y, a, true);

    SAME(g, 3, 12, 27);
    CHECK(cr_requires_grad(g));
    SAME(gradient(OP("sum", T(g)), a, false), 6, 12, 18);
    drop_kept();
}

TEST(a_saved_result_has_its_history_in_the_second_derivative)
{
    cr_tensor *a = keep_tensor(LEAF(0, 1));
    cr_tensor *y = OP("exp", T(OP("mul", T(a), N(2))));
    cr_tensor *g = gradient(OP("sum", T(y)), a, true);
    cr_tensor *h = gradient(OP("sum", T(g)), a, true);

    SAME(g, 2, 2 * 7.38905609893065);
    SAME(h, 4, 4 * 7.38905609893065);
    SAME(gradient(OP("sum", T(h)), a, false), 8, 8 * 7.38905609893065);
    drop_kept();
}

TEST(no_grad_records_nothing)
{
    cr_tensor *a = keep_tensor(LEAF(1));

    cr_thread.no_grad = true;
    cr_tensor *y = OP("mul", T(a), T(a));
    cr_thread.no_grad = false;
    CHECK(!cr_requires_grad(y));
    EQ(y->grad, NULL);
    drop_kept();
}

TEST(comparisons_do_not_require_a_gradient)
{
    cr_tensor *a = keep_tensor(LEAF(1));

    CHECK(!cr_requires_grad(OP("gt", T(a), N(0))));
    drop_kept();
}

/* --- errors --- */
TEST(a_second_backward_through_released_values_is_refused)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2));
    cr_tensor *y = OP("sum", T(OP("mul", T(a), T(a))));

    OK(backward_from(y, false, false));
    FAILS(CR_RUNTIME, backward_from(y, false, false));
    CHECK(!strncmp(cr_error_message(),
                   "Trying to backward through the graph a second time (or ", 55));
    drop_kept();
}

TEST(a_retained_graph_runs_twice)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2));
    cr_tensor *y = OP("sum", T(OP("mul", T(a), T(a))));

    OK(backward_from(y, true, false));
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 4, 8);
    drop_kept();
}

TEST(changing_a_saved_value_is_an_error_in_backward)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2));
    cr_tensor *b = OP("mul", T(a), N(2)), *y = OP("sum", T(OP("mul", T(b), T(b))));

    OK(INPLACE("add", T(b), N(1)));
    FAILS(CR_RUNTIME, backward_from(y, false, false));
    SAYS(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.DoubleTensor [2]], which is output 0 of Add, is at version 1; "
        "expected "
        "version 0 instead. Hint: enable anomaly detection to find the operation that failed "
        "to "
        "compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
    drop_kept();
}

TEST(changing_a_saved_result_is_an_error_in_backward)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *b = OP("exp", T(a));

    OK(INPLACE("add", T(b), N(1)));
    FAILS(CR_RUNTIME, backward_from(OP("sum", T(b)), false, false));
    CHECK(strstr(cr_error_message(), "which is output 0 of Exp, is at version 1"));
    drop_kept();
}

TEST(roots_without_history_and_without_shape_are_refused)
{
    cr_tensor *a = keep_tensor(VEC(1)), *b = keep_tensor(LEAF(1, 2));

    FAILS(CR_RUNTIME, backward_from(a, false, false));
    SAYS("element 0 of tensors does not require grad and does not have a grad_fn");
    FAILS(CR_RUNTIME, backward_from(OP("mul", T(b), N(2)), false, false));
    SAYS("grad can be implicitly created only for scalar outputs");
    drop_kept();
}

TEST(a_cotangent_of_another_shape_is_refused)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *y = OP("mul", T(a), N(2)),
              *g = keep_tensor(VEC(1, 2, 3));
    cr_backward_call c = {.roots = &y, .grads = &g, .root_count = 1};

    FAILS(CR_RUNTIME, cr_backward(&c, NULL));
    SAYS("Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a "
         "shape of torch.Size([2]).");
    drop_kept();
}

TEST(an_unused_input_is_refused_unless_allowed)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *b = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2)),
              *g = NULL;
    cr_backward_call c = {
        .roots = &y, .root_count = 1, .inputs = &b, .input_count = 1, .retain_graph = true};

    FAILS(CR_RUNTIME, cr_backward(&c, &g));
    SAYS("The differentiated Tensor at index 0 appears to not have been used in the graph. Set "
         "allow_unused=True if this is the desired behavior.");
    c.allow_unused = true;
    OK(cr_backward(&c, &g));
    EQ(g, NULL);
    drop_kept();
}

TEST(flags_change_as_torch_allows)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2)), *i = NULL;

    FAILS(CR_RUNTIME, cr_set_requires_grad(y, false));
    SAYS("you can only change requires_grad flags of leaf variables. If you want to use a "
         "computed "
         "variable in a subgraph that doesn't require differentiation use var_no_grad = "
         "var.detach().");
    OK(cr_tensor_new(&i, CR_I64, CR_HOST, 0, NULL));
    FAILS(CR_RUNTIME, cr_set_requires_grad(i, true));
    SAYS("only Tensors of floating point and complex dtype can require gradients");
    cr_drop(i);
    drop_kept();
}

TEST(an_assigned_gradient_must_match_its_tensor)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3)), *g = keep_tensor(VEC(1, 2));

    FAILS(CR_RUNTIME, cr_set_grad(a, g));
    SAYS("attempting to assign a gradient of size '[2]' to a tensor of size '[3]'. Please "
         "ensure "
         "that the gradient and the tensor are the same size");
    FAILS(CR_RUNTIME, cr_set_grad(a, a));
    SAYS("can't assign Variable as its own grad");
    drop_kept();
}

/* --- detach --- */
TEST(a_detached_tensor_shares_memory_and_version)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *b = OP("mul", T(a), N(2)), *d = NULL;
    cr_tensor *y = OP("mul", T(b), T(b));

    OK(cr_detached(&d, b));
    keep_tensor(d);
    CHECK(!cr_requires_grad(d) && d->address == b->address);
    EQ(cr_base_of(d), NULL);
    OK(INPLACE("mul", T(d), N(2)));
    EQ(b->storage->version, 1);
    FAILS(CR_RUNTIME, backward_from(OP("sum", T(y)), false, false));
    OK(cr_detach_inplace(b));
    CHECK(cr_is_leaf(b) && !cr_requires_grad(b));
    drop_kept();
}

/* --- long graphs --- */
TEST(a_chain_of_a_hundred_thousand_runs_and_is_freed_without_recursion)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = cr_keep(a);

    for (int i = 0; i < 100000; i++) {
        cr_tensor *next;
        OK(try_op(&next, "add", 2, (cr_value[]){T(y), N(1)}));
        cr_drop(y);
        y = next;
    }
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 1);
    cr_drop(y);
    drop_kept();
}

TEST(a_graph_with_exponentially_many_paths_is_walked_once)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = a;

    for (int i = 0; i < 40; i++)
        y = OP("add", T(y), T(y));
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 1099511627776.0);
    drop_kept();
}

/* --- grad(), backward(inputs=) --- */
TEST(grad_gives_gradients_of_inner_tensors)
{
    cr_tensor *a = keep_tensor(LEAF(2)), *b = OP("mul", T(a), T(a)), *y = OP("mul", T(b), T(b));
    cr_tensor *in[2] = {a, b}, *out[2];
    cr_backward_call c = {.roots = &y, .root_count = 1, .inputs = in, .input_count = 2};

    OK(cr_backward(&c, out));
    SAME(out[0], 32);
    SAME(out[1], 8);
    EQ(cr_grad_of(a), NULL);
    keep_tensor(out[0]);
    keep_tensor(out[1]);
    drop_kept();
}

TEST(backward_to_given_inputs_leaves_other_leaves_alone)
{
    cr_tensor *a = keep_tensor(LEAF(2)), *b = keep_tensor(LEAF(3)), *y = OP("mul", T(a), T(b));
    cr_backward_call c = {.roots = &y,
                          .root_count = 1,
                          .inputs = &a,
                          .input_count = 1,
                          .accumulate_inputs = true};

    OK(cr_backward(&c, NULL));
    SAME(cr_grad_of(a), 3);
    EQ(cr_grad_of(b), NULL);
    drop_kept();
}

TEST(the_gradient_of_a_leaf_root_is_its_cotangent)
{
    cr_tensor *a = keep_tensor(LEAF(2));

    OK(backward_from(a, false, false));
    SAME(cr_grad_of(a), 1);
    drop_kept();
}

TEST(several_roots_share_one_run)
{
    cr_tensor *a = keep_tensor(LEAF(2)), *b = OP("mul", T(a), T(a)),
              *c = OP("mul", T(b), N(10));
    cr_tensor *roots[2] = {b, c};
    cr_backward_call call = {.roots = roots, .root_count = 2};

    OK(cr_backward(&call, NULL));
    SAME(cr_grad_of(a), 44);
    drop_kept();
}

/* --- hooks --- */
static char seen[256];
static cr_status note(void *context, cr_tensor **grads, int n, cr_tensor *const *given, int m)
{
    (void)grads, (void)n, (void)given, (void)m;
    strcat(seen, context);
    strcat(seen, " ");
    return CR_OK;
}
static cr_status tenfold(void *context, cr_tensor **grads, int n, cr_tensor *const *given,
                         int m)
{
    cr_tensor *made;

    (void)n, (void)given, (void)m;
    strcat(seen, context);
    strcat(seen, " ");
    CR_TRY(try_op(&made, "mul", 2, (cr_value[]){T(grads[0]), N(10)}));
    cr_drop(grads[0]);
    grads[0] = made;
    return CR_OK;
}

TEST(hooks_run_in_torchs_order)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2));
    cr_node *n;

    *seen = 0;
    OK(cr_grad_fn(&n, y));
    OK(cr_hook_tensor(NULL, y, &(cr_hook_call){.fn = note, .context = "tensor"}));
    OK(cr_retain_grad(y));
    OK(cr_hook_tensor(NULL, y, &(cr_hook_call){.fn = tenfold, .context = "tenfold"}));
    OK(cr_hook_before(NULL, n, &(cr_hook_call){.fn = note, .context = "before"}));
    OK(cr_hook_after(NULL, n, &(cr_hook_call){.fn = note, .context = "after"}));
    OK(cr_hook_tensor(NULL, a, &(cr_hook_call){.fn = note, .context = "leaf"}));
    OK(cr_hook_accumulated(NULL, a, &(cr_hook_call){.fn = note, .context = "accumulated"}));
    OK(backward_from(y, false, false));
    EQ_STR(seen, "tensor tenfold before after leaf accumulated ");
    SAME(cr_grad_of(y), 10);
    SAME(cr_grad_of(a), 20);
    drop_kept();
}

TEST(a_removed_hook_does_not_run_after_its_tensor_was_freed)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2));
    cr_hook *h, *late;

    *seen = 0;
    OK(cr_hook_tensor(&h, y, &(cr_hook_call){.fn = note, .context = "x"}));
    OK(cr_hook_tensor(&late, a, &(cr_hook_call){.fn = note, .context = "y"}));
    cr_hook_remove(h);
    cr_hook_drop(h);
    OK(backward_from(y, false, false));
    EQ_STR(seen, "y ");
    drop_kept();
    cr_hook_remove(late);
    cr_hook_drop(late);
}

TEST(hooks_need_a_tensor_that_requires_a_gradient)
{
    cr_tensor *a = keep_tensor(VEC(1)), *b = keep_tensor(LEAF(1));

    FAILS(CR_RUNTIME, cr_hook_tensor(NULL, a, &(cr_hook_call){.fn = note}));
    SAYS("cannot register a hook on a tensor that doesn't require gradient");
    FAILS(CR_RUNTIME,
          cr_hook_accumulated(NULL, OP("mul", T(b), N(2)), &(cr_hook_call){.fn = note}));
    SAYS("post accumulate grad hooks cannot be registered on non-leaf tensors");
    FAILS(CR_RUNTIME, cr_retain_grad(a));
    SAYS("can't retain_grad on Tensor that has requires_grad=False");
    drop_kept();
}

static cr_status inner_backward(void *context, cr_tensor **grads, int n,
                                cr_tensor *const *given, int m)
{
    cr_tensor *a = context;

    (void)grads, (void)n, (void)given, (void)m;
    cr_thread.no_grad = false;
    cr_tensor *y = OP("mul", T(a), N(5));
    cr_thread.no_grad = true;
    return backward_from(y, false, false);
}

TEST(a_hook_may_call_backward)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2));

    OK(cr_hook_tensor(NULL, y, &(cr_hook_call){.fn = inner_backward, .context = a}));
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 7);
    drop_kept();
}

TEST(a_failing_hook_ends_the_run)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("mul", T(a), N(2));
    cr_tensor *z = OP("sum", T(OP("mul", T(y), T(y))));

    OK(cr_hook_tensor(NULL, y, &(cr_hook_call){.fn = tenfold, .context = ""}));
    *seen = 0;
    OK(INPLACE("mul", T(y), N(2)));
    FAILS(CR_RUNTIME, backward_from(z, false, false));
    EQ(cr_grad_of(a), NULL);
    drop_kept();
}

/* --- leaves --- */
TEST(an_adopted_gradient_is_not_copied_and_a_shared_one_is)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = OP("add", T(a), N(1)), *g = keep_tensor(VEC(3));
    cr_backward_call c = {.roots = &y, .grads = &g, .root_count = 1};

    OK(cr_backward(&c, NULL));
    CHECK(cr_grad_of(a) != g && cr_grad_of(a)->storage != g->storage);
    SAME(cr_grad_of(a), 3);
    drop_kept();
}

TEST(create_graph_makes_gradients_with_history)
{
    cr_tensor *a = keep_tensor(LEAF(3)), *y = OP("mul", T(a), T(a));

    OK(backward_from(y, false, true));
    CHECK(cr_requires_grad(cr_grad_of(a)));
    SAME(gradient(cr_grad_of(a), a, false), 2);
    OK(cr_set_grad(a, NULL)); /* breaks a reference cycle */
    drop_kept();
}

/* --- anomaly mode --- */
static const char *reported;
static void *made_here(void) { return &reported; }
static void freed(void *record) { CHECK(record == &reported); }
static void report(void *record, const char *name)
{
    CHECK(record == &reported);
    reported = name;
}

TEST(anomaly_mode_names_the_function_that_made_nan)
{
    cr_anomaly_record = made_here;
    cr_anomaly_report = report;
    cr_anomaly_free = freed;
    cr_anomaly_set(true, true);
    cr_tensor *a = keep_tensor(LEAF(0));
    cr_tensor *y = OP("mul", T(OP("div", T(a), T(a))), N(0));
    FAILS(CR_RUNTIME, backward_from(y, false, false));
    SAYS("Function 'DivBackward0' returned nan values in its 0th output.");
    CHECK(reported && !strcmp(reported, "DivBackward0"));
    cr_anomaly_set(false, false);
    drop_kept();
    cr_anomaly_record = NULL;
}
