/* torch's overloads of an entry: by rule, and by clause `aten`. */
#include "base/test.h"
#include "ops/ops.h"

static char shown[1024];

/* The schemas of an entry's overloads, one a line. */
static const char *overloads(const char *name)
{
    const cr_op *op = cr_ops_find(name);
    cr_text t = {0};

    for (int i = 0; op && i < op->aten.count; i++) {
        cr_op_print_overload(&t, op, op->name, &op->aten.list[i]);
        cr_text_put(&t, "\n");
    }
    strcpy(shown, cr_text_str(&t));
    cr_text_drop(&t);
    return shown;
}

static cr_status read(const char *text) { return cr_ops_read("test.op", text, strlen(text)); }

/* The schemas of an entry's overloads that write to given tensors, one a line. */
static const char *writing(const char *name)
{
    const cr_op *op = cr_ops_find(name);
    cr_text t = {0};

    for (int i = 0; op && i < op->aten.out_count; i++) {
        cr_op_print_out_overload(&t, op, op->name, &op->aten.out[i]);
        cr_text_put(&t, "\n");
    }
    strcpy(shown, cr_text_str(&t));
    cr_text_drop(&t);
    return shown;
}

TEST(an_entry_of_tensors_is_the_default_overload)
{
    OK(read("op twice(Tensor self) -> Tensor\n  body    self * 2\n"));
    EQ_STR(overloads("twice"), "aten::twice(Tensor self) -> Tensor\n");
}

TEST(an_entry_of_another_namespace_keeps_its_full_name)
{
    OK(read("op other::half(Tensor self) -> Tensor\n  body    self / 2\n"
            "op fourth(Tensor self, bool a) -> Tensor\n"
            "  is      a ? other::half(other::half(self)) : self\n"));
    EQ_STR(overloads("other::half"), "other::half(Tensor self) -> Tensor\n");
    EQ(cr_ops_find("half"), NULL);
    EQ(cr_ops_find("fourth")->body_count, 1);
}

TEST(an_entry_that_takes_numbers_is_two_overloads)
{
    OK(read("op plus(Tensor self, Tensor other) -> Tensor\n  numbers self other\n"
            "  body    self + other\n"));
    EQ_STR(overloads("plus"), "aten::plus.Tensor(Tensor self, Tensor other) -> Tensor\n"
                              "aten::plus.Scalar(Tensor self, Scalar other) -> Tensor\n");
}

TEST(a_star_makes_a_keyword_positional)
{
    OK(read("op scaled(Tensor self, Tensor other, *, Scalar by=1) -> Tensor\n"
            "  numbers other\n  aten    Tensor Scalar(other *by)\n  body    self + other\n"));
    EQ_STR(overloads("scaled"),
           "aten::scaled.Tensor(Tensor self, Tensor other, *, Scalar by=1) -> Tensor\n"
           "aten::scaled.Scalar(Tensor self, Scalar other, Scalar by=1) -> Tensor\n");
}

TEST(clause_aten_states_overloads_that_the_rule_does_not_give)
{
    OK(read("op most(Tensor self, int? dim=None, *, bool keep=False) -> Tensor\n"
            "  aten    default(-dim -keep) dim(+dim)\n  body    self\n"));
    EQ_STR(overloads("most"),
           "aten::most(Tensor self) -> Tensor\n"
           "aten::most.dim(Tensor self, int? dim, *, bool keep=False) -> Tensor\n");
    OK(read("op power(Tensor self, Tensor exponent) -> Tensor\n  numbers self exponent\n"
            "  aten    Tensor_Tensor Scalar(self) Tensor_Scalar(exponent)\n  body    self\n"));
    EQ_STR(overloads("power"),
           "aten::power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor\n"
           "aten::power.Scalar(Scalar self, Tensor exponent) -> Tensor\n"
           "aten::power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor\n");
}

TEST(a_clause_names_parameters_that_are_there)
{
    FAILS(CR_VALUE,
          read("op wrong(Tensor self) -> Tensor\n  aten    Scalar(other)\n  body    self\n"));
    EQ_STR(cr_error_message(), "test.op:2: wrong has no parameter 'other'");
}

TEST(an_in_place_form_has_the_overloads_whose_self_is_a_tensor)
{
    OK(read("op raise(Tensor self, Tensor other) -> Tensor\n  numbers self other\n"
            "  forms   method inplace\n  aten    Tensor Scalar(other) Scalar_Tensor(self)\n"
            "  body    self + other\n"
            "op lower(Tensor self, Tensor other) -> Tensor\n  numbers self other\n"
            "  forms   method inplace\n  aten    default inplace Tensor Scalar(other)\n"
            "  body    self - other\n"));
    OK(cr_ops_resolve());
    EQ_STR(overloads("raise_"),
           "aten::raise_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)\n"
           "aten::raise_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)\n");
    EQ_STR(overloads("lower_"),
           "aten::lower_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)\n"
           "aten::lower_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)\n");
    EQ_STR(overloads("lower"), "aten::lower(Tensor self, Tensor other) -> Tensor\n");
}

TEST(forms_out_and_copied_give_overloads_that_write_to_tensors)
{
    OK(read("op given(Tensor self, Tensor other, *, Scalar by=1) -> Tensor\n  numbers other\n"
            "  forms   function out\n  body    self + other\n"
            "op pair(Tensor self) -> (Tensor a, Tensor b)\n  forms   copied\n"
            "  body    self, self * 2\n"
            "op named(Tensor self) -> (Tensor a, Tensor b)\n  forms   function out\n"
            "  body    self, self * 2\n"
            "op neither(Tensor self) -> Tensor\n  forms   function\n  body    self\n"));
    EQ_STR(writing("given"),
           "aten::given.Tensor_out(Tensor self, Tensor other, *, Scalar by=1, "
           "Tensor(a!) out) -> Tensor(a!)\n"
           "aten::given.Scalar_out(Tensor self, Scalar other, *, Scalar by=1, "
           "Tensor(a!) out) -> Tensor(a!)\n");
    EQ_STR(writing("pair"),
           "aten::pair.out(Tensor self, *, Tensor(a!) out0, Tensor(b!) out1) -> "
           "(Tensor(a!), Tensor(b!))\n");
    EQ_STR(writing("named"), "aten::named.out(Tensor self, *, Tensor(a!) a, Tensor(b!) b) -> "
                             "(Tensor(a!) a, Tensor(b!) b)\n");
    EQ_STR(writing("neither"), "");
}

TEST(clause_aten_out_states_overloads_that_the_rule_does_not_give)
{
    OK(read("op top(Tensor self, Tensor other) -> (Tensor a, Tensor b)\n  numbers other\n"
            "  forms   function out\n  aten_out out=Scalar values(x y)\n"
            "  body    self, self + other\n"
            "op quiet(Tensor self) -> Tensor\n  forms   function out\n  aten_out none\n"
            "  body    self\n"));
    EQ_STR(writing("top"), "aten::top.out(Tensor self, Scalar other, *, Tensor(a!) a, "
                           "Tensor(b!) b) -> (Tensor(a!) a, Tensor(b!) b)\n"
                           "aten::top.values(Tensor self, Tensor other, *, Tensor(a!) x, "
                           "Tensor(b!) y) -> (Tensor(a!) a, Tensor(b!) b)\n");
    EQ_STR(writing("quiet"), "");
    FAILS(CR_VALUE, read("op lost(Tensor self) -> Tensor\n  forms   function out\n"
                         "  aten_out out=Scalar\n  body    self\n"));
    FAILS(CR_VALUE,
          read("op both(Tensor self) -> Tensor\n  forms   out copied\n  body    self\n"));
}
