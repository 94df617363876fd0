/* Threads that share the programs of a TorchScript function.  The thread checker runs these
 * tests (make test-tsan). */
#include "autograd/autograd.h"
#include "base/test.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "script/archive.h"
#include "script/execute.h"
#include "tensor/tensor.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 60 };

static const char source[] =
    "class M(Module):\n  __parameters__ = []\n  __buffers__ = [\"w\", ]\n  w : Tensor\n  k : "
    "int\n"
    "  def forward(self: __torch__.M,\n    x: Tensor,\n    n: int) -> Tensor:\n    y = x\n"
    "    for i in range(n):\n      y = (self).step(torch.mul(y, self.w), )\n"
    "    return torch.add(y, self.k)\n"
    "  def step(self: __torch__.M,\n    y: Tensor) -> Tensor:\n"
    "    z = torch.add(y, 1)\n    _0 = torch.add_(z, y)\n    return z\n";

static cr_status read_source(void *context, const char *qualifier, const char **text,
                             size_t *len)
{
    (void)context;
    *text = strcmp(qualifier, "__torch__") ? NULL : source;
    *len = sizeof source - 1;
    return CR_OK;
}

static cr_tensor *filled(int64_t n, float value)
{
    cr_tensor *x = NULL;

    OK(cr_tensor_new(&x, CR_F32, CR_HOST, 1, &n));
    for (int64_t i = 0; i < n; i++)
        ((float *)x->address)[i] = value;
    return x;
}

static cr_ivalue module_new(void)
{
    cr_sarchive a = {read_source, NULL, NULL, 0, 10};
    cr_sunit *u = cr_sunit_new();
    cr_sclass *cls = NULL;
    cr_ivalue v = cr_iv_none();

    OK(cr_sunit_import(u, &a, "__torch__.M", &cls));
    OK(cr_iobject_new(&v, cls->type, u, cls->attributes.len));
    cr_sunit_release(u);
    cr_ivalue_set(&v.object->slot[0], cr_iv_tensor(filled(1, 0.5f)));
    cr_ivalue_set(&v.object->slot[1], cr_iv_int(2));
    return v;
}

/* y becomes 2 * (y / 2) + 1 in each of n steps. */
static void run(const cr_ivalue *module, int64_t size, int n)
{
    cr_sfunction *f = cr_sclass_method(module->object->type->cls, "forward");
    cr_ivalue args[] = {cr_ivalue_keep(*module), cr_iv_tensor(filled(size, 3)), cr_iv_int(n)};
    cr_ivalue out = cr_iv_none();

    OK(cr_sfunction_run(&out, f, args, 3, NULL));
    EQ(out.t->numel, size);
    for (int64_t i = 0; i < size; i++)
        EQ(((float *)out.t->address)[i], 3.0f + (float)n + 2);
    cr_ivalue_drop(out);
    cr_ivalues_drop(args, 3);
}

static void *run_often(void *module)
{
    for (int i = 0; i < ROUNDS; i++)
        run(module, 8 << i % 3, 2);
    return NULL;
}

/* Once in the process: stages are installed. */
static void start(void)
{
    static bool started;

    if (started)
        return;
    started = true;
    setenv("CR_CC", "false", 1); /* tiles only: nothing is compiled or cached */
    OK(cr_tensor_start());
    OK(cr_autograd_start());
    cr_graph_start();
    cr_scripted_start();
}

static void run_in_threads(int mode, const char *state)
{
    pthread_t thread[THREADS];
    cr_text text = {0};

    start();
    int was = cr_scripted_set_mode(mode);
    cr_ivalue module = module_new();
    for (int i = 0; i < THREADS; i++)
        OK(pthread_create(&thread[i], NULL, run_often, &module));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(thread[i], NULL));
    OK(cr_scripted_print(&text, cr_sclass_method(module.object->type->cls, "forward")));
    CHECK(strstr(cr_text_str(&text), state));
    cr_text_drop(&text);
    cr_scripted_set_mode(was);
    cr_iobject_clear(module.object);
    cr_ivalue_drop(module);
}

TEST(threads_share_forced_programs) { run_in_threads(CR_SCRIPTED_ALWAYS, "is used"); }

TEST(threads_share_measured_programs) { run_in_threads(CR_SCRIPTED_MEASURED, "graph("); }
