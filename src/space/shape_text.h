/* shape_text.h - text for the messages of several shape rules. */
#ifndef CR_SPACE_SHAPE_TEXT_H
#define CR_SPACE_SHAPE_TEXT_H

#include "num/view.h"

enum { CR_SIZES_TEXT = 2048 };

/* "[2, 3]"; truncated when it does not fit. */
const char *cr_sizes_text(char buffer[CR_SIZES_TEXT], int64_t ndim, const int64_t *size);
/* The same in a buffer that lives until the end of the enclosing block. */
#define cr_shape_text(ndim, size) cr_sizes_text((char[CR_SIZES_TEXT]){0}, ndim, size)
#define cr_view_text(v)           cr_shape_text((v)->ndim, (v)->size)
/* The names of a dtype in messages: "Float" and "float". */
static inline const char *cr_legacy_name(const cr_view *v)
{
    return cr_dtype_infos[v->dtype].legacy;
}
static inline const char *cr_c_name(const cr_view *v)
{
    return cr_dtype_cpp_name((cr_dtype)v->dtype);
}

/* Checks that `v` expands to the sizes, with the messages of expand. */
CR_MUST cr_status cr_check_expand(const cr_view *v, int ndim, const int64_t *size);

#endif
