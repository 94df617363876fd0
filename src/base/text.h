/* text.h - a growing string.  `cr_text t = {0}` is empty; drop it at the end.
 *
 * A failed append is remembered: the text then stays as it is, and
 * cr_text_status tells.  So a printer checks once, at its end. */
#ifndef CR_BASE_TEXT_H
#define CR_BASE_TEXT_H

#include "base/error.h"

typedef struct {
    char *at; /* NUL-terminated once something was appended */
    size_t len, cap;
    cr_status failed;
} cr_text;

void cr_text_put(cr_text *t, const char *s);
void cr_text_put_n(cr_text *t, const char *s, size_t n);
void cr_text_char(cr_text *t, char c);
void cr_text_printf(cr_text *t, const char *fmt, ...) CR_PRINTF(2, 3);
void cr_text_pad(cr_text *t, size_t n, char c);
CR_MUST cr_status cr_text_status(const cr_text *t);
/* The string, "" when nothing was appended; borrowed from `t`. */
const char *cr_text_str(const cr_text *t);
void cr_text_drop(cr_text *t);

/* A whole file as a NUL-terminated string (owned; *len without the NUL).  CR_IO. */
CR_MUST cr_status cr_read_file(char **out, size_t *len, const char *path);
/* Writes beside `path` and renames, so readers see the old file or the new.  CR_IO. */
CR_MUST cr_status cr_write_file(const char *path, const void *bytes, size_t len);

#endif
