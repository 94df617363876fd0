#include "base/test.h"
#include "script/execute_impl.h"
#include "script/operators.h"
#include "tensor/tensor.h"
#include <stdio.h>

/* The source files of an archive. */
typedef struct {
    const char *qualifier, *text;
} file;

static cr_status read_file(void *context, const char *qualifier, const char **text, size_t *len)
{
    *text = NULL;
    for (const file *f = context; f->qualifier; f++)
        if (!strcmp(f->qualifier, qualifier)) {
            *text = f->text;
            *len = strlen(f->text);
        }
    return CR_OK;
}

static cr_status import_into(cr_sunit *u, const file *files, cr_sclass **out)
{
    static const cr_sconstant two = {.type = CR_STYPE_OF(FLOAT), .d = {2}};
    cr_sarchive a = {read_file, (void *)files, &two, 1, 3};

    return cr_sunit_import(u, &a, "__torch__.M", out);
}

/* The graph of a method, or the error's message. */
static void method_is(const char *source, const char *method, const char *want)
{
    const file files[] = {{"__torch__", source}, {NULL, NULL}};
    cr_sunit *u = cr_sunit_new();
    cr_text text = {0};
    cr_status started = cr_tensor_start();
    cr_sclass *cls = NULL;
    cr_sfunction *f = import_into(u, files, &cls) ? NULL : cr_sclass_method(cls, method);

    OK(started);
    if (f)
        cr_sgraph_print(&text, f->graph, false);
    EQ_STR(f ? cr_text_str(&text) : cr_error_message(), want);
    cr_text_drop(&text);
    cr_sunit_release(u);
}

#define MODULE                                                                                 \
    "class M(Module):\n  __parameters__ = [\"weight\", ]\n  __buffers__ = []\n  weight : "     \
    "Tensor\n"

TEST(a_traced_method_is_straight_line_code)
{
    method_is(MODULE
              "  def forward(self: __torch__.M,\n    x: Tensor) -> Tuple[Tensor, Tensor]:\n"
              "    weight = self.weight\n"
              "    y = torch.max_pool2d(x, [2, 2], annotate(List[int], []), [0, 0], [1, 1])\n"
              "    _0 = torch.mul(torch.mean(y, [-1]), CONSTANTS.c0)\n"
              "    return (torch.add(_0, weight), y)\n",
              "forward",
              "graph(%self.1 : __torch__.M,\n"
              "      %x.2 : Tensor):\n"
              "  %3 : float = prim::Constant[value=2.]()\n"
              "  %4 : NoneType = prim::Constant()\n"
              "  %5 : int = prim::Constant[value=-1]()\n"
              "  %6 : bool = prim::Constant[value=0]()\n"
              "  %7 : int = prim::Constant[value=2]()\n"
              "  %8 : int = prim::Constant[value=0]()\n"
              "  %9 : int = prim::Constant[value=1]()\n"
              "  %weight.10 : Tensor = prim::GetAttr[name=\"weight\"](%self.1)\n"
              "  %11 : int[] = prim::ListConstruct(%7, %7)\n"
              "  %12 : int[] = prim::ListConstruct()\n"
              "  %13 : int[] = prim::ListConstruct(%8, %8)\n"
              "  %14 : int[] = prim::ListConstruct(%9, %9)\n"
              "  %y.15 : Tensor = aten::max_pool2d(%x.2, %11, %12, %13, %14, %6)\n"
              "  %16 : int[] = prim::ListConstruct(%5)\n"
              "  %17 : Tensor = aten::mean(%y.15, %16, %6, %4)\n"
              "  %18 : Tensor = aten::mul(%17, %3)\n"
              "  %19 : Tensor = aten::add(%18, %weight.10, %9)\n"
              "  %20 : (Tensor, Tensor) = prim::TupleConstruct(%19, %y.15)\n"
              "  return (%20)\n");
}

TEST(branches_and_loops_carry_what_they_change)
{
    method_is(MODULE
              "  def forward(self: __torch__.M,\n    x: Tensor,\n    n: int=3) -> Tensor:\n"
              "    y = x\n"
              "    for i in range(n):\n"
              "      if torch.gt(i, 1):\n"
              "        y0 = torch.add(y, i)\n"
              "      else:\n"
              "        y0 = y\n"
              "      y = y0\n"
              "    return y\n",
              "forward",
              "graph(%self : __torch__.M,\n"
              "      %x.2 : Tensor,\n"
              "      %n.3 : int):\n"
              "  %4 : bool = prim::Constant[value=1]()\n"
              "  %5 : int = prim::Constant[value=1]()\n"
              "  %y.6 : Tensor = prim::Loop(%n.3, %4, %x.2)\n"
              "    block0(%i.7 : int, %y.8 : Tensor):\n"
              "      %9 : bool = aten::gt(%i.7, %5)\n"
              "      %y0.10 : Tensor = prim::If(%9)\n"
              "        block0():\n"
              "          %y0.11 : Tensor = aten::add(%y.8, %i.7, %5)\n"
              "          -> (%y0.11)\n"
              "        block1():\n"
              "          -> (%y.8)\n"
              "      -> (%4, %y0.10)\n"
              "  return (%y.6)\n");
}

TEST(a_call_of_a_method_compiles_it_first)
{
    method_is("class M(Module):\n  k : Final[int] = 4\n"
              "  def forward(self: __torch__.M, x: int) -> int:\n    return (self).g(x, )\n"
              "  def g(self: __torch__.M, x: int) -> int:\n    return torch.mul(x, self.k)\n",
              "forward",
              "graph(%self.1 : __torch__.M,\n"
              "      %x.2 : int):\n"
              "  %3 : int = prim::CallMethod[name=\"g\"](%self.1, %x.2)\n"
              "  return (%3)\n");
}

TEST(an_unknown_operator_has_a_result_of_every_type)
{
    method_is(MODULE "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"
                     "    return torch.no_such_op(x)\n",
              "forward",
              "graph(%self : __torch__.M,\n"
              "      %x.2 : Tensor):\n"
              "  %3 : NoReturn = aten::no_such_op(%x.2)\n"
              "  return (%3)\n");
}

TEST(wrong_arguments_list_the_schemas)
{
    method_is(MODULE "  def forward(self: __torch__.M, x: str) -> Tensor:\n"
                     "    return torch.relu(x)\n",
              "forward",
              "\nArguments for call are not valid.\n"
              "The following variants are available:\n"
              "  \n"
              "  aten::relu(Tensor self) -> Tensor:\n"
              "  Expected a value of type 'Tensor' for argument 'self' but instead found type "
              "'str'.\n"
              "  \n"
              "  aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!):\n"
              "  Expected a value of type 'Tensor' for argument 'self' but instead found type "
              "'str'.\n"
              "\nThe original call is:\n"
              "  File \"code/__torch__.py\", line 6\n"
              "  weight : Tensor\n"
              "  def forward(self: __torch__.M, x: str) -> Tensor:\n"
              "    return torch.relu(x)\n"
              "           ~~~~~~~~~~ <--- HERE\n");
}

TEST(recursion_is_refused)
{
    method_is("class M(Module):\n"
              "  def f(self: __torch__.M) -> int:\n    return (self).f()\n",
              "f",
              "\nmethod 'f' is called recursively. Recursive calls are not supported:\n"
              "  File \"code/__torch__.py\", line 3\n"
              "class M(Module):\n"
              "  def f(self: __torch__.M) -> int:\n"
              "    return (self).f()\n"
              "            ~~~~~~~ <--- HERE\n");
}

TEST(every_builtin_schema_has_a_function)
{
    static const char *const schemas[] = {
#define CR_SBUILTIN(schema) schema,
#include "script/builtins.def"
#undef CR_SBUILTIN
    };
    char name[64];

    for (size_t i = 0; i < CR_LEN(schemas); i++) {
        size_t n = strcspn(schemas[i] + 6, ".(") + 6;
        snprintf(name, sizeof name, "%.*s", (int)n, schemas[i]);
        CHECK(!strstr(name, "::") || cr_builtin_find(name)); /* others are only for texts */
    }
}

TEST(every_builtin_schema_can_be_read)
{
    static const char *const names[] = {"aten::append", "aten::items",  "aten::strip",
                                        "prim::Print",  "aten::divmod", "aten::to"};
    const cr_sschemas *all;

    for (size_t i = 0; i < CR_LEN(names); i++) {
        OK(cr_soperators(&all, names[i]));
        CHECK(all->len);
    }
    OK(cr_soperators(&all, "aten::divmod"));
    EQ(all->at[0]->result_count, 2);
    OK(cr_soperators(&all, "aten::items"));
    EQ(all->at[0]->result_count, 1);
    OK(cr_soperators(&all, "aten::no_such"));
    EQ(all->len, 0);
}
