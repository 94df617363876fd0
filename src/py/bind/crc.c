/* The command crc inside of the extension: `python -m cresset crc` (tools/crc.c). */
#include "base/env.h"
#include "base/log.h"
#include "py/bind/bind.h"

/* crc's main, renamed when it is compiled for the extension. */
int cr_crc_main(int argc, char **argv);

/* The arguments with a name in front, NULL-terminated and borrowed from `words`. */
static char **crc_words(PyObject *words, int *argc)
{
    Py_ssize_t n = PyTuple_GET_SIZE(words);
    char **argv = PyMem_Calloc((size_t)n + 2, sizeof *argv);

    if (!argv)
        return (char **)(void *)PyErr_NoMemory();
    argv[0] = (char *)"crc";
    for (Py_ssize_t i = 0; i < n; i++) {
        argv[i + 1] = (char *)(uintptr_t)PyUnicode_AsUTF8(PyTuple_GET_ITEM(words, i));
        if (!argv[i + 1]) {
            PyMem_Free(argv);
            return NULL;
        }
    }
    *argc = (int)n + 1;
    return argv;
}

/* _crc(*words) -> the exit status of crc, which prints to the process's standard output. */
static PyObject *crc_run(PyObject *m, PyObject *words)
{
    int argc = 0, status;
    char **argv = crc_words(words, &argc);

    (void)m;
    if (!argv)
        return NULL;
    CR_PY_UNLOCKED(status = cr_crc_main(argc, argv));
    fflush(stdout);
    PyMem_Free(argv);
    return PyLong_FromLong(status);
}

/* _environment_help() -> (lines on environment variables, lines on CR_LOG's topics). */
static PyObject *crc_environment_help(PyObject *m, PyObject *unused)
{
    cr_text variables = {0}, topics = {0};
    PyObject *out;
    cr_status st;

    (void)m;
    (void)unused;
    cr_env_describe(&variables);
    cr_log_describe(&topics);
    st = cr_text_status(&variables);
    st = st ? st : cr_text_status(&topics);
    out = st ? cr_py_raise(st) : Py_BuildValue("ss", variables.at, topics.at);
    cr_text_drop(&variables);
    cr_text_drop(&topics);
    return out;
}

static PyMethodDef functions[] = {
    {"_crc", crc_run, METH_VARARGS, NULL},
    {"_environment_help", crc_environment_help, METH_NOARGS, NULL},
    {0}};

int cr_py_crc_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
