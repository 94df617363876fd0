/* Threads that run one program, and threads that compile programs.  The thread checker runs
 * these tests (make test-tsan). */
#include "autograd/autograd.h"
#include "base/test.h"
#include "script/archive.h"
#include "script/execute.h"
#include "script/freeze.h"
#include "tensor/tensor.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20 };

static const char source[] =
    "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n  w : Tensor\n"
    "  training : bool\n  k : int\n"
    "  def forward(self: __torch__.M,\n    x: Tensor,\n    n: int) -> Tuple[Tensor, str]:\n"
    "    y = x\n    seen = annotate(Dict[str, int], {})\n"
    "    for i in range(n):\n      if torch.gt(i, self.k):\n"
    "        y = torch.tanh(torch.mul(y, self.w))\n      else:\n        y = (self).step(y, )\n"
    "      torch._set_item(seen, torch.format(\"{}\", i), i)\n"
    "    return (y, torch.join(\" \", torch.keys(seen)))\n"
    "  def step(self: __torch__.M,\n    y: Tensor) -> Tensor:\n"
    "    return torch.add(y, self.w, alpha=2)\n"
    "class Last(Module):\n  __parameters__ = []\n  __buffers__ = []\n  x : Tensor\n"
    "  def forward(self: __torch__.Last,\n    x: Tensor) -> Tensor:\n"
    "    self.x = torch.neg(x)\n    return torch.add(self.x, self.x)\n";

static cr_status read_source(void *context, const char *qualifier, const char **text,
                             size_t *len)
{
    (void)context;
    *text = strcmp(qualifier, "__torch__") ? NULL : source;
    *len = sizeof source - 1;
    return CR_OK;
}

static cr_tensor *ones(bool grad)
{
    const int64_t size[] = {8};
    cr_tensor *x = NULL;

    OK(cr_tensor_new(&x, CR_F32, CR_HOST, 1, size));
    for (int i = 0; i < 8; i++)
        ((float *)x->address)[i] = 0.5f;
    if (grad)
        OK(cr_set_requires_grad(x, true));
    return x;
}

/* An object whose attributes are None. */
static cr_ivalue object_of(const char *name)
{
    cr_sarchive a = {read_source, NULL, NULL, 0, 10};
    cr_sunit *u = cr_sunit_new();
    cr_sclass *cls = NULL;
    cr_ivalue v = cr_iv_none();

    OK(cr_sunit_import(u, &a, name, &cls));
    OK(cr_iobject_new(&v, cls->type, u, cls->attributes.len));
    cr_sunit_release(u);
    return v;
}

/* A module whose parameter requires gradients. */
static cr_ivalue module_of_source(void)
{
    cr_ivalue v = object_of("__torch__.M");

    cr_ivalue_set(&v.object->slot[0], cr_iv_tensor(ones(true)));
    cr_ivalue_set(&v.object->slot[1], cr_iv_bool(false));
    cr_ivalue_set(&v.object->slot[2], cr_iv_int(2));
    return v;
}

static void run(const cr_ivalue *module)
{
    cr_sfunction *f = cr_sclass_method(module->object->type->cls, "forward");
    cr_ivalue args[] = {cr_ivalue_keep(*module), cr_iv_tensor(ones(false)), cr_iv_int(5)};
    cr_ivalue out = cr_iv_none();
    cr_srun how = {0};
    cr_text text = {0};

    OK(cr_sfunction_run(&out, f, args, 3, &how));
    OK(cr_ivalue_print(&text, &out));
    CHECK(strstr(cr_text_str(&text), "0 1 2 3 4"));
    cr_text_drop(&text);
    cr_ivalue_drop(out);
    cr_ivalues_drop(args, 3);
}

static void *run_often(void *module)
{
    for (int i = 0; i < ROUNDS; i++)
        run(module);
    return NULL;
}

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

static void write_and_read(const cr_ivalue *module)
{
    cr_text bytes = {0};
    cr_source *s = NULL;
    cr_ivalue again = cr_iv_none();

    OK(cr_sarchive_write(module, "m", NULL, 0, append, &bytes));
    OK(cr_source_memory(&s, bytes.at, bytes.len, NULL, NULL));
    OK(cr_sarchive_read(&again, s, NULL));
    run(&again);
    cr_iobject_clear(again.object);
    cr_ivalue_drop(again);
    cr_source_drop(s);
    cr_text_drop(&bytes);
}

static void *compile_and_run(void *unused)
{
    cr_ivalue module = module_of_source(), frozen = cr_iv_none();

    write_and_read(&module);
    OK(cr_sobject_freeze(&frozen, &module, NULL, 0, false));
    OK(cr_sobject_optimize(&frozen));
    run(&frozen);
    cr_iobject_clear(frozen.object);
    cr_ivalue_drop(frozen);
    cr_iobject_clear(module.object);
    cr_ivalue_drop(module);
    return unused;
}

static void in_threads(void *(*work)(void *), void *with)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&thread[i], NULL, work, with));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(thread[i], NULL));
}

static void start(void)
{
    OK(cr_tensor_start());
    OK(cr_autograd_start());
}

TEST(threads_run_one_program)
{
    start();
    cr_ivalue module = module_of_source();
    in_threads(run_often, &module);
    cr_iobject_clear(module.object);
    cr_ivalue_drop(module);
}

TEST(threads_compile_at_once)
{
    start();
    in_threads(compile_and_run, NULL);
}

static void *set_and_read(void *module)
{
    const cr_ivalue *m = module;
    cr_sfunction *f = cr_sclass_method(m->object->type->cls, "forward");

    for (int i = 0; i < ROUNDS; i++) {
        cr_ivalue args[] = {cr_ivalue_keep(*m), cr_iv_tensor(ones(false))}, out = cr_iv_none();
        OK(cr_sfunction_run(&out, f, args, 2, NULL));
        CHECK(((float *)out.t->address)[0] == -1);
        cr_ivalue_drop(out);
        cr_ivalues_drop(args, 2);
    }
    return NULL;
}

TEST(threads_set_one_attribute)
{
    start();
    cr_ivalue module = object_of("__torch__.Last");
    in_threads(set_and_read, &module);
    cr_iobject_clear(module.object);
    cr_ivalue_drop(module);
}
