/* Numbers that depend on sizes, matched by their values. */
#include "base/test.h"
#include "compile/sizes.h"

/* b = 5, n = 7; then b and n alone changed, both, and other sizes. */
static const int64_t b[] = {5, 6, 5, 7, 12}, n[] = {7, 7, 9, 10, 3};
enum { PROBES = 5 };

static cr_sizes sizes_in(cr_session *s)
{
    cr_sizes x = {.s = s, .probes = PROBES};

    cr_sizes_param(&x, 0, b);
    cr_sizes_param(&x, 1, n);
    return x;
}

/* The value for b = 11 and n = 13 of the number with these values at the probes; -1: no
 * match. */
#define FOUND(expression)                                                                      \
    found((int64_t[PROBES]){AT(0, expression), AT(1, expression), AT(2, expression),           \
                            AT(3, expression), AT(4, expression)})
#define AT(p, expression) expression(b[p], n[p])

static int64_t found(const int64_t *at)
{
    cr_session s = {.status = CR_OK};
    cr_sizes x = sizes_in(&s);
    cr_scalar value[64], scalar[PROBES], symbol[] = {cr_scalar_int(11), cr_scalar_int(13)};
    int64_t out = -1;

    for (int p = 0; p < PROBES; p++)
        scalar[p] = cr_scalar_int(at[p]);
    int k = cr_sizes_find(&x, scalar);
    if (k >= 0 && x.numbers.len < CR_LEN(value) && cr_sizes_evaluate(&x, symbol, value))
        out = value[k].i;
    cr_session_drop(&s);
    return out;
}

#define SIZE(b, n)     (b)
#define PRODUCT(b, n)  (64 * (b) * (n))
#define SQUARE(b, n)   (3 * (b) * (n) * (n))
#define SUM(b, n)      (2 * (b) + (n)-4)
#define PART(b, n)     ((b) * ((n)-1))
#define LEAST(b, n)    ((n) < 9 ? (n) : 9)
#define HALF(b, n)     ((b) / 2)
#define WINDOWS(b, n)  (3 * (n) * (((b)-1) / 2 + 1))
#define ODD_HALF(b, n) (((n)*5 + 1) / 2)
#define THIRD(b, n)    ((b) / 3)

TEST(products_and_sums_of_sizes_are_found)
{
    EQ(FOUND(SIZE), 11);
    EQ(FOUND(PRODUCT), 64 * 11 * 13);
    EQ(FOUND(SQUARE), 3 * 11 * 13 * 13);
    EQ(FOUND(SUM), 2 * 11 + 13 - 4);
    EQ(FOUND(PART), 11 * 12);
}

TEST(halves_are_found_where_even_and_odd_sizes_were_seen)
{
    EQ(FOUND(HALF), 11 / 2);
    EQ(FOUND(WINDOWS), 3 * 13 * ((11 - 1) / 2 + 1));
    EQ(FOUND(ODD_HALF), -1);
}

TEST(numbers_that_are_no_recorded_arithmetic_are_not_found)
{
    EQ(FOUND(LEAST), -1);
    EQ(FOUND(THIRD), -1);
}

TEST(one_or_two_over_a_size_is_a_quotient)
{
    cr_session s = {.status = CR_OK};
    cr_sizes x = sizes_in(&s);
    cr_scalar at[PROBES], value[64], symbol[] = {cr_scalar_int(11), cr_scalar_int(13)};

    for (int p = 0; p < PROBES; p++)
        at[p] = cr_scalar_float(2.0 / (double)(b[p] * n[p] - n[p]));
    int k = cr_sizes_find(&x, at);
    CHECK(k >= 0 && cr_sizes_evaluate(&x, symbol, value));
    CHECK(k >= 0 && value[k].d == 2.0 / (11 * 13 - 13));
    at[1] = cr_scalar_float(0.3);
    EQ(cr_sizes_find(&x, at), -1);
    cr_session_drop(&s);
}

TEST(the_weight_of_an_unbiased_variance_is_found_with_a_float_of_the_graph)
{
    cr_session s = {.status = CR_OK};
    cr_sizes x = sizes_in(&s);
    cr_scalar at[PROBES], value[64], symbol[] = {cr_scalar_int(11), cr_scalar_int(13)};

    for (int p = 0; p < PROBES; p++) {
        double count = (double)(4 * b[p] * n[p]);
        at[p] = cr_scalar_float(0.1 * (count / (count - 1)));
    }
    EQ(cr_sizes_find(&x, at), -1);
    CR_PUSH(&s, &x.floats, 0.9);
    CR_PUSH(&s, &x.floats, 0.1);
    int k = cr_sizes_find(&x, at);
    CHECK(k >= 0 && cr_sizes_evaluate(&x, symbol, value));
    CHECK(k >= 0 && value[k].d == 0.1 * (572.0 / 571.0));
    at[2].d = 0.1 * (200.0 / 199.0);
    EQ(cr_sizes_find(&x, at), -1);
    cr_session_drop(&s);
}

TEST(sizes_below_two_and_guards_that_do_not_hold_have_no_numbers)
{
    cr_session s = {.status = CR_OK};
    cr_sizes x = sizes_in(&s);
    cr_scalar value[8], fine[] = {cr_scalar_int(2), cr_scalar_int(3)},
                        one[] = {cr_scalar_int(1), cr_scalar_int(3)},
                        equal[] = {cr_scalar_int(4), cr_scalar_int(4)};

    CHECK(cr_sizes_evaluate(&x, fine, value));
    CHECK(!cr_sizes_evaluate(&x, one, value));
    CHECK(cr_sizes_evaluate(&x, equal, value));
    CR_PUSH(&s, &x.guards,
            ((cr_gnum_guard){.test = CR_GNUM_EQ, .holds = false, .a = 0, .b = 1}));
    CHECK(cr_sizes_evaluate(&x, fine, value));
    CHECK(!cr_sizes_evaluate(&x, equal, value));
    cr_session_drop(&s);
}
