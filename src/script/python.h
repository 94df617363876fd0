/* python.h - programs that a caller's language defines: what names mean there.
 *
 * The source of a function is TorchScript, a part of Python.  Its free names are asked for
 * through callbacks, which may define further functions and classes in the unit before they
 * return.  A unit with an environment is never freed. */
#ifndef CR_SCRIPT_PYTHON_H
#define CR_SCRIPT_PYTHON_H

#include "script/unit.h"

typedef enum {
    CR_SNAME_NONE,
    CR_SNAME_CONSTANT,   /* value */
    CR_SNAME_OPERATOR,   /* name: "aten::relu" */
    CR_SNAME_SPECIAL,    /* name: a form that the compiler computes, "annotate" */
    CR_SNAME_FUNCTION,   /* function, or NULL and name: qualified, defined in the unit */
    CR_SNAME_CLASS,      /* name: qualified, defined */
    CR_SNAME_OBJECT,     /* handle: its attributes are asked for */
    CR_SNAME_ATTRIBUTES, /* name: attributes of self, separated by spaces: a list of them */
    CR_SNAME_REFUSED,    /* name: why it cannot be used */
    CR_SNAME_CHOICE,     /* handle: its attributes if_true and if_false are functions; arg_name,
                            index and default are those of the argument that chooses */
    CR_SNAME_MEMBER      /* name: qualified, of a member of a defined enum */
} cr_sname_kind;

typedef struct {
    uint8_t kind; /* cr_sname_kind */
    const char *name;
    cr_sconstant value; /* in the unit's session */
    cr_sfunction *function;
    int64_t handle;
} cr_sname;

typedef struct cr_senv {
    /* The name in the function with the qualified name `function`. */
    cr_status (*name)(const char *function, const char *name, cr_sname *out);
    cr_status (*attribute)(int64_t handle, const char *name, cr_sname *out);
    /* The function that a call of the object with `count` arguments means. */
    cr_status (*call)(int64_t handle, int count, cr_sname *out);
    /* A member of the class that is no attribute, method or constant of it yet. */
    cr_status (*member)(const char *cls, const char *name, cr_sname *out);
    /* The value of an expression's text in the function, for defaults. */
    cr_status (*value)(const char *function, const char *text, cr_sname *out);
    /* Raises the caller's error of this kind, UnsupportedNodeError or NotSupportedError. */
    cr_status (*refuse)(const char *kind, const char *text);
    /* The annotation ("List[int]") that an expression's text means; *out is in the session. */
    cr_status (*type)(const char *function, const char *text, char **out);
} cr_senv;

/* Defines a function, or a method of `owner`, from the text of one `def`.  Nothing is compiled
 * yet.  The texts are copied. */
CR_MUST cr_status cr_sunit_define(cr_sunit *u, const char *qualified, cr_sclass *owner,
                                  const cr_ssource *source, cr_sfunction **out);
/* Defines a function that runs the graph of a text, as cr_sgraph_print writes it.  CR_VALUE: no
 * such graph; CR_RUNTIME: it has no result, or several. */
CR_MUST cr_status cr_sunit_define_graph(cr_sunit *u, const char *qualified, const char *text,
                                        cr_sfunction **out);
/* Gives a compiled method, which did not run, a copy of the graph of a function with the same
 * parameters but self. */
CR_MUST cr_status cr_sunit_define_as(cr_sunit *u, cr_sfunction *method, const cr_sfunction *f);
/* Begin and end the compilation of a class, which errors in its methods then name. */
CR_MUST cr_status cr_sunit_enter(cr_sunit *u, const char *name);
void cr_sunit_leave(cr_sunit *u);
/* Makes a function that is not compiled a declaration, as methods of interfaces are: without a
 * body, and with a result, a tensor unless it is declared.  Fails when the body is not
 * `pass`. */
CR_MUST cr_status cr_sunit_declare(cr_sunit *u, cr_sfunction *f);
/* Compiles the function and those that it calls. */
CR_MUST cr_status cr_sunit_compile(cr_sunit *u, cr_sfunction *f);

#endif
