/* cache.h - kernels on disk, and folders for compilations.
 *
 * <key>.so is a shared object with the kernel of that key and all other kernels of the same
 * compiler run: one file under several names.  The file ends with the kernels' sources and a
 * seal, a checksum of the file.  A damaged file, or another kernel under the same key, is
 * therefore a cache miss.  Several processes may share the folder.  Every function may be
 * called from any thread.
 *
 * A folder or file is used only when this user owns it, no other user may write to it, and it
 * is not a symbolic link.  The rule holds for root, too.  The log says once why a folder is not
 * used. */
#ifndef CR_JIT_CACHE_H
#define CR_JIT_CACHE_H

#include "base/text.h"

enum { CR_CACHE_KEY = 32 }; /* hexadecimal digits */

/* The address of the symbol in the file of that key.  NULL when the file does not exist or must
 * not be used; the log (CR_LOG=cache) gives the reason.  The object stays loaded. */
void *cr_cache_find(const char *key, const char *symbol, const char *source);

/* Copies the object in the open folder `from` to the cache under each of the keys.  The log
 * says why a kernel could not be kept. */
void cr_cache_keep(int from, const char *object, int n, const char *const *key,
                   const char *const *source);

/* The file <key>.sc: sealed bytes, replaced as a whole, that are measurements of the kernel
 * with this key, or the image of a GPU kernel.  Reading returns false when there is no
 * note or the note is damaged; the caller drops *out.  Writing fails with CR_IO. */
bool cr_cache_read_note(cr_text *out, const char *key);
CR_MUST cr_status cr_cache_write_note(const char *key, const char *bytes, size_t n);

/* Loads an object file in the open folder `dir`.  Returns the address of the symbol in it, or
 * NULL and records the reason.  The loader identifies an object by descriptor and name: after a
 * name in a folder was loaded, this process must not use it for another object. */
void *cr_cache_load(int dir, const char *object, const char *symbol);

/* An open folder. */
typedef struct {
    int dir; /* its descriptor */
    cr_text path;
} cr_cache_folder;

/* Makes a new folder for a compilation: place 0 is the folder for temporary files, 1 the
 * cache.  The caller ends it with cr_cache_work_end, which removes the folder and drops *out.
 * Fails with CR_IO or CR_MEMORY. */
enum { CR_CACHE_PLACES = 2 };
CR_MUST cr_status cr_cache_work(cr_cache_folder *out, int place);
void cr_cache_work_end(cr_cache_folder *f);

/* With `off` no kernel and no note is read from disk or kept there, until this is called
 * again. */
void cr_cache_turn_off(bool off);

/* Removes files that ended processes left.  Removes the kernels longest unused while the
 * kernels take more than CR_CACHE_LIMIT megabytes.  Quick; call it now and then. */
void cr_cache_tidy(void);

/* The path of the cache's folder, which may not exist yet; the caller drops *out. */
CR_MUST cr_status cr_cache_path(cr_text *out);
/* The files of the cache and their bytes; several kernels may share one file.  With `clear`
 * they are removed, too.  Kernels that are loaded stay usable. */
typedef struct {
    int64_t files, bytes;
} cr_cache_size;
cr_cache_size cr_cache_measure(bool clear);

#endif
