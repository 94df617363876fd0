/* source.h - the bytes of a file, read by position.
 *
 * A source has a refcount.  It is an open file, a private mapping, or a block of memory.
 * Reading bytes that are not in the source is a failure; there are no short reads. */
#ifndef CR_IO_SOURCE_H
#define CR_IO_SOURCE_H

#include "base/error.h"

typedef struct cr_source cr_source;

/* The caller owns *out.  CR_IO when the file cannot be opened. */
CR_MUST cr_status cr_source_open(cr_source **out, const char *path);
/* The bytes of an open file after position `start`.  `fd` is duplicated. */
CR_MUST cr_status cr_source_file(cr_source **out, int fd, uint64_t start);
/* A private mapping of the file: writes to the memory do not change the file.  Other programs
 * must not shorten the file meanwhile. */
CR_MUST cr_status cr_source_map(cr_source **out, int fd);
/* A mapped source of the same file. */
CR_MUST cr_status cr_source_remap(cr_source **out, const cr_source *file);
/* A source over `bytes`.  `release(owner)` is called once, when the refcount becomes zero; it
 * may be NULL. */
CR_MUST cr_status cr_source_memory(cr_source **out, void *bytes, size_t len,
                                   void (*release)(void *), void *owner);
cr_source *cr_source_keep(cr_source *s);
void cr_source_drop(cr_source *s);

uint64_t cr_source_size(const cr_source *s);
/* Copies bytes [at, at + len).  Fails with CR_IO when they are not in the source. */
CR_MUST cr_status cr_source_read(const cr_source *s, uint64_t at, size_t len, void *to);
/* The address of byte `at`, borrowed from the source; NULL when the source is a file. */
char *cr_source_bytes(const cr_source *s, uint64_t at);

#endif
