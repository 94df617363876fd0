/* The executor, on graphs that are made by hand. */
#include "autograd/autograd.h"
#include "base/test.h"
#include "script/execute_impl.h"
#include "tensor/tensor.h"

typedef struct {
    cr_sunit *unit;
    cr_session *s;
    cr_sgraph *graph;
    cr_sfunction *f;
} program;

static cr_srange nowhere;

static program begin(void)
{
    program p = {.unit = cr_sunit_new()};

    OK(cr_tensor_start());
    OK(cr_autograd_start());
    p.s = cr_sunit_session(p.unit);
    p.f = cr_sunit_add_function(p.unit, "f", NULL);
    p.graph = cr_sgraph_new(p.s, p.unit);
    p.f->graph = p.graph;
    return p;
}

static cr_svalue *whole(program *p, cr_sblock *b, int64_t i)
{
    cr_sconstant *c = CR_NEW(p->s, cr_sconstant);

    *c = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = i};
    return cr_sblock_constant(b, c, nowhere);
}

static cr_svalue *truth(program *p, cr_sblock *b, bool on)
{
    cr_sconstant *c = CR_NEW(p->s, cr_sconstant);

    *c = (cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = on};
    return cr_sblock_constant(b, c, nowhere);
}

/* A schema of `self` and `other` with one result, all of one type. */
static cr_sschema *schema_of_two(program *p, const char *name, const cr_stype *type)
{
    cr_sschema *s = CR_NEW(p->s, cr_sschema);

    *s = (cr_sschema){.name = name, .overload = "", .param_count = 2, .result_count = 1};
    s->param = CR_NEW_N(p->s, cr_sparam, 2);
    s->result = CR_NEW(p->s, cr_sparam);
    s->param[0] = (cr_sparam){.name = "self", .type = type};
    s->param[1] = (cr_sparam){.name = "other", .type = type};
    *s->result = (cr_sparam){.type = type};
    return s;
}

/* A call of a builtin with two arguments. */
static cr_svalue *binary(program *p, cr_sblock *b, const char *name, cr_svalue *x, cr_svalue *y,
                         const cr_stype *type)
{
    cr_snode *n = cr_snode_new(b, CR_SPRIM_OPERATOR, nowhere);

    n->schema = schema_of_two(p, name, type);
    cr_snode_input(n, x);
    cr_snode_input(n, y);
    return cr_snode_output(n, NULL, type);
}

static cr_status run(program *p, cr_ivalue *out, cr_ivalue *args, int n, uint64_t most)
{
    cr_srun how = {.most_steps = most};

    return cr_sfunction_run(out, p->f, args, n, &how);
}

/* total = 0; for i in range(n): total += i */
static void sum_below(program *p)
{
    cr_sblock *body = p->graph->body;
    cr_svalue *n = cr_sblock_input(body, "n", CR_STYPE_OF(INT));
    cr_svalue *start = whole(p, body, 0), *on = truth(p, body, true);
    cr_snode *loop = cr_snode_new(body, CR_SPRIM_LOOP, nowhere);
    cr_snode_input(loop, n);
    cr_snode_input(loop, on);
    cr_snode_input(loop, start);
    cr_sblock *inside = cr_snode_block(loop);
    cr_svalue *i = cr_sblock_input(inside, "i", CR_STYPE_OF(INT));
    cr_svalue *total = cr_sblock_input(inside, "total", CR_STYPE_OF(INT));
    cr_svalue *more = binary(p, inside, "aten::add", total, i, CR_STYPE_OF(INT));
    cr_sblock_output(inside, on);
    cr_sblock_output(inside, more);
    cr_sblock_output(body, cr_snode_output(loop, NULL, CR_STYPE_OF(INT)));
}

TEST(a_loop_carries_its_values)
{
    program p = begin();
    cr_ivalue arg = cr_iv_int(10), out;

    sum_below(&p);
    OK(run(&p, &out, &arg, 1, 0));
    EQ(out.kind, CR_IV_INT);
    EQ(out.i, 45);
    cr_sunit_release(p.unit);
}

TEST(a_call_stops_at_its_limit_of_steps)
{
    program p = begin();
    cr_ivalue arg = cr_iv_int(1000000), out;

    sum_below(&p);
    FAILS(CR_RUNTIME, run(&p, &out, &arg, 1, 100));
    CHECK(strstr(cr_error_message(), "limit of steps") != NULL);
    arg = cr_iv_int(10);
    OK(run(&p, &out, &arg, 1, 100));
    cr_sunit_release(p.unit);
}

/* a, b = 1, 2; for i in range(n): a, b = b, a */
TEST(a_loop_without_nodes_stops_at_the_limit)
{
    program p = begin();
    cr_sblock *body = p.graph->body;
    cr_svalue *n = cr_sblock_input(body, "n", CR_STYPE_OF(INT)), *on = truth(&p, body, true);
    cr_svalue *one = whole(&p, body, 1), *two = whole(&p, body, 2);
    cr_snode *loop = cr_snode_new(body, CR_SPRIM_LOOP, nowhere);
    cr_ivalue arg = cr_iv_int(1000000), out;

    cr_snode_input(loop, n);
    cr_snode_input(loop, on);
    cr_snode_input(loop, one);
    cr_snode_input(loop, two);
    cr_sblock *inside = cr_snode_block(loop);
    cr_sblock_input(inside, "i", CR_STYPE_OF(INT));
    cr_svalue *a = cr_sblock_input(inside, "a", CR_STYPE_OF(INT));
    cr_svalue *b = cr_sblock_input(inside, "b", CR_STYPE_OF(INT));
    cr_sblock_output(inside, on);
    cr_sblock_output(inside, b);
    cr_sblock_output(inside, a);
    cr_sblock_output(body, cr_snode_output(loop, NULL, CR_STYPE_OF(INT)));
    cr_snode_output(loop, NULL, CR_STYPE_OF(INT));
    FAILS(CR_RUNTIME, run(&p, &out, &arg, 1, 100));
    CHECK(strstr(cr_error_message(), "limit of steps") != NULL);
    arg = cr_iv_int(11);
    OK(run(&p, &out, &arg, 1, 100));
    EQ(out.i, 2);
    cr_sunit_release(p.unit);
}

TEST(a_branch_gives_the_value_of_the_block_that_ran)
{
    program p = begin();
    cr_sblock *body = p.graph->body;
    cr_svalue *on = cr_sblock_input(body, "on", CR_STYPE_OF(BOOL));
    cr_snode *n = cr_snode_new(body, CR_SPRIM_IF, nowhere);
    cr_ivalue arg = cr_iv_bool(true), out;

    cr_snode_input(n, on);
    for (int k = 0; k < 2; k++) {
        cr_sblock *b = cr_snode_block(n);
        cr_sblock_output(b, whole(&p, b, 7 + k));
    }
    cr_sblock_output(body, cr_snode_output(n, NULL, CR_STYPE_OF(INT)));
    OK(run(&p, &out, &arg, 1, 0));
    EQ(out.i, 7);
    arg = cr_iv_bool(false);
    OK(run(&p, &out, &arg, 1, 0));
    EQ(out.i, 8);
    cr_sunit_release(p.unit);
}

/* x * x with a schema of the table's entry */
static void square(program *p)
{
    cr_sblock *body = p->graph->body;
    cr_svalue *x = cr_sblock_input(body, "x", CR_STYPE_OF(TENSOR));
    cr_snode *n = cr_snode_new(body, CR_SPRIM_OPERATOR, nowhere);
    cr_sschema *schema = schema_of_two(p, "aten::mul", CR_STYPE_OF(TENSOR));

    schema->op = cr_ops_find("mul");
    n->schema = schema;
    cr_snode_input(n, x);
    cr_snode_input(n, x);
    cr_sblock_output(body, cr_snode_output(n, NULL, CR_STYPE_OF(TENSOR)));
}

TEST(an_operator_of_the_table_runs_and_is_recorded)
{
    program p = begin();
    cr_tensor *x;
    cr_ivalue arg, out;

    square(&p);
    OK(cr_tensor_scalar(&x, cr_scalar_float(3), CR_F32, false));
    OK(cr_set_requires_grad(x, true));
    arg = cr_iv_tensor(x);
    OK(run(&p, &out, &arg, 1, 0));
    EQ(*(float *)out.t->address, 9);
    CHECK(cr_requires_grad(out.t) && !cr_is_leaf(out.t));
    EQ(x->count > 1, true); /* the tape's reference */
    cr_ivalue_drop(out);
    cr_drop(x);
    cr_sunit_release(p.unit);
}

TEST(an_argument_of_another_kind_is_refused)
{
    program p = begin();
    cr_ivalue arg, out;

    square(&p);
    OK(cr_istring_new(&arg, "a", 1));
    FAILS(CR_RUNTIME, run(&p, &out, &arg, 1, 0));
    CHECK(strstr(cr_error_message(), "argument 'self'") != NULL);
    EQ(arg.box->count, 1);
    cr_ivalue_drop(arg);
    cr_sunit_release(p.unit);
}

TEST(python_rules_of_division_and_overflow)
{
    static const struct {
        const char *name;
        int64_t a, b, made;
    } cases[] = {{"aten::floordiv", -7, 2, -4},
                 {"aten::remainder", -7, 2, 1},
                 {"aten::remainder", 7, -2, -1},
                 {"aten::__round_to_zero_floordiv", -7, 2, -3},
                 {"aten::floordiv", INT64_MIN, -1, INT64_MIN},
                 {"aten::add", INT64_MAX, 1, INT64_MIN}};

    for (size_t i = 0; i < CR_LEN(cases); i++) {
        program p = begin();
        cr_sblock *body = p.graph->body;
        cr_svalue *a = cr_sblock_input(body, "a", CR_STYPE_OF(INT));
        cr_svalue *b = cr_sblock_input(body, "b", CR_STYPE_OF(INT));
        cr_ivalue args[2] = {cr_iv_int(cases[i].a), cr_iv_int(cases[i].b)}, out;
        cr_sblock_output(body, binary(&p, body, cases[i].name, a, b, CR_STYPE_OF(INT)));
        OK(run(&p, &out, args, 2, 0));
        EQ(out.i, cases[i].made);
        cr_sunit_release(p.unit);
    }
}
