/* Integer expressions. */
#include "base/test.h"
#include "sym/sym.h"

static cr_session session;
static cr_syms *table;
static char shown[512];

static const cr_sym *read_sym(const char *text) { return cr_sym_parse(table, &text); }

static const char *show(const cr_sym *e)
{
    cr_text t = {0};

    cr_sym_print(&t, e);
    strcpy(shown, cr_text_str(&t));
    cr_text_drop(&t);
    return shown;
}

/* Runs a test's body in a new session. */
#define IN_SESSION(name)                                                                       \
    static void name##_body(cr_session *s, void *unused);                                      \
    TEST(name)                                                                                 \
    {                                                                                          \
        session = (cr_session){.status = CR_OK};                                               \
        OK(cr_session_run(&session, name##_body, NULL));                                       \
        cr_session_drop(&session);                                                             \
    }                                                                                          \
    static void name##_body(cr_session *s, CR_UNUSED void *unused)

#define BECOMES(text, wanted) EQ_STR(show(read_sym(text)), wanted)

IN_SESSION(equal_polynomials_are_one_node)
{
    table = cr_syms_new(s);
    CHECK(read_sym("(x + 1)*(y - 2)") == read_sym("y*x + y - 2 - 2*x"));
    CHECK(read_sym("x + y") == read_sym("y + x"));
    CHECK(read_sym("x*x - x*x") == cr_sym_int(table, 0));
    CHECK(read_sym("x") != read_sym("y"));
}

IN_SESSION(division_takes_out_what_goes_evenly)
{
    table = cr_syms_new(s);
    BECOMES("(6*x + 4) // 2", "3*x + 2");
    BECOMES("(6*x + 4) % 2", "0");
    BECOMES("(4*x + 3) // 4", "x");
    BECOMES("(4*x + 3) % 4", "3");
    BECOMES("(4*x + 6) // 4", "x + 1");
    BECOMES("(x + 3) // 1", "x + 3");
    BECOMES("7 // 2", "3");
    BECOMES("-7 // 2", "-4");
    BECOMES("-7 % 2", "1");
}

IN_SESSION(indices_within_a_size_lose_their_division)
{
    const cr_sym *n, *i, *j;

    table = cr_syms_new(s);
    n = cr_sym_name(table, "n", 1, CR_SYM_HIGH);
    i = cr_sym_name(table, "i", 0, 5);
    j = cr_sym_name(table, "j", 0, 7);
    CHECK(cr_sym_floordiv(table, read_sym("8*i + j"), cr_sym_int(table, 8)) == i);
    CHECK(cr_sym_mod(table, read_sym("8*i + j"), cr_sym_int(table, 8)) == j);
    CHECK(cr_sym_floordiv(table, cr_sym_mul(table, n, i), n) == i);
    CHECK(cr_sym_mod(table, cr_sym_mul(table, n, i), n) == cr_sym_int(table, 0));
}

IN_SESSION(a_name_of_any_sign_divides_its_multiples)
{
    const cr_sym *u, *x;

    table = cr_syms_new(s);
    u = cr_sym_name(table, "u", CR_SYM_LOW, CR_SYM_HIGH);
    x = cr_sym_name(table, "x", 0, CR_SYM_HIGH);
    CHECK(cr_sym_floordiv(table, read_sym("3*u*x - u"), u) == read_sym("3*x - 1"));
    CHECK(cr_sym_mod(table, read_sym("3*u*x - u"), u) == cr_sym_int(table, 0));
    EQ(cr_sym_floordiv(table, read_sym("u*x + 1"), u)->kind, CR_SYM_FLOORDIV);
    EQ(cr_sym_fraction(table, cr_sym_mul(table, u, x), u)->kind, CR_SYM_FRACTION);
}

IN_SESSION(printing_and_reading_back_give_the_same_node)
{
    static const char *const texts[] = {"x",
                                        "-3",
                                        "x*y*y - 2*x + 1",
                                        "(x + 1) // y",
                                        "(x + 1) / 2 - y / x",
                                        "x*(y // 3)",
                                        "min(x, y) + max(2*x, 7)",
                                        "(x % 5)*4 + x // 2 // 3",
                                        "-x - y",
                                        "-(x // 2)*y"};

    table = cr_syms_new(s);
    for (size_t i = 0; i < CR_LEN(texts); i++) {
        const cr_sym *e = read_sym(texts[i]);
        char copy[512];
        strcpy(copy, show(e));
        CHECK(read_sym(copy) == e);
    }
}

IN_SESSION(ranges_answer_comparisons)
{
    const cr_sym *a, *b;

    table = cr_syms_new(s);
    a = cr_sym_name(table, "a", 0, 9);
    b = cr_sym_name(table, "b", 10, 20);
    EQ(cr_sym_lt(table, a, b), CR_SYM_YES);
    EQ(cr_sym_le(table, b, a), CR_SYM_NO);
    CHECK(cr_sym_min(table, a, b) == a);
    CHECK(cr_sym_max(table, a, b) == b);
    EQ(read_sym("3*a - 2")->high, 25);
    EQ(read_sym("-a*b")->low, -180);
}

IN_SESSION(replacing_a_name_makes_the_expression_canonical_again)
{
    const cr_sym *x, *e;

    table = cr_syms_new(s);
    x = read_sym("x");
    e = read_sym("(x*y + x) // 3 + x");
    CHECK(cr_sym_replace(table, e, x, cr_sym_int(table, 3)) == read_sym("y + 4"));
    CHECK(cr_sym_uses(e, x));
    CHECK(!cr_sym_uses(cr_sym_replace(table, e, x, read_sym("z")), x));
}

static int64_t seven(void *context, const cr_sym *name)
{
    (void)context;
    return name->name[0] == 'x' ? 7 : 2;
}

IN_SESSION(values_are_computed_and_overflow_is_told)
{
    bool wrong = false;

    table = cr_syms_new(s);
    EQ(cr_sym_eval(read_sym("x*x // 2 - y % 3"), seven, NULL, &wrong), 22);
    CHECK(!wrong);
    cr_sym_eval(read_sym("x*4611686018427387904"), seven, NULL, &wrong);
    CHECK(wrong);
}

static void bad_text(cr_session *s, void *text)
{
    table = cr_syms_new(s);
    read_sym(text);
}

TEST(nonsense_is_refused_with_a_message)
{
    static const char *const texts[] = {
        "", "1 +", "(x", "x // 0", "99999999999999999999", "min(x", "9223372036854775807 * 3"};

    for (size_t i = 0; i < CR_LEN(texts); i++) {
        cr_session s = {.status = CR_OK};
        CHECK(cr_session_run(&s, bad_text, (void *)texts[i]) != CR_OK);
        CHECK(*cr_error_message());
        cr_session_drop(&s);
    }
}

/* Canonicalization does not change the value of random trees of operations. */
static uint32_t dice = 1;
static int64_t roll(int n)
{
    dice = dice * 1664525u + 1013904223u;
    return (int64_t)((dice >> 8) % (unsigned)n);
}

static int64_t point[3];
static int64_t value_at_point(void *context, const cr_sym *name)
{
    (void)context;
    return point[name->name[0] - 'x'];
}

static const cr_sym *random_tree(int depth, int64_t *v)
{
    int64_t a, b, kind = depth ? roll(9) : roll(2);
    const cr_sym *p, *q;

    if (kind < 1) {
        *v = roll(7) - 3;
        return cr_sym_int(table, *v);
    }
    if (kind < 3) {
        char name[2] = {(char)('x' + roll(3)), 0};
        *v = point[name[0] - 'x'];
        return cr_sym_name(table, name, 0, 50);
    }
    p = random_tree(depth - 1, &a);
    q = random_tree(depth - 1, &b);
    switch (kind) {
    case 3: *v = a + b; return cr_sym_add(table, p, q);
    case 4: *v = a - b; return cr_sym_sub(table, p, q);
    case 5: *v = a * b; return cr_sym_mul(table, p, q);
    case 6: *v = a < b ? a : b; return cr_sym_min(table, p, q);
    case 7: *v = a > b ? a : b; return cr_sym_max(table, p, q);
    default: break;
    }
    b = roll(5) + 1;
    *v = a >= 0 ? a / b : -((-a + b - 1) / b);
    return cr_sym_floordiv(table, p, cr_sym_int(table, b));
}

IN_SESSION(random_expressions_keep_their_values_and_ranges)
{
    table = cr_syms_new(s);
    for (int i = 0; i < 3000; i++) {
        int64_t wanted, got;
        bool wrong = false;
        for (int k = 0; k < 3; k++)
            point[k] = roll(51);
        const cr_sym *e = random_tree(4, &wanted);
        got = cr_sym_eval(e, value_at_point, NULL, &wrong);
        EQ(got, wanted);
        CHECK(got >= e->low && got <= e->high);
    }
}

IN_SESSION(a_long_text_is_printed_whole)
{
    char word[2000];

    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    EQ(strlen(cr_session_printf(s, "%s and %s", word, word)), 2 * (sizeof word - 1) + 5);
    EQ_STR(cr_session_printf(s, "%d", 7), "7");
}
