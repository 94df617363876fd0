/* store_impl.h - shared by the kinds of stores: the table, and requests as bytes. */
#ifndef CR_COMM_STORE_IMPL_H
#define CR_COMM_STORE_IMPL_H

#include "base/clock.h"
#include "comm/store.h"

/* --- the table (table.c) --- */
typedef struct cr_table cr_table;
CR_MUST cr_status cr_table_new(cr_table **out);
void cr_table_free(cr_table *t);
/* Answers `r`: appends an encoded reply to *reply.  *blocked: the request has to wait, nothing
 * was appended.  Fails with CR_MEMORY only; a refusal is an encoded reply. */
CR_MUST cr_status cr_table_answer(cr_table *t, const cr_store_request *r, cr_text *reply,
                                  bool *blocked);

/* --- requests and replies as bytes (wire.c) --- */
enum { CR_WIRE_HEAD = 4, CR_WIRE_LIMIT = 1 << 30 };
/* Appends a frame: its length in 4 bytes, then the contents. */
void cr_wire_request(cr_text *out, const cr_store_request *r);
void cr_wire_reply(cr_text *out, cr_status st, int64_t number, int values,
                   const cr_bytes *value);
/* Appends the reply of the calling thread's last failure. */
void cr_wire_failure(cr_text *out, cr_status st);
/* Reads the contents of a request's frame; `r` points into `at` and `room`.  CR_VALUE when they
 * are no request. */
typedef CR_VEC(cr_bytes) cr_wire_room;
CR_MUST cr_status cr_wire_read_request(cr_store_request *r, cr_wire_room *room, const char *at,
                                       size_t len);
/* Reads out->raw, a frame, into the reply; a refusal becomes this call's failure. */
CR_MUST cr_status cr_wire_read_reply(cr_store_reply *out);
static inline uint32_t cr_wire_u32(const char *at)
{
    uint32_t n;

    __builtin_memcpy(&n, at, sizeof n);
    return n;
}

/* --- the server (server.c) --- */
typedef struct cr_store_server cr_store_server;
/* Listens at host:port, or at an open socket.  With `shared`, a shared server of this process
 * at the port is used again. */
CR_MUST cr_status cr_store_server_start(cr_store_server **out, const cr_store_tcp_options *o);
int cr_store_server_port(const cr_store_server *s);
void cr_store_server_drop(cr_store_server *s);

/* --- all kinds (store.c) --- */
void cr_store_init(cr_store *s, const cr_store_kind *kind, int64_t timeout_ms);
/* The request's timeout, or the store's. */
int64_t cr_store_timeout(const cr_store *s, const cr_store_request *r);
/* Fails with the error of a request that waited too long; `root` comes before each key. */
cr_status cr_store_timed_out(const cr_store_request *r, int64_t timeout_ms, const char *root);
/* The same, or the error of a wait that the program ended. */
cr_status cr_store_not_waited(const cr_store_request *r, int64_t timeout_ms, bool interrupted);
enum { CR_STORE_TIMEOUT_MS = 300000 };

#endif
