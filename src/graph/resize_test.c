/* Types of a graph for other sizes. */
#include "base/test.h"
#include "graph/graph.h"
#include <string.h>

enum { PROBES = 2 };

typedef struct {
    cr_session s;
    const char *text;
    cr_graph *g;
    cr_gsizes *sizes;
} resized;

static void parse(cr_session *s, void *context)
{
    resized *r = context;

    r->g = cr_graph_parse(s, r->text);
}

/* The first size of %x is number 0, which is 4 in the text and 7 at the other probe. */
static const cr_gvarying_dims inputs = {1, 1, (cr_gvarying_dim[]){{.input = 0, .number = 0}}};

static void begin(resized *r, const char *text)
{
    cr_scalar at[PROBES] = {cr_scalar_int(4), cr_scalar_int(7)};

    OK(cr_tensor_start());
    *r = (resized){.text = text};
    OK(cr_session_run(&r->s, parse, r));
    OK(cr_gsizes_new(&r->sizes, r->g, &inputs, (const cr_scalar *[]){&at[0], &at[1]}, PROBES));
}

static void end(resized *r)
{
    cr_gsizes_drop(r->sizes);
    cr_graph_drop(r->g);
    cr_session_drop(&r->s);
}

static cr_status set(resized *r, int64_t rows)
{
    cr_scalar value = cr_scalar_int(rows);

    return cr_gsizes_set(r->sizes, &value);
}

static const cr_gtype *type(const resized *r, const char *name)
{
    return &cr_graph_find(r->g, name)->type;
}

static int class_of(const resized *r, const char *name)
{
    return cr_gsizes_class(r->sizes, cr_graph_find(r->g, name));
}

#define LAYERS                                                                                 \
    "graph(%x: float32[4, 6], %w: float32[6]) {\n"                                             \
    "  %a: float32[4, 6] = mul(%x, %w)\n"                                                      \
    "  %b: float32[4, 6] = cumsum(%a, 1)\n"                                                    \
    "  %c: float32[4, 6] = mul(%b, %w)\n"                                                      \
    "  %t: float32[6, 4] by [1, 6] = transpose.int(%c, 0, 1)\n"                                \
    "  %v: float32[6] = exp(%w)\n"                                                             \
    "  return %t, %v\n"                                                                        \
    "}\n"

TEST(rules_give_the_types_of_other_sizes)
{
    resized r;

    begin(&r, LAYERS);
    OK(set(&r, 9));
    EQ(type(&r, "c")->size[0], 9);
    EQ(type(&r, "t")->size[1], 9);
    EQ(type(&r, "t")->stride[1], 6);
    OK(set(&r, 5));
    EQ(type(&r, "t")->size[1], 5);
    end(&r);
}

TEST(equal_calls_of_equal_types_are_one_rule)
{
    resized r;

    begin(&r, LAYERS);
    EQ(class_of(&r, "x"), class_of(&r, "c"));
    CHECK(class_of(&r, "w") != class_of(&r, "c"));
    EQ(cr_gsizes_rule(r.sizes, cr_graph_find(r.g, "a")->by),
       cr_gsizes_rule(r.sizes, cr_graph_find(r.g, "c")->by));
    EQ(cr_gsizes_rules(r.sizes), 4);
    CHECK(cr_gsizes_is_fixed(r.sizes, class_of(&r, "v")));
    CHECK(!cr_gsizes_is_fixed(r.sizes, class_of(&r, "c")));
    end(&r);
}

TEST(a_size_that_becomes_one_is_refused)
{
    resized r;

    begin(&r, LAYERS);
    FAILS(CR_VALUE, set(&r, 1));
    OK(set(&r, 2));
    end(&r);
}

/* The first 8 rows are all rows at both probes. */
TEST(values_that_were_alike_at_the_probes_alone_are_refused)
{
    resized r;

    begin(&r, "graph(%x: float32[4, 6]) {\n"
              "  %s: float32[4, 6] = slice(%x, 0, 0, 8, 1)\n"
              "  %e: float32[4, 6] = exp(%s)\n"
              "  return %e\n"
              "}\n");
    EQ(class_of(&r, "x"), class_of(&r, "e"));
    OK(set(&r, 8));
    FAILS(CR_VALUE, set(&r, 9));
    OK(set(&r, 5));
    EQ(type(&r, "e")->size[0], 5);
    end(&r);
}
