/* known.h - known calls, shared by defer_known.c and defer_parts.c. */
#ifndef CR_TENSOR_KNOWN_H
#define CR_TENSOR_KNOWN_H

#include "tensor/trace.h"

typedef enum { CR_KNOWN_NONE, CR_KNOWN_ARGUMENT, CR_KNOWN_EMPTY, CR_KNOWN_MADE } cr_known_way;
struct cr_known_result {
    cr_known_way way;
    int use;         /* CR_KNOWN_ARGUMENT: its index among the tensors */
    cr_tensor *like; /* CR_KNOWN_EMPTY, CR_KNOWN_MADE: a header like the result */
    size_t bytes;    /* CR_KNOWN_MADE: the size of its storage */
};

struct cr_known_calls {
    cr_arena arena;
    CR_VEC(cr_known *) list;
    uint32_t *table; /* of `list` by hash: index + 1, or 0 */
    size_t table_size;
    cr_known *last;
    uint32_t seen[1024]; /* parts of the hashes of keys that were seen */
};

/* Drops the references of a composition's calls. */
void cr_known_parts_drop(struct cr_known_parts *p);
/* The entry of a key, or NULL. */
cr_known *cr_known_at(const cr_trace *x, const cr_call_key *key);
/* A new entry at the second sight of its key, or NULL. */
cr_known *cr_known_put(cr_trace *x, const cr_call_key *key);
/* Whether `made`, without bytes, has the properties of `t`, which is pending; offsets aside. */
bool cr_is_like(const cr_tensor *made, const cr_tensor *t);

#endif
