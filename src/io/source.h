/* source.h - the bytes of a file, read by position.
 *
 * A source is counted.  It is an open file, which is read, or memory: a private
 * mapping or somebody's block.  What is not there is a failure, never a short read. */
#ifndef CR_IO_SOURCE_H
#define CR_IO_SOURCE_H

#include "base/error.h"

typedef struct cr_source cr_source;

/* The caller owns *out.  CR_IO when the file cannot be opened. */
CR_MUST cr_status cr_source_open(cr_source **out, const char *path);
/* What follows position `start` of an open file; `fd` is duplicated. */
CR_MUST cr_status cr_source_file(cr_source **out, int fd, uint64_t start);
/* The same, mapped privately: changes to the memory do not reach the file.  The file must not
 * be shortened by others meanwhile. */
CR_MUST cr_status cr_source_map(cr_source **out, int fd);
/* A source of files, again, but mapped. */
CR_MUST cr_status cr_source_remap(cr_source **out, const cr_source *file);
/* `release(owner)` is called once, when the last user goes; it may be NULL. */
CR_MUST cr_status cr_source_memory(cr_source **out, void *bytes, size_t len,
                                   void (*release)(void *), void *owner);
cr_source *cr_source_keep(cr_source *s);
void cr_source_drop(cr_source *s);

uint64_t cr_source_size(const cr_source *s);
/* Copies bytes [at, at + len); CR_IO when they are not there. */
CR_MUST cr_status cr_source_read(const cr_source *s, uint64_t at, size_t len, void *to);
/* The byte at `at`, borrowed from the source; NULL when the source is not memory. */
char *cr_source_bytes(const cr_source *s, uint64_t at);

#endif
