/* text.h - a growing string.  `cr_text t = {0}` is an empty one; cr_text_drop frees it.
 *
 * After a failed append the text no longer changes and cr_text_status returns the failure.  A
 * printer therefore checks the status once, at its end. */
#ifndef CR_BASE_TEXT_H
#define CR_BASE_TEXT_H

#include "base/error.h"

typedef struct {
    char *at; /* NUL-terminated after the first append; NULL before it */
    size_t len, cap;
    cr_status failed;
} cr_text;

void cr_text_put(cr_text *t, const char *s);
void cr_text_put_n(cr_text *t, const char *s, size_t n);
void cr_text_char(cr_text *t, char c);
void cr_text_printf(cr_text *t, const char *fmt, ...) CR_PRINTF(2, 3);
void cr_text_printf_va(cr_text *t, const char *fmt, va_list args);
void cr_text_pad(cr_text *t, size_t n, char c);
CR_MUST cr_status cr_text_status(const cr_text *t);
/* The string, "" when nothing was appended; borrowed from `t`. */
const char *cr_text_str(const cr_text *t);
void cr_text_drop(cr_text *t);

/* True for letters, digits and underscores that do not begin with a digit. */
bool cr_is_identifier(const char *s);

/* Reads a whole file as a NUL-terminated string, which the caller owns.  *len does not count
 * the NUL.  Fails with CR_IO. */
CR_MUST cr_status cr_read_file(char **out, size_t *len, const char *path);
/* Reads the rest of an open file like cr_read_file; errors name it `path`. */
CR_MUST cr_status cr_read_open_file(char **out, size_t *len, int fd, const char *path);
/* Writes all bytes to an open file; errors name it `path`.  CR_IO. */
CR_MUST cr_status cr_write_open_file(int fd, const void *bytes, size_t len, const char *path);
/* Writes a file beside `path` and renames it to `path`, so readers see either the old or the
 * new contents.  Fails with CR_IO. */
CR_MUST cr_status cr_write_file(const char *path, const void *bytes, size_t len);

#endif
