/* where.h - which line of the user's program is running. */
#ifndef CR_PY_BIND_WHERE_H
#define CR_PY_BIND_WHERE_H

#include "py/bind/bind.h"
#include "sym/session.h"

typedef struct cr_py_where cr_py_where;
/* NULL with an exception. */
cr_py_where *cr_py_where_new(void);
void cr_py_where_drop(cr_py_where *w);

/* "file.py:12", of the session, which is always the same; NULL when nobody knows.  `context` is
 * a cr_py_where.  For cr_recorder_follow. */
const char *cr_py_where_now(void *context, cr_session *s);

#endif
