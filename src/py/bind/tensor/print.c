/* The elements of a tensor as text, for _tensor_str.py. */
#include "autograd/print.h"
#include "py/bind/bind.h"

/* _tensor_elements(tensor, indent, precision, threshold, edgeitems, linewidth, sci_mode) ->
 * str. The options are also those of later texts of the library. */
static PyObject *tensor_elements(PyObject *m, PyObject *args)
{
    PyObject *tensor, *scientific, *out;
    cr_print_options o = cr_printing;
    long long indent, edge, width;
    cr_text text = {0};

    (void)m;
    if (!PyArg_ParseTuple(args, "OLidLLO:_tensor_elements", &tensor, &indent, &o.precision,
                          &o.threshold, &edge, &width, &scientific))
        return NULL;
    if (!cr_py_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "expected a tensor");
    cr_py_note_read(cr_py_tensor_of(tensor), CR_READ_TEXT);
    if (PyErr_Occurred())
        return NULL;
    o.edge_items = edge < 0 ? 0 : edge;
    o.line_width = width;
    o.precision = o.precision < 0 ? 0 : o.precision;
    o.scientific = scientific == Py_None ? -1 : PyObject_IsTrue(scientific);
    cr_printing = o;
    cr_status st = cr_print_elements(&text, cr_py_tensor_of(tensor), indent);
    out = st ? cr_py_raise(st) : PyUnicode_FromString(text.at);
    cr_text_drop(&text);
    return out;
}

static PyMethodDef functions[] = {{"_tensor_elements", tensor_elements, METH_VARARGS, NULL},
                                  {0}};

int cr_py_print_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
