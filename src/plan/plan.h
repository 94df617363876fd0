/* plan.h - work as data: commands on buffers.
 *
 * A command says what happens to elements and not how: its operands are arrays in buffers, and
 * its geometry is in sizes and strides.  An executor, which is the table of a device, decides
 * how it is done.  A plan is a list of commands with the buffers that they use.  It is made by
 * a device that collects commands (collect.h), or parsed from its text.
 *
 * Addresses.  A plan has no memory: an address in it is the number of a buffer and a distance
 * from the buffer's first byte (cr_plan_address).  A run replaces the addresses by those of the
 * executor's memory. */
#ifndef CR_PLAN_PLAN_H
#define CR_PLAN_PLAN_H

#include "base/memory.h"
#include "base/text.h"
#include "device/device.h"
#include "num/view.h"

typedef enum {
#define CR_COMMAND(NAME) CR_COMMAND_##NAME,
#include "plan/commands.def"
#undef CR_COMMAND
    CR_COMMAND_KINDS
} cr_command_kind;
extern const char *const cr_command_names[CR_COMMAND_KINDS];
extern const char *const cr_combine_names[CR_COMBINE_COUNT];

/* What a kernel computes, as a program of the loop IR (docs/design/loop.md). */
typedef struct {
    const char *name, *program;
} cr_plan_kernel;

/* `bytes` is host memory; `from` is NULL if these are copied, and `to` if the host gets
 * them. */
typedef struct {
    char *to, *from;
    const void *bytes;
    size_t n;
} cr_plan_copy;

typedef struct {
    cr_array to, from;
} cr_plan_move;

typedef struct {
    cr_array to;
    _Alignas(16) char element[16];
} cr_plan_fill;

/* A call between the ranks of a group, which engines of the room comm run and no device does.
 * Arrays are row-major.  `rows`: rows for each rank and of each, of a call that exchanges parts
 * of other sizes, else NULL.  With `wait` the call that makes out[0] has ended afterwards, and
 * the other members are empty. */
typedef struct {
    bool wait;
    const char *call;   /* "all_reduce" */
    const char *group;  /* its name */
    const char *reduce; /* "sum"; "" without a reduction */
    int64_t root;       /* -1: none */
    int count;          /* of calls that start as one */
    int ins;            /* count; or 0: `out` is both operand and result */
    const cr_array *in, *out;
    int64_t parts; /* numbers in each list of rows */
    const int64_t *in_rows, *out_rows;
} cr_plan_collective;

struct cr_command {
    cr_command_kind kind;
    union {
        cr_launch kernel; /* `code` is a cr_plan_kernel */
        cr_plan_move move;
        cr_plan_fill fill;
        cr_indexed indexed; /* INDEXED and COMBINE */
        cr_windows windows;
        cr_library library;
        cr_plan_collective collective;
        cr_plan_copy copy;
    };
};

typedef struct {
    size_t bytes;
    bool input;    /* filled by the caller of a run */
    int number;    /* of an input: among all inputs, also those without elements */
    size_t before; /* the number of commands when it was made */
} cr_plan_buffer;

/* The plan owns all that its lists name.  `cr_plan p = {0}` is an empty plan. */
typedef struct {
    cr_arena arena;
    CR_VEC(cr_plan_buffer) buffer;
    CR_VEC(cr_command *) command;
    CR_VEC(cr_array) output; /* that the caller of a run reads */
    bool of_values;          /* commands depend on elements that the host read */
} cr_plan;

void cr_plan_drop(cr_plan *p);

/* --- addresses --- */

/* The address of a byte of a buffer; `offset` may be negative. */
static inline char *cr_plan_address(size_t buffer, int64_t offset)
{
    return (char *)(uintptr_t)(((uint64_t)buffer + 1) << 40) + offset;
}

static inline size_t cr_plan_buffer_of(const char *address)
{
    return (size_t)((((uint64_t)(uintptr_t)address + (UINT64_C(1) << 39)) >> 40) - 1);
}

static inline int64_t cr_plan_offset_of(const char *address)
{
    return address - cr_plan_address(cr_plan_buffer_of(address), 0);
}

/* What executes calls between ranks on memory of a device; set once, by a room above.  A run
 * that ends waits for its calls. */
extern const char *(*cr_plan_collective_run)(int kind, int index, const cr_plan_collective *c);

/* --- building --- */

/* Adds a buffer; *out is its number. */
CR_MUST cr_status cr_plan_add_buffer(size_t *out, cr_plan *p, size_t bytes, bool input);
/* Adds a copy of the command with all that it names. */
CR_MUST cr_status cr_plan_add(cr_plan *p, const cr_command *c);
CR_MUST cr_status cr_plan_add_output(cr_plan *p, const cr_array *a);

/* --- copies of commands --- */

/* Gives the address of elements in a copy. */
typedef char *(*cr_address_map)(void *context, char *address);

/* A copy of a command, or of an array, with all that it names, in one block of `get`; its
 * addresses of elements are those of `map`, or the same if it is NULL.  NULL when out of
 * memory. */
typedef struct {
    cr_address_map map;
    void *context;
    void *(*get)(void *from, size_t size);
    void *from;
} cr_keeping;
cr_command *cr_command_keep(const cr_command *c, const cr_keeping *how);
cr_array *cr_array_keep_by(const cr_array *a, const cr_keeping *how);
/* Calls `visit` for each address of elements that the command names, which is not NULL; it
 * needs no memory. */
typedef void (*cr_address_visit)(void *context, const char *address);
void cr_command_each_address(const cr_command *c, cr_address_visit visit, void *context);

/* --- text --- */

void cr_plan_print(cr_text *out, const cr_plan *p);
/* Adds what the text has to an empty plan.  CR_VALUE with the line of the first error. */
CR_MUST cr_status cr_plan_parse(cr_plan *out, const char *text);

/* --- running --- */

enum { CR_PLAN_OPERANDS = 32 };

/* An operand of a kernel: the rows and columns that a call accesses of it, each 1 where its
 * elements do not vary. */
typedef struct {
    int dtype;
    bool written;
    int64_t rows, columns;
} cr_plan_operand;

typedef struct {
    const cr_device_ops *ops;
    int kind, index; /* of the device; 0: the host */
    /* Builds a kernel for the device; NULL: its `launch` takes kernels of plans. */
    const char *(*build)(const cr_device_ops *ops, int index, const cr_plan_kernel *k,
                         void **code);
    /* The operands of a command KERNEL.  CR_VALUE if it is no call of its kernel: operands or
     * parameters are missing, or a program is not one of rows and columns. */
    cr_status (*operands)(const cr_launch *l, cr_plan_operand *out);
    /* What a source computes, as texts that it owns; for collections. */
    cr_plan_kernel (*describe)(const cr_kernel_source *s);
} cr_executor;

typedef struct {
    void *at;       /* NULL: not there yet */
    uint32_t block; /* 0: of the caller */
} cr_plan_memory;

typedef struct {
    const cr_plan_kernel *kernel;
    void *code;
} cr_plan_code;

/* A run of a plan.  Memory of a buffer is requested when a command needs it. */
typedef struct {
    const cr_plan *plan;
    const cr_executor *by;
    CR_VEC(cr_plan_memory) memory;
    CR_VEC(cr_plan_code) code;
    size_t done; /* commands */
    cr_status failed;
} cr_plan_run;

/* A run that has executed nothing; the caller ends it, also after a failure. */
static inline cr_plan_run cr_plan_start(const cr_plan *p, const cr_executor *by)
{
    return (cr_plan_run){.plan = p, .by = by};
}
/* Executes one command, whose addresses are the executor's and whose kernel it has built.
 * NULL, or the text of an error. */
const char *cr_command_execute(const cr_executor *by, cr_command *c);
/* The executor's address for one of the plan, also before the first command. */
CR_MUST cr_status cr_plan_place(char **out, cr_plan_run *r, const char *address);
/* Compares the commands from number `first` on, and the outputs, with the buffers.  CR_VALUE if
 * a command would access other memory than that of its arrays, or does not agree with
 * itself. */
CR_MUST cr_status cr_plan_check(const cr_plan *p, const cr_executor *by, size_t first);
/* Executes the commands that have not been, in order, after all of them have passed
 * cr_plan_check. */
CR_MUST cr_status cr_plan_execute(cr_plan_run *r);
/* Waits for the calls that no command waited for, and frees the memory; what a call may still
 * use stays.  The run's failure, or the first one of these waits. */
cr_status cr_plan_end(cr_plan_run *r);

/* Sets missing functions of a backend's table that has `submit` (cresset_backend.h). */
void cr_plan_complete(cr_device_ops *table);

/* An executor that computes one element after another on the host, as each command is defined:
 * the reference of tests.  Rooms above add the kernels and the calls of operators. */
extern cr_device_ops cr_oracle_ops;

#endif
