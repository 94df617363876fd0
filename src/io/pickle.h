/* pickle.h - pickles, read as lists of steps.
 *
 * Reading a pickle makes nothing but a list: each step makes a value from earlier ones or
 * changes an earlier value, and names it by its number.  So a pickle is checked to its last
 * byte - its syntax, its stack, every name it asks for - before anything is made or called, no
 * depth of nesting uses the C stack, and who carries the steps out (py/bind for Python,
 * checkpoint.c for C programs) does so in a loop, in the pickle's own order.
 *
 * The list's memory is a small multiple of the bytes read, whatever these claim. */
#ifndef CR_IO_PICKLE_H
#define CR_IO_PICKLE_H

#include "base/memory.h"
#include "base/text.h"
#include "io/globals.h"

typedef enum {
    /* make a value */
    CR_STEP_NONE,
    CR_STEP_FALSE,
    CR_STEP_TRUE,
    CR_STEP_INT,       /* i */
    CR_STEP_LONG,      /* text, two's complement, least byte first */
    CR_STEP_DIGITS,    /* text, decimal */
    CR_STEP_FLOAT,     /* d */
    CR_STEP_TEXT,      /* text, UTF-8 with lone surrogates */
    CR_STEP_STRING,    /* text, a Python 2 string: bytes in an encoding the reader chooses */
    CR_STEP_BYTES,     /* text */
    CR_STEP_BYTEARRAY, /* text */
    CR_STEP_TUPLE,     /* operands */
    CR_STEP_LIST,      /* operands */
    CR_STEP_DICT,      /* operands: key, value, ... */
    CR_STEP_SET,
    CR_STEP_FROZENSET, /* operands */
    CR_STEP_GLOBAL,    /* i: number in `names` */
    CR_STEP_STORAGE,   /* i: number in `storages` */
    CR_STEP_SAME,      /* operand: a value again (a container's class in old files) */
    CR_STEP_REDUCE,    /* operands: function, arguments */
    CR_STEP_NEWOBJ,    /* operands: class, arguments */
    CR_STEP_NEWOBJ_EX, /* operands: class, arguments, keywords */
    CR_STEP_OBJECT,    /* operands: class, argument... (protocol 0) */
    /* change the first operand */
    CR_STEP_APPEND,    /* with the others */
    CR_STEP_SETITEM,   /* key, value */
    CR_STEP_SETITEMS,  /* key, value, ... */
    CR_STEP_ADDITEMS,  /* items */
    CR_STEP_BUILD,     /* state */
} cr_step_kind;

typedef struct {
    uint8_t kind;
    uint16_t depth; /* of tuples in tuples */
    uint32_t count; /* of operands */
    union {
        int64_t i;
        double d;
        struct {
            size_t first;  /* of the operands in cr_pickle's `operands` */
            double
                weight; /* items of a tuple and of the tuples in it, as often as they are met */
        };
        struct {
            const char *at; /* borrowed from the bytes read */
            size_t len;
        } text;
    };
} cr_step;

typedef struct {
    const char *module, *name;
    cr_global global;
} cr_pickle_name;

/* A storage that is asked for.  The same key is one storage, unless it is empty. */
typedef struct {
    const char *key, *location;
    cr_dtype dtype;
    uint64_t bytes;
    /* A part of storage `root` from byte `part_at` on (old files); root is -1 otherwise. */
    int64_t root;
    uint64_t part_at;
} cr_pickle_storage;

typedef struct {
    CR_VEC(cr_step) steps;
    CR_VEC(uint32_t) operands;
    CR_VEC(cr_pickle_name) names;
    CR_VEC(cr_pickle_storage) storages;
    uint32_t result; /* the step whose value the pickle is */
    int protocol;    /* 0 when it does not say */
    size_t used;     /* bytes read */
    cr_arena arena;
} cr_pickle;

/* What a pickle may do. */
typedef struct {
    /* Torch's restricted set of instructions and its messages, or all of protocols 0 to 5. */
    bool weights_only;
    /* Whether a name outside globals.def may be used; NULL: none.  The message is the caller's
     * when it fails with one: CR_OK and *allowed false gives torch's. */
    cr_status (*ask)(void *who, const char *module, const char *name, bool *allowed);
    void *who;
    /* `ask` is asked about everything outside the default list, also what is never allowed. */
    bool listing;
} cr_pickle_rules;

/* Reads one pickle from the start of `bytes`, which must outlive *out (owned by the caller).
 * CR_UNPICKLING, CR_END, CR_STRUCT, CR_INDEX, CR_KEY as torch's readers raise. */
CR_MUST cr_status cr_pickle_read(cr_pickle **out, const void *bytes, size_t len,
                                 const cr_pickle_rules *rules);
void cr_pickle_drop(cr_pickle *p);

static inline const uint32_t *cr_step_operands(const cr_pickle *p, const cr_step *s)
{
    return p->operands.at + s->first;
}

/* A pickle as torch reads it: modules of this package get torch's names.  `out` is appended to.
 */
CR_MUST cr_status cr_pickle_rename(cr_text *out, const void *bytes, size_t len);

#endif
