/* output.h - a file that appears only when it is complete.
 *
 * Bytes go to a file beside the target; cr_output_finish makes them durable and
 * renames.  Readers see the old file or the new, never a part. */
#ifndef CR_IO_OUTPUT_H
#define CR_IO_OUTPUT_H

#include "base/text.h"

typedef struct {
    int fd; /* -1 when closed */
    const char *path;
    cr_text part;
} cr_output;

/* `path` is borrowed until the end.  CR_IO. */
CR_MUST cr_status cr_output_open(cr_output *o, const char *path);
CR_MUST cr_status cr_output_put(cr_output *o, const void *bytes, size_t len);
/* Renames on success, removes otherwise; `st` is passed through when it is a failure. */
CR_MUST cr_status cr_output_close(cr_output *o, cr_status st);

#endif
