#include "autograd/helpers.h"

/* A float32 matrix of ones. */
static cr_tensor *ones2(bool wanted)
{
    cr_tensor *t = NULL;

    start_autograd();
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, (int64_t[]){2, 2}));
    for (int i = 0; i < 4; i++)
        ((float *)(void *)t->address)[i] = 1;
    keep_tensor(t);
    if (wanted)
        leaf(t);
    return t;
}

static void on(bool yes)
{
    OK(cr_autocast_set(CR_HOST.kind, yes));
    if (!yes)
        cr_autocast_clear();
}

TEST(autocast_converts_arguments_by_the_entrys_clause)
{
    cr_tensor *a = ones2(false);

    EQ(OP("mm", T(a), T(a))->dtype, CR_F32);
    on(true);
    cr_tensor *low = OP("mm", T(a), T(a));
    EQ(low->dtype, CR_BF16);
    EQ(OP("add", T(a), T(a))->dtype, CR_F32);
    EQ(OP("mse_loss", T(low), T(low))->dtype, CR_F32);
    on(false);
    EQ(OP("mm", T(a), T(a))->dtype, CR_F32);
    drop_kept();
}

TEST(autocast_leaves_float64_alone)
{
    cr_tensor *a = NULL;

    start_autograd();
    OK(cr_tensor_new(&a, CR_F64, CR_HOST, 2, (int64_t[]){2, 2}));
    keep_tensor(a);
    OP("zero_", T(a));
    on(true);
    EQ(OP("mm", T(a), T(a))->dtype, CR_F64);
    on(false);
    drop_kept();
}

TEST(the_stages_bit_is_set_only_while_autocast_is_on)
{
    on(true);
    CHECK(cr_thread.include & CR_STAGE_BIT(AUTOCAST));
    on(false);
    CHECK(!(cr_thread.include & CR_STAGE_BIT(AUTOCAST)));
}

TEST(gradients_have_the_weights_dtype)
{
    cr_tensor *w = ones2(true);

    on(true);
    cr_tensor *y = OP("mm", T(w), T(w));
    on(false);
    OK(backward_from(OP("sum", T(y)), false, false));
    EQ(cr_grad_of(w)->dtype, CR_F32);
    drop_kept();
}

TEST(a_weight_is_converted_once_until_it_changes)
{
    cr_tensor *w = ones2(true), *x = ones2(false);
    cr_node *first, *again, *changed;

    on(true);
    OK(cr_grad_fn(&first, OP("mm", T(x), T(w))));
    OK(cr_grad_fn(&again, OP("mm", T(x), T(w))));
    EQ(first->edges[1].node, again->edges[1].node);
    w->storage->version++;
    OK(cr_grad_fn(&changed, OP("mm", T(x), T(w))));
    CHECK(first->edges[1].node != changed->edges[1].node);
    on(false);
    drop_kept();
}

TEST(an_unrecorded_conversion_is_not_used_while_recording)
{
    cr_tensor *w = ones2(true);

    on(true);
    cr_thread.no_grad = true;
    CHECK(!cr_requires_grad(OP("mm", T(w), T(w))));
    cr_thread.no_grad = false;
    CHECK(cr_requires_grad(OP("mm", T(w), T(w))));
    on(false);
    drop_kept();
}
