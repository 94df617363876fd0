/* store.h - a shared table of keys and values, by which processes find each other.
 *
 * A store is counted.  Every store answers the same requests (verbs.def); the kinds differ in
 * the place of the table: this process (hash), a file (file), a server that one process runs
 * (tcp), or another store under a prefix.  All functions may be called from any thread.
 *
 * A request that waits for keys ends with CR_STORE after its timeout.  A store whose process is
 * gone, or which does not answer, is CR_NETWORK. */
#ifndef CR_COMM_STORE_H
#define CR_COMM_STORE_H

#include "base/memory.h"
#include "base/text.h"

typedef struct cr_store cr_store;

typedef struct {
    const char *at;
    size_t len;
} cr_bytes;

/* The bytes of a C string. */
static inline cr_bytes cr_bytes_of(const char *s) { return (cr_bytes){s, __builtin_strlen(s)}; }

typedef enum {
#define CR_VERB(NAME, changes, waits) CR_STORE_##NAME,
#include "comm/verbs.def"
#undef CR_VERB
    CR_STORE_VERBS
} cr_store_verb;

/* A request; keys and values are borrowed.  `number` is the addend of ADD, and for POP 1 to
 * wait for an item.  timeout_ms -1: the store's timeout.  late_ms: how late the answer of a
 * server may be before the server is taken for lost; 0: a second. */
typedef struct {
    cr_store_verb verb;
    int64_t number, timeout_ms;
    int keys, values;
    const cr_bytes *key, *value;
    int64_t late_ms;
} cr_store_request;

/* An answer: a number (ADD, CHECK, DELETE, COUNT, LENGTH) or values, which point into `raw`.
 * Starts as {0}; release with cr_store_reply_drop, also after a failure. */
typedef struct {
    int64_t number;
    CR_VEC(cr_bytes) value;
    cr_text raw;
} cr_store_reply;
void cr_store_reply_drop(cr_store_reply *r);

/* What a kind of store implements.  `call` fills an empty reply. */
typedef struct {
    cr_status (*call)(cr_store *s, const cr_store_request *r, cr_store_reply *out);
    void (*free)(cr_store *s);
    bool (*serves)(const cr_store *s); /* NULL: never */
} cr_store_kind;

/* The head of each kind's struct. */
struct cr_store {
    _Atomic int count;
    const cr_store_kind *kind;
    _Atomic int64_t timeout_ms;
};

/* --- making: the caller owns the result --- */
CR_MUST cr_status cr_store_hash(cr_store **out);
/* Keys are sent to `under` as "prefix/key".  Keeps `under`. */
CR_MUST cr_status cr_store_prefix(cr_store **out, const char *prefix, cr_store *under);
/* A file that all processes of one host, or of a shared file system, open.  With world_size > 0
 * the file is removed when so many stores were opened and freed. */
CR_MUST cr_status cr_store_file(cr_store **out, const char *path, int64_t world_size);

typedef struct {
    const char *host;
    int port;           /* 0: any free port, of a server */
    int64_t world_size; /* <= 0: unknown */
    bool server;        /* run the server in this process */
    bool wait;          /* the server waits until world_size stores are connected */
    bool shared;        /* a server of this process at the same port is used again */
    int listen_fd;      /* an open socket for the server; -1: none */
    int64_t timeout_ms;
} cr_store_tcp_options;
/* Connects to the server, which is started first if asked for.  CR_NETWORK for an address that
 * does not resolve, a port in use, or no connection within the timeout. */
CR_MUST cr_status cr_store_tcp(cr_store **out, const cr_store_tcp_options *options);
/* The port of a tcp store, and its host (borrowed). */
int cr_store_tcp_port(const cr_store *s);
const char *cr_store_tcp_host(const cr_store *s);

static inline cr_store *cr_store_keep(cr_store *s)
{
    s->count++;
    return s;
}
void cr_store_drop(cr_store *s); /* NULL is allowed */
/* Whether the table of other processes' stores ends with this one. */
bool cr_store_serves(const cr_store *s);

/* --- using --- */
CR_MUST cr_status cr_store_call(cr_store *s, const cr_store_request *r, cr_store_reply *out);
CR_MUST cr_status cr_store_set(cr_store *s, const char *key, cr_bytes value);
/* Waits for the key and appends its value to *out. */
CR_MUST cr_status cr_store_get(cr_store *s, const char *key, int64_t timeout_ms, cr_text *out);
/* The same for one slice of a wait that lasts until the time `end` (cr_seconds): CR_STORE after
 * the slice, and a busy server may answer until the end. */
CR_MUST cr_status cr_store_get_slice(cr_store *s, const char *key, int64_t slice_ms, double end,
                                     cr_text *out);
/* The sum after adding. */
CR_MUST cr_status cr_store_add(cr_store *s, const char *key, int64_t addend, int64_t *sum);
CR_MUST cr_status cr_store_wait(cr_store *s, const char *key, int64_t timeout_ms);
/* Whether the key exists. */
CR_MUST cr_status cr_store_check(cr_store *s, const char *key, bool *exists);

#endif
