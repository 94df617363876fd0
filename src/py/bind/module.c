/* _C: the extension module.  The files of py/bind add its types and functions. */
#include "py/bind/bind.h"
#include "py/bind/compile/compiled.h"

static int (*const starts[])(PyObject *m) = {
    cr_py_dtype_start,       cr_py_device_start,       cr_py_constant_start,
    cr_py_size_start,        cr_py_storage_start,      cr_py_tensor_start,
    cr_py_generator_start,   cr_py_op_start,           cr_py_override_start,
    cr_py_number_start,      cr_py_make_start,         cr_py_numpy_start,
    cr_py_dlpack_start,      cr_py_legacy_start,       cr_py_print_start,
    cr_py_crc_start,         cr_py_gradmode_start,     cr_py_node_start,
    cr_py_function_start,    cr_py_engine_start,       cr_py_settings_start,
    cr_py_table_start,       cr_py_safetensors_start,  cr_py_nn_module_start,
    cr_py_graph_start,       cr_py_program_start,      cr_py_c_file_start,
    cr_py_aot_start,         cr_py_compiled_start,     cr_py_jit_start,
    cr_py_autocast_start,    cr_py_symbol_start,       cr_py_size_expression_start,
    cr_py_saved_hooks_start, cr_py_checkpoint_start,   cr_py_overload_start,
    cr_py_overridable_start, cr_py_backend_start,      cr_py_cuda_start,
    cr_py_cuda_graph_start,  cr_py_config_start,       cr_py_profile_start,
    cr_py_custom_start,      cr_py_archive_start,      cr_py_dispatch_start,
    cr_py_observed_start,    cr_py_script_start,       cr_py_comm_store_start,
    cr_py_comm_group_start,  cr_py_comm_reducer_start, cr_py_comm_parts_start,
    cr_py_comm_shard_start,  cr_py_comm_named_start,   cr_py_comm_agent_start,
    cr_py_defer_start,
};

static int start_library(void)
{
    cr_status st = cr_tensor_start();

    if (!st)
        st = cr_autograd_start();
    return st ? cr_py_raise_int(st) : 0;
}

/* Public functions say that their module is the package, which has them. */
static int name_functions(PyObject *m)
{
    PyObject *root = PyUnicode_InternFromString(cr_py_root()), *name, *function;
    Py_ssize_t at = 0;
    int done = root ? 0 : -1;

    while (done == 0 && PyDict_Next(PyModule_GetDict(m), &at, &name, &function))
        if (Py_IS_TYPE(function, &PyCFunction_Type) && *PyUnicode_AsUTF8(name) != '_')
            done = PyObject_SetAttrString(function, "__module__", root);
    Py_XDECREF(root);
    return done;
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_C", .m_size = -1};

CR_API PyMODINIT_FUNC PyInit__C(void);

CR_API PyMODINIT_FUNC PyInit__C(void)
{
    /* the library is loaded once, even if it is imported under several names */
    static PyObject *made;
    PyObject *m = made ? Py_NewRef(made) : PyModule_Create(&module);

    if (made)
        return m;
    if (!m || cr_py_root_start(m) < 0 || cr_py_raise_start(m) < 0 || start_library() < 0) {
        Py_XDECREF(m);
        return NULL;
    }
    for (size_t i = 0; i < CR_LEN(starts); i++)
        if (starts[i](m) < 0) {
            Py_DECREF(m);
            return NULL;
        }
    if (name_functions(m) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    made = Py_NewRef(m);
    return m;
}
