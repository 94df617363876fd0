/* code.h - the code of one group, made by code.c and run by run.c; inside compile/ only. */
#ifndef CR_COMPILE_CODE_H
#define CR_COMPILE_CODE_H

#include "compile/facts.h"
#include "compile/program.h"
#include "space/space.h"
#include "tensor/remote.h"

enum { CR_GROUP_OPERANDS = 32, CR_GROUP_PARAMS = 160 };

/* A result that the group reads part by part: a tile of its elements is made before the kernel
 * reads them. */
typedef struct {
    const cr_part *part; /* owned by the cr_compiled */
    int tensors;
    int16_t read[CR_PART_TENSORS]; /* indices in code.read of its tensors */
    const cr_gtype *type[CR_PART_TENSORS];
} cr_source_plan;

/* An operand, a result or an argument: the place of its elements in the group's space. */
typedef struct {
    const cr_gtype *type;
    int16_t number;      /* index in the results, or in code.read; -1 - k: source k */
    uint8_t dtype, lane; /* dtype of its elements, and in the kernel */
    bool row;            /* one value for each row */
    bool shared;         /* on a device: all rows read the same columns */
    bool staged;    /* converted through a tile, because of its dtype or because columns are not
                       adjacent */
    bool copied;    /* copied first, because columns have no common step */
    int64_t period; /* in a flat space: the operand repeats after so many elements; 0: it does
                       not */
    const cr_op *fold; /* the kernels of this entry fold the columns of the output, or NULL */
    int64_t step[CR_REFINED_DIMS]; /* in elements, along the group's dims */
    int64_t offset;                /* in elements, of the first element of a window */
    const int64_t *spread;         /* if copied: the steps along the dims of `space` */
} cr_operand_plan;

/* The program of a structure; groups of equal structure share it. */
typedef struct cr_group_program {
    cr_fused *fused; /* NULL without users */
    int users;
    bool costly; /* it would compute more than separate calls of the nodes */
} cr_group_program;

/* A way to run a group; all ways have equal results. */
typedef struct {
    const char *name;
    cr_schedule schedule;
    bool calls;     /* calls the nodes one at a time */
    bool backwards; /* starts with the last rows, or with the last columns of a single row */
    int64_t grain;  /* least number of elements for one thread */
    int64_t tile;   /* elements that are converted at a time */
} cr_way;
extern const cr_way cr_usual_way;

typedef struct cr_tuner cr_tuner;

/* The space of a group: the elements that its kernel visits. */
typedef struct {
    cr_refined space; /* adjacent dims are merged into the following ones */
    int ndim;         /* all dims except the last are rows */
    int64_t size[CR_REFINED_DIMS], rows, columns;
    bool staged, empty, cuts;
    bool across; /* its rows are short and reduced: vectors of native code have several rows */
    bool flat;   /* its rows are short: all elements are one row, in pieces */
} cr_group_space;

/* Invariant: results come first among the operands; outputs <= operands. over.rows *
 * over.columns is the number of elements of over.size. program, nodes or both are set. */
typedef struct {
    cr_gcode code;
    cr_group_program *program;
    cr_program *nodes; /* calls the nodes one at a time, if the program has no tiles or is
                        * measured; or NULL */
    cr_tuner *tuner;   /* NULL: the usual way */
    int results;
    int folds;
    int outputs, operands; /* outputs first; one result may have several outputs, its windows */
    cr_operand_plan *operand;
    cr_source_plan *source;
    int sources;
    cr_group_space over;
    char *param;
    size_t param_bytes;
    int source_number; /* the source (cr_gcode_source) */
} cr_group_code;

cr_status cr_group_run(const cr_gcode *code, cr_tensor *const *read, cr_tensor **output);
/* Runs the group in the given way; arguments are already checked. */
cr_status cr_group_run_way(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                           cr_tensor **output);

/* A source, with the addresses of its tensors. */
typedef struct {
    const cr_part *part;
    char *data[CR_PART_TENSORS];
} cr_placed_source;
/* A run of a group: the command KERNEL, whose operands are in place or dense copies. */
typedef struct {
    const cr_group_code *c;
    cr_space *space; /* the dims of the code; steps are bytes */
    char *ptr[CR_GROUP_OPERANDS];
    cr_tensor *moved[CR_GROUP_OPERANDS]; /* the copy, or NULL */
    cr_stored stored;                    /* of operands in place, on another device */
    cr_placed_source source[CR_GROUP_SOURCES];
} cr_group_command;
static inline bool cr_group_is_source(const cr_group_code *c, int k)
{
    return k >= c->outputs && c->operand[k].number < 0;
}
/* Executes the command on the host (tiles.c). */
cr_status cr_group_execute(const cr_group_command *g, const cr_way *way);

/* --- stage.c: operands that a kernel cannot read in place --- */
/* Where an operand's elements are: the first, and its number in a space with the dims of the
 * code and steps in bytes. */
typedef struct {
    const cr_operand_plan *plan;
    char *base;
    const cr_space *space;
    int operand;
} cr_placed_operand;
/* Converts elements [at, at + n) of the space between the operand and a dense tile of the
 * kernel's dtype; `out`: to the operand. */
void cr_stage_elements(const cr_group_code *c, const cr_placed_operand *o, int64_t at,
                       int64_t n, char *tile, bool out);
/* Converts rows [row, row + n), all rows of the space counted, between the operand and a tile
 * in which rows are adjacent, and columns `pitch` elements apart. */
void cr_stage_across(const cr_group_code *c, const cr_placed_operand *o, int64_t row, int64_t n,
                     char *tile, int64_t pitch, bool out);
/* Converts rows [0, rows) of `columns` elements between o->base and a dense tile; the steps are
 * those of rows and columns. */
void cr_stage_rows(const cr_operand_plan *o, char *base, const int64_t *step, int64_t rows,
                   int64_t columns, char *tile, bool out);

/* Converts elements [at, at + n) of the space, counted in row-major order, from the source to a
 * dense tile of the kernel's dtype.  False if an index is outside. */
bool cr_stage_source(const cr_operand_plan *o, const cr_placed_source *from, int64_t at,
                     int64_t n, char *tile);
/* The same for rows [row, row + n) of `columns` elements; the tile is that of
 * cr_stage_across. */
bool cr_stage_source_across(const cr_group_code *c, const cr_operand_plan *o,
                            const cr_placed_source *from, int64_t row, int64_t n, char *tile,
                            int64_t pitch);

/* --- alike.c: groups that can share one plan --- */
typedef struct {
    cr_session *s;
    bool all_sizes;  /* groups must be alike for all sizes; types of a class share arrays */
    uint32_t groups; /* described so far */
    uint32_t *group; /* by value id: the last group that numbered it */
    int32_t *number; /* by value id */
    CR_VEC(cr_gvalue *) reads; /* values that the last group reads from outside */
} cr_alike;
cr_alike *cr_alike_new(cr_session *s, unsigned values, bool all_sizes);
/* Appends a description of the group.  Groups with equal descriptions have equal code, except
 * for the values that they read; these have equal places in x->reads.  Bails. */
void cr_alike_describe(cr_alike *x, cr_text *out, const cr_gnode *group);

/* --- tune.c: measures ways on running calls and keeps the best --- */
/* A tuner for the code of `group`; both are borrowed.  It measures whether calls of the nodes
 * are faster, unless `how` is CR_HOW_FAST.  With CR_HOW_MEASURE the program has schedules
 * (cr_fused_add_schedules), which it measures, too, and the best way is stored on disk. */
CR_MUST cr_status cr_tuner_new(cr_tuner **out, const cr_group_code *c, const cr_gnode *group,
                               unsigned how);
/* Whether the group was called, and each number of threads has its way. */
bool cr_tuner_is_done(const cr_tuner *t);
/* Counted, because equal groups of one graph share a tuner; `t` may be NULL. */
cr_tuner *cr_tuner_keep(cr_tuner *t);
void cr_tuner_drop(cr_tuner *t);
/* Runs the group in the best known way, or in the way that is measured next. */
cr_status cr_tuner_run(cr_tuner *t, cr_tensor *const *read, cr_tensor **output);

#endif
