/* facts.h - the instructions of a code object: decoded, with the depth of the value stack.
 *
 * CPython 3.12 and 3.13 do not store the depth of a running frame, so it is computed from the
 * code: along jumps, and by the exception table for handlers.  The facts are kept in the code
 * object (its "extra" slot) and are freed with it. */
#ifndef CR_FRAME_FACTS_H
#define CR_FRAME_FACTS_H

#include "frame/frame_compat.h"

/* Effects of an instruction on the shadow; opcodes.txt states one for every instruction. */
typedef enum {
    FLOW_LOST,
    FLOW_COPY,
    FLOW_SWAP,
    FLOW_CONST,
    FLOW_LOCAL,
    FLOW_LOCAL_CLEAR,
    FLOW_LOCAL_LOCAL,
    FLOW_SET_LOCAL,
    FLOW_SET_LOCAL_LOCAL,
    FLOW_SET_LOCAL_SET_LOCAL,
    FLOW_DELETE_LOCAL,
    FLOW_MAKE_CELL,
    FLOW_ATTRIBUTE,
    FLOW_SET_ATTRIBUTE,
    FLOW_DELETE_ATTRIBUTE,
    FLOW_SUPER_ATTRIBUTE,
    FLOW_IMPORT_FROM,
    FLOW_ITEM,
    FLOW_IDENTITY,
    FLOW_NEXT,
    FLOW_PRECALL,
    FLOW_CALL,
    FLOW_CALL_SPREAD,
    FLOW_FORMAT,
    FLOW_MATCH_CLASS,
    FLOW_IMPORT,
} cr_code_flow;

/* One code unit.  The units of a prefix EXTENDED_ARG have the facts of the instruction they
 * belong to; a unit that is a cache or that no path reaches has depth -1. */
typedef struct {
    uint8_t op, flow;
    int16_t depth; /* of the value stack before the instruction */
    int arg;
    int next; /* the unit after the instruction and its caches */
} cr_code_step;

typedef struct {
    int units;
    cr_code_step step[];
} cr_code_facts;

/* The facts of `code`, borrowed from it; NULL with an exception. */
const cr_code_facts *cr_code_facts_of(PyCodeObject *code);
/* Numbers of objects that an instruction takes from the value stack and leaves there. */
int cr_code_step_pops(const cr_code_step *step);
int cr_code_step_pushes(const cr_code_step *step);
/* How the program came from the instruction to unit `at`. */
typedef enum { CR_CODE_NEXT, CR_CODE_JUMP, CR_CODE_ERROR } cr_code_way;
cr_code_way cr_code_step_way(const cr_code_step *step, int at);
const char *cr_code_step_name(const cr_code_step *step);

#endif
