/* where.h - the running line of the user's program. */
#ifndef CR_PY_BIND_COMPILE_WHERE_H
#define CR_PY_BIND_COMPILE_WHERE_H

#include "py/bind/bind.h"
#include "sym/session.h"

typedef struct cr_py_where cr_py_where;
/* Makes the cache; NULL with an exception. */
cr_py_where *cr_py_where_new(void);
void cr_py_where_drop(cr_py_where *w);

/* The folder of the library's file, "/.../cresset/" of "/.../cresset/_C.so"; a new reference,
 * NULL with an exception. */
PyObject *cr_py_package_folder(void);

/* The innermost frame outside of the folder, a new reference; NULL when there is none. */
PyFrameObject *cr_py_user_frame(PyObject *package);

/* The running line, such as "file.py:12", in the memory of the session, which must be the same
 * in all calls; NULL when it is unknown.  `context` is a cr_py_where.  For
 * cr_recorder_follow. */
const char *cr_py_where_now(void *context, cr_session *s);

#endif
