/* c_file.h - inputs of files that recorded graphs are written to. */
#ifndef CR_PY_BIND_COMPILE_C_FILE_H
#define CR_PY_BIND_COMPILE_C_FILE_H

#include "compile/c_text.h"
#include "py/bind/bind.h"

/* What an input is, of (name, kind): 'argument', 'written', 'array', 'file', 'state array' or
 * 'state file'.  False with an exception. */
bool cr_py_c_input(cr_c_input *out, cr_tensor *t, PyObject *given);

#endif
