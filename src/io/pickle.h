/* pickle.h - pickles, read as lists of steps.
 *
 * Reading a pickle creates a list of steps and no object.  A step makes a value from earlier
 * values or changes an earlier value; a value's name is the number of its step.  The whole
 * pickle (syntax, stack, global names) is therefore checked before any object is made or
 * function is called.  py/bind (for Python) and checkpoint.c (for C programs) run the steps in
 * a loop, in their order, so deep nesting needs no C stack.
 *
 * The list's memory is a small multiple of the bytes read, whatever sizes the pickle claims. */
#ifndef CR_IO_PICKLE_H
#define CR_IO_PICKLE_H

#include "base/memory.h"
#include "base/text.h"
#include "io/globals.h"

typedef enum {
    /* steps that make a value */
    CR_STEP_NONE,
    CR_STEP_FALSE,
    CR_STEP_TRUE,
    CR_STEP_INT,       /* i */
    CR_STEP_LONG,      /* text, two's complement, least significant byte first */
    CR_STEP_DIGITS,    /* text, decimal */
    CR_STEP_FLOAT,     /* d */
    CR_STEP_TEXT,      /* text, UTF-8 with lone surrogates */
    CR_STEP_STRING,    /* text, a Python 2 string: bytes whose encoding the caller chooses */
    CR_STEP_BYTES,     /* text */
    CR_STEP_BYTEARRAY, /* text */
    CR_STEP_TUPLE,     /* operands */
    CR_STEP_LIST,      /* operands */
    CR_STEP_DICT,      /* operands: key, value, ... */
    CR_STEP_SET,
    CR_STEP_FROZENSET, /* operands */
    CR_STEP_GLOBAL,    /* i: number in `names` */
    CR_STEP_STORAGE,   /* i: number in `storages` */
    CR_STEP_SAME,      /* operand: the same value (a container's class in old files) */
    CR_STEP_REDUCE,    /* operands: function, arguments */
    CR_STEP_NEWOBJ,    /* operands: class, arguments */
    CR_STEP_NEWOBJ_EX, /* operands: class, arguments, keywords */
    CR_STEP_OBJECT,    /* operands: class, argument... (protocol 0) */
    /* steps that change their first operand */
    CR_STEP_APPEND,   /* further operands: items */
    CR_STEP_SETITEM,  /* key, value */
    CR_STEP_SETITEMS, /* key, value, ... */
    CR_STEP_ADDITEMS, /* items */
    CR_STEP_BUILD,    /* state */
} cr_step_kind;

typedef struct {
    uint8_t kind;
    uint16_t depth; /* nesting depth of tuples */
    uint32_t count; /* operands */
    union {
        int64_t i;
        double d;
        struct {
            size_t first;  /* index in cr_pickle's `operands` */
            double weight; /* items of the tuple and, recursively, of its tuples */
        };
        struct {
            const char *at; /* borrowed from the pickle's bytes */
            size_t len;
        } text;
    };
} cr_step;

typedef struct {
    const char *module, *name;
    cr_global global;
} cr_pickle_name;

/* A storage that the pickle uses.  A key is one storage, unless it is empty. */
typedef struct {
    const char *key, *location;
    cr_dtype dtype;
    uint64_t bytes;
    /* Old files: a part of storage `root`, from byte `part_at` on.  -1 for a storage that is no
     * part. */
    int64_t root;
    uint64_t part_at;
} cr_pickle_storage;

typedef struct {
    CR_VEC(cr_step) steps;
    CR_VEC(uint32_t) operands;
    CR_VEC(cr_pickle_name) names;
    CR_VEC(cr_pickle_storage) storages;
    uint32_t result; /* the step whose value is the pickle's value */
    int protocol;    /* 0 when the pickle does not state it */
    size_t used;     /* bytes read */
    cr_arena arena;
} cr_pickle;

/* Rules of reading. */
typedef struct {
    /* True: torch's restricted instructions and messages.  False: protocols 0 to 5. */
    bool weights_only;
    /* Decides whether a name outside globals.def is allowed; NULL allows none.  A failure of
     * `ask` is returned as it is.  CR_OK with *allowed false gives torch's message. */
    cr_status (*ask)(void *who, const char *module, const char *name, bool *allowed);
    void *who;
    /* Calls `ask` for every name outside the default list, also for names that are never
     * allowed. */
    bool listing;
} cr_pickle_rules;

/* Reads one pickle from the start of `bytes`, which must outlive *out.  The caller owns *out.
 * Fails with CR_UNPICKLING, CR_END, CR_STRUCT, CR_INDEX or CR_KEY as torch's readers do. */
CR_MUST cr_status cr_pickle_read(cr_pickle **out, const void *bytes, size_t len,
                                 const cr_pickle_rules *rules);
void cr_pickle_drop(cr_pickle *p);

static inline const uint32_t *cr_step_operands(const cr_pickle *p, const cr_step *s)
{
    return p->operands.at + s->first;
}

/* Appends the pickle to `out`, with this package's module names replaced by torch's. */
CR_MUST cr_status cr_pickle_rename(cr_text *out, const void *bytes, size_t len);

#endif
