/* type.h - the types of TorchScript.
 *
 * Types are immutable.  Types without members are static.  The others are in the session of a
 * unit (unit.h), and live as long as it: a holder that may outlive its unit holds the unit
 * (cr_stype_unit).  Equal types may have different addresses, except classes, of which there is
 * one type each. */
#ifndef CR_SCRIPT_TYPE_H
#define CR_SCRIPT_TYPE_H

#include "base/map.h"
#include "sym/session.h"

typedef struct cr_stype cr_stype;
typedef struct cr_sclass cr_sclass;
typedef struct cr_sunit cr_sunit;
typedef struct cr_sfunction cr_sfunction;

typedef enum {
#define CR_STYPE(NAME, text, annotation) CR_STYPE_##NAME,
#include "script/types.def"
#undef CR_STYPE
    CR_STYPE_COUNT
} cr_stype_kind;

/* What a trace saw of a tensor; printed as Float(2, 3, strides=[3, 1], requires_grad=0,
 * device=cpu). */
typedef struct {
    uint8_t dtype;                /* cr_dtype */
    int8_t ndim;                  /* -1: unknown */
    int8_t requires;              /* requires_grad; -1: unknown */
    const char *device;           /* or NULL */
    const int64_t *size, *stride; /* NULL: unknown */
} cr_stype_tensor;

struct cr_stype {
    uint8_t kind; /* cr_stype_kind */
    int count;    /* OPTIONAL, LIST, FUTURE: 1; DICT: key and value; UNION, TUPLE: any */
    const cr_stype *const *item;
    cr_sclass *cls;                /* CLASS, INTERFACE, ENUM, and a named TUPLE; or NULL */
    const char *name;              /* VAR */
    const char *const *field;      /* TUPLE without a class: names of its items, or NULL */
    const cr_stype_tensor *tensor; /* TENSOR: its known facts, or NULL */
    cr_sfunction *function;        /* FUNCTION */
    cr_sunit *unit;                /* the owner; NULL: static */
    uint32_t weight;               /* number of types inside, itself counted */
};

/* The types without members: CR_STYPE_OF(INT). */
extern const cr_stype cr_stype_plain[CR_STYPE_COUNT];
/* Tensor, of a parameter without an annotation: equal to it, but errors say "(inferred)". */
extern const cr_stype cr_stype_inferred;
#define CR_STYPE_OF(NAME) (&cr_stype_plain[CR_STYPE_##NAME])

/* Types with members, made in the unit's session: they bail when memory is short, and when the
 * type would have more than CR_STYPE_MOST types inside: (x, x) of (x, x) of ... doubles. */
enum { CR_STYPE_MOST = 4096 };
const cr_stype *cr_stype_list(cr_sunit *u, const cr_stype *item);
const cr_stype *cr_stype_optional(cr_sunit *u, const cr_stype *item);
const cr_stype *cr_stype_dict(cr_sunit *u, const cr_stype *key, const cr_stype *value);
const cr_stype *cr_stype_future(cr_sunit *u, const cr_stype *item);
/* `cls` names the fields, or is NULL. */
const cr_stype *cr_stype_tuple(cr_sunit *u, int count, const cr_stype *const *item,
                               cr_sclass *cls);
/* A tuple without a class whose items have names, as operators return; these are kept. */
const cr_stype *cr_stype_tuple_of_fields(cr_sunit *u, int count, const cr_stype *const *item,
                                         const char *const *field);
/* The name of item i, or NULL. */
const char *cr_stype_field(const cr_stype *t, int i);
/* The union of the types: flat, without duplicates; of T and None the optional of T. */
const cr_stype *cr_stype_union(cr_sunit *u, int count, const cr_stype *const *item);
const cr_stype *cr_stype_var(cr_sunit *u, const char *name);
const cr_stype *cr_stype_function(cr_sunit *u, cr_sfunction *f);
/* Tensor with facts, which are in the unit's session; it is equal to Tensor. */
const cr_stype *cr_stype_seen(cr_sunit *u, const cr_stype_tensor *facts);

bool cr_stype_equal(const cr_stype *a, const cr_stype *b);
bool cr_stype_is_subtype(const cr_stype *a, const cr_stype *b);
/* Appends why `a` is no subtype of the interface `b`; nothing for other types. */
void cr_stype_print_misfit(cr_text *out, const cr_stype *a, const cr_stype *b);
/* The least type of which both are subtypes, or NULL. */
const cr_stype *cr_stype_join(cr_sunit *u, const cr_stype *a, const cr_stype *b);
/* True when the type has a type variable inside. */
bool cr_stype_has_var(const cr_stype *t);

/* "int[]", as in graphs and schemas. */
void cr_stype_print(cr_text *out, const cr_stype *t);
/* "List[int]", as in source. */
void cr_stype_annotate(cr_text *out, const cr_stype *t);
/* The same, with the names that `names` has for classes, by address; NULL: their own. */
void cr_stype_annotate_as(cr_text *out, const cr_stype *t, const cr_map *names);
/* The name that `names` has for a class or function, or its own. */
const char *cr_sname_as(const void *of, const char *own, const cr_map *names);
/* The same in a scratch buffer (cr_error_scratch). */
const char *cr_stype_text(const cr_stype *t);
const char *cr_stype_in_source(const cr_stype *t);
/* As errors name a type: a class with the unit that it is in, in a scratch buffer. */
const char *cr_stype_annotation(const cr_stype *t);

#endif
