/* Nodes of other kinds, saved values and their hooks, lists, complex numbers. */
#include "autograd/helpers.h"

/* --- a node defined here: y = x * x --- */
typedef struct {
    cr_node node;
    cr_saved x;
    bool released;
} square_node;

static int64_t answer_size = -1; /* size of apply's wrong result, when not negative */

static cr_status square_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **out)
{
    square_node *s = (square_node *)n;
    cr_tensor *x, *twice = NULL;

    if (s->released)
        return cr_fail_released();
    if (answer_size >= 0)
        return cr_tensor_new(&out[0], CR_F64, CR_HOST, 1, &answer_size);
    CR_TRY(cr_saved_get(&x, &s->x, n));
    cr_status st = try_op(&twice, "mul", 2, (cr_value[]){T(x), N(2)});
    if (!st)
        st = try_op(&out[0], "mul", 2, (cr_value[]){T(twice), T(grads[0])});
    cr_drop(twice);
    cr_drop(x);
    return st;
}

static void square_release(cr_node *n)
{
    ((square_node *)n)->released = true;
    cr_saved_drop(&((square_node *)n)->x);
}

static const cr_node_kind square_kind = {
    .name = "SquareBackward", .apply = square_apply, .release = square_release};

static cr_tensor *square(cr_tensor *x)
{
    cr_node *n;
    cr_tensor *y;

    OK(cr_node_new(&n, sizeof(square_node), &square_kind, 1, 1));
    OK(cr_edge_of(&n->edges[0], x));
    OK(cr_save(&((square_node *)n)->x, x, false));
    cr_thread.no_grad = true;
    y = OP("mul", T(x), T(x));
    cr_thread.no_grad = false;
    OK(cr_set_history(y, n, 0));
    cr_node_drop(n);
    return y;
}

TEST(a_node_of_another_kind_takes_part)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3)), *y = OP("sum", T(square(OP("mul", T(a), N(3)))));

    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 18, 36, 54);
    FAILS(CR_RUNTIME, backward_from(y, false, false));
    drop_kept();
}

TEST(the_second_derivative_of_such_a_node_is_recorded)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3));
    cr_tensor *g = gradient(OP("sum", T(square(a))), a, true);

    SAME(gradient(OP("sum", T(g)), a, false), 2, 2, 2);
    drop_kept();
}

TEST(a_gradient_of_another_shape_is_refused)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3)), *y = OP("sum", T(square(a)));

    answer_size = 2;
    FAILS(CR_RUNTIME, backward_from(y, false, false));
    SAYS("Function SquareBackward returned an invalid gradient at index 0 - got [2] but "
         "expected "
         "shape compatible with [3]");
    answer_size = -1;
    drop_kept();
}

TEST(a_node_keeps_its_leaf_alive)
{
    cr_tensor *a = LEAF(1), *y = OP("mul", T(a), N(2));
    cr_node *n = y->grad->grad_fn->edges[0].node;

    EQ(cr_node_variable(n), a);
    EQ_STR(cr_node_name(n), "AccumulateGrad");
    cr_drop(a);
    OK(backward_from(y, false, false)); /* the graph kept the leaf alive */
    SAME(cr_grad_of(cr_node_variable(n)), 2);
    drop_kept();
}

/* --- saved values --- */
TEST(saved_values_are_readable_until_released)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *b = keep_tensor(VEC(3, 4)),
              *y = OP("sum", T(OP("mul", T(a), T(b))));
    cr_node *n = y->grad->grad_fn->edges[0].node;
    const char *name;
    cr_value v;

    OK(cr_node_saved(&name, &v, n, 0));
    EQ_STR(name, "other");
    EQ(v.t, b);
    cr_drop(v.t);
    OK(cr_node_saved(&name, &v, n, 1));
    EQ(name, NULL);
    OK(backward_from(y, false, false));
    FAILS(CR_RUNTIME, cr_node_saved(&name, &v, n, 0));
    drop_kept();
}

TEST(only_sizes_are_saved_when_only_sizes_are_read)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *b = OP("mul", T(a), N(1)), *y = OP("sum", T(b));

    OK(INPLACE("add", T(b), N(1))); /* sum reads size(self) only, so this is allowed */
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 1, 1);
    drop_kept();
}

static int packed, unpacked, dropped;
static cr_status pack_double(void *context, cr_tensor *t, void **out)
{
    cr_tensor *made;

    (void)context;
    packed++;
    CR_TRY(try_op(&made, "mul", 2, (cr_value[]){T(t), N(2)}));
    *out = made;
    return CR_OK;
}
static cr_status unpack_double(void *p, cr_tensor **out)
{
    unpacked++;
    *out = cr_keep(p);
    return CR_OK;
}
static void drop_double(void *p)
{
    dropped++;
    cr_drop(p);
}

TEST(saved_tensor_hooks_see_every_saved_tensor)
{
    cr_saved_hooks hooks = {.pack = pack_double, .unpack = unpack_double, .drop = drop_double};
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *e;

    packed = unpacked = dropped = 0;
    cr_saved_hooks_push(&hooks);
    cr_tensor *y = OP("sum", T(OP("mul", T(a), T(a))));
    e = OP("exp", T(a));
    cr_saved_hooks_pop();
    EQ(packed, 3);
    OK(backward_from(y, false, false));
    SAME(cr_grad_of(a), 4, 8); /* twice the saved value */
    EQ(unpacked, 2);
    OK(cr_set_grad(a, NULL));
    OK(backward_from(OP("sum", T(e)), false, false));
    SAME(cr_grad_of(a), 2 * 2.718281828459045, 2 * 7.38905609893065);
    EQ(dropped, 3);
    drop_kept();
}

/* --- lists --- */
TEST(each_item_of_a_list_argument_gets_its_gradient)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2)), *b = keep_tensor(VEC(3)), *c = keep_tensor(LEAF(4));
    cr_value items[3] = {T(a), T(b), T(c)};
    cr_value list = {.tag = CR_TENSORS, .len = 3, .list = items};
    cr_tensor *y = OP("cat", list, cr_of_int(0));

    EQ(y->grad->grad_fn->edge_count, 3);
    EQ(y->grad->grad_fn->edges[1].node, NULL);
    OK(backward_from(OP("sum", T(OP("mul", T(y), T(keep_tensor(VEC(10, 20, 30, 40)))))), false,
                     false));
    SAME(cr_grad_of(a), 10, 20);
    SAME(cr_grad_of(c), 40);
    drop_kept();
}

TEST(a_list_result_accepts_cotangents_of_some_items)
{
    cr_tensor *a = keep_tensor(LEAF(1, 2, 3));
    cr_value r, arg[2] = {T(a), cr_of_int(0)};

    OK(cr_call_named("unbind", arg, 2, &r));
    EQ(r.len, 3);
    EQ(r.list[2].t->grad->output, 2);
    OK(backward_from(OP("mul", r.list[2], N(5)), false, false));
    SAME(cr_grad_of(a), 0, 0, 5);
    cr_drop_values(&r, 1);
    drop_kept();
}

/* --- complex numbers --- */
static cr_tensor *complex_of(cr_tensor *pairs) /* 2n numbers to n */
{
    int64_t size[2] = {pairs->numel / 2, 2};
    return OP("view_as_complex", T(OP("view", T(pairs), cr_of_ints(size, 2))));
}

TEST(a_real_factor_of_a_complex_product_gets_a_real_gradient)
{
    cr_tensor *pairs = keep_tensor(LEAF(1, 2, 3, 4)), *x = keep_tensor(LEAF(5, 6));
    cr_tensor *y = OP("mul", T(complex_of(pairs)), T(x));

    OK(backward_from(OP("sum", T(OP("view_as_real", T(y)))), false, false));
    EQ(cr_grad_of(x)->dtype, CR_F64);
    SAME(cr_grad_of(x), 3, 7);
    SAME(cr_grad_of(pairs), 5, 5, 6, 6);
    drop_kept();
}

TEST(changing_real_parts_in_place_reaches_the_complex_base)
{
    cr_tensor *pairs = keep_tensor(LEAF(1, 2, 3, 4)),
              *z = OP("mul", T(complex_of(pairs)), N(1));
    cr_tensor *parts = OP("view_as_real", T(z));
    cr_tensor *re = OP("select", T(parts), cr_of_int(1), cr_of_int(0));

    OK(INPLACE("mul", T(re), N(10)));
    EQ_STR(cr_node_name(z->grad->grad_fn), "CopySlices");
    cr_tensor *out = OP("view_as_real", T(z));
    cr_tensor *g = gradient(OP("sum", T(OP("mul", T(out), T(out)))), pairs, true);
    SAME(g, 200, 4, 600, 8);
    SAME(gradient(OP("sum", T(g)), pairs, false), 200, 2, 200, 2);
    drop_kept();
}
