/* Decoding code objects and computing stack depths. */
#include "frame/facts.h"

typedef struct {
    const char *name;
    uint8_t flow, caches, jumps, backward;
    int8_t jumped; /* the effect on the depth when it jumps */
    uint8_t ends;  /* never continues at the next instruction */
} frame_opcode;

#include "frame_opcodes.h"

enum { UNREACHED = -1 };

int cr_code_step_pops(const cr_code_step *step) { return frame_pops(step->op, step->arg); }

int cr_code_step_pushes(const cr_code_step *step) { return frame_pushes(step->op, step->arg); }

static int facts_target(const cr_code_step *step)
{
    return step->next + (frame_opcodes[step->op].backward ? -step->arg : step->arg);
}

cr_code_way cr_code_step_way(const cr_code_step *step, int at)
{
    const frame_opcode *o = &frame_opcodes[step->op];
    int target = facts_target(step) + (step->flow == FLOW_NEXT ? CR_FRAME_LOOP_END : 0);

    if (at == step->next && !o->ends)
        return CR_CODE_NEXT;
    return o->jumps && at == target ? CR_CODE_JUMP : CR_CODE_ERROR;
}

const char *cr_code_step_name(const cr_code_step *step) { return frame_opcodes[step->op].name; }

/* Decodes the instruction at unit `i`, prefixes included.  Returns the unit after it. */
static int facts_decode(cr_code_facts *facts, const unsigned char *bytes, int i)
{
    int arg = 0, first = i;

    while (bytes[2 * i] == FRAME_EXTENDED_ARG && i + 1 < facts->units)
        arg = (arg | bytes[2 * i++ + 1]) << 8;
    const frame_opcode *o = &frame_opcodes[bytes[2 * i]];
    cr_code_step step = {bytes[2 * i], o->flow, UNREACHED, arg | bytes[2 * i + 1],
                         i + 1 + o->caches};
    for (; first <= i; first++)
        facts->step[first] = step;
    for (; i + 1 < step.next && i + 1 < facts->units; i++)
        facts->step[i + 1] = (cr_code_step){.depth = UNREACHED, .next = step.next};
    return step.next;
}

/* Sets the depth at a unit, and at the units of its prefix.  Returns whether it was unknown. */
static int facts_reach(cr_code_facts *facts, int at, int depth)
{
    int next = at >= 0 && at < facts->units ? facts->step[at].next : 0;

    if (!next || facts->step[at].depth != UNREACHED)
        return 0;
    for (; at < facts->units && facts->step[at].next == next && facts->step[at].op; at++)
        facts->step[at].depth = (int16_t)depth;
    return 1;
}

/* The next number of an exception table: groups of six bits, the highest first. */
static int facts_number(const unsigned char **p)
{
    int value = **p & 63;

    while (*(*p)++ & 64)
        value = value << 6 | (**p & 63);
    return value;
}

/* Reaches the handlers of instructions that have been reached.  Returns whether there was a new
 * one. */
static int facts_handlers(cr_code_facts *facts, PyObject *table)
{
    const unsigned char *p = (const unsigned char *)PyBytes_AS_STRING(table);
    const unsigned char *end = p + PyBytes_GET_SIZE(table);
    int found = 0;

    while (p < end) {
        int start = facts_number(&p), size = facts_number(&p), target = facts_number(&p);
        int depth = facts_number(&p), i = start;
        while (i < start + size && facts->step[i].depth == UNREACHED)
            i++;
        /* The handler finds the error, and with the low bit the instruction that failed below
         * it. */
        if (i < start + size)
            found |= facts_reach(facts, target, (depth >> 1) + (depth & 1) + 1);
    }
    return found;
}

/* Carries the depth at unit `i` to the units that can follow.  Returns whether one was new. */
static int facts_follow(cr_code_facts *facts, int i)
{
    const cr_code_step *step = &facts->step[i];
    const frame_opcode *o = &frame_opcodes[step->op];
    int found = 0;

    if (!o->ends)
        found |= facts_reach(facts, step->next,
                             step->depth + cr_code_step_pushes(step) - cr_code_step_pops(step));
    if (o->jumps)
        found |= facts_reach(facts, facts_target(step), step->depth + o->jumped);
    return found;
}

/* Repeats until nothing is new: loops in code are few, and most code is reached in one pass. */
static void facts_depths(cr_code_facts *facts, PyObject *table)
{
    int found = facts_reach(facts, 0, 0);

    while (found) {
        found = 0;
        for (int i = 0; i < facts->units; i++)
            if (facts->step[i].depth != UNREACHED)
                found |= facts_follow(facts, i);
        found |= facts_handlers(facts, table);
    }
}

static cr_code_facts *facts_new(PyCodeObject *code)
{
    PyObject *text = PyCode_GetCode(code);
    int units = text ? (int)(PyBytes_GET_SIZE(text) / (Py_ssize_t)sizeof(_Py_CODEUNIT)) : 0;
    cr_code_facts *facts =
        text ? PyMem_Malloc(sizeof *facts + sizeof(cr_code_step) * (size_t)units) : NULL;

    if (facts) {
        facts->units = units;
        for (int i = 0; i < units;)
            i = facts_decode(facts, (const unsigned char *)PyBytes_AS_STRING(text), i);
        facts_depths(facts, code->co_exceptiontable);
    } else if (text) {
        PyErr_NoMemory();
    }
    Py_XDECREF(text);
    return facts;
}

/* The slot of code objects, -1 with an exception. */
static Py_ssize_t facts_slot(void)
{
    static Py_ssize_t slot = -1;

    if (slot < 0)
        slot = cr_frame_new_extra(PyMem_Free);
    if (slot < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "code objects have no free extra slot");
    return slot;
}

const cr_code_facts *cr_code_facts_of(PyCodeObject *code)
{
    Py_ssize_t slot = facts_slot();
    void *found = NULL;

    if (slot < 0 || cr_frame_get_extra(code, slot, &found) < 0 || found)
        return found;
    found = facts_new(code);
    if (found && cr_frame_set_extra(code, slot, found) < 0) {
        PyMem_Free(found);
        return NULL;
    }
    return found;
}
