/* Symbolic sizes. */
#include "base/test.h"
#include "sym/dim.h"

static char shown[512];

static const char *show(cr_dim a)
{
    cr_text t = {0};

    cr_dim_print(&t, a);
    strcpy(shown, cr_text_str(&t));
    cr_text_drop(&t);
    return shown;
}

static const char *guards(const cr_dims *d)
{
    cr_text t = {0};

    cr_dims_print_guards(&t, d);
    strcpy(shown, cr_text_str(&t));
    cr_text_drop(&t);
    return shown;
}

TEST(plain_sizes_need_no_context)
{
    EQ(cr_dim_add(2, 3), 5);
    EQ(cr_dim_sub(2, 3), -1);
    EQ(cr_dim_mul(4, 3), 12);
    EQ(cr_dim_floordiv(-7, 2), -4);
    EQ(cr_dim_mod(-7, 2), 1);
    EQ(cr_dim_min(4, 3), 3);
    EQ(cr_dim_max(4, 3), 4);
    CHECK(cr_dim_eq(3, 3) && cr_dim_lt(2, 3) && cr_dim_le(3, 3));
    EQ(cr_dim_hint(17), 17);
}

TEST(arithmetic_on_symbols_makes_expressions)
{
    cr_dims *d = NULL;
    cr_dim a, b;

    OK(cr_dims_new(&d));
    cr_dims_use(d);
    a = cr_dim_symbol("s0", 32, 1);
    b = cr_dim_symbol("s1", 8, 1);
    CHECK(cr_dim_is_symbol(a));
    EQ_STR(show(cr_dim_add(cr_dim_mul(a, 3), b)), "3*s0 + s1");
    EQ(cr_dim_sub(cr_dim_add(a, 5), a), 5);
    EQ(cr_dim_floordiv(cr_dim_mul(a, b), b), a);
    EQ(cr_dim_hint(cr_dim_mul(a, b)), 256);
    EQ(cr_dim_symbol("s0", 99, 1), a);
    EQ(cr_dim_of(cr_dim_expression(b)), b);
    EQ_STR(guards(d), "True");
    OK(cr_dims_status(d));
    cr_dims_use(NULL);
    cr_dims_drop(d);
}

static int64_t sizes[2];
static int64_t size_named(void *context, const cr_sym *name)
{
    (void)context;
    return sizes[name->name[1] - '0'];
}

TEST(a_comparison_undecided_for_all_sizes_becomes_a_guard)
{
    cr_dims *d = NULL;
    cr_dim a, b;

    OK(cr_dims_new(&d));
    cr_dims_use(d);
    a = cr_dim_symbol("s0", 8, 2);
    b = cr_dim_symbol("s1", 8, 2);
    CHECK(!cr_dim_eq(a, 1));
    CHECK(cr_dim_lt(0, a));
    EQ(cr_dims_guard_count(d), 0);
    CHECK(cr_dim_eq(a, b));
    CHECK(cr_dim_eq(a, b));
    CHECK(!cr_dim_lt(a, 5));
    EQ(cr_dims_guard_count(d), 2);
    EQ_STR(guards(d), "s0 == s1 and s0 >= 5");
    sizes[0] = sizes[1] = 64;
    CHECK(cr_dims_guards_hold(d, size_named, NULL));
    sizes[1] = 63;
    CHECK(!cr_dims_guards_hold(d, size_named, NULL));
    sizes[0] = sizes[1] = 4;
    CHECK(!cr_dims_guards_hold(d, size_named, NULL));
    cr_dims_use(NULL);
    cr_dims_drop(d);
}

TEST(a_failure_stays_in_the_context_until_it_is_asked_for)
{
    cr_dims *d = NULL;
    cr_dim a;

    OK(cr_dims_new(&d));
    cr_dims_use(d);
    a = cr_dim_symbol("s0", 8, 0);
    cr_dim_floordiv(a, 0);
    FAILS(CR_ARITHMETIC, cr_dims_status(d));
    OK(cr_dims_status(d));
    cr_dims_use(NULL);
    cr_dims_drop(d);
}
