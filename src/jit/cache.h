/* cache.h - kernels on disk, and folders to compile in.
 *
 * <key>.so is a shared object with the kernel of that key and those compiled in one run with
 * it: the same file under several names.  Behind the object stand the kernels' sources and a
 * seal over all of it, so that a torn file, or another kernel under the same key, is a miss.
 * Several processes may share the folder.  Every function may be called from any thread. */
#ifndef CR_JIT_CACHE_H
#define CR_JIT_CACHE_H

#include "base/text.h"

enum { CR_CACHE_KEY = 32 }; /* hexadecimal digits */

/* The symbol's address in the file of that key, or NULL: not there, or unusable, which the
 * log says (CR_LOG=cache).  The object stays loaded. */
void *cr_cache_find(const char *key, const char *symbol, const char *source);

/* Copies the object to the cache under each of the keys.  CR_IO says why it is not kept. */
CR_MUST cr_status cr_cache_keep(const char *object, int n, const char *const *key, const char *const *source);

/* What was found out about the kernel of that key: a text in <key>.sc, sealed and replaced as a
 * whole.  Reading gives false where there is none or it is torn; the caller drops *out.  Writing
 * fails with CR_IO. */
bool cr_cache_read_note(cr_text *out, const char *key);
CR_MUST cr_status cr_cache_write_note(const char *key, const char *text);

/* Loads an object file; the address of the symbol in it, or NULL with a record of the reason. */
void *cr_cache_load(const char *object, const char *symbol);

/* A new folder to compile in: place 0 is where temporary files live, 1 is in the cache.  The
 * caller drops *out and removes the folder with cr_cache_work_end.  CR_IO, CR_MEMORY. */
enum { CR_CACHE_PLACES = 2 };
CR_MUST cr_status cr_cache_work(cr_text *out, int place);
void cr_cache_work_end(const char *folder);

/* Removes what ended processes left, and the kernels longest unused while there are more than
 * CR_CACHE_LIMIT megabytes of them.  Quick; to be called now and then. */
void cr_cache_tidy(void);

#endif
