/* The reader's checks of words and related clauses. */
#include "base/test.h"
#include "ops/ops.h"

static cr_status read(const char *text) { return cr_ops_read("test.op", text, strlen(text)); }

#define REFUSED(text, message)                                                                 \
    do {                                                                                       \
        FAILS(CR_VALUE, read(text));                                                           \
        EQ_STR(cr_error_message(), message);                                                   \
    } while (0)

TEST(a_map_is_a_view_without_saying_so)
{
    OK(read("op w_map(Tensor(a) self) -> Tensor(a)\n  map     cr_map_alias\n"));
    EQ(cr_ops_find("w_map")->words, (unsigned)CR_WORD_VIEW);
}

TEST(words_are_bits_and_in_place_forms_have_no_words_about_results)
{
    OK(read("op w_step(Tensor self, Tensor other) -> Tensor\n  forms   method inplace\n"
            "  words   idempotent no_promote\n  inverse w_step bool\n  neutral other = -0.0\n"
            "  body    self + other\n"));
    OK(cr_ops_resolve());
    const cr_op *op = cr_ops_find("w_step");
    EQ(op->words, (unsigned)(CR_WORD_IDEMPOTENT | CR_WORD_NO_PROMOTE));
    EQ(op->inverse.op == op, true);
    EQ(op->inverse.dtypes, 1u << CR_BOOL);
    EQ(op->neutral.param, 1);
    EQ(op->neutral.number == 0 && __builtin_signbit(op->neutral.number) != 0, true);
    EQ(op->inplace->words, (unsigned)CR_WORD_NO_PROMOTE);
    EQ(op->inplace->inverse.op == NULL && op->inplace->neutral.param == -1, true);
}

TEST(an_unknown_word_is_refused_with_file_and_line)
{
    REFUSED("op w_odd(Tensor self) -> Tensor\n  words   vieuw\n  body    self\n",
            "test.op:2: 'vieuw' is not allowed here");
}

TEST(words_that_contradict_each_other_or_the_schema_are_refused)
{
    REFUSED("op w_a(Tensor self) -> Tensor\n  words   identity reshape\n  body    self\n",
            "test.op:1: w_a: words say twice which elements the result has");
    REFUSED("op w_b(Tensor(a) self) -> Tensor(a)\n  words   copy\n  map     cr_map_alias\n",
            "test.op:1: w_b: words say twice what memory the result has");
    REFUSED("op w_c(int n) -> Tensor\n  words   cast\n  whole   cr_do_clone\n",
            "test.op:1: w_c: a word is about self, and the first parameter is no tensor");
    REFUSED("op w_d(Tensor self) -> Tensor\n  words   itself\n  whole   cr_do_clone\n",
            "test.op:1: w_d: `itself` goes with identity, cast or reshape");
    REFUSED("op w_e(Tensor[] tensors) -> Tensor\n  words   join\n  extern  cr_kern_cat\n",
            "test.op:1: w_e: `join` is for (Tensor[], int dim) -> Tensor");
    REFUSED("op w_f(Tensor(a) self, int dim) -> Tensor(a)\n  words   split\n  map     "
            "cr_map_alias\n",
            "test.op:1: w_f: `split` is for (Tensor, ..., int dim) -> Tensor[]");
    REFUSED("op w_g(Tensor(a) self) -> Tensor(a)\n  words   copy\n  whole   cr_do_clone\n",
            "test.op:1: w_g: the schema says that the result may be a view, and `copy` that it "
            "is not");
    REFUSED("op w_h(Tensor self) -> Tensor\n  neutral self = 1\n  body    self\n",
            "test.op:1: w_h: `neutral` is about another parameter than self");
    REFUSED("op w_i(Tensor self) -> Tensor\n  neutral self = x\n  body    self\n",
            "test.op:2: a number expected");
    REFUSED("op w_r(Tensor self) -> Tensor\n  words   other_order\n  is      self\n",
            "test.op:1: w_r: `other_order` is for a composition with a function of the host");
}

TEST(clause_format_names_tensors)
{
    OK(read("op w_format(Tensor self, int n) -> Tensor\n  format  channels_last self\n"
            "  extern  cr_kern_sort\n"));
    EQ(cr_ops_find("w_format")->format.rule, CR_FORMAT_RULE_CHANNELS);
    EQ(cr_ops_find("w_format")->format.params, 1u);
    REFUSED("op w_m(Tensor self, int n) -> Tensor\n  format like n\n  extern cr_kern_sort\n",
            "test.op:2: 'n' is no tensor");
    REFUSED(
        "op w_n(Tensor self) -> Tensor\n  format like self\n  whole cr_do_clone\n",
        "test.op:1: w_n: `format` is for an entry whose results are allocated: a body, a loop "
        "or a C function on views");
}

TEST(clauses_functional_and_updates_are_read)
{
    OK(read("op w_make(Tensor self, int n) -> Tensor\n  body    self\n"));
    OK(read("op w_write_(Tensor(a!) self, int n) -> Tensor(a!)\n  functional w_make(self, n)\n"
            "  whole   cr_do_zero\n"));
    OK(read("op w_norm(Tensor self, Tensor? mean, bool training) -> Tensor\n"
            "  updates mean when training\n  whole   cr_do_clone\n"));
    REFUSED("op w_j(Tensor self) -> Tensor\n  functional self\n  whole   cr_do_clone\n",
            "test.op:1: w_j: `functional` is for an entry that writes self");
    REFUSED(
        "op w_k(Tensor self, int n) -> Tensor\n  updates self when n\n  whole   cr_do_clone\n",
        "test.op:2: 'n' is no bool");
    REFUSED(
        "op w_l(Tensor(a!) self) -> Tensor(a!)\n  functional w_make(3)\n  whole   cr_do_zero\n",
        "test.op:2: the call takes parameters by place");
    EQ(cr_ops_find("w_norm")->updates.params, 2u);
    EQ(cr_ops_find("w_norm")->updates.when, 2);
}

TEST(clauses_unread_within_and_by_calls_are_read)
{
    OK(read("op w_drawn(Tensor self, float p) -> Tensor\n  unread  self\n"
            "  whole   cr_do_clone\n"));
    OK(read("op w_rows(Tensor self, Tensor rows, int other) -> Tensor\n"
            "  within  rows in -1, size(self, 0) spares other\n"
            "  whole   cr_do_clone by calls\n"));
    OK(read("op w_places(Tensor self, Tensor?[] places) -> Tensor\n"
            "  within  places over self\n  whole   cr_do_clone\n"));
    REFUSED("op w_p(Tensor self, int n) -> Tensor\n  unread  n\n  whole   cr_do_clone\n",
            "test.op:2: 'n' is no tensor");
    REFUSED("op w_q(Tensor self, int n) -> Tensor\n  within  n in 3\n  whole   cr_do_clone\n",
            "test.op:2: `within TENSOR in SIZE` expected");
    EQ(cr_ops_find("w_drawn")->defer.unread, 1u);
    EQ(cr_ops_find("w_drawn")->defer.by_calls, false);
    EQ(cr_ops_find("w_rows")->defer.by_calls, true);
    EQ(cr_ops_find("w_rows")->defer.within->spared, 2);
    CHECK(cr_ops_find("w_rows")->defer.within->low != NULL);
    EQ(cr_ops_find("w_places")->defer.within->each, 0);
}

TEST(clause_fits_names_a_way)
{
    OK(read(
        "op w_fits(Tensor self, Scalar n) -> Tensor\n  fits    exact\n  body    self + n\n"));
    EQ(cr_ops_find("w_fits")->fits, CR_FITS_EXACT);
    EQ(cr_ops_find("w_fits")->scalar_params, 2u);
    OK(read("op w_wide(Tensor self, Scalar n) -> Tensor\n  body    self + n\n"));
    EQ(cr_ops_find("w_wide")->fits, CR_FITS_WIDE);
    OK(read("op w_any(Tensor self, Scalar n) -> Tensor\n  fits    any\n  body    self + n\n"));
    EQ(cr_ops_find("w_any")->scalar_params, 0u);
    EQ(read("op w_odd(Tensor self, Scalar n) -> Tensor\n  fits    odd\n  body    self + n\n"),
       CR_VALUE);
}

TEST(clause_dispatch_is_a_call_or_a_composition)
{
    OK(read("op w_seen(Tensor self) -> Tensor\n  dispatch call\n  is      self + 1\n"));
    OK(read(
        "op w_shown(Tensor self) -> Tensor\n  dispatch w_seen(self)\n  body    self + 1\n"));
    EQ(cr_ops_find("w_seen")->dispatch.call, true);
    EQ(cr_ops_find("w_seen")->dispatch.calls, NULL);
    EQ(cr_ops_find("w_shown")->dispatch.call, false);
    CHECK(cr_ops_find("w_shown")->dispatch.calls != NULL);
}

TEST(clause_functional_names_parameters_only)
{
    OK(read("op w_odd_(Tensor(a!) self) -> Tensor(a!)\n  functional w_make(result, self)\n"
            "  whole   cr_do_zero\n"));
    FAILS(CR_VALUE, cr_ops_resolve());
    EQ_STR(cr_error_message(), "test.op:1: w_odd_: `functional` is about parameters");
    cr_ops_find("w_odd_")->functional = NULL; /* the table is resolved once more below */
}

TEST(a_missing_derivative_must_be_stated)
{
    OK(read("op w_flat(Tensor self) -> Tensor\n  constant result\n  body    self\n"
            "op w_truth(Tensor self) -> Tensor\n  returns bool\n  body    self > 0\n"
            "op w_parts(Tensor self) -> Tensor\n  is      w_flat(self)\n"));
    OK(cr_op_check_derivative(cr_ops_find("w_flat")));
    OK(cr_op_check_derivative(cr_ops_find("w_truth")));
    OK(cr_op_check_derivative(cr_ops_find("w_parts")));
    OK(read("op w_bare(Tensor self) -> Tensor\n  body    self\n"));
    FAILS(CR_VALUE, cr_op_check_derivative(cr_ops_find("w_bare")));
    EQ_STR(cr_error_message(),
           "test.op:1: w_bare has no clause `grad`, and `constant` does not "
           "name its result 'result'");
}

TEST(warnings_have_a_condition_and_a_message_and_are_few)
{
    OK(read("op w_told(Tensor self, int n) -> Tensor\n"
            "  warn    once n > 2 : \"{} is much\", n\n"
            "          n < 0 : \"little\"\n"
            "  body    self\n"));
    const cr_op *op = cr_ops_find("w_told");
    EQ(op->warning_count, 2);
    EQ(op->warnings[0].once && !op->warnings[1].once, true);
    EQ_STR(op->warnings[0].say.message, "{} is much");
    EQ(op->warnings[0].say.count, 1);
    REFUSED(
        "op w_mute(Tensor self) -> Tensor\n  warn    True : RUNTIME \"a\"\n  body    self\n",
        "test.op:2: expected a message");
    REFUSED(
        "op w_loud(Tensor self) -> Tensor\n  warn    True : \"a\" True : \"b\" True : \"c\"\n"
        "  body    self\n",
        "test.op:2: w_loud has too many warnings");
}

TEST(an_inverse_must_be_in_the_table)
{
    OK(read("op w_lost(Tensor self) -> Tensor\n  inverse w_nowhere\n  body    -self\n"));
    FAILS(CR_VALUE, cr_ops_resolve());
    EQ_STR(cr_error_message(), "test.op:1: w_lost: no operator is called 'w_nowhere'");
}
