#include "base/test.h"
#include "script/unit.h"

typedef struct {
    cr_sunit *unit;
    cr_text text;
} made;

static void same(made *m, const char *want)
{
    EQ_STR(cr_text_str(&m->text), want);
    cr_text_drop(&m->text);
}

static void in_unit(cr_session_fn fn)
{
    made m = {.unit = cr_sunit_new()};

    CHECK(m.unit);
    OK(cr_session_run(cr_sunit_session(m.unit), fn, &m));
    cr_sunit_release(m.unit);
}

static void make_types(cr_session *s, void *context)
{
    made *m = context;
    const cr_stype *ints = cr_stype_list(m->unit, CR_STYPE_OF(INT));
    const cr_stype *pair[] = {cr_stype_optional(m->unit, ints), CR_STYPE_OF(TENSOR)};
    const cr_stype *t = cr_stype_tuple(m->unit, 2, pair, NULL);
    const cr_stype *of[] = {CR_STYPE_OF(INT), CR_STYPE_OF(NONE), CR_STYPE_OF(STR)};

    (void)s;
    cr_stype_print(&m->text, t);
    same(m, "(int[]?, Tensor)");
    cr_stype_annotate(&m->text, t);
    same(m, "Tuple[Optional[List[int]], Tensor]");
    cr_stype_print(&m->text, cr_stype_union(m->unit, 3, of));
    same(m, "Union(int, NoneType, str)");
    CHECK(cr_stype_union(m->unit, 2, of)->kind == CR_STYPE_OPTIONAL);
}

TEST(types_print_as_in_graphs_and_as_in_source) { in_unit(make_types); }

static void compare_types(cr_session *s, void *context)
{
    cr_sunit *u = ((made *)context)->unit;
    const cr_stype *maybe = cr_stype_optional(u, CR_STYPE_OF(INT));
    const cr_stype *ints = cr_stype_list(u, CR_STYPE_OF(INT));

    (void)s;
    CHECK(cr_stype_is_subtype(CR_STYPE_OF(INT), maybe));
    CHECK(cr_stype_is_subtype(CR_STYPE_OF(NONE), maybe));
    CHECK(!cr_stype_is_subtype(maybe, CR_STYPE_OF(INT)));
    CHECK(cr_stype_is_subtype(CR_STYPE_OF(FLOAT), CR_STYPE_OF(NUMBER)));
    CHECK(!cr_stype_is_subtype(CR_STYPE_OF(BOOL), CR_STYPE_OF(NUMBER)));
    CHECK(!cr_stype_is_subtype(ints, cr_stype_list(u, maybe)));
    CHECK(cr_stype_equal(ints, cr_stype_list(u, CR_STYPE_OF(INT))));
    CHECK(cr_stype_equal(cr_stype_join(u, CR_STYPE_OF(INT), CR_STYPE_OF(NONE)), maybe));
    CHECK(!cr_stype_join(u, CR_STYPE_OF(INT), CR_STYPE_OF(STR)));
}

TEST(an_optional_is_a_supertype_and_lists_are_invariant) { in_unit(compare_types); }

static void double_tuples(cr_session *s, void *context)
{
    cr_sunit *u = ((made *)context)->unit;
    const cr_stype *pair[2] = {CR_STYPE_OF(INT), CR_STYPE_OF(INT)};

    (void)s;
    for (;;)
        pair[0] = pair[1] = cr_stype_tuple(u, 2, pair, NULL);
}

TEST(a_type_that_doubles_is_refused)
{
    cr_sunit *u = cr_sunit_new();

    FAILS(CR_RUNTIME, cr_session_run(cr_sunit_session(u), double_tuples, &(made){.unit = u}));
    cr_sunit_release(u);
}

static void make_graph(cr_session *s, void *context)
{
    made *m = context;
    cr_sgraph *g = cr_sgraph_new(s, m->unit);
    cr_svalue *c = cr_sblock_input(g->body, "c", CR_STYPE_OF(BOOL));
    cr_svalue *x = cr_sblock_input(g->body, "x", CR_STYPE_OF(INT)), *one;
    cr_snode *choice = cr_snode_new(g->body, CR_SPRIM_IF, (cr_srange){0});
    const cr_sconstant value = {.type = CR_STYPE_OF(INT), .i = 1};

    cr_snode_input(choice, c);
    one = cr_sblock_constant(cr_snode_block(choice), &value, (cr_srange){0});
    cr_sblock_output(choice->block[0], one);
    cr_sblock_output(cr_snode_block(choice), x);
    cr_sblock_output(g->body, cr_snode_output(choice, "y", CR_STYPE_OF(INT)));
    cr_sgraph_print(&m->text, g, true);
    same(m, "graph(%c.1 : bool,\n"
            "      %x.2 : int):\n"
            "  %y.3 : int = prim::If(%c.1)\n"
            "    block0():\n"
            "      %4 : int = prim::Constant[value=1]()\n"
            "      -> (%4)\n"
            "    block1():\n"
            "      -> (%x.2)\n"
            "  return (%y.3)\n");
    EQ(x->uses, 1);
    cr_svalue_replace(g, x, c);
    EQ(x->uses, 0);
    EQ(c->uses, 2);
}

TEST(a_graph_prints_in_the_order_of_definitions) { in_unit(make_graph); }
