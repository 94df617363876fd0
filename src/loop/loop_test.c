/* Programs: passes keep meaning, compared in the interpreter. */
#include "base/test.h"
#include "loop/build.h"
#include "loop/interp.h"
#include "loop/libm.h"
#include "loop/nest.h"
#include "num/order_model.h"
#include <math.h>

typedef struct {
    const char *text;
    void (*check)(cr_session *s, cr_loop *l);
} job;

static void parse_and_check(cr_session *s, void *context)
{
    job *j = context;

    j->check(s, cr_loop_parse(s, j->text));
}

static void with_program(const char *text, void (*check)(cr_session *, cr_loop *))
{
    cr_session s = {.status = CR_OK};
    job j = {text, check};

    OK(cr_session_run(&s, parse_and_check, &j));
    cr_session_drop(&s);
}

/* The functions of the programs below, of float32. */
static bool few_functions(cr_fn fn, cr_dtype t, void *out, const void *const *in)
{
    const float *x = in[0], *y = in[1];
    float *r = out;

    CHECK(t == CR_F32);
    switch (fn) {
    case CR_FN_add: *r = *x + *y; return true;
    case CR_FN_sub: *r = *x - *y; return true;
    case CR_FN_mul: *r = *x * *y; return true;
    case CR_FN_div: *r = *x / *y; return true;
    case CR_FN_maximum: *r = *x > *y ? *x : *y; return true;
    case CR_FN_neg: *r = -*x; return true;
    case CR_FN_exp: *r = expf(*x); return true;
    case CR_FN_lt: *(bool *)out = *x < *y; return true;
    case CR_FN_gt: *(bool *)out = *x > *y; return true;
    case CR_FN_above: *(bool *)out = *x > *y || (isnan(*x) && !isnan(*y)); return true;
    default: return false;
    }
}

static void run(cr_loop *l, int64_t rows, int64_t columns, void *const *operand,
                const void *param)
{
    cr_loop_size sizes[2] = {{cr_sym_find(l->syms, "R"), rows},
                             {cr_sym_find(l->syms, "C"), columns}};

    cr_loop_interpret(l, &(cr_loop_run){.sizes = sizes,
                                        .size_count = 2,
                                        .operand = operand,
                                        .param = param,
                                        .eval = few_functions});
}

static const char softmax[] = "m[i<R] = maximum[j<C](x[i, j])\n"
                              "e[i<R, j<C] = exp(x[i, j] - m[i])\n"
                              "t[i<R] = add[j<C](e[i, j])\n"
                              "y[i<R, j<C] = e[i, j] / t[i]\n";

static void softmax_sums_to_one(cr_session *s, cr_loop *l)
{
    float x[12] = {1, 2, 3, 4, 0, 0, 0, 0, -1, 5, -100, 2}, y[12];
    void *operand[2] = {y, x};

    (void)s;
    run(l, 3, 4, operand, NULL);
    for (int i = 0; i < 3; i++)
        NEAR(y[4 * i] + y[4 * i + 1] + y[4 * i + 2] + y[4 * i + 3], 1, 1e-6);
    NEAR(y[4], 0.25, 0);
}

static void rows_are_picked(cr_session *s, cr_loop *l)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t ids[3] = {2, 0, 2};
    void *operand[3] = {y, x, ids};

    (void)s;
    run(l, 3, 2, operand, NULL);
    for (int i = 0; i < 6; i++)
        NEAR(y[i], x[2 * ids[i / 2] + i % 2], 0);
}

TEST(a_computed_index_picks_rows)
{
    with_program("input x: f32[R, C]\n"
                 "input ids: i64[R]\n"
                 "y[i<R, j<C] = x[$ids[i], j]\n",
                 rows_are_picked);
}

static void extremes_are_found(cr_session *s, cr_loop *l)
{
    float x[12] = {1, 3, 3, 2, -0.0f, 0, -1, -0.0f, 1, NAN, 9, NAN}, v[3];
    int64_t k[3];
    void *operand[3] = {k, v, x};

    (void)s;
    run(l, 3, 4, operand, NULL);
    EQ(k[0], 1);
    EQ(k[1], 0);
    CHECK(signbit(v[1]));
    EQ(k[2], 1);
    CHECK(isnan(v[2]));
}

TEST(the_first_extreme_counts_and_a_nan_before_all_numbers)
{
    with_program("k[i<R] = index(above[j<C](x[i, j]))\n"
                 "v[i<R] = above[j<C](x[i, j])\n",
                 extremes_are_found);
}

static void extreme_of_nothing(cr_session *s, void *context)
{
    float x[1], v[1];
    void *operand[2] = {v, x};

    (void)context;
    run(cr_loop_parse(s, "v[i<R] = above[j<C](x[i, j])\n"), 1, 0, operand, NULL);
}

TEST(the_interpreter_refuses_the_extreme_of_no_elements)
{
    cr_session s = {.status = CR_OK};

    FAILS(CR_VALUE, cr_session_run(&s, extreme_of_nothing, NULL));
    cr_session_drop(&s);
}

static void guarded_loads_stay_inside(cr_session *s, cr_loop *l)
{
    float x[2] = {1, 2}, on[3] = {1, 0, 1}, y[3];
    int32_t ids[3] = {1, 7, 0};
    void *operand[4] = {y, on, x, ids};

    (void)s;
    run(l, 3, 2, operand, NULL);
    NEAR(y[0], 2, 0);
    NEAR(y[1], -1, 0);
    NEAR(y[2], 1, 0);
}

TEST(a_condition_guards_the_load_beside_it)
{
    with_program("input on: f32[R]\n"
                 "input x: f32[C]\n"
                 "input ids: i32[R]\n"
                 "y[i<R] = where(on[i] > 0, x[$ids[i]], -1)\n",
                 guarded_loads_stay_inside);
}

static void index_outside(cr_session *s, void *context)
{
    float x[2] = {1, 2}, y[3];
    int64_t ids[3] = {1, 2, 0};
    void *operand[3] = {y, x, ids};

    (void)context;
    run(cr_loop_parse(s, "input x: f32[C]\ninput ids: i64[R]\ny[i<R] = x[$ids[i]]\n"), 3, 2,
        operand, NULL);
}

TEST(the_interpreter_refuses_an_index_outside)
{
    cr_session s = {.status = CR_OK};

    FAILS(CR_INDEX, cr_session_run(&s, index_outside, NULL));
    cr_session_drop(&s);
}

TEST(the_interpreter_computes_the_text_of_a_program)
{
    with_program(softmax, softmax_sums_to_one);
}

static void fused_is_unfused(cr_session *s, cr_loop *l)
{
    float x[15], before[15], after[15];
    void *operand[2] = {before, x};

    (void)s;
    for (int i = 0; i < 15; i++)
        x[i] = sinf((float)(i * i));
    run(l, 3, 5, operand, NULL);
    cr_loop_simplify(l);
    cr_loop_fuse(l);
    cr_loop_verify(l);
    EQ(l->defs.len, 1);
    operand[0] = after;
    run(l, 3, 5, operand, NULL);
    EQ(memcmp(before, after, sizeof before), 0);
}

TEST(fusing_changes_no_bit) { with_program(softmax, fused_is_unfused); }

static void has_three_sweeps(cr_session *s, cr_loop *l)
{
    cr_nest *n;

    (void)s;
    cr_loop_fuse(l);
    n = cr_nest_schedule(l);
    EQ(n->kind, CR_NEST_ROWS);
    EQ(n->sweeps, 3);
    EQ(n->keeps, 1);
    EQ(n->sweep[0].reduces.count, 1);
    EQ(n->sweep[1].reduces.count, 1);
    EQ(n->sweep[2].stores, 1);
}

TEST(a_softmax_is_three_sweeps_that_keep_the_exponentials)
{
    with_program(softmax, has_three_sweeps);
}

/* The order of reductions, against the model: every length at which a rule begins. */
static const int64_t lengths[] = {0,   1,   3,    4,    5,    63,   64,   65,   511,  512,
                                  513, 575, 1023, 1024, 1025, 5121, 8191, 8192, 8193, 70000};
enum { LONGEST = 70000 };

static void draw_numbers(float *x, int64_t n, bool product)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = product ? 1 + sinf((float)i) / 64 : sinf((float)i) * 100;
}

static void folds_in_order(cr_session *s, cr_loop *l, bool column, bool product)
{
    float *x = CR_NEW_N(s, float, LONGEST), y, want;
    void *operand[2] = {&y, x};

    draw_numbers(x, LONGEST, product);
    for (size_t k = 0; k < CR_LEN(lengths); k++) {
        int64_t n = lengths[k];
        run(l, column ? n : 1, column ? 1 : n, operand, NULL);
        want = (column ? model_column_float : model_row_float)(product, x, n);
        EQ(memcmp(&y, &want, sizeof y), 0);
    }
}

static void sums_in_order(cr_session *s, cr_loop *l) { folds_in_order(s, l, false, false); }
static void multiplies_in_order(cr_session *s, cr_loop *l)
{
    folds_in_order(s, l, false, true);
}
static void sums_columns_in_order(cr_session *s, cr_loop *l)
{
    folds_in_order(s, l, true, false);
}
static void multiplies_columns_in_order(cr_session *s, cr_loop *l)
{
    folds_in_order(s, l, true, true);
}

TEST(rows_are_folded_in_order_p)
{
    with_program("y[i<R] = add[j<C](x[i, j])", sums_in_order);
    with_program("y[i<R] = mul[j<C](x[i, j])", multiplies_in_order);
}

TEST(columns_are_folded_in_order_p)
{
    with_program("y[j<C] = add[i<R](x[i, j])", sums_columns_in_order);
    with_program("y[j<C] = mul[i<R](x[i, j])", multiplies_columns_in_order);
}

static void keeps_the_zero(cr_session *s, cr_loop *l)
{
    float x[3] = {-0.0f, -0.0f, -0.0f}, y;
    void *operand[2] = {&y, x};

    (void)s;
    run(l, 1, 3, operand, NULL);
    CHECK(y == 0 && signbit(y));
    run(l, 1, 0, operand, NULL);
    CHECK(y == 0 && !signbit(y));
}

TEST(the_sum_of_negative_zeros_is_negative_zero_and_of_no_elements_positive_zero)
{
    with_program("y[i<R] = add[j<C](x[i, j])", keeps_the_zero);
}

static void keeps_special_values(cr_session *s, cr_loop *l)
{
    float x[6] = {-0.0f, 0.0f, INFINITY, -INFINITY, NAN, 1}, before[6], after[6];
    void *operand[2] = {before, x};

    (void)s;
    run(l, 1, 6, operand, NULL);
    cr_loop_simplify(l);
    operand[0] = after;
    run(l, 1, 6, operand, NULL);
    for (int i = 0; i < 6; i++)
        CHECK(!memcmp(&before[i], &after[i], 4) || (isnan(before[i]) && isnan(after[i])));
}

TEST(simplifying_keeps_signed_zeros_infinities_and_nan)
{
    static const char *const texts[] = {"y[i<R, j<C] = x[i, j] * 1",
                                        "y[i<R, j<C] = x[i, j] - 0",
                                        "y[i<R, j<C] = x[i, j] + -0",
                                        "y[i<R, j<C] = x[i, j] + 0",
                                        "y[i<R, j<C] = neg(neg(x[i, j]))",
                                        "y[i<R, j<C] = x[i, j] * 0",
                                        "y[i<R, j<C] = x[i, j] / 1 * 1 - 0",
                                        "y[i<R, j<C] = where(x[i, j] < 1, x[i, j], x[i, j])"};

    for (size_t i = 0; i < CR_LEN(texts); i++)
        with_program(texts[i], keeps_special_values);
}

static void index_out_of_range(cr_session *s, void *context)
{
    float x[4] = {0}, y[4];
    void *operand[2] = {y, x};
    cr_loop *l = cr_loop_parse(s, "input x: f32[R, C]\ny[i<R, j<C] = x[i, j + 1]");

    (void)context;
    run(l, 2, 2, operand, NULL);
}

TEST(the_interpreter_refuses_an_index_outside_its_buffer)
{
    cr_session s = {.status = CR_OK};

    FAILS(CR_INDEX, cr_session_run(&s, index_out_of_range, NULL));
    cr_session_drop(&s);
}

static void calls_two(cr_session *s, cr_loop *l)
{
    cr_fn_set set = {.count = 0};

    (void)s;
    cr_loop_libm(&set, l);
    EQ(set.count, 2);
    CHECK(set.has[CR_FN_lgamma] && set.has[CR_FN_erfc]);
}

TEST(the_functions_of_the_c_library_in_a_program_are_found)
{
    with_program("input x: f64[R, C]\nparam s: f64 @0\n"
                 "y[i<R, j<C] = exp(lgamma(x[i, j])) + erfc(s) * tan(x[i, j])\n",
                 calls_two);
    CHECK(cr_fn_calls_libm(CR_FN_erfc, CR_F64) && !cr_fn_calls_libm(CR_FN_erfc, CR_F32));
    CHECK(cr_fn_calls_libm(CR_FN_asin, CR_C64) && !cr_fn_calls_libm(CR_FN_asin, CR_F64));
    CHECK(cr_fn_calls_libm(CR_FN_lgamma, CR_F32) && !cr_fn_calls_libm(CR_FN_exp, CR_C128));
}

/* --- entries --- */

static const char table[] =
    "op twice(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n"
    "  type    promote(self, other)\n"
    "  body    where(self == other, self, self + alpha * other)\n"
    "op pick(Tensor condition, Tensor self) -> Tensor\n"
    "  type    self\n"
    "  body    where(condition, self, -self)\n"
    "op addup(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor\n"
    "  fold    add(self)\n"
    "op some(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor\n"
    "  returns bool\n"
    "  fold    or(self != 0)\n"
    "op raise(Tensor self) -> Tensor\n"
    "  dtypes  float\n"
    "  body    erfc(pow(self, 2))\n"
    "op raisetwice(Tensor self) -> Tensor\n"
    "  is      raise(raise(self))\n"
    "op center(Tensor self, int dim) -> Tensor\n"
    "  dtypes  float\n"
    "  fused   dim\n"
    "  is      twice(self, addup(self, dim, True), alpha=-1)\n";

static void read_table(void)
{
    static bool done;

    if (!done) {
        OK(cr_ops_read("test.op", table, sizeof table - 1));
        OK(cr_ops_resolve());
    }
    done = true;
}

typedef struct {
    const char *op;
    cr_dtype t;
    cr_form form;
    const char *wanted;
} entry_job;

static void build_entry(cr_session *s, void *context)
{
    entry_job *j = context;
    cr_loop *l = cr_loop_of_op(s, cr_ops_find(j->op), j->t, j->form);
    cr_text t = {0};

    cr_loop_verify(l);
    cr_loop_print(&t, l);
    EQ_STR(cr_text_str(&t), j->wanted);
    cr_text_drop(&t);
}

static cr_status build(const char *op, cr_dtype t, cr_form form, const char *wanted)
{
    entry_job j = {op, t, form, wanted};
    cr_session s = {.status = CR_OK};
    cr_status st;

    read_table();
    st = cr_session_run(&s, build_entry, &j);
    cr_session_drop(&s);
    return st;
}

TEST(a_body_becomes_a_definition_over_rows_and_columns)
{
    OK(build("twice", CR_F32, CR_FORM_MAIN,
             "out[i<R, j<C] = where(self[i, j] == other[i, j], self[i, j], "
             "self[i, j] + alpha * other[i, j])\n"));
}

TEST(arithmetic_on_bools_is_logic)
{
    OK(build("twice", CR_BOOL, CR_FORM_MAIN,
             "input self: bool[R, C]\ninput other: bool[R, C]\nparam alpha: bool @0\n"
             "out[i<R, j<C] = where(not(xor(self[i, j], other[i, j])), self[i, j], "
             "or(self[i, j], and(alpha, other[i, j])))\n"));
}

TEST(a_tensor_that_the_type_leaves_out_is_a_mask)
{
    OK(build("pick", CR_F32, CR_FORM_MAIN,
             "input condition: bool[R, C]\ninput self: f32[R, C]\n"
             "out[i<R, j<C] = where(condition[i, j], self[i, j], -self[i, j])\n"));
}

TEST(a_fold_has_its_forms)
{
    OK(build("addup", CR_F32, CR_FORM_MAIN,
             "input self: f32[R, C]\nparam keepdim: f32 @0\n"
             "out[i<R] = add[j<C](self[i, j])\n"));
    OK(build("addup", CR_F32, CR_FORM_COLUMNS,
             "input self: f32[R, C]\nparam keepdim: f32 @0\n"
             "out[j<C] = add[i<R](self[i, j])\n"));
    OK(build("some", CR_F32, CR_FORM_MAIN,
             "input self: f32[R, C]\nparam keepdim: f32 @0\n"
             "out[i<R] = or[j<C](self[i, j] != 0)\n"));
    OK(build(
        "some", CR_F32, CR_FORM_JOIN,
        "input part: bool[R, C]\nparam keepdim: f32 @0\nout[i<R] = or[j<C](part[i, j])\n"));
    CHECK(!cr_loop_has_form(cr_ops_find("addup"), CR_FORM_JOIN));
    CHECK(cr_loop_has_form(cr_ops_find("some"), CR_FORM_JOIN));
}

TEST(a_composition_is_one_program)
{
    OK(build("center", CR_F32, CR_FORM_MAIN,
             "input self: f32[R, C]\nparam dim: f32 @0\n"
             "out[i<R, j<C] = where(self[i, j] == add[j<C](self[i, j]), self[i, j], "
             "self[i, j] + -1 * add[j<C](self[i, j]))\n"));
}

TEST(a_function_missing_for_a_type_is_a_type_error)
{
    read_table();
    FAILS(CR_TYPE, build("pick", CR_BOOL, CR_FORM_MAIN, ""));
}

TEST(the_functions_of_the_c_library_that_an_operator_reaches_are_found)
{
    static const char *const names[] = {"raise", "raisetwice"};

    read_table();
    for (size_t i = 0; i < CR_LEN(names); i++) {
        cr_fn_set single = {.count = 0}, twice = {.count = 0};
        OK(cr_op_libm(&single, cr_ops_find(names[i]), CR_F32));
        OK(cr_op_libm(&twice, cr_ops_find(names[i]), CR_F64));
        EQ(single.count, 0);
        CHECK(twice.count == 1 && twice.has[CR_FN_erfc]);
    }
}
