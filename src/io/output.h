/* output.h - a file that becomes visible only when it is complete.
 *
 * Bytes go to a temporary file beside the target.  cr_output_close syncs this file and renames
 * it.  Readers therefore see the old file or the complete new one. */
#ifndef CR_IO_OUTPUT_H
#define CR_IO_OUTPUT_H

#include "base/text.h"

typedef struct {
    int fd; /* -1 after cr_output_close */
    const char *path;
    cr_text part;
} cr_output;

/* Opens the temporary file.  `path` is borrowed until cr_output_close.  Fails with CR_IO. */
CR_MUST cr_status cr_output_open(cr_output *o, const char *path);
CR_MUST cr_status cr_output_put(cr_output *o, const void *bytes, size_t len);
/* Closes the temporary file.  Renames it when `st` is CR_OK, deletes it otherwise.  Returns
 * `st` when it is a failure, or else the failure to sync or rename. */
CR_MUST cr_status cr_output_close(cr_output *o, cr_status st);

#endif
