/* Groups as fused programs.
 *
 * The plan of a group has the place of every operand in the space of rows and columns, the
 * arguments of each node, and the numbers that are parameters.  The plan without sizes, strides
 * and numbers is the structure.  Groups of equal structure share one program, so that twelve
 * equal layers are built, printed and compiled once. */
#include "compile/code.h"
#include "base/log.h"
#include "base/map.h"
#include "graph/rewrite.h"
#include "jit/jit.h"
#include "num/order.h"
#include "tensor/geometry.h"
#include <pthread.h>
#include <string.h>

typedef struct source source;

struct cr_compiled {
    cr_session session; /* owns the groups' code */
    CR_VEC(cr_group_code *) groups;
    CR_VEC(source *) sources; /* for all sizes: one for each planned group */
    CR_VEC(cr_part *) parts;  /* of the groups' sources */
    cr_facts_cache *facts;    /* for all sizes */
    size_t resized;           /* bytes of the code for the last other sizes */
    int built;
};

/* A node of the group that is not a view, or a window of one. */
typedef struct {
    const cr_gnode *n;
    cr_facts facts;
    int16_t ref[CR_MAX_ARGS]; /* by tensor argument: an operand, or -1 - the number of a value
                               * of the group */
    int first;                /* number of its first result */
    int parts, part;          /* windows of the last dim, and this one; parts 0: the whole */
    int shape;                /* index of its shape in the group's list */
    int source;               /* READ: index in the group's sources */
} planned;

/* The sizes of a type, or of one window of its last dim. */
typedef struct {
    const cr_gtype *type;
    int parts;
} planned_shape;

/* An argument of a node from outside the group, broadcast to the node's shape. */
typedef struct {
    const cr_gvalue *v;
    int shape, part;
    uint8_t lane;
    int16_t number, operand;
} planned_read;

enum { OUT_OF_REACH = -1 }; /* place of a value that exists only in windows */

/* Assigns a value to result `result`, or to window `part` of its last dim. */
typedef struct {
    int16_t result;
    int number;           /* number of the value, from 1 */
    int parts, part;      /* parts 0: the whole result */
    bool joined;          /* the group joins windows to this result */
    const cr_gnode *fold; /* the node that folds the value's columns to the result, or NULL */
} planned_output;

/* The nodes of a group.  Invariant: values of the group are numbered in the order of the nodes,
 * so node i reads values below node[i].first only. */
typedef struct {
    planned *node;
    planned_shape *shape;  /* shapes of nodes */
    const cr_gnode **rows; /* nodes that reduce rows */
    int nodes, room, values, shapes, rows_nodes;
    bool scans;             /* a node scans rows */
    const cr_gnode *fold;   /* the node that folds columns, or NULL */
    const cr_gnode *spread; /* a view that repeats values of rows along the rows, or NULL */
} selection;

/* The space of a group.  Invariant: every shape of its nodes has either `numel` elements and
 * boundaries that are boundaries of `dims`, or one element for each row of `columns`. */
typedef struct {
    cr_refined dims;
    int64_t numel, columns; /* columns 0: nothing relates rows */
    int column_dims;        /* the last dims that are the columns */
} group_space;

/* Where the group's results and arguments are in its space.  Invariant: operands of the code
 * are the outputs, in this order, and then the operands of the reads. */
typedef struct {
    planned_output *output;
    planned_read *use; /* reads that differ in operand or place */
    int outputs, uses, params;
} operand_list;

/* The size-independent plan of a group, from which code for other sizes is made.  It refers to
 * the graph. */
struct source {
    const cr_gnode *group;
    const cr_facts *facts; /* by node of the group */
    selection chosen;
    operand_list operands;
    bool numbers; /* a number that the kernel reads varies */
    bool whole;   /* the kernel depends on numbers that vary: it is planned for each choice */
    const cr_group_code *code;
};

/* What a value of the graph is in a group, by value id. */
typedef struct {
    int32_t *place;          /* 1 + the number of a value of the group */
    const int32_t **numbers; /* places of its windows, or NULL */
    const cr_gnode **window; /* the split whose windows it is computed in */
    cr_gvalue **now;         /* the value in the graph `alone` */
} builder_values;

/* The group that gets code. */
typedef struct {
    const cr_gnode *group;
    cr_group_code *c;
    cr_graph *alone; /* as a separate graph */
    selection chosen;
    group_space space;
    operand_list operands;
    int reads;
    const cr_gvalue *read[CR_GROUP_OPERANDS];
    const cr_gnode **wide;   /* by node: the split whose windows it is computed in, or NULL */
    const cr_gnode *mark;    /* the split of mark_value */
    cr_source_plan *filling; /* the source of count_tensor and keep_tensor */
} builder_group;

/* Code that is made again for other sizes. */
typedef struct {
    const source *from; /* the plan, or NULL */
    source *made;
    const cr_kept_types *kept;
} builder_sizes;

/* The program that is built. */
typedef struct {
    cr_loop *l;
    const cr_expr **expr; /* by value number */
    const planned *at;
    int slot;
} builder_program;

/* Makes the code of one group after another.
 * Invariant: `of` has one entry for each value of `g`; in, now and sized are of the group at
 * hand. of.place of a value is 0 unless it is one of the group's. */
typedef struct {
    cr_session *s;
    cr_compiled *all;
    const cr_graph *g;
    cr_facts_cache *facts;
    cr_alike *alike;
    cr_map *twins; /* groups with code, by description */
    unsigned how;  /* cr_how */
    builder_values of;
    builder_group in;
    builder_sizes sized;
    builder_program now;
} builder;

/* --- nodes --- */

static void add_reads(builder *b, planned *p);

/* A node that joins values from outside is a read. */
static cr_fact_kind kind_of(const builder *b, const cr_gnode *n)
{
    cr_fact_kind kind = (cr_fact_kind)cr_facts_of(b->facts, n).kind;

    return kind == CR_FACT_JOIN && !b->of.place[n->arg[0].list[0].value->id] ? CR_FACT_READ
                                                                             : kind;
}

static void mark_value(void *context, cr_gvalue *v)
{
    builder *b = context;

    b->of.window[v->id] = b->in.mark;
}

/* Marks the producers of the value that `split` reads: they are computed window by window. */
static void mark_wide(builder *b, const cr_gnode *split, size_t at)
{
    const cr_gblock *block = b->in.group->block[0];

    b->in.mark = split;
    mark_value(b, split->arg[0].value);
    for (size_t i = at; i-- > 0;) {
        const cr_gnode *n = block->at[i];
        if (b->of.window[n->result[0]->id] != split)
            continue;
        b->in.wide[i] = split;
        cr_gnode_each_read(n, mark_value, b);
    }
}

static int64_t numel_of_value(const cr_gvalue *v)
{
    return cr_numel(v->type.ndim, v->type.size);
}

static void add_node(builder *b, const cr_gnode *n, int parts, int part)
{
    cr_facts f = cr_facts_of(b->facts, n);

    if (f.kind == CR_FACT_VIEW && b->of.place[n->arg[0].value->id] > 0) {
        b->of.place[n->result[0]->id] = b->of.place[n->arg[0].value->id];
        if (numel_of_value(n->result[0]) != numel_of_value(n->arg[0].value))
            b->in.chosen.spread = n;
        return;
    }
    if ((f.kind != CR_FACT_POINT && f.kind != CR_FACT_ROWS) ||
        (parts && f.kind != CR_FACT_POINT))
        cr_bail(b->s, CR_VALUE, "no loop for %%%s", n->result[0]->name);
    if (b->in.chosen.nodes == b->in.chosen.room)
        cr_bail(b->s, CR_VALUE, "too many nodes");
    f = b->how & CR_HOW_FAST ? cr_facts_loose(f) : f;
    b->in.chosen.node[b->in.chosen.nodes] = (planned){
        .n = n, .facts = f, .first = b->in.chosen.values, .parts = parts, .part = part};
    for (int k = 0; k < n->result_count; k++)
        b->of.place[n->result[k]->id] = ++b->in.chosen.values;
    add_reads(b, &b->in.chosen.node[b->in.chosen.nodes++]);
}

/* Makes the node's result an operand that is read part by part. */
static void add_part_node(builder *b, const cr_gnode *n)
{
    int dtype = n->result[0]->type.dtype;
    cr_facts f = {.kind = CR_FACT_READ,
                  .entry = (uint8_t)dtype,
                  .compute = (uint8_t)cr_lane_type(dtype),
                  .half = CR_DTYPE_NONE};

    if (b->in.chosen.nodes == b->in.chosen.room || b->in.c->sources == CR_GROUP_SOURCES)
        cr_bail(b->s, CR_VALUE, "too many nodes");
    b->in.chosen.node[b->in.chosen.nodes++] = (planned){
        .n = n, .facts = f, .first = b->in.chosen.values, .source = b->in.c->sources++};
    b->of.place[n->result[0]->id] = ++b->in.chosen.values;
}

static void add_windows(builder *b, const cr_gnode *split, size_t at)
{
    const cr_gblock *block = b->in.group->block[0];
    cr_gvalue *v = split->arg[0].value;
    int32_t *numbers = CR_NEW_N(b->s, int32_t, split->result_count);

    for (int part = 0; part < split->result_count; part++) {
        for (size_t i = 0; i < at; i++)
            if (b->in.wide[i] == split)
                add_node(b, block->at[i], split->result_count, part);
        numbers[part] = b->of.place[v->id];
        if (numbers[part] <= 0)
            cr_bail(b->s, CR_VALUE, "%%%s is split and not made inside", v->name);
        b->of.place[split->result[part]->id] = numbers[part];
    }
    for (size_t i = 0; i < at; i++)
        if (b->in.wide[i] == split)
            b->of.place[block->at[i]->result[0]->id] = OUT_OF_REACH;
    b->of.numbers[v->id] = numbers;
}

/* A node whose result is complete only when the group is: no node of the group reads it. */
static void add_last(builder *b, const cr_gnode *n)
{
    b->of.place[n->result[0]->id] = OUT_OF_REACH;
    if (kind_of(b, n) == CR_FACT_FOLD)
        b->in.chosen.fold = n;
}

/* Lists the nodes in order. */
static void gather_nodes(builder *b)
{
    const cr_gblock *block = b->in.group->block[0];
    int windows = 1;

    b->in.wide = CR_NEW_N(b->s, const cr_gnode *, block->len);
    for (size_t i = 0; i < block->len; i++)
        if (kind_of(b, block->at[i]) == CR_FACT_SPLIT) {
            mark_wide(b, block->at[i], i);
            windows =
                block->at[i]->result_count > windows ? block->at[i]->result_count : windows;
        }
    b->in.chosen.room = (int)block->len * windows;
    b->in.chosen.node = CR_NEW_N(b->s, planned, b->in.chosen.room);
    for (size_t i = 0; i < block->len; i++) {
        const cr_gnode *n = block->at[i];
        if (b->in.wide[i])
            continue;
        if (kind_of(b, n) == CR_FACT_SPLIT)
            add_windows(b, n, i);
        else if (kind_of(b, n) == CR_FACT_JOIN || kind_of(b, n) == CR_FACT_FOLD)
            add_last(b, n);
        else if (kind_of(b, n) == CR_FACT_READ)
            add_part_node(b, n);
        else
            add_node(b, n, 0, 0);
    }
}

/* --- the space --- */

typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS + 1];
} shape;

static void set_shape(shape *s, const cr_gtype *t, int parts)
{
    s->ndim = t->ndim;
    memcpy(s->size, t->size, t->ndim * sizeof *s->size);
    if (parts)
        s->size[s->ndim - 1] /= parts;
}

static const cr_gtype *type_of_elements(const planned *p)
{
    return p->facts.kind == CR_FACT_ROWS ? cr_node_first_tensor(p->n) : &p->n->result[0]->type;
}

/* True if the shapes are equal for all sizes. */
static bool is_shape(const planned_shape *s, const cr_gtype *t, int parts)
{
    return s->type->size == t->size && s->type->ndim == t->ndim && s->parts == parts;
}

static int list_shape(builder *b, const cr_gtype *t, int parts)
{
    for (int i = 0; i < b->in.chosen.shapes; i++)
        if (is_shape(&b->in.chosen.shape[i], t, parts))
            return i;
    b->in.chosen.shape[b->in.chosen.shapes] = (planned_shape){t, parts};
    return b->in.chosen.shapes++;
}

static void list_shapes(builder *b)
{
    b->in.chosen.shape = CR_NEW_N(b->s, planned_shape, b->in.chosen.nodes);
    b->in.chosen.rows = CR_NEW_N(b->s, const cr_gnode *, b->in.chosen.nodes);
    for (int i = 0; i < b->in.chosen.nodes; i++) {
        planned *p = &b->in.chosen.node[i];
        p->shape = list_shape(b, type_of_elements(p), p->parts);
        if (p->facts.kind == CR_FACT_ROWS)
            b->in.chosen.rows[b->in.chosen.rows_nodes++] = p->n;
        b->in.chosen.scans = b->in.chosen.scans || p->facts.scans;
    }
}

static int64_t numel_of(const shape *s) { return cr_numel(s->ndim, s->size); }

/* A type with one value for each row has the shape of the rows. */
static bool refines(cr_refined *space, const builder *b, const cr_gtype *t, int parts)
{
    shape s;

    set_shape(&s, t, parts);
    if (numel_of(&s) != b->in.space.numel)
        s.size[s.ndim++] = b->in.space.columns;
    return numel_of(&s) == b->in.space.numel && cr_refine(space, s.ndim, s.size);
}

static void set_columns(builder *b, int64_t columns)
{
    if (b->in.space.columns && b->in.space.columns != columns)
        cr_bail(b->s, CR_VALUE, "the group has rows of two lengths");
    b->in.space.columns = columns;
}

static void count_elements(builder *b)
{
    shape s;

    if (b->in.chosen.fold)
        set_columns(b, cr_node_kept(b->in.chosen.fold));
    if (b->in.chosen.spread && numel_of_value(b->in.chosen.spread->arg[0].value))
        set_columns(b, numel_of_value(b->in.chosen.spread->result[0]) /
                           numel_of_value(b->in.chosen.spread->arg[0].value));
    for (int i = 0; i < b->in.chosen.rows_nodes; i++)
        set_columns(b, cr_node_columns(b->in.chosen.rows[i]));
    for (int i = 0; i < b->in.chosen.shapes; i++) {
        set_shape(&s, b->in.chosen.shape[i].type, b->in.chosen.shape[i].parts);
        int64_t n = numel_of(&s);
        b->in.space.numel = n > b->in.space.numel ? n : b->in.space.numel;
    }
}

static bool refines_joined(cr_refined *space, const builder *b, const planned_output *o)
{
    return !o->joined || o->part ||
           refines(space, b, &b->in.group->result[o->result]->type, o->parts);
}

static void find_space(builder *b)
{
    count_elements(b);
    bool fine =
        !b->in.space.columns ||
        cr_refine(&b->in.space.dims, 2,
                  (int64_t[2]){b->in.space.numel / b->in.space.columns, b->in.space.columns});
    for (int i = 0; fine && i < b->in.chosen.shapes; i++)
        fine = refines(&b->in.space.dims, b, b->in.chosen.shape[i].type,
                       b->in.chosen.shape[i].parts);
    for (int k = 0; fine && k < b->in.operands.outputs; k++)
        fine = refines_joined(&b->in.space.dims, b, &b->in.operands.output[k]);
    if (!fine)
        cr_bail(b->s, CR_VALUE, "the shapes of the group are of no one space");
    b->in.space.column_dims = b->in.space.columns && b->in.space.numel
                                  ? cr_refined_cut(&b->in.space.dims, b->in.space.columns)
                                  : 0;
}

/* --- operands --- */

static bool same_operand(const cr_operand_plan *a, const cr_operand_plan *b)
{
    return a->number == b->number && a->lane == b->lane && a->offset == b->offset &&
           !memcmp(a->step, b->step, sizeof a->step);
}

static cr_operand_plan *new_operand(builder *b)
{
    if (b->in.c->operands == CR_GROUP_OPERANDS)
        cr_bail(b->s, CR_VALUE, "too many operands");
    return &b->in.c->operand[b->in.c->operands++];
}

static int add_operand(builder *b, const cr_operand_plan *o)
{
    cr_group_code *c = b->in.c;

    for (int k = c->outputs; k < c->operands; k++)
        if (same_operand(&c->operand[k], o))
            return k;
    *new_operand(b) = *o;
    return c->operands - 1;
}

static int read_number_of(builder *b, const cr_gvalue *v)
{
    for (int i = 0; i < b->in.reads; i++)
        if (b->in.read[i] == v)
            return i;
    if (b->in.reads == CR_GROUP_OPERANDS)
        cr_bail(b->s, CR_VALUE, "too many operands");
    b->in.read[b->in.reads] = v;
    return b->in.reads++;
}

static bool is_of_space(const builder *b, const cr_gtype *t, int parts)
{
    cr_refined fine = b->in.space.dims;

    for (int i = 0; i < b->in.chosen.shapes; i++)
        if (is_shape(&b->in.chosen.shape[i], t, parts))
            return true;
    return refines(&fine, b, t, parts) && fine.ndim == b->in.space.dims.ndim;
}

/* The type of `v` that lives as long as the code. */
static const cr_gtype *kept_type(const builder *b, const cr_gvalue *v)
{
    return b->sized.kept ? b->sized.kept->of(b->sized.kept->context, v) : &v->type;
}

/* The operand for a value that is broadcast to `s`, or for window `part` of its last dim. */
static cr_operand_plan lie(builder *b, const shape *s, const cr_gvalue *v, int part)
{
    const cr_gtype *type = &v->type;
    cr_operand_plan o = {.type = kept_type(b, v),
                         .dtype = type->dtype,
                         .lane = (uint8_t)cr_lane_type(type->dtype)};
    bool row = numel_of(s) != b->in.space.numel;

    if (b->in.space.numel)
        cr_refined_steps(o.step, &b->in.space.dims,
                         b->in.space.dims.ndim - (row ? b->in.space.column_dims : 0), s->ndim,
                         s->size, type->ndim, type->size, type->stride);
    o.row = row;
    if (part && type->ndim && type->size[type->ndim - 1] != 1)
        o.offset =
            part * s->size[s->ndim - 1] * (type->stride ? type->stride[type->ndim - 1] : 1);
    return o;
}

/* The number of windows that are joined to the value; 0: it is not joined. */
static int joined(const builder *b, const cr_gvalue *v)
{
    return kind_of(b, v->by) == CR_FACT_JOIN ? (int)v->by->arg[0].len : 0;
}

static void list_output(builder *b, planned_output o)
{
    if (o.number <= 0)
        cr_bail(b->s, CR_VALUE, "%%%s is not made inside", b->in.group->result[o.result]->name);
    if (b->in.operands.outputs == CR_GROUP_OPERANDS)
        cr_bail(b->s, CR_VALUE, "too many operands");
    b->in.operands.output[b->in.operands.outputs++] = o;
}

static void list_windows(builder *b, int k, const cr_gvalue *v)
{
    const int32_t *numbers = b->of.numbers[v->id];
    bool join = joined(b, v);
    int parts = join ? joined(b, v) : b->of.window[v->id]->result_count;

    for (int part = 0; part < parts; part++)
        list_output(
            b, (planned_output){.result = (int16_t)k,
                                .number = join ? b->of.place[v->by->arg[0].list[part].value->id]
                                               : numbers[part],
                                .parts = parts,
                                .part = part,
                                .joined = join});
}

static void list_outputs(builder *b)
{
    const cr_gblock *block = b->in.group->block[0];

    b->in.c->results = block->output_count;
    for (int k = 0; k < block->output_count; k++) {
        const cr_gvalue *v = block->output[k].value;
        bool fold = kind_of(b, v->by) == CR_FACT_FOLD;
        if (!fold && (joined(b, v) || b->of.numbers[v->id]))
            list_windows(b, k, v);
        else
            list_output(b, (planned_output){
                               .result = (int16_t)k,
                               .number = b->of.place[fold ? v->by->arg[0].value->id : v->id],
                               .fold = fold ? v->by : NULL});
    }
}

static cr_operand_plan lie_over(builder *b, const cr_gvalue *v, int parts, int part)
{
    shape s;

    if (!is_of_space(b, &v->type, parts))
        cr_bail(b->s, CR_VALUE, "an operand is outside its group");
    set_shape(&s, &v->type, parts);
    return lie(b, &s, v, part);
}

/* The output for a fold of columns: rows of a value that is never stored as a whole. */
static cr_operand_plan lie_fold(builder *b, const planned_output *p)
{
    cr_gvalue rows = *p->fold->arg[0].value; /* only its row-major order counts */
    int64_t size[2] = {b->in.space.numel / b->in.space.columns, b->in.space.columns};

    rows.type.ndim = 2;
    rows.type.size = size;
    cr_operand_plan o = lie_over(b, &rows, 0, 0);
    o.type = kept_type(b, b->in.group->result[p->result]);
    o.fold = p->fold->op;
    o.dtype = o.lane;
    b->in.c->folds++;
    return o;
}

static void add_outputs(builder *b)
{
    for (int k = 0; k < b->in.operands.outputs; k++) {
        const planned_output *p = &b->in.operands.output[k];
        cr_operand_plan o =
            p->fold ? lie_fold(b, p)
                    : lie_over(b, b->in.group->result[p->result], p->parts, p->part);
        o.number = p->result;
        *new_operand(b) = o;
    }
    b->in.c->outputs = b->in.c->operands;
}

/* Sets the arguments of the node that are values of the group; others become operands when the
 * space is known. */
static void add_reads(builder *b, planned *p)
{
    for (int i = 0; i < p->n->arg_count; i++) {
        if (p->n->arg[i].tag != CR_TENSOR)
            continue;
        const cr_gvalue *v = p->n->arg[i].value;
        if (b->of.place[v->id] == OUT_OF_REACH)
            cr_bail(b->s, CR_VALUE, "%%%s is there in windows alone", v->name);
        p->ref[i] = (int16_t)-b->of.place[v->id];
    }
}

static cr_operand_plan lie_read(builder *b, const planned_read *u)
{
    shape s;

    set_shape(&s, b->in.chosen.shape[u->shape].type, b->in.chosen.shape[u->shape].parts);
    cr_operand_plan o = lie(b, &s, u->v, u->part);
    o.lane = u->lane;
    o.number = u->number;
    return o;
}

/* True if both are one operand with the same place for all sizes. */
static bool same_read(const planned_read *a, const planned_read *b)
{
    return a->operand == b->operand && a->shape == b->shape && a->part == b->part &&
           a->v->type.size == b->v->type.size && a->v->type.stride == b->v->type.stride;
}

static void list_read(builder *b, const planned_read *u)
{
    for (int i = 0; i < b->in.operands.uses; i++)
        if (same_read(&b->in.operands.use[i], u))
            return;
    b->in.operands.use[b->in.operands.uses++] = *u;
}

/* Kernels convert elements where they can; else tiles have the type that the node reads. */
static cr_dtype lane_of(const planned *p, int i)
{
    cr_dtype want = cr_node_wants(p->n, &p->facts, i);
    int own = p->n->arg[i].value->type.dtype;

    return cr_node_converts(p->n, own, want) ? (cr_dtype)own : want;
}

static int add_read(builder *b, planned_read u)
{
    cr_operand_plan o = lie_read(b, &u);

    u.operand = (int16_t)add_operand(b, &o);
    list_read(b, &u);
    return u.operand;
}

static void count_tensor(void *context, cr_gvalue *v)
{
    builder *b = context;
    cr_source_plan *x = b->in.filling;

    if (b->of.place[v->id] > 0)
        cr_bail(b->s, CR_VALUE, "%%%s is read at other places in its group", v->name);
    if (x->tensors == CR_PART_TENSORS)
        cr_bail(b->s, CR_VALUE, "too many operands");
    x->type[x->tensors] = kept_type(b, v);
    x->read[x->tensors++] = (int16_t)read_number_of(b, v);
}

static void add_part(builder *b, cr_source_plan *x, const cr_gnode *n)
{
    cr_part *part;

    cr_session_check(b->s, cr_vec_reserve(&b->all->parts, 1));
    cr_session_check(b->s, cr_node_part(&part, n));
    cr_vec_put(&b->all->parts, part);
    x->part = part;
}

/* Sets the tensors of a source and adds its operand. */
static void fill_source(builder *b, planned *p)
{
    b->in.filling = &b->in.c->source[p->source];
    cr_gnode_each_read(p->n, count_tensor, b);
    add_part(b, b->in.filling, p->n);
    p->ref[0] = (int16_t)add_read(b, (planned_read){.v = p->n->result[0],
                                                    .shape = p->shape,
                                                    .lane = p->facts.compute,
                                                    .number = (int16_t)(-1 - p->source)});
}

static void add_operands(builder *b, planned *p)
{
    if (p->facts.kind == CR_FACT_READ) {
        fill_source(b, p);
        return;
    }
    for (int i = 0; i < p->n->arg_count; i++) {
        if (p->n->arg[i].tag != CR_TENSOR || p->ref[i])
            continue;
        planned_read u = {.v = p->n->arg[i].value, .shape = p->shape, .part = p->part};
        u.lane = (uint8_t)lane_of(p, i);
        u.number = (int16_t)read_number_of(b, u.v);
        p->ref[i] = (int16_t)add_read(b, u);
    }
}

static void add_all_operands(builder *b)
{
    int most = b->in.c->sources;

    for (int i = 0; i < b->in.chosen.nodes; i++)
        most += b->in.chosen.node[i].n->arg_count;
    b->in.operands.use = CR_NEW_N(b->s, planned_read, most);
    for (int i = 0; i < b->in.chosen.nodes; i++)
        add_operands(b, &b->in.chosen.node[i]);
}

/* For other sizes: reads that share an operand must still have the same place. */
static void set_operands(builder *b)
{
    cr_group_code *c = b->in.c;

    for (int i = 0; i < b->in.operands.uses; i++) {
        cr_operand_plan o = lie_read(b, &b->in.operands.use[i]);
        int k = b->in.operands.use[i].operand;
        if (k == c->operands)
            c->operand[c->operands++] = o;
        else if (!same_operand(&c->operand[k], &o))
            cr_bail(b->s, CR_VALUE, "%%%s is read in another way for these sizes",
                    b->in.operands.use[i].v->name);
    }
}

/* --- dims --- */

/* Rows that nothing reduces are computed as parts of one row if they have fewer elements than
 * SHORT_ROW, or fewer than a vector or two and no operand that must be copied. */
enum { SHORT_ROW = 8, SHORTISH_ROW = 32, LONGEST_PERIOD = 1024 };

/* The space of the group and the steps of its operands. */
static void space_of_operands(cr_space *s, const builder *b)
{
    const cr_group_code *c = b->in.c;

    cr_space_start(s, c->operands);
    for (int d = 0; d < b->in.space.dims.ndim; d++) {
        int64_t *step = cr_space_add(s, b->in.space.dims.size[d], d);
        for (int k = 0; k < c->operands; k++)
            step[k] = c->operand[k].step[d];
    }
}

/* The reverse: dims and steps of the code. */
static void set_dims(cr_group_code *c, const cr_space *s)
{
    c->over.ndim = s->ndim;
    for (int d = 0; d < s->ndim; d++) {
        c->over.size[d] = s->dim[d].size;
        for (int k = 0; k < c->operands; k++)
            c->operand[k].step[d] = s->dim[d].step[k];
    }
}

/* Operands whose columns have no one step are copied.  They do not keep dims apart: their steps
 * become 0. */
static void mark_copied(builder *b, cr_space *s)
{
    cr_group_code *c = b->in.c;
    int first = s->ndim - b->in.space.column_dims;

    for (int k = c->outputs; k < c->operands; k++) {
        cr_operand_plan *o = &c->operand[k];
        int64_t one = 0;
        o->copied =
            b->in.space.column_dims &&
            !cr_one_step(&one, b->in.space.column_dims, c->over.size + first, o->step + first);
        if (o->copied)
            o->spread = cr_session_copy(b->s, o->step, sizeof o->step);
        for (int d = 0; o->copied && d < s->ndim; d++)
            s->dim[d].step[k] = 0;
    }
}

/* Orders and merges the dims.  Loops follow the memory of the first result: reads and writes
 * then go forward.  A group with reduced rows or with sources keeps the order: sources count
 * elements row-major.  Rows and columns are not merged if nodes reduce rows. */
static void lay_out_dims(builder *b)
{
    cr_group_code *c = b->in.c;
    cr_space s;

    space_of_operands(&s, b);
    if (!b->in.space.columns && !c->sources)
        cr_space_order(&s);
    set_dims(c, &s);
    c->over.space = b->in.space.dims;
    memcpy(c->over.space.size, c->over.size, sizeof c->over.size);
    mark_copied(b, &s);
    cr_space_merge(
        &s, b->in.space.column_dims ? (uint64_t)1 << (s.ndim - b->in.space.column_dims) : 0);
    set_dims(c, &s);
    if (!c->over.ndim)
        c->over.size[c->over.ndim++] = 1;
}

static bool is_uniform(const cr_group_code *c, const cr_operand_plan *o)
{
    for (int d = 0; d < c->over.ndim; d++)
        if (o->step[d])
            return false;
    return true;
}

/* The number of elements after which the operand repeats: its leading steps are 0.  0: it does
 * not repeat. */
static int64_t period_of(const cr_group_code *c, const cr_operand_plan *o)
{
    int64_t period = 1;
    int first = 0;

    while (first < c->over.ndim && !o->step[first])
        first++;
    for (int d = first; d < c->over.ndim; d++)
        period *= c->over.size[d];
    return first ? period : 0;
}

static bool is_dense(const cr_group_code *c, const cr_operand_plan *o)
{
    int64_t step = 1;

    for (int d = c->over.ndim - 1; d >= 0; step *= c->over.size[d--])
        if (o->step[d] != step)
            return false;
    return true;
}

/* The operand needs no copy in a flat space, or one for all its elements. */
static bool is_flat_operand(const cr_group_code *c, const cr_operand_plan *o)
{
    int64_t period = period_of(c, o);

    return is_dense(c, o) || is_uniform(c, o) || (period && period <= LONGEST_PERIOD);
}

static bool is_flat(const builder *b)
{
    const cr_group_code *c = b->in.c;
    bool all = c->over.columns < SHORTISH_ROW;

    if (b->in.space.columns || c->over.ndim < 2 || c->over.empty)
        return false;
    for (int k = 0; all && k < c->operands; k++)
        all = is_flat_operand(c, &c->operand[k]);
    return all || c->over.columns < SHORT_ROW;
}

/* Short rows without a reduction: the kernel sees all elements as one row. */
static bool lay_flat(builder *b)
{
    cr_group_code *c = b->in.c;

    if (!is_flat(b))
        return false;
    for (int k = 0; k < c->operands; k++) {
        cr_operand_plan *o = &c->operand[k];
        o->row = k >= c->outputs && is_uniform(c, o);
        o->staged =
            o->dtype != o->lane || (!o->row && !is_dense(c, o)) || cr_group_is_source(c, k);
        o->period = o->row || k < c->outputs ? 0 : period_of(c, o);
        c->over.staged = c->over.staged || o->staged;
    }
    return true;
}

static bool is_shared(const cr_group_code *c, int k)
{
    const cr_operand_plan *o = &c->operand[k];

    for (int d = 0; d + 1 < c->over.ndim; d++)
        if (c->over.size[d] != 1 && o->step[d])
            return false;
    return k >= c->outputs && !o->row && !o->copied && !cr_group_is_source(c, k);
}

/* A kernel of a device keeps the elements of its rows in registers, but not what all rows
 * share, which is in the cache. */
static bool reads_shared(const builder *b, int k)
{
    const cr_group_code *c = b->in.c;

    if (b->sized.from)
        return b->sized.from->code->operand[k].shared && is_shared(c, k);
    return b->in.space.columns && c->over.rows > 1 && !cr_is_host(c->operand[0].type->device) &&
           is_shared(c, k);
}

static void set_ways(builder *b)
{
    cr_group_code *c = b->in.c;
    int last = c->over.ndim - 1;

    c->over.flat = lay_flat(b);
    for (int k = 0; k < c->operands && !c->over.flat; k++) {
        cr_operand_plan *o = &c->operand[k];
        int64_t step = o->copied ? 1 : o->step[last];
        o->row = o->row ||
                 (k >= c->outputs && !step && (b->in.space.columns || c->over.size[last] > 1));
        o->staged = o->dtype != o->lane || (!o->row && step != 1 && c->over.size[last] > 1) ||
                    cr_group_is_source(c, k);
        o->shared = reads_shared(b, k);
        c->over.staged = c->over.staged || o->staged;
    }
}

/* Rows of at most MOST_ACROSS elements that are reduced, at least LEAST_ROWS of them: vectors
 * of the native code have several rows.  For other sizes the code stays as it is. */
enum { MOST_ACROSS = 16, LEAST_ROWS = 64 };

static bool reduces_across(builder *b)
{
    const cr_group_code *c = b->in.c;

    if (!b->sized.from)
        return b->in.space.columns && !b->in.chosen.scans && !c->folds && !c->over.empty &&
               c->over.ndim > 1 && c->over.columns <= MOST_ACROSS && c->over.rows >= LEAST_ROWS;
    if (b->sized.from->code->over.across && !c->over.empty &&
        (c->over.ndim < 2 || c->over.columns > CR_FOLD_LANES))
        cr_bail(b->s, CR_VALUE, "the rows are too long for the kernel");
    return b->sized.from->code->over.across;
}

static void lay_out(builder *b)
{
    cr_group_code *c = b->in.c;

    c->over.empty = !b->in.space.numel;
    lay_out_dims(b);
    c->over.rows = 1;
    for (int d = 0; d + 1 < c->over.ndim; d++)
        c->over.rows *= c->over.size[d];
    c->over.columns = c->over.size[c->over.ndim - 1];
    if (b->in.space.columns && b->in.space.numel && c->over.columns != b->in.space.columns)
        cr_bail(b->s, CR_VALUE, "a result's elements are in another order than its rows");
    set_ways(b);
    c->over.across = reduces_across(b);
}

/* --- numbers --- */

static void count_params(builder *b)
{
    for (int i = 0; i < b->in.chosen.nodes; i++)
        for (int k = 0; k < b->in.chosen.node[i].n->arg_count; k++)
            b->in.operands.params += cr_node_reads_number(b->in.chosen.node[i].n, k);
    if (b->in.operands.params > CR_GROUP_PARAMS)
        cr_bail(b->s, CR_VALUE, "too many numbers");
}

static void store_params(builder *b)
{
    cr_group_code *c = b->in.c;
    int slot = 0;

    c->param_bytes = (size_t)(b->in.operands.params + 1) * CR_PARAM_BYTES;
    c->param = cr_session_get(b->s, c->param_bytes);
    for (int i = 0; i < b->in.chosen.nodes; i++)
        for (int k = 0; k < b->in.chosen.node[i].n->arg_count; k++)
            if (cr_node_reads_number(b->in.chosen.node[i].n, k))
                cr_scalar_store(
                    cr_node_number(b->in.chosen.node[i].n, k),
                    cr_node_wants(b->in.chosen.node[i].n, &b->in.chosen.node[i].facts, k),
                    c->param + slot++ * CR_PARAM_BYTES);
}

/* --- the structure --- */

static void put_byte(cr_text *t, int v) { cr_text_put_n(t, &(char){(char)v}, 1); }
static void put_short(cr_text *t, int v)
{
    put_byte(t, v);
    put_byte(t, v >> 8);
}

static void put_arg(cr_text *t, const planned *p, int i)
{
    const cr_garg *a = &p->n->arg[i];

    put_byte(t, a->tag);
    if (a->tag == CR_TENSOR)
        put_short(t, p->ref[i]);
    else if (cr_node_reads_number(p->n, i))
        put_byte(t, 255);
    else if (a->tag == CR_NUMBER)
        cr_text_put_n(t, (const char *)&a->number, sizeof a->number);
    else if (a->tag == CR_STRING)
        cr_text_put_n(t, a->s, a->len);
    else if (a->tag != CR_INTS)
        cr_text_put_n(t, (const char *)&a->i, sizeof a->i);
}

/* Appends everything on which the program depends. */
static void put_structure(cr_text *t, const builder *b)
{
    put_byte(t, b->how & CR_HOW_FAST);
    put_byte(t, b->in.c->over.across);
    for (int k = 0; k < b->in.c->operands; k++) {
        put_byte(t, b->in.c->operand[k].lane);
        put_byte(t, b->in.c->operand[k].row);
        put_byte(t, b->in.c->operand[k].shared);
    }
    for (int k = 0; k < b->in.c->outputs; k++)
        put_short(t, b->in.operands.output[k].number - 1);
    for (int i = 0; i < b->in.chosen.nodes; i++) {
        const planned *p = &b->in.chosen.node[i];
        put_short(t, p->n->op->index);
        for (int k = 0; k < p->n->result_count; k++)
            put_byte(t, p->n->result[k]->type.dtype);
        put_byte(t, p->facts.entry);
        if (p->facts.kind == CR_FACT_READ)
            put_short(t, p->ref[0]);
        for (int k = 0; p->facts.kind != CR_FACT_READ && k < p->n->arg_count; k++)
            put_arg(t, p, k);
    }
}

/* --- the program --- */

static cr_axis axis(cr_loop *l, const char *index, const char *extent)
{
    return (cr_axis){cr_sym_name(l->syms, index, 0, CR_SYM_HIGH),
                     cr_sym_name(l->syms, extent, 0, CR_SYM_HIGH)};
}

static cr_buffer *buffer(builder *b, cr_buffer_role role, const char *name,
                         const cr_operand_plan *o)
{
    const cr_sym *size[2] = {axis(b->now.l, "i", "R").extent, axis(b->now.l, "j", "C").extent};

    return cr_loop_buffer(b->now.l, role, name, (cr_dtype)o->lane, o->row || o->shared ? 1 : 2,
                          size + o->shared);
}

static const cr_expr *read_value(void *context, int i)
{
    builder *b = context;
    cr_dtype want = cr_node_wants(b->now.at->n, &b->now.at->facts, i);
    int ref = b->now.at->ref[i];

    return cr_expr_cast(b->now.l, want,
                        ref < 0 ? b->now.expr[-1 - ref]
                                : b->now.expr[b->in.chosen.values + ref]);
}

static const cr_expr *read_number(void *context, cr_scalar number, cr_dtype t)
{
    builder *b = context;
    int slot = b->now.slot++;

    (void)number;
    return cr_expr_param(
        b->now.l, cr_loop_param_new(b->now.l, cr_session_printf(b->now.l->session, "p%d", slot),
                                    t, slot));
}

/* "add_mul_exp": the first operators, for readers of the emitted code. */
static const char *program_name(cr_session *s, const builder *b)
{
    cr_text t = {0};

    cr_text_put(&t, "group");
    for (int i = 0; i < b->in.chosen.nodes && i < 4; i++)
        cr_text_printf(&t, "_%s", b->in.chosen.node[i].n->op->name);
    return cr_session_take_text(s, &t);
}

static void load_operands(builder *b)
{
    const cr_sym *index[2] = {axis(b->now.l, "i", "R").index, axis(b->now.l, "j", "C").index};

    for (int k = b->in.c->outputs; k < b->in.c->operands; k++) {
        const cr_operand_plan *o = &b->in.c->operand[k];
        const char *name = cr_session_printf(b->now.l->session, "x%d", k - b->in.c->outputs);
        b->now.expr[b->in.chosen.values + k] =
            cr_expr_load(b->now.l, buffer(b, CR_BUFFER_INPUT, name, o), index + o->shared);
    }
}

static cr_loop *make_program(cr_session *s, void *context)
{
    builder *b = context;
    cr_node_reader reader = {read_value, read_number, b};
    cr_axis both[2];

    b->now.l = cr_loop_new(s);
    b->now.slot = 0;
    b->now.expr = CR_NEW_N(s, const cr_expr *, b->in.chosen.values + b->in.c->operands);
    b->now.l->name = b->now.l->origin = program_name(s, b);
    load_operands(b);
    for (int i = 0; i < b->in.chosen.nodes; i++) {
        b->now.at = &b->in.chosen.node[i];
        if (b->now.at->facts.kind == CR_FACT_READ)
            b->now.expr[b->now.at->first] =
                b->now.expr[b->in.chosen.values + b->now.at->ref[0]];
        else
            cr_compile_node(b->now.l, b->now.at->n, &b->now.at->facts, &reader,
                            b->now.expr + b->now.at->first);
    }
    both[0] = axis(b->now.l, "i", "R");
    both[1] = axis(b->now.l, "j", "C");
    for (int k = 0; k < b->in.c->outputs; k++) {
        const cr_operand_plan *o = &b->in.c->operand[k];
        cr_loop_define(b->now.l, buffer(b, CR_BUFFER_OUTPUT, cr_session_printf(s, "y%d", k), o),
                       o->row ? 1 : 2, both, b->now.expr[b->in.operands.output[k].number - 1]);
    }
    if (b->how & CR_HOW_FAST)
        cr_loop_contract(b->now.l);
    return b->now.l;
}

/* --- shared programs --- */

static struct {
    pthread_mutex_t lock;
    cr_map by_structure;
    bool prepared;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) { pthread_mutex_lock(&shared.lock); }
static void after_fork(void) { pthread_mutex_unlock(&shared.lock); }

/* The handler that is registered last takes its lock first.  Programs are made under this lock
 * and request kernels, so it comes before the locks of jit. */
static void watch_forks(void)
{
    if (shared.prepared)
        return;
    cr_jit_watch_forks();
    shared.prepared = !pthread_atfork(before_fork, after_fork, after_fork);
}

void cr_groups_watch_forks(void)
{
    pthread_mutex_lock(&shared.lock);
    watch_forks();
    pthread_mutex_unlock(&shared.lock);
}

/* --- the cost of recomputation --- */

enum { MUCH = 12 }; /* in units of one addition; an exponential costs 20 */

static int cost_once(const cr_nest *n, cr_expr_set *seen, const cr_expr *e)
{
    int cost = e->kind == CR_EXPR_CALL ? cr_fn_infos[e->fn].cost : 1;

    if (cr_nest_scope(n, e) != CR_SCOPE_COLUMN && e->kind != CR_EXPR_REDUCE)
        cost = 0;
    if (!cr_expr_set_add(seen, e))
        return 0;
    for (int i = 0; i < e->count; i++)
        cost += cost_once(n, seen, e->args[i]);
    return cost;
}

typedef struct {
    const cr_nest *n;
    bool costly;
} costs;

/* Later sweeps recompute values that no output stores; too much of this is costly. */
static void weigh(cr_session *s, void *context)
{
    costs *c = context;
    cr_expr_set seen = cr_expr_set_new(c->n->loop);
    int all = 0, once = 0;

    (void)s;
    for (int k = 0; k < c->n->sweeps; k++)
        all += c->n->sweep[k].cost;
    for (size_t i = 0; i < c->n->loop->defs.len; i++)
        once += 1 + cost_once(c->n, &seen, c->n->loop->defs.at[i]->value);
    c->costly = all - once >= MUCH;
}

static cr_status check_cost(cr_group_program *p)
{
    costs c = {.n = cr_fused_nest(p->fused)};

    CR_TRY(cr_session_run(c.n->loop->session, weigh, &c));
    p->costly = c.costly;
    return CR_OK;
}

static cr_status build_program(cr_group_program *p, builder *b)
{
    CR_TRY(b->in.c->over.across ? cr_fused_new_across(&p->fused, make_program, b)
                                : cr_fused_new(&p->fused, make_program, b));
    cr_status st = check_cost(p);
    if (st || p->costly) {
        cr_fused_drop(p->fused);
        p->fused = NULL;
    }
    return st;
}

/* The caller holds the lock.  Entries stay; their code is dropped with its last user. */
static cr_status take_program(cr_group_program **out, builder *b, const cr_text *key,
                              int *built)
{
    cr_group_program *p = cr_map_get(&shared.by_structure, key->at, key->len);

    if (!p) {
        p = cr_alloc_zero(sizeof *p);
        CR_NEED(p);
        cr_status st = cr_map_set(&shared.by_structure, key->at, key->len, p);
        if (st) {
            cr_free(p);
            return st;
        }
    }
    if (!p->fused && !p->costly) {
        CR_TRY(build_program(p, b));
        ++*built;
    }
    if (p->costly)
        return cr_fail(CR_VALUE, "sweeps would compute too much again");
    if (b->how & CR_HOW_MEASURE)
        CR_TRY(cr_fused_add_schedules(p->fused));
    p->users++;
    *out = p;
    return CR_OK;
}

static cr_status find_program(builder *b, int *built)
{
    cr_text key = {0};
    cr_status st;

    put_structure(&key, b);
    st = cr_text_status(&key);
    if (!st) {
        pthread_mutex_lock(&shared.lock);
        watch_forks();
        st = take_program(&b->in.c->program, b, &key, built);
        pthread_mutex_unlock(&shared.lock);
    }
    cr_text_drop(&key);
    return st;
}

static void leave_program(cr_group_program *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&shared.lock);
    if (!--p->users) {
        cr_fused_drop(p->fused);
        p->fused = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
}

/* --- all groups --- */

static bool source_reads(const cr_group_code *c, int number)
{
    for (int i = 0; i < c->sources; i++)
        for (int k = 0; k < c->source[i].tensors; k++)
            if (c->source[i].read[k] == number)
                return true;
    return false;
}

/* True if the result may overwrite operand k: it has the result's layout, and no other operand
 * reads the same tensor. */
static bool may_overwrite(const cr_group_code *c, int k)
{
    const cr_operand_plan *o = &c->operand[k], *y = &c->operand[0];

    if (o->row || o->staged || o->copied || y->staged || source_reads(c, o->number) ||
        memcmp(o->step, y->step, c->over.ndim * sizeof *o->step))
        return false;
    for (int q = c->outputs; q < c->operands; q++)
        if (q != k && c->operand[q].number == o->number)
            return false;
    return true;
}

static uint32_t overwritten(const cr_group_code *c)
{
    const cr_nest *n = cr_fused_nest(c->program->fused);
    uint32_t reads = 0;

    if (c->folds || n->kind != CR_NEST_ROWS || n->sweeps != 1 || n->sweep[0].stores != 1 ||
        n->sweep[0].reduces.count || n->row_stores)
        return 0;
    for (int k = c->outputs; k < c->operands; k++)
        if (may_overwrite(c, k))
            reads |= (uint32_t)1 << c->operand[k].number;
    return reads;
}

static void plan(cr_session *s, void *context)
{
    builder *b = context;

    b->in.c = CR_NEW(s, cr_group_code);
    b->in.c->operand = CR_NEW_N(s, cr_operand_plan, CR_GROUP_OPERANDS);
    b->in.c->source = CR_NEW_N(s, cr_source_plan, CR_GROUP_SOURCES);
    b->in.c->code.run = cr_group_run;
    b->in.operands.output = CR_NEW_N(s, planned_output, CR_GROUP_OPERANDS);
    gather_nodes(b);
    list_shapes(b);
    list_outputs(b);
    find_space(b);
    add_outputs(b);
    add_all_operands(b);
    b->in.c->code.read = (cr_gvalue **)(uintptr_t)b->in.read;
    b->in.c->code.read_count = b->in.reads;
    lay_out(b);
    count_params(b);
    store_params(b);
}

static const cr_gtype *keep_type(cr_session *s, const cr_gtype *type)
{
    cr_gtype *t = cr_session_copy(s, type, sizeof *type);
    size_t bytes = t->ndim * sizeof *t->size;

    t->size = cr_session_copy(s, t->size, bytes);
    t->stride = t->stride ? cr_session_copy(s, t->stride, bytes) : NULL;
    return t;
}

/* Copies the code, without the data of planning.  The sizes of the graph may change
 * afterwards. */
static void keep_code(cr_session *s, void *context)
{
    builder *b = context;
    cr_group_code *c = cr_session_copy(s, b->in.c, sizeof *c);

    c->operand = cr_session_copy(s, c->operand, (size_t)c->operands * sizeof *c->operand);
    for (int k = 0; k < c->operands; k++) {
        cr_operand_plan *o = &c->operand[k];
        o->type = keep_type(s, o->type);
        o->spread = o->spread ? cr_session_copy(s, o->spread, sizeof o->step) : NULL;
    }
    c->source = cr_session_copy(s, c->source, (size_t)c->sources * sizeof *c->source);
    for (int i = 0; i < c->sources; i++)
        for (int k = 0; k < c->source[i].tensors; k++)
            c->source[i].type[k] = keep_type(s, c->source[i].type[k]);
    c->code.read =
        cr_session_copy(s, c->code.read, (size_t)c->code.read_count * sizeof *c->code.read);
    c->param =
        cr_session_copy(s, c->param, (size_t)(b->in.operands.params + 1) * CR_PARAM_BYTES);
    b->in.c = c;
}

/* Copies the types of the group's graph, because the shared sizes change later. */
static void keep_types(cr_session *s, const cr_graph *alone)
{
    for (int i = 0; i < alone->input_count; i++)
        alone->input[i]->type = *keep_type(s, &alone->input[i]->type);
    for (size_t i = 0; i < alone->body->len; i++)
        for (int k = 0; k < alone->body->at[i]->result_count; k++) {
            cr_gvalue *v = alone->body->at[i]->result[k];
            v->type = *keep_type(s, &v->type);
        }
}

/* Makes the group a separate graph, with inputs in the order of code.read. */
static void stand_alone(cr_session *s, void *context)
{
    builder *b = context;
    const cr_gblock *block = b->in.group->block[0];
    cr_rewrite w = {.from = b->g, .to = cr_graph_new(s), .now = b->of.now};
    cr_garg *output = CR_NEW_N(s, cr_garg, block->output_count);

    for (int i = 0; i < b->in.c->code.read_count; i++) {
        const cr_gvalue *v = b->in.c->code.read[i];
        w.now[v->id] = cr_graph_input(w.to, v->name, &v->type);
    }
    for (size_t i = 0; i < block->len; i++)
        cr_rewrite_copy(&w, w.to->body, block->at[i]);
    for (int k = 0; k < block->output_count; k++)
        output[k] = cr_garg_value(w.now[block->output[k].value->id]);
    cr_gblock_return(w.to, w.to->body, output, block->output_count);
    keep_types(s, w.to);
    b->in.alone = w.to;
}

/* Makes the program of calls that runs until native code is compiled, or always without a
 * compiler; on another device, if its compiler refuses the kernel. */
static cr_status add_nodes(cr_compiled *all, builder *b)
{
    CR_TRY(cr_session_run(&all->session, stand_alone, b));
    return cr_program_of_calls(&b->in.c->nodes, b->in.alone);
}

/* True if a run may call the nodes: without native code and tiles, or to measure them. */
static bool needs_nodes(const cr_group_code *c)
{
    const cr_fused *f = c->program->fused;

    return c->tuner || !cr_is_host(c->operand[0].type->device) ||
           (!cr_fused_has_tiles(f) && !cr_jit_function(cr_fused_kernel(f)));
}

/* Nodes round in another order than fast code.  A program for all sizes has one code for each
 * choice of sizes, which may be called once. */
static bool is_measured(const cr_compiled *all, const builder *b)
{
    const cr_group_code *c = b->in.c;

    if (c->over.empty || b->how & CR_HOW_MEASURE)
        return !c->over.empty;
    return !(b->how & CR_HOW_FAST) && !all->facts && !b->sized.from &&
           cr_is_host(c->operand[0].type->device);
}

static cr_status finish_code(cr_compiled *all, builder *b)
{
    cr_vec_put(&all->groups, b->in.c);
    b->in.c->over.cuts = cr_fused_cuts_rows(b->in.c->program->fused);
    b->in.c->code.overwrites = overwritten(b->in.c);
    if (is_measured(all, b))
        CR_TRY(cr_tuner_new(&b->in.c->tuner, b->in.c, b->in.group, b->how));
    return needs_nodes(b->in.c) ? add_nodes(all, b) : CR_OK;
}

/* The plan's rows and columns must be those of the program. */
static cr_status check_rows(const builder *b)
{
    const cr_fused *f = b->in.c->program->fused;

    if (cr_fused_nest(f)->one_row)
        return cr_fail(CR_VALUE, "what it folds is not in its results");
    if (b->in.c->over.flat && !cr_fused_cuts_rows(f))
        return cr_fail(CR_VALUE, "its rows are too short");
    return CR_OK;
}

static cr_status plan_code(cr_compiled *all, builder *b)
{
    cr_status st;

    CR_TRY(cr_session_run(b->s, plan, b));
    CR_TRY(cr_session_run(&all->session, keep_code, b));
    CR_TRY(find_program(b, &all->built));
    st = check_rows(b);
    if (st) {
        leave_program(b->in.c->program);
        return st;
    }
    cr_show_group(b->in.group, b->in.c->program->fused);
    return finish_code(all, b);
}

/* --- other sizes --- */

/* True for kinds of nodes that can be in a group for some sizes only. */
static bool depends_on_sizes(cr_facts f)
{
    return f.kind == CR_FACT_ROWS || f.kind == CR_FACT_SPLIT || f.kind == CR_FACT_JOIN ||
           f.kind == CR_FACT_FOLD || f.kind == CR_FACT_READ;
}

/* True if a number that varies is a literal of the kernel.  Lists are sizes and dims, which are
 * read from the node. */
static bool is_in_kernel(const cr_gnode *n, const cr_gvarying *v)
{
    return n->arg[v->arg].tag != CR_INTS && !cr_node_reads_number(n, v->arg) &&
           !cr_op_has_parts(n->op);
}

/* Copies an array of planning to the session `s`. */
#define KEEP(array, n) ((array) = cr_session_copy(s, (array), (size_t)(n) * sizeof *(array)))

static void keep_source(cr_session *s, void *context)
{
    builder *b = context;
    const cr_gblock *block = b->in.group->block[0];
    source *x = CR_NEW(s, source);
    cr_facts *facts = CR_NEW_N(s, cr_facts, block->len);

    *x = (source){.group = b->in.group,
                  .code = b->in.c,
                  .facts = facts,
                  .chosen = b->in.chosen,
                  .operands = b->in.operands};
    KEEP(x->chosen.rows, x->chosen.rows_nodes);
    KEEP(x->chosen.shape, x->chosen.shapes);
    KEEP(x->chosen.node, x->chosen.nodes);
    KEEP(x->operands.use, x->operands.uses);
    KEEP(x->operands.output, x->operands.outputs);
    for (size_t i = 0; i < block->len; i++) {
        const cr_gnode *n = block->at[i];
        facts[i] = cr_facts_of(b->facts, n);
        for (int k = 0; k < n->varying_count; k++) {
            x->whole = x->whole || is_in_kernel(n, &n->varying[k]);
            x->numbers = true;
        }
    }
    b->sized.made = x;
}

/* Keeps the group's plan for other sizes. */
static cr_status add_source(cr_compiled *all, builder *b)
{
    if (!all->facts)
        return CR_OK;
    CR_TRY(cr_vec_reserve(&all->sources, 1));
    CR_TRY(cr_session_run(&all->session, keep_source, b));
    b->in.c->source_number = (int)all->sources.len;
    cr_vec_put(&all->sources, b->sized.made);
    return CR_OK;
}

static void check_facts(builder *b)
{
    const cr_gblock *block = b->in.group->block[0];

    for (size_t i = 0; i < block->len; i++) {
        cr_facts was = b->sized.from->facts[i], now;
        if (!depends_on_sizes(was))
            continue;
        now = cr_facts_of(b->facts, block->at[i]);
        if (now.kind != was.kind || now.entry != was.entry || now.compute != was.compute)
            cr_bail(b->s, CR_VALUE, "%%%s has another kernel for these sizes",
                    block->at[i]->result[0]->name);
    }
}

static void check_ways(const builder *b)
{
    const cr_group_code *was = b->sized.from->code, *c = b->in.c;

    for (int k = 0; k < c->operands; k++)
        if (c->operand[k].row != was->operand[k].row ||
            c->operand[k].shared != was->operand[k].shared)
            cr_bail(b->s, CR_VALUE, "a kernel reads rows, or columns, for these sizes alone");
}

static void keep_tensor(void *context, cr_gvalue *v)
{
    builder *b = context;

    b->in.filling->type[b->in.filling->tensors++] = kept_type(b, v);
}

static void plan_sources_again(builder *b)
{
    cr_group_code *c = b->in.c;

    c->source = cr_session_copy(b->s, c->source, (size_t)c->sources * sizeof *c->source);
    for (int i = 0; i < b->in.chosen.nodes; i++) {
        const planned *p = &b->in.chosen.node[i];
        if (p->facts.kind != CR_FACT_READ)
            continue;
        b->in.filling = &c->source[p->source];
        b->in.filling->tensors = 0;
        cr_gnode_each_read(p->n, keep_tensor, b);
        add_part(b, b->in.filling, p->n);
    }
}

/* Like plan(), but takes the size-independent parts from the source. */
static void plan_again(cr_session *s, void *context)
{
    builder *b = context;
    const source *from = b->sized.from;

    b->s = s;
    b->in.c = cr_session_copy(s, from->code, sizeof *b->in.c);
    b->in.c->operand = CR_NEW_N(s, cr_operand_plan, from->code->operands);
    b->in.c->operands = b->in.c->folds = 0;
    b->in.c->over.staged = false;
    b->in.c->nodes = NULL;
    b->in.chosen = from->chosen;
    b->in.operands = from->operands;
    check_facts(b);
    find_space(b);
    add_outputs(b);
    set_operands(b);
    plan_sources_again(b);
    lay_out(b);
    check_ways(b);
    if (from->numbers)
        store_params(b);
}

static void use_program(cr_group_program *p)
{
    pthread_mutex_lock(&shared.lock);
    p->users++;
    pthread_mutex_unlock(&shared.lock);
}

static cr_status code_again(cr_compiled *all, builder *b)
{
    if (b->sized.from->whole)
        return plan_code(all, b);
    CR_TRY(cr_session_run(&all->session, plan_again, b));
    use_program(b->in.c->program);
    return finish_code(all, b);
}

/* --- groups that are alike --- */

typedef struct {
    const cr_group_code *code;
    cr_gvalue **reads; /* in the order of the description */
} twin;

typedef struct {
    builder *b;
    cr_text *text;
    const cr_group_code *code;
    const twin *found;
    twin *made;
} twin_step;

static void describe(cr_session *s, void *context)
{
    twin_step *x = context;

    (void)s;
    cr_alike_describe(x->b->alike, x->text, x->b->in.group);
}

static void new_twin(cr_session *s, void *context)
{
    twin_step *x = context;

    x->made = CR_NEW(s, twin);
    *x->made = (twin){x->code, x->b->alike->reads.at};
}

/* Copies the code of the group that is alike, with the arguments of this group. */
static void copy_code(cr_session *s, void *context)
{
    twin_step *x = context;
    cr_group_code *c = cr_session_copy(s, x->found->code, sizeof *c);
    cr_gvalue **read = CR_NEW_N(s, cr_gvalue *, c->code.read_count);

    for (int i = 0; i < c->code.read_count; i++) {
        size_t k = 0;
        while (x->found->reads[k] != c->code.read[i])
            k++;
        read[i] = x->b->alike->reads.at[k];
    }
    c->code.read = read;
    x->b->in.c = c;
}

static cr_status share_code(cr_compiled *all, twin_step *x)
{
    CR_TRY(cr_session_run(&all->session, copy_code, x));
    use_program(x->b->in.c->program);
    if (x->b->in.c->nodes)
        cr_program_keep(x->b->in.c->nodes);
    cr_tuner_keep(x->b->in.c->tuner);
    cr_vec_put(&all->groups, x->b->in.c);
    cr_show_group(x->b->in.group, x->b->in.c->program->fused);
    return CR_OK;
}

static cr_status remember(twin_step *x)
{
    x->code = x->b->in.c;
    CR_TRY(cr_session_run(x->b->s, new_twin, x));
    return cr_map_set(x->b->twins, x->text->at, x->text->len, x->made);
}

static cr_status make_code(cr_compiled *all, builder *b)
{
    cr_text text = {0};
    twin_step x = {.b = b, .text = &text};
    cr_status st = cr_session_run(b->s, describe, &x);

    if (!st)
        st = cr_text_status(&text);
    if (!st)
        x.found = cr_map_get(b->twins, text.at, text.len);
    if (!st && x.found)
        st = share_code(all, &x);
    else if (!st && !(st = plan_code(all, b)) && !(st = add_source(all, b)))
        st = remember(&x);
    cr_text_drop(&text);
    return st;
}

static cr_status make_all(cr_compiled *all, cr_graph *g, const builder *start)
{
    for (size_t i = 0; i < g->body->len; i++) {
        cr_gnode *n = g->body->at[i];
        builder b = *start;
        b.all = all;
        if (n->kind != CR_GNODE_GROUP)
            continue;
        b.in.group = n;
        CR_TRY(cr_vec_reserve(&all->groups, 1));
        cr_status st = make_code(all, &b);
        if (st == CR_MEMORY)
            return st;
        if (st)
            cr_log_line("fusion", 1, "%%%s stays calls: %s", n->result[0]->name,
                        cr_error_message());
        n->code = st ? NULL : &b.in.c->code;
    }
    return CR_OK;
}

static void make_room(cr_session *s, void *context)
{
    builder *b = context;
    unsigned values = b->g->values;

    b->s = s;
    b->of.place = CR_NEW_N(s, int32_t, values);
    b->of.numbers = CR_NEW_N(s, const int32_t *, values);
    b->of.window = CR_NEW_N(s, const cr_gnode *, values);
    b->of.now = CR_NEW_N(s, cr_gvalue *, values);
}

static void start(cr_session *s, void *context)
{
    builder *b = context;

    make_room(s, b);
    b->facts = cr_facts_cache_new(s);
    b->alike = cr_alike_new(s, b->g->values, false);
}

static void start_for_all_sizes(cr_session *s, void *context)
{
    builder *b = context;

    start(s, b);
    b->alike = cr_alike_new(s, b->g->values, true);
}

static void keep_facts(cr_session *s, void *context)
{
    *(cr_facts_cache **)context = cr_facts_cache_new(s);
}

static cr_status compile_code(cr_compiled **out, cr_graph *g, unsigned how, bool all_sizes)
{
    cr_compiled *all = cr_alloc_zero(sizeof *all);
    cr_map twins = {0};
    builder b = {.g = g, .how = how, .twins = &twins};
    cr_session planning = {.status = CR_OK};
    cr_status st = all ? cr_session_run(&planning, all_sizes ? start_for_all_sizes : start, &b)
                       : CR_MEMORY;

    if (!st && all_sizes)
        st = cr_session_run(&all->session, keep_facts, &all->facts);
    if (!st)
        st = make_all(all, g, &b);
    cr_map_drop(&twins);
    cr_session_drop(&planning);
    if (st) {
        for (size_t i = 0; i < g->body->len; i++)
            g->body->at[i]->code = NULL;
        cr_compiled_drop(all);
        return st;
    }
    *out = all;
    return CR_OK;
}

cr_status cr_compile_code(cr_compiled **out, cr_graph *g, unsigned how)
{
    return compile_code(out, g, how, false);
}

cr_status cr_compile_code_for_all_sizes(cr_compiled **out, cr_graph *g, unsigned how)
{
    return compile_code(out, g, how, true);
}

int cr_compiled_sources(const cr_compiled *c) { return (int)c->sources.len; }

int cr_gcode_source(const cr_gcode *code)
{
    return ((const cr_group_code *)code)->source_number;
}

static cr_status resize_all(cr_compiled *all, const cr_compiled *of, const builder *start)
{
    for (size_t i = 0; i < of->sources.len; i++) {
        builder b = *start;
        b.all = all;
        b.sized.from = of->sources.at[i];
        b.in.group = b.sized.from->group;
        CR_TRY(cr_vec_reserve(&all->groups, 1));
        CR_TRY(code_again(all, &b));
    }
    return CR_OK;
}

/* Arrays by value are needed for groups with a new plan, and to make the nodes of groups
 * without native code. */
static bool needs_room(const cr_compiled *of)
{
    for (size_t i = 0; i < of->sources.len; i++)
        if (of->sources.at[i]->whole || needs_nodes(of->sources.at[i]->code))
            return true;
    return false;
}

cr_status cr_compiled_resize(cr_compiled **out, cr_compiled *of, const cr_graph *g,
                             unsigned how, const cr_kept_types *kept)
{
    cr_compiled *all = cr_alloc_zero(sizeof *all);
    cr_session planning = {.status = CR_OK};
    builder b = {.g = g, .how = how, .sized.kept = kept, .facts = of->facts};
    cr_status st = all ? CR_OK : CR_MEMORY;

    if (!st && needs_room(of))
        st = cr_session_run(&planning, make_room, &b);
    if (!st)
        st = cr_arena_reserve(&all->session.keep, of->resized);
    if (!st)
        st = resize_all(all, of, &b);
    if (!st)
        of->resized = cr_arena_used(&all->session.keep);
    cr_session_drop(&planning);
    CR_GIVE(st, out, all, cr_compiled_drop);
}

const cr_gcode *cr_compiled_code(const cr_compiled *c, int k) { return &c->groups.at[k]->code; }

void cr_compiled_drop(cr_compiled *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->groups.len; i++) {
        cr_tuner_drop(c->groups.at[i]->tuner);
        cr_program_drop(c->groups.at[i]->nodes);
        leave_program(c->groups.at[i]->program);
    }
    for (size_t i = 0; i < c->parts.len; i++)
        cr_part_drop(c->parts.at[i]);
    cr_vec_drop(&c->parts);
    cr_vec_drop(&c->groups);
    cr_vec_drop(&c->sources);
    cr_session_drop(&c->session);
    cr_free(c);
}

int cr_compiled_groups(const cr_compiled *c) { return (int)c->groups.len; }

bool cr_compiled_is_tuned(const cr_compiled *c)
{
    size_t i = 0;

    while (i < c->groups.len &&
           (!c->groups.at[i]->tuner || cr_tuner_is_done(c->groups.at[i]->tuner)))
        i++;
    return i == c->groups.len;
}
int cr_compiled_built(const cr_compiled *c) { return c->built; }

size_t cr_compiled_bytes(const cr_compiled *c)
{
    if (!c)
        return 0;
    size_t bytes =
        sizeof *c + c->groups.cap * sizeof *c->groups.at + cr_arena_bytes(&c->session.keep);

    for (size_t i = 0; i < c->groups.len; i++)
        bytes += c->groups.at[i]->nodes ? cr_program_bytes(c->groups.at[i]->nodes) : 0;
    return bytes;
}

const cr_fused *cr_compiled_fused(const cr_compiled *c, int k)
{
    return c->groups.at[k]->program->fused;
}
