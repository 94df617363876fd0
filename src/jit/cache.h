/* cache.h - kernels on disk, and folders to compile in.
 *
 * <key>.so is a shared object with the kernel of that key and those compiled in one run with
 * it: the same file under several names.  Behind the object stand the kernels' sources and a
 * seal over all of it, so that a damaged file, or another kernel under the same key, is a miss.
 * Several processes may share the folder.  Every function may be called from any thread.
 *
 * A folder or file is used only when this user owns it, no other user may write to it, and it
 * is no symbolic link; that holds for root, too.  The log says once why a folder is not used. */
#ifndef CR_JIT_CACHE_H
#define CR_JIT_CACHE_H

#include "base/text.h"

enum { CR_CACHE_KEY = 32 }; /* hexadecimal digits */

/* The symbol's address in the file of that key, or NULL: not there, or unusable, which the
 * log says (CR_LOG=cache).  The object stays loaded. */
void *cr_cache_find(const char *key, const char *symbol, const char *source);

/* Copies the object in the open folder `from` to the cache under each of the keys.  The log says
 * why one is not kept. */
void cr_cache_keep(int from, const char *object, int n, const char *const *key, const char *const *source);

/* What was found out about the kernel of that key: a text in <key>.sc, sealed and replaced as a
 * whole.  Reading gives false where there is none or it is torn; the caller drops *out.  Writing
 * fails with CR_IO. */
bool cr_cache_read_note(cr_text *out, const char *key);
CR_MUST cr_status cr_cache_write_note(const char *key, const char *text);

/* Loads an object file in the open folder `dir`; the address of the symbol in it, or NULL with a
 * record of the reason.  The loader knows an object by descriptor and name: a name that was loaded
 * from a folder is not to be used again for another object of this process. */
void *cr_cache_load(int dir, const char *object, const char *symbol);

/* An open folder. */
typedef struct {
    int dir; /* its descriptor */
    cr_text path;
} cr_cache_folder;

/* A new folder to compile in: place 0 is where temporary files are, 1 is in the cache.  The
 * caller ends it with cr_cache_work_end, which removes the folder and drops *out.  CR_IO, CR_MEMORY. */
enum { CR_CACHE_PLACES = 2 };
CR_MUST cr_status cr_cache_work(cr_cache_folder *out, int place);
void cr_cache_work_end(cr_cache_folder *f);

/* Removes what ended processes left, and the kernels longest unused while there are more than
 * CR_CACHE_LIMIT megabytes of them.  Quick; to be called now and then. */
void cr_cache_tidy(void);

#endif
