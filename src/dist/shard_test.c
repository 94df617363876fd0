#include "base/test.h"
#include "dist/shard.h"
#include "ops/ops.h"

static cr_strategies found;

/* A tensor of floats without bytes. */
static cr_tensor *fake(int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;
    cr_device meta = {.kind = CR_CPU, .fake = true};

    OK(cr_tensor_start());

    OK(cr_tensor_new(&t, CR_F32, meta, ndim, size));
    return t;
}

static bool has(int a, int b, int out)
{
    for (int n = 0; n < found.count; n++)
        if (found.strategy[n].operand[0] == a && found.strategy[n].operand[1] == b &&
            found.strategy[n].result[0] == out)
            return true;
    return false;
}

static void find(const char *name, cr_tensor *a, cr_tensor *b, const int8_t *placed)
{
    const cr_op *op = cr_ops_find(name);
    cr_value arg[CR_MAX_ARGS] = {cr_of_tensor(a), cr_of_tensor(b)};

    for (int i = b ? 2 : 1; i < op->param_count; i++)
        arg[i] = op->param[i].preset;
    OK(cr_shard_strategies(&found, op, arg, 2, placed, placed ? 2 : 0));
}

TEST(a_product_is_split_along_rows_columns_and_its_sum)
{
    cr_tensor *a = fake(2, (int64_t[]){4, 6}), *b = fake(2, (int64_t[]){6, 8});

    find("mm", a, b, NULL);
    EQ(found.count, 4);
    EQ(has(0, CR_PLACE_REPLICATE, 0), true);
    EQ(has(CR_PLACE_REPLICATE, 1, 1), true);
    EQ(has(1, 0, CR_PLACE_SUM), true);
    cr_drop(a);
    cr_drop(b);
}

TEST(a_sum_of_partial_tensors_is_partial_and_their_product_is_not)
{
    cr_tensor *a = fake(1, (int64_t[]){4}), *b = fake(1, (int64_t[]){4});
    int8_t placed[] = {CR_PLACE_SUM, CR_PLACE_SUM};

    find("add", a, b, placed);
    EQ(has(CR_PLACE_SUM, CR_PLACE_SUM, CR_PLACE_SUM), true);
    EQ(found.strategy[cr_shard_cheapest(&found)].cost == 0, true);
    find("mul", a, b, placed);
    EQ(has(CR_PLACE_SUM, CR_PLACE_SUM, CR_PLACE_SUM), false);
    cr_drop(a);
    cr_drop(b);
}

TEST(a_dim_of_one_is_divided_only_where_an_operand_is)
{
    cr_tensor *a = fake(2, (int64_t[]){1, 6}), *b = fake(2, (int64_t[]){1, 6});
    int8_t placed[] = {0, CR_PLACE_REPLICATE};

    find("add", a, b, NULL);
    EQ(has(0, 0, 0), false);
    find("add", a, b, placed);
    EQ(has(0, 0, 0), true);
    EQ(found.strategy[cr_shard_cheapest(&found)].operand[0], 0);
    cr_drop(a);
    cr_drop(b);
}

TEST(a_scan_needs_its_dim_whole)
{
    cr_tensor *a = fake(2, (int64_t[]){4, 6});
    const cr_op *op = cr_ops_find("cumsum");
    cr_value arg[] = {cr_of_tensor(a), cr_of_int(1), cr_of_none()};

    OK(cr_shard_strategies(&found, op, arg, 2, NULL, 0));
    EQ(found.count, 2);
    EQ(found.strategy[1].operand[0], 0);
    cr_drop(a);
}

TEST(an_entry_whose_sizes_depend_on_values_is_whole)
{
    cr_tensor *a = fake(1, (int64_t[]){4});

    find("nonzero", a, NULL, NULL);
    EQ(found.count, 1);
    EQ(found.rule, NULL);
    cr_drop(a);
}

TEST(rows_that_are_looked_up_are_split_and_their_elements_partial)
{
    cr_tensor *weight = fake(2, (int64_t[]){8, 3}), *at = NULL;
    cr_device meta = {.kind = CR_CPU, .fake = true};
    int8_t placed[] = {0, CR_PLACE_REPLICATE};
    const cr_strategy *s;

    OK(cr_tensor_new(&at, CR_I64, meta, 2, (int64_t[]){5, 2}));
    find("embedding", weight, at, placed);
    s = &found.strategy[cr_shard_cheapest(&found)];
    EQ(s->operand[0], 0);
    EQ(s->result[0], CR_PLACE_SUM);
    EQ(s->looked, 1);
    EQ(s->over[0], 0);
    EQ(s->over[1], 1);
    EQ(s->over[2], -1);
    cr_drop(weight);
    cr_drop(at);
}
