/* code.h - the code of one group: what code.c plans and makes, and run.c runs; inside compile/.
 */
#ifndef CR_COMPILE_CODE_H
#define CR_COMPILE_CODE_H

#include "compile/facts.h"
#include "compile/program.h"

enum { CR_GROUP_OPERANDS = 32, CR_GROUP_PARAMS = 160 };

/* A result, or a value that is read: where its elements lie in the group's space. */
typedef struct {
    const cr_gtype *type;
    int16_t number;      /* which of the results, or of code.read */
    uint8_t dtype, lane; /* of its elements, and in the kernel */
    bool row;            /* one value a row */
    bool staged;         /* goes through a tile: converted, or columns that lie apart */
    bool copied;         /* columns that have no one step: copied before */
    const cr_op *fold; /* an output whose columns are folded by this entry's kernels, or NULL */
    int64_t step[CR_SPACE_DIMS]; /* elements, along the group's dims */
    int64_t offset;              /* elements, of where a window begins */
    const int64_t *spread;       /* copied: the same along the dims of its space */
} cr_operand_plan;

/* Compiled code of a structure; groups of equal structure share it. */
typedef struct cr_group_program {
    cr_fused *fused; /* NULL while nobody has it */
    int users;
    bool costly; /* it would compute more than the nodes do, one by one */
} cr_group_program;

/* How a group is run: no bit depends on it. */
typedef struct {
    const char *name;
    cr_schedule schedule;
    bool calls;     /* its nodes are called one by one */
    bool backwards; /* the last rows, or columns of the one row, first */
    int64_t grain;  /* elements that one thread should have at least */
    int64_t tile;   /* elements of what is converted at a time */
} cr_way;
extern const cr_way cr_usual_way;

typedef struct cr_tuner cr_tuner;

typedef struct {
    cr_gcode code;
    cr_group_program *program;
    cr_program *nodes; /* the group's nodes one by one, where the program has no tiles or is
                          measured; or NULL */
    cr_tuner *tuner;   /* NULL: the usual way */
    int results;
    int folds;
    int outputs, operands; /* outputs first; a result may be several, beside each other */
    cr_operand_plan *operand;
    cr_space space; /* whose neighbours are merged into these: */
    int ndim;       /* rows are all dims but the last */
    int64_t size[CR_SPACE_DIMS], rows, columns;
    bool staged, empty, cuts;
    char *param;
    size_t param_bytes;
    int source_number; /* of the code that is laid out again for other sizes */
} cr_group_code;

cr_status cr_group_run(const cr_gcode *code, cr_tensor *const *read, cr_tensor **output);
/* What is read was checked. */
cr_status cr_group_run_way(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                           cr_tensor **output);

/* The same on another device than the host (remote.c): a launch for each plane of rows and
 * columns. */
cr_status cr_group_run_remote(const cr_group_code *c, cr_tensor *const *read,
                              cr_tensor **output);

/* --- alike.c: groups for which the same is planned --- */
typedef struct {
    cr_session *s;
    bool all_sizes;  /* groups are alike whatever the sizes; types of a class share arrays */
    uint32_t groups; /* described so far */
    uint32_t *group; /* by value id: the group in which it got its number */
    int32_t *number; /* by value id */
    struct {
        size_t len, cap;
        cr_gvalue **at;
    } reads; /* of the last group, from outside */
} cr_alike;
cr_alike *cr_alike_new(cr_session *s, unsigned values, bool all_sizes);
/* Appends what tells the group's code: groups of equal texts have the same, but for the values
 * that they read, which correspond in x->reads.  Bails. */
void cr_alike_describe(cr_alike *x, cr_text *out, const cr_gnode *group);

/* --- tune.c: ways measured on running calls, and remembered --- */
/* Of the code of `group`, whose program has its schedules (cr_fused_add_schedules); both are
 * borrowed. */
CR_MUST cr_status cr_tuner_new(cr_tuner **out, const cr_group_code *c, const cr_gnode *group);
void cr_tuner_drop(cr_tuner *t);
/* Runs the group by the way that is best as far as is known, or that is to be measured. */
cr_status cr_tuner_run(cr_tuner *t, cr_tensor *const *read, cr_tensor **output);

#endif
