/* shim.h - a plain C interface to Gloo's contexts and messages, in a shared object of its own.
 *
 * Gloo is a C++ library.  gloo.cc is compiled where its headers are, and loaded when a group
 * asks for the engine; no C++ type and no exception crosses this interface.  Functions return
 * 0, or 1 with a text in `error`, a buffer of CR_SHIM_ERROR bytes. */
#ifndef CR_COMM_GLOO_SHIM_H
#define CR_COMM_GLOO_SHIM_H

#include <stddef.h>
#include <stdint.h>

enum { CR_SHIM_ERROR = 512, CR_SHIM_VERSION = 1 };

/* The store through which contexts connect.  get: the value's length, or -1; at most `cap`
 * bytes are written. */
typedef struct {
    void *user;
    int (*set)(void *user, const char *key, const void *at, size_t n);
    long (*get)(void *user, const char *key, void *at, size_t cap);
    int (*wait)(void *user, const char *key, long timeout_ms);
} cr_shim_store;

typedef struct {
    int version; /* CR_SHIM_VERSION */
    int (*open)(void **context, int rank, int size, const char *host,
                const cr_shim_store *store, long timeout_ms, char *error);
    void (*shut)(void *context);
    void (*close)(void *context);
    int (*send)(void *context, void **transfer, const void *at, size_t n, int to, uint64_t slot,
                char *error);
    /* from -1: any rank */
    int (*receive)(void *context, void **transfer, void *at, size_t n, int from, uint64_t slot,
                   char *error);
    /* *done 0 and result 0: the time ended.  The context is broken then. */
    int (*wait)(void *transfer, long timeout_ms, int *done, int *from, char *error);
    void (*drop)(void *transfer);
} cr_shim;

/* The symbol that the shared object exports. */
#define CR_SHIM_SYMBOL "cresset_gloo"

#endif
