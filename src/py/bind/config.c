/* torch.__config__: how the library was built, and what it computes with. */
#include "base/isa.h"
#include "py/bind/bind.h"
#include "tensor/stated.h"

#ifdef __clang__
#define CONFIG_COMPILER "Clang " __clang_version__
#else
#define CONFIG_COMPILER "GCC " __VERSION__
#endif

/* The processor's instruction set under torch's name. */
static const char *config_capability(void)
{
    static const char *const names[] = {
        [CR_ISA_base] = "DEFAULT", [CR_ISA_avx2] = "AVX2", [CR_ISA_avx512] = "AVX512"};
    return names[cr_isa_chosen()];
}

/* _build_config() -> dict: compiler, C standard, instruction set. */
static PyObject *config_build(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return Py_BuildValue("{s:s,s:l,s:s}", "compiler", CONFIG_COMPILER, "standard",
                         (long)__STDC_VERSION__, "capability", config_capability());
}

/* _stated_kept_bytes() -> int: bytes of the plans for windows that this thread keeps. */
static PyObject *config_kept(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromSize_t(cr_stated_kept_bytes());
}

static PyMethodDef config_functions[] = {{"_build_config", config_build, METH_NOARGS, NULL},
                                         {"_stated_kept_bytes", config_kept, METH_NOARGS, NULL},
                                         {0}};

int cr_py_config_start(PyObject *m) { return PyModule_AddFunctions(m, config_functions); }
