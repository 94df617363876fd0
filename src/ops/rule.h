/* rule.h - rule trees: the expressions in operator entries.
 *
 * Trees are in the table's arena and are read-only after the table is loaded.  Arithmetic and
 * comparison are calls: `a + b` is the call add(a, b).  Their names are those of the operators:
 * add sub mul div floordiv remainder pow neg eq ne lt le gt ge and or not. */
#ifndef CR_OPS_RULE_H
#define CR_OPS_RULE_H

#include "num/view.h"

typedef enum {
    CR_RULE_NAME,  /* name; slot after resolving */
    CR_RULE_INT,   /* integer */
    CR_RULE_FLOAT, /* number */
    CR_RULE_BOOL,  /* integer */
    CR_RULE_NONE,
    CR_RULE_STRING, /* name */
    CR_RULE_LIST,   /* args */
    CR_RULE_CALL,   /* name(args); keyword[i] names args[i] or is NULL */
    CR_RULE_CHOOSE, /* args[0] ? args[1] : args[2] */
    CR_RULE_EACH,   /* [name in args[0] : args[1]]; slot is that of the variable.  With args[2]
                     * [name in args[0] if args[2] : args[1]]: of the items where it holds */
    CR_RULE_INDEX   /* args[0][args[1], ...]; several indices only in loops */
} cr_rule_kind;

typedef struct cr_rule cr_rule;
/* 40 bytes on 64-bit machines.  A rule does not know where it is stated, so that equal ones can
 * be one in memory. */
struct cr_rule {
    cr_rule_kind kind : 8;
    unsigned count : 8; /* of args */
    int slot : 16;      /* NAME, EACH: index into the evaluation's slots */
    int builtin : 16;   /* CALL: the built-in function's number, or -1 */
    const char *name;
    union {
        int64_t integer;        /* INT, BOOL; NAME of a constant: see below */
        double number;          /* FLOAT */
        const struct cr_op *op; /* CALL: the operator, NULL for a built-in function */
    };
    cr_rule **args;
    const char **keyword;
};

/* cr_rule.integer of a name without a slot: 1 plus the number of a dtype, these minus the
 * number of a layout or memory format, or 0 (inf, pi, ...). */
enum { CR_RULE_LAYOUT = -1, CR_RULE_FORMAT = -64 };

#endif
