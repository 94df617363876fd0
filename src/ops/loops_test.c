/* The reader's and the resolver's checks of clauses `axes`, `loop`, `index` and `kernel`. */
#include "base/test.h"
#include "ops/ops.h"

static cr_status read(const char *text) { return cr_ops_read("test.op", text, strlen(text)); }

#define REFUSED(text, message)                                                                 \
    do {                                                                                       \
        FAILS(CR_VALUE, read(text));                                                           \
        EQ_STR(cr_error_message(), message);                                                   \
    } while (0)

#define HEAD "op l_x(Tensor self, Tensor index, int dim) -> Tensor\n"

TEST(wrong_clauses_of_loops_are_refused_with_file_and_line)
{
    REFUSED(HEAD "  axes    o.. i n..\n  loop    result[o, i, n] = self[o, i, n]\n",
            "test.op:2: only one pack takes the axes that others leave");
    REFUSED(HEAD "  axes    o. i\n", "test.op:2: a pack is written `o..`");
    REFUSED(HEAD "  axes    o.. i with j = 1\n", "test.op:2: no axis is called 'j'");
    REFUSED(HEAD "  axes    d..\n  loop    result = self\n", "test.op:3: expected ';', got ''");
    REFUSED(HEAD "  axes    d..\n  loop    result = 0; result = self[d]\n",
            "test.op:3: a loop defines an element of the result");
    REFUSED(HEAD "  index   dim in 5 : index \"text\"\n",
            "test.op:2: `index TENSOR in SIZE` expected");
    REFUSED(HEAD "  kernel  cpu cr_kern_cat\n",
            "test.op:2: a kernel follows the loop or the composition that states it");
    REFUSED(HEAD "  axes    d..\n  loop    result[d] = self[d]\n  extern  cr_kern_cat\n",
            "test.op:4: a second clause says what l_x does");
    REFUSED(HEAD "  axes    d..\n  loop    result = self; result[d] += 2\n  combine \"add\"\n",
            "test.op:4: `combine` stands after a loop with a start and `=`");
}

TEST(a_loop_has_axes_values_and_bounds)
{
    OK(read("op l_rows(Tensor self, Tensor index, int dim) -> Tensor\n"
            "  axes    o.. i n.. with o = dim\n"
            "  index   index in -size(self, dim), size(self, dim) : index \"{} is outside\", "
            "index\n"
            "  loop    result[o, i, n] = self[o, index[i], n]\n"
            "op l_add(Tensor self, Tensor index) -> Tensor\n  axes    d..\n"
            "  loop    result = self; result[index[d]] += 2\n"
            "op l_reduce(Tensor self, Tensor index, str how, bool keep) -> Tensor\n"
            "  axes    d..\n"
            "  loop    result = self; result[index[d]] = 2\n"
            "  combine how fresh not keep\n"));
    OK(cr_ops_resolve());
    EQ(cr_ops_find("l_reduce")->loop.combine != NULL, true);
    EQ(cr_ops_find("l_reduce")->loop.fresh != NULL, true);
    EQ(cr_ops_find("l_add")->loop.fresh == NULL, true);
    const cr_op *rows = cr_ops_find("l_rows"), *add = cr_ops_find("l_add");
    EQ(rows->does, CR_DOES_LOOP);
    EQ(rows->loop.axis_count, 3);
    EQ(rows->loop.axis[0].pack && !rows->loop.axis[1].pack && rows->loop.axis[2].pack, true);
    EQ(rows->loop.axis[0].count != NULL && rows->loop.axis[2].count == NULL, true);
    EQ(rows->loop.index_count, 1);
    EQ(rows->loop.index[0].param, 1);
    EQ(rows->loop.index[0].low != NULL, true);
    EQ(rows->loop.start == NULL && !rows->loop.adds, true);
    EQ(add->loop.start != NULL && add->loop.adds, true);
}

TEST(a_loop_folds_a_window)
{
    OK(read("op l_most(Tensor self, int[] sizes) -> (Tensor value, Tensor number)\n"
            "  axes    o.. p.. with p = 2\n"
            "  loop    value[o, p], number[o, p] = above_last_nan[u.. < sizes](u < 2 : self[o, "
            "p + u])\n"
            "op l_mean(Tensor self, int[] sizes) -> Tensor\n"
            "  axes    p..\n"
            "  loop    result[p] = add[u.. < sizes](self[p + u]) / product(sizes)\n"));
    OK(cr_ops_resolve());
    const cr_op *most = cr_ops_find("l_most"), *mean = cr_ops_find("l_mean");
    EQ(most->loop.window->how, CR_WINDOW_ABOVE_LAST_NAN);
    EQ(most->loop.axis_count, 3);
    EQ(most->loop.window->inside != NULL && most->loop.window->index != NULL, true);
    EQ(mean->loop.window->how, CR_WINDOW_ADD);
    EQ(mean->loop.window->inside == NULL && mean->loop.window->divisor != NULL, true);
    EQ(mean->loop.axis[1].pack && mean->loop.axis[1].count != NULL, true);
}

TEST(a_wrong_window_is_refused)
{
    REFUSED(HEAD "  axes    d..\n  loop    result[d], self[d] = index[d]\n",
            "test.op:3: a fold over a window expected");
    REFUSED(HEAD "  axes    d..\n  loop    result[d] = add[u..](self[d])\n",
            "test.op:3: expected '<', got ']'");
}

TEST(a_list_is_read_at_a_single_axis)
{
    OK(read("op l_join(Tensor[] all, int dim) -> Tensor\n  axes    o.. i n.. with o = dim\n"
            "  loop    result[o, i, n] = all[i][o, i, n]\n"));
    OK(cr_ops_resolve());
    EQ(cr_ops_find("l_join")->loop.value->args[0]->kind, CR_RULE_INDEX);
}

TEST(a_loop_without_a_start_defines_every_element)
{
    OK(read("op l_part(Tensor self) -> Tensor\n  axes    d..\n  loop    result[d - 1] = "
            "self[d]\n"));
    FAILS(CR_VALUE, cr_ops_resolve());
    EQ_STR(
        cr_error_message(),
        "test.op:1: l_part: a loop without a start defines the element at its axes, in order");
}
