/* value.h - tagged values of programs: tensors, numbers, strings, containers, objects.
 *
 * A value is copied as a plain struct.  Tensors and boxes (strings, containers, objects) have a
 * refcount; cr_ivalue_keep and cr_ivalue_drop change it.  Functions borrow their arguments
 * unless they say that they take them; results are owned by the caller.
 *
 * Strings, tuples and enum members are never changed.  Lists, dicts and objects are shared and
 * can be changed through every reference.  An object that refers to itself is not freed until
 * its slots are cleared (cr_iobject_clear), as in torch. */
#ifndef CR_SCRIPT_VALUE_H
#define CR_SCRIPT_VALUE_H

#include "base/memory.h"
#include "base/text.h"
#include "tensor/tensor.h"

struct cr_stype;

typedef enum {
    CR_IV_NONE,
    CR_IV_TENSOR,    /* t */
    CR_IV_INT,       /* i; also dtypes (torch's numbers), layouts and memory formats */
    CR_IV_FLOAT,     /* d */
    CR_IV_COMPLEX,   /* c */
    CR_IV_BOOL,      /* i: 0 or 1 */
    CR_IV_DEVICE,    /* i: cr_device_pack */
    CR_IV_STRING,    /* string */
    CR_IV_LIST,      /* list */
    CR_IV_TUPLE,     /* list, of fixed length; `type` of a named tuple */
    CR_IV_DICT,      /* dict */
    CR_IV_OBJECT,    /* object */
    CR_IV_ENUM,      /* member */
    CR_IV_GENERATOR, /* generator, borrowed from the program that passed it */
    CR_IV_KIND_COUNT
} cr_iv_kind;

/* The head of every box. */
typedef struct cr_ibox {
    _Atomic int32_t count;
    uint8_t kind;         /* cr_iv_kind */
    struct cr_ibox *next; /* of boxes that are being freed */
} cr_ibox;

typedef struct {
    cr_ibox box;
    size_t len;
    char at[]; /* NUL after the last byte; may contain NULs */
} cr_istring;

typedef struct cr_ilist cr_ilist;
typedef struct cr_idict cr_idict;
typedef struct cr_iobject cr_iobject;
typedef struct cr_imember cr_imember;

typedef struct cr_ivalue {
    uint8_t kind; /* cr_iv_kind */
    union {
        int64_t i;
        double d;
        cr_complex c;
        cr_tensor *t;
        cr_ibox *box;
        cr_istring *string;
        cr_ilist *list;
        cr_idict *dict;
        cr_iobject *object;
        cr_imember *member;
        struct cr_generator *generator;
    };
} cr_ivalue;

/* `type` is List[T] or the tuple's type; NULL when the maker does not state it. */
struct cr_ilist {
    cr_ibox box;
    const struct cr_stype *type;
    size_t len, cap;
    cr_ivalue *at;
};

typedef struct {
    cr_ivalue key, value;
} cr_iitem;

/* Items are in the order of insertion.  Keys are ints, floats, bools, complex numbers, strings
 * or tensors (by identity). */
struct cr_idict {
    cr_ibox box;
    const struct cr_stype *type;
    size_t len, cap;
    cr_iitem *at;
    uint32_t *slot; /* item + 1 by hash; NULL while the dict is short */
    size_t slots;
};

struct cr_iobject {
    cr_ibox box;
    const struct cr_stype *type;
    struct cr_sunit *unit; /* a reference on the unit that owns `type`; may be NULL */
    size_t len;
    cr_ivalue slot[];
};

struct cr_imember {
    cr_ibox box;
    const struct cr_stype *type;
    int index; /* among the members of `type` */
    cr_ivalue name, value;
};

static inline bool cr_iv_is_boxed(const cr_ivalue *v)
{
    return (v->kind >= CR_IV_STRING && v->kind <= CR_IV_ENUM);
}
static inline cr_ivalue cr_iv_none(void) { return (cr_ivalue){.kind = CR_IV_NONE}; }
static inline cr_ivalue cr_iv_int(int64_t i) { return (cr_ivalue){.kind = CR_IV_INT, .i = i}; }
static inline cr_ivalue cr_iv_float(double d)
{
    return (cr_ivalue){.kind = CR_IV_FLOAT, .d = d};
}
static inline cr_ivalue cr_iv_bool(bool b) { return (cr_ivalue){.kind = CR_IV_BOOL, .i = b}; }

/* Layouts are numbers in programs, torch's: 3 is one that this library lacks. */
static inline cr_ivalue cr_iv_layout(int64_t layout)
{
    return cr_iv_int(layout + (layout >= CR_LAYOUT_CSC));
}
/* The layout of that number, -1 for none. */
static inline int64_t cr_layout_of_number(int64_t n)
{
    int64_t layout = n - (n > CR_LAYOUT_CSC);

    return n == CR_LAYOUT_CSC || layout < 0 || layout >= CR_LAYOUT_COUNT ? -1 : layout;
}

static inline cr_ivalue cr_iv_complex(cr_complex c)
{
    return (cr_ivalue){.kind = CR_IV_COMPLEX, .c = c};
}
/* Takes the reference; None for NULL. */
static inline cr_ivalue cr_iv_tensor(cr_tensor *t)
{
    return (cr_ivalue){.kind = t ? CR_IV_TENSOR : CR_IV_NONE, .t = t};
}

/* Returns `v` with one more reference. */
static inline cr_ivalue cr_ivalue_keep(cr_ivalue v)
{
    if (v.kind == CR_IV_TENSOR)
        cr_keep(v.t);
    else if (cr_iv_is_boxed(&v))
        atomic_fetch_add_explicit(&v.box->count, 1, memory_order_relaxed);
    return v;
}
void cr_ibox_drop(cr_ibox *b);
static inline void cr_ivalue_drop(cr_ivalue v)
{
    if (v.kind == CR_IV_TENSOR)
        cr_drop(v.t);
    else if (cr_iv_is_boxed(&v))
        cr_ibox_drop(v.box);
}
/* Replaces *at by `v`, which is taken. */
static inline void cr_ivalue_set(cr_ivalue *at, cr_ivalue v)
{
    cr_ivalue old = *at;

    *at = v;
    cr_ivalue_drop(old);
}
/* Drops n values of an array. */
void cr_ivalues_drop(cr_ivalue *v, size_t n);
/* A slot of an object that several threads may read and set: its value with one more reference,
 * and its value replaced by `v`, which is taken. */
cr_ivalue cr_islot_get(cr_ivalue *slot);
void cr_islot_set(cr_ivalue *slot, cr_ivalue v);

/* --- making; fail with CR_MEMORY --- */
CR_MUST cr_status cr_istring_new(cr_ivalue *out, const char *at, size_t len);
/* A string of the text, which is dropped also on failure. */
CR_MUST cr_status cr_istring_of_text(cr_ivalue *out, cr_text *text);
CR_MUST cr_status cr_ilist_new(cr_ivalue *out, const struct cr_stype *type, size_t room);
/* A tuple of n Nones, to be filled at out->list->at. */
CR_MUST cr_status cr_ituple_new(cr_ivalue *out, const struct cr_stype *type, size_t n);
CR_MUST cr_status cr_idict_new(cr_ivalue *out, const struct cr_stype *type);
/* An object of n slots, all None.  Takes a reference on `unit`. */
CR_MUST cr_status cr_iobject_new(cr_ivalue *out, const struct cr_stype *type,
                                 struct cr_sunit *unit, size_t n);
/* Takes `name` and `value`, also on failure. */
CR_MUST cr_status cr_imember_new(cr_ivalue *out, const struct cr_stype *type, int index,
                                 cr_ivalue name, cr_ivalue value);

/* --- lists --- */
/* The functions that change a list or dict take its lock, so that cr_ilist_snapshot and
 * cr_idict_snapshot may read it in another thread.  Other readers have no lock. */
/* Appends `v`, which is taken also on failure. */
CR_MUST cr_status cr_ilist_append(cr_ilist *l, cr_ivalue v);
/* Inserts `v`, which is taken also on failure, before item `at` (at most l->len). */
CR_MUST cr_status cr_ilist_insert(cr_ilist *l, size_t at, cr_ivalue v);
/* Replaces item `at` by `v`, which is taken. */
void cr_ilist_set(cr_ilist *l, size_t at, cr_ivalue v);
/* Removes item `at` and gives its reference to the caller. */
cr_ivalue cr_ilist_take(cr_ilist *l, size_t at);
void cr_ilist_clear(cr_ilist *l);
void cr_ilist_reverse(cr_ilist *l);
/* Exchanges the items for n others; false, and nothing changes, when their numbers differ. */
bool cr_ilist_exchange(cr_ilist *l, cr_ivalue *item, size_t n);
/* The items at one time, each with one more reference, in an array for cr_free. */
CR_MUST cr_status cr_ilist_snapshot(cr_ilist *l, cr_ivalue **at, size_t *len);

/* --- dicts --- */
/* The value under the key, borrowed until the dict changes; NULL when there is none. */
cr_ivalue *cr_idict_find(const cr_idict *d, const cr_ivalue *key);
/* Takes key and value, also on failure; a key that exists keeps its place. */
CR_MUST cr_status cr_idict_set(cr_idict *d, cr_ivalue key, cr_ivalue value);
/* Removes the key's item and gives its references to the caller; false when there is none. */
bool cr_idict_take(cr_idict *d, const cr_ivalue *key, cr_iitem *out);
void cr_idict_clear(cr_idict *d);
/* As cr_ilist_snapshot. */
CR_MUST cr_status cr_idict_snapshot(cr_idict *d, cr_iitem **at, size_t *len);

/* Sets all slots to None: ends cycles through the object. */
void cr_iobject_clear(cr_iobject *o);

/* A copy of the value and of all that it holds.  What several places of the value hold has one
 * copy, tensors by identity: two tensors that share memory have copies that do not.  Leaves
 * stay leaves.  `__getstate__` and `__setstate__` of a class copy its objects, whose copies
 * share what the state holds. */
CR_MUST cr_status cr_ivalue_deepcopy(cr_ivalue *out, const cr_ivalue *v);

/* The hash of a key, of the kinds that dicts allow. */
uint64_t cr_ivalue_hash(const cr_ivalue *v);
/* Equality of values without tensors, as Python's ==.  Containers are compared item by item;
 * objects and tensors by identity. */
bool cr_ivalue_equal(const cr_ivalue *a, const cr_ivalue *b);
/* "int", "List", ...: the kind's name in messages. */
const char *cr_ivalue_kind_name(const cr_ivalue *v);

#endif
