/* unit.h - a compilation unit: classes and functions, by qualified name.
 *
 * A unit is counted.  It owns its types, classes, functions, sources and graphs, which are in
 * one session.  Only one thread may add to a unit, and no other thread may read it meanwhile,
 * but to run functions that are compiled: cr_sclass_attribute, cr_sclass_sets and
 * cr_sclass_method see a class before or after an addition.  A caller that keeps a type or a
 * function of a unit must hold a reference to the unit. */
#ifndef CR_SCRIPT_UNIT_H
#define CR_SCRIPT_UNIT_H

#include "script/ir.h"

typedef struct {
    const char *name;
    const cr_stype *type;
    bool parameter, buffer;
    bool is_set; /* a function of the unit sets it */
} cr_sattribute;

typedef struct {
    const char *name;
    const cr_sconstant *value;
} cr_sclass_constant;

/* A class, a module's class, a named tuple's fields, an enum's members (constants of type
 * `base`), an interface (methods without graphs). */
struct cr_sclass {
    uint64_t number;  /* no other class of the process has it, alive or freed */
    const char *name; /* "__torch__.torch.nn.modules.linear.Linear" */
    const cr_stype *type;
    cr_sunit *unit;
    bool is_module;
    CR_VEC(cr_sattribute) attributes;     /* in the order of slots; a named tuple: its fields */
    CR_VEC(cr_sclass_constant) constants; /* an enum: its members; a named tuple: defaults */
    CR_VEC(cr_sfunction *) methods;
    CR_VEC(cr_sfunction *) hooks, prehooks; /* forward hooks and forward pre-hooks */
    const cr_stype *base;                   /* ENUM: the type of its values */
    const char *source_file; /* qualifier of the archive file that it came from */
};

struct cr_sfunction {
    const char *name;      /* "forward" */
    const char *qualified; /* "__torch__.M.forward" */
    cr_sclass *owner;      /* of a method, or NULL */
    cr_sfunction *next;    /* the overload that calls try after this one, or NULL */
    cr_sunit *unit;
    cr_sschema schema; /* result types are known once it is compiled */
    cr_sgraph *graph;  /* NULL: not compiled yet, or an interface's method */
    const cr_sast *ast;
    bool compiling;
    void *caller; /* a function of the caller's language, which cr_script_call_out calls; or
                     NULL */
    bool is_hook; /* a method that calls name as a function */
    bool dropped; /* a declaration that is not called: a call raises */
    void *code;   /* of the executor, which frees it through cr_sunit_set_drop */
    bool former;  /* the meaning that an operator had in older archives */
    const char *stands_for; /* the operator that the table lacks, "aten::complex"; or NULL */
};

cr_sunit *cr_sunit_new(void);
cr_sunit *cr_sunit_keep(cr_sunit *u);
void cr_sunit_release(cr_sunit *u);
cr_session *cr_sunit_session(cr_sunit *u);
/* Frees function->code of every function when the unit is freed. */
void cr_sunit_set_drop(cr_sunit *u, void (*drop)(void *code));
/* Keeps a reference of a tensor until the unit is freed. */
void cr_sunit_keep_tensor(cr_sunit *u, cr_tensor *t);
/* The same for any value; where it is, until then. */
const struct cr_ivalue *cr_sunit_keep_value(cr_sunit *u, const struct cr_ivalue *v);

/* What names mean in functions of the unit that do not come from an archive (python.h); NULL:
 * they have no free names. */
struct cr_senv;
void cr_sunit_set_env(cr_sunit *u, const struct cr_senv *env);
const struct cr_senv *cr_sunit_env(const cr_sunit *u);
/* Keeps a reference of a unit whose types this one uses. */
void cr_sunit_keep_unit(cr_sunit *u, cr_sunit *used);

/* The graph that a text as of cr_sgraph_print states, in the unit; it has no places in a
 * source. Bails from the unit's session with CR_VALUE. */
cr_sgraph *cr_sgraph_parse(cr_sunit *u, const char *text);
/* The type that a text as of cr_stype_print states.  Bails as cr_sgraph_parse does. */
const cr_stype *cr_stype_parse(cr_sunit *u, const char *text);

/* By qualified name; NULL when absent. */
cr_sclass *cr_sunit_class(const cr_sunit *u, const char *name);
cr_sfunction *cr_sunit_function(const cr_sunit *u, const char *name);
/* A new class of kind CLASS, ENUM, INTERFACE or (named) TUPLE; `name` must be free. */
cr_sclass *cr_sunit_add_class(cr_sunit *u, const char *name, cr_stype_kind kind);
/* The same where no session is running; NULL: out of memory. */
cr_sclass *cr_sunit_make_class(cr_sunit *u, const char *name, cr_stype_kind kind);
/* Makes the type of a named tuple, whose fields are its attributes. */
CR_MUST cr_status cr_sclass_finish_tuple(cr_sclass *c);
cr_sfunction *cr_sunit_add_function(cr_sunit *u, const char *name, cr_sclass *owner);
/* Numbers of classes and functions, and those by number, in order of making. */
size_t cr_sunit_function_count(const cr_sunit *u);
cr_sfunction *cr_sunit_function_at(const cr_sunit *u, size_t i);
/* The source files that the unit has read (import.c). */
struct cr_sfile;
struct cr_sfile **cr_sunit_files(cr_sunit *u);

void cr_sclass_add_attribute(cr_sclass *c, cr_sattribute a);
void cr_sclass_add_constant(cr_sclass *c, const char *name, const cr_sconstant *value);
void cr_sclass_add_method(cr_sclass *c, cr_sfunction *f);
/* A forward hook, or a forward pre-hook. */
void cr_sclass_add_hook(cr_sclass *c, cr_sfunction *f, bool before);
/* The slot of an attribute, or -1. */
int cr_sclass_attribute(const cr_sclass *c, const char *name);
/* Whether a function of the unit sets the attribute; notes that one does. */
bool cr_sclass_sets(const cr_sclass *c, int slot);
void cr_sclass_note_set(cr_sclass *c, int slot);
const cr_sconstant *cr_sclass_constant_value(const cr_sclass *c, const char *name);
/* The member of an enum: a constant without a name if there is none. */
cr_sconstant cr_sclass_member(const cr_sclass *c, const char *name);
cr_sfunction *cr_sclass_method(const cr_sclass *c, const char *name);

/* Where an archive's code comes from.  `read` gives the text of a qualifier
 * ("__torch__.torch.nn.modules.linear"): *text stays valid as long as the unit; NULL when there
 * is no such file.  `constant` are the items of constants.pkl, CONSTANTS.c0 and so on. */
typedef struct {
    cr_status (*read)(void *context, const char *qualifier, const char **text, size_t *len);
    void *context;
    const cr_sconstant *constant;
    size_t constant_count;
    int version; /* of operators, from the archive's record `version` */
} cr_sarchive;

/* Compiles the class with the qualified name, and what it needs.  A name that is there already
 * is not compiled again.  torch's errors with source marks; after a failure the unit is only
 * good for being released. */
CR_MUST cr_status cr_sunit_import(cr_sunit *u, const cr_sarchive *a, const char *name,
                                  cr_sclass **out);
/* A type from its annotation text, "List[__torch__.M]". */
CR_MUST cr_status cr_sunit_import_type(cr_sunit *u, const cr_sarchive *a, const char *text,
                                       const cr_stype **out);

#endif
