/* shape_text.h - text for the messages of several shape rules. */
#ifndef CR_OPS_SHAPE_TEXT_H
#define CR_OPS_SHAPE_TEXT_H

#include "num/view.h"

enum { CR_SIZES_TEXT = 512 };

/* "[2, 3]"; truncated when it does not fit. */
const char *cr_sizes_text(char buffer[CR_SIZES_TEXT], int64_t ndim, const int64_t *size);
/* The name of a dtype in messages: "Float" and "float". */
const char *cr_legacy_name(const cr_view *v);
const char *cr_c_name(const cr_view *v);

/* Checks that `v` expands to the sizes, with the messages of expand. */
CR_MUST cr_status cr_check_expand(const cr_view *v, int ndim, const int64_t *size);

#endif
