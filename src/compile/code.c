/* Groups as fused programs.
 *
 * A group whose operands are all over the whole space is a program of one axis and may be cut
 * anywhere for the threads; otherwise it has rows and columns, and what is one for all is one
 * for every row.  Numbers are
 * parameters, so that groups that differ in numbers only are one kernel, and buffers are called
 * by their place, so that equal groups are. */
#include "compile/compile.h"
#include "base/log.h"
#include <string.h>

enum { MOST_OPERANDS = 32, MOST_PARAMS = 64 };

typedef struct {
    cr_gcode code;
    cr_fused *fused;
    int outputs;
    const cr_gtype *type[MOST_OPERANDS];     /* of results, then of what is read */
    int64_t stride[2 * MOST_OPERANDS];       /* bytes */
    int64_t rows, columns;
    _Alignas(16) char param[MOST_PARAMS * CR_PARAM_BYTES];
} group_code;

struct cr_compiled {
    CR_VEC(group_code *) groups;
};

/* --- running --- */

static CR_NOINLINE cr_status refuse(const cr_gvalue *v, const cr_tensor *t)
{
    cr_text sizes = {0};

    cr_print_sizes(&sizes, t->ndim, t->size);
    cr_fail(CR_RUNTIME, "%%%s is not what its group was made for: a tensor of %s and dtype %s", v->name,
            cr_text_str(&sizes), cr_dtype_name((cr_dtype)t->dtype));
    cr_text_drop(&sizes);
    return CR_RUNTIME;
}

static bool fits(const cr_tensor *t, const cr_gtype *type)
{
    return t && t->dtype == type->dtype && t->ndim == type->ndim && t->contiguous && t->device == type->device &&
           !memcmp(t->size, type->size, type->ndim * sizeof *type->size);
}

static cr_status run_group(const cr_gcode *code, cr_tensor *const *read, cr_tensor **output)
{
    const group_code *c = (const group_code *)code;
    void *ptr[MOST_OPERANDS];
    cr_status st = CR_OK;

    for (int i = 0; i < code->read_count; i++) {
        if (!fits(read[i], c->type[c->outputs + i])) {
            st = refuse(code->read[i], read[i]);
            goto done;
        }
        if (read[i]->requires_grad && !cr_thread.no_grad) {
            st = cr_fail(CR_RUNTIME, "a compiled group records no gradient, and %%%s requires one",
                         code->read[i]->name);
            goto done;
        }
        ptr[c->outputs + i] = read[i]->data;
    }
    for (int k = 0; k < c->outputs; k++) {
        const cr_gtype *t = c->type[k];
        if (!output[k])
            CR_GO(cr_tensor_new(&output[k], (cr_dtype)t->dtype, CR_CPU, t->ndim, t->size));
        ptr[k] = output[k]->data;
    }
    if (c->rows && c->columns)
        st = cr_fused_run(c->fused, ptr, c->stride, c->rows, c->columns, c->param);
done:
    for (int k = 0; st && k < c->outputs; k++) {
        cr_drop(output[k]);
        output[k] = NULL;
    }
    return st;
}

/* --- building --- */

typedef struct {
    const cr_gnode *n;
    group_code *c;
    bool flat;
    cr_over over[MOST_OPERANDS];
    /* the program at hand */
    cr_loop *l;
    const cr_expr **expr; /* by value id */
    unsigned values;
    int params;
} builder;

static cr_axis axis(cr_loop *l, const char *index, const char *extent)
{
    return (cr_axis){cr_sym_name(l->syms, index, 0, CR_SYM_HIGH), cr_sym_name(l->syms, extent, 0, CR_SYM_HIGH)};
}

/* An operand's buffer: over rows and columns, or over elements. */
static cr_buffer *buffer(builder *b, cr_buffer_role role, const char *name, cr_dtype t, cr_over over,
                         const cr_sym **index, int *n)
{
    cr_axis row = axis(b->l, "i", "R"), column = axis(b->l, "j", "C");
    const cr_sym *size[2];

    *n = 0;
    if (!b->flat && over != CR_OVER_COLUMNS) {
        size[*n] = row.extent;
        index[(*n)++] = row.index;
    }
    if (b->flat || over == CR_OVER_ALL || over == CR_OVER_COLUMNS) {
        size[*n] = column.extent;
        index[(*n)++] = column.index;
    }
    return cr_loop_buffer(b->l, role, name, t, *n, size);
}

static int place_of(const builder *b, const cr_gvalue *v)
{
    for (int i = 0; i < b->c->code.read_count; i++)
        if (b->c->code.read[i] == v)
            return i;
    return -1;
}

static const cr_expr *read_value(void *context, cr_gvalue *v)
{
    builder *b = context;
    const cr_sym *index[2];
    int n, k = place_of(b, v);

    if (b->expr[v->id])
        return b->expr[v->id];
    CR_ASSERT(k >= 0);
    cr_buffer *made = buffer(b, CR_BUFFER_INPUT, cr_session_printf(b->l->session, "x%d", k), (cr_dtype)v->type.dtype,
                             b->over[b->c->outputs + k], index, &n);
    return b->expr[v->id] = cr_expr_load(b->l, made, index);
}

static const cr_expr *read_number(void *context, cr_scalar number, cr_dtype t)
{
    builder *b = context;
    int slot = b->params++;

    if (slot == MOST_PARAMS)
        cr_bail(b->l->session, CR_VALUE, "too many numbers");
    cr_scalar_store(number, t, b->c->param + slot * CR_PARAM_BYTES);
    return cr_expr_param(b->l, cr_loop_param_new(b->l, cr_session_printf(b->l->session, "p%d", slot), t, slot));
}

/* "add_mul_exp": the first operators, for people who read the emitted code. */
static const char *program_name(cr_session *s, const cr_gblock *b)
{
    cr_text t = {0};
    char *name;

    cr_text_put(&t, "group");
    for (size_t i = 0; i < b->len && i < 4; i++)
        cr_text_printf(&t, "_%s", b->at[i]->op->name);
    name = cr_session_text(s, cr_text_str(&t));
    cr_text_drop(&t);
    return name;
}

static cr_loop *make_program(cr_session *s, void *context)
{
    builder *b = context;
    const cr_gblock *block = b->n->block[0];
    cr_node_reader reader = {read_value, read_number, b};
    cr_axis both[2];
    int n;

    b->l = cr_loop_new(s);
    b->expr = CR_NEW_N(s, const cr_expr *, b->values);
    b->l->name = b->l->origin = program_name(s, block);
    for (int k = 0; k < b->c->code.read_count; k++) /* operands in the order of the code's */
        read_value(b, b->c->code.read[k]);
    for (size_t i = 0; i < block->len; i++)
        b->expr[block->at[i]->result[0]->id] = cr_compile_node(b->l, block->at[i], &reader);
    both[0] = axis(b->l, "i", "R");
    both[1] = axis(b->l, "j", "C");
    for (int k = 0; k < block->output_count; k++) {
        const cr_expr *e = b->expr[block->output[k].value->id];
        const cr_sym *index[2];
        cr_buffer *out = buffer(b, CR_BUFFER_OUTPUT, cr_session_printf(s, "y%d", k), (cr_dtype)e->dtype, CR_OVER_ALL,
                                index, &n);
        cr_loop_define(b->l, out, n, both + (b->flat ? 1 : 0), e);
    }
    return b->l;
}

/* --- operands --- */

typedef struct {
    cr_session *s;
    struct {
        size_t len, cap;
        cr_gvalue **at;
    } reads;
    const cr_gblock *block;
} reads_of;

static bool made_inside(const cr_gblock *b, const cr_gvalue *v)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->at[i] == v->by)
            return true;
    return false;
}

static void add_read(void *context, cr_gvalue *v)
{
    reads_of *r = context;

    for (size_t i = 0; i < r->reads.len; i++)
        if (r->reads.at[i] == v)
            return;
    if (!made_inside(r->block, v))
        CR_PUSH(r->s, &r->reads, v);
}

static void find_reads(cr_session *s, void *context)
{
    builder *b = context;
    reads_of r = {.s = s, .block = b->n->block[0]};

    for (size_t i = 0; i < r.block->len; i++)
        for (int k = 0; k < r.block->at[i]->arg_count; k++)
            cr_garg_each(&r.block->at[i]->arg[k], add_read, &r);
    if (r.reads.len + (size_t)b->n->result_count > MOST_OPERANDS)
        cr_bail(s, CR_VALUE, "too many operands");
    b->c->code.read = r.reads.at;
    b->c->code.read_count = (int)r.reads.len;
}

static void set_strides(group_code *c, int k, cr_over over, int64_t item)
{
    c->stride[2 * k] = over == CR_OVER_ALL ? c->columns * item : over == CR_OVER_ROWS ? item : 0;
    c->stride[2 * k + 1] = over == CR_OVER_ALL || over == CR_OVER_COLUMNS ? item : 0;
}

/* Where no operand asks for rows, the last dimension is a row's; a long vector is cut in
 * halves, so that there is something to share out. */
enum { LONG_ROW = 16384 };

static void set_rows(group_code *c, const cr_gtype *space, int split)
{
    c->rows = c->columns = 1;
    for (int d = 0; d < space->ndim; d++)
        *(d < split ? &c->rows : &c->columns) *= space->size[d];
}

static void cut_rows(group_code *c, const cr_gtype *space)
{
    set_rows(c, space, space->ndim - 1);
    while (c->columns > LONG_ROW && c->columns % 2 == 0) {
        c->columns /= 2;
        c->rows *= 2;
    }
}

/* The space, and where every operand lies in it. */
static void lay_out(builder *b)
{
    group_code *c = b->c;
    const cr_gtype *space = &b->n->result[0]->type;
    int split = -1, n = c->outputs + c->code.read_count;

    b->flat = true;
    for (int k = 0; k < n; k++) {
        c->type[k] = k < c->outputs ? &b->n->result[k]->type : &c->code.read[k - c->outputs]->type;
        if (!cr_operand_over(&b->over[k], &split, space->ndim, space->size, c->type[k]))
            CR_ASSERT(!"an operand lies outside its group");
        b->flat = b->flat && b->over[k] == CR_OVER_ALL;
    }
    if (b->flat)
        set_rows(c, space, 0);
    else if (split < 0)
        cut_rows(c, space);
    else
        set_rows(c, space, split);
    for (int k = 0; k < n; k++)
        set_strides(c, k, b->over[k], (int64_t)cr_dtype_size((cr_dtype)c->type[k]->dtype));
}

static void code_drop(group_code *c)
{
    if (c)
        cr_fused_drop(c->fused);
    cr_free(c);
}

/* Reads that the result may be written over: those of every element, where one pass computes one
 * value an element and its store comes last. */
static uint32_t overwritten(const builder *b)
{
    const cr_nest *n = cr_fused_nest(b->c->fused);
    uint32_t reads = 0;

    if (n->kind != CR_NEST_ROWS || n->sweeps != 1 || n->sweep[0].stores != 1 || n->sweep[0].reduces.count ||
        n->row_stores)
        return 0;
    for (int i = 0; i < b->c->code.read_count && i < 32; i++)
        if (b->over[b->c->outputs + i] == CR_OVER_ALL)
            reads |= 1u << i;
    return reads;
}

static cr_status make_code(group_code **out, const cr_graph *g, const cr_gnode *n)
{
    group_code *c = cr_alloc_zero(sizeof *c);
    builder b = {.n = n, .c = c, .values = g->values};
    cr_status st;

    if (!c)
        return CR_MEMORY;
    c->outputs = n->result_count;
    c->code.run = run_group;
    CR_GO(cr_session_run(g->session, find_reads, &b));
    lay_out(&b);
    CR_GO(cr_fused_new(&c->fused, make_program, &b));
    c->code.overwrites = overwritten(&b);
    *out = c;
    return CR_OK;
done:
    code_drop(c);
    return st;
}

cr_status cr_compile_code(cr_compiled **out, cr_graph *g)
{
    cr_compiled *all = cr_alloc_zero(sizeof *all);
    cr_status st = all ? CR_OK : CR_MEMORY;

    for (size_t i = 0; !st && i < g->body->len; i++) {
        cr_gnode *n = g->body->at[i];
        group_code *c;
        if (n->kind != CR_GNODE_GROUP)
            continue;
        CR_GO(cr_vec_reserve(&all->groups, 1));
        st = make_code(&c, g, n);
        if (st == CR_MEMORY)
            goto done;
        if (st) {
            cr_log_line("fusion", 1, "%%%s stays calls: %s", n->result[0]->name, cr_error_message());
            st = CR_OK;
            continue;
        }
        n->code = &c->code;
        cr_vec_put(&all->groups, c);
    }
done:
    if (st) {
        for (size_t i = 0; i < g->body->len; i++)
            g->body->at[i]->code = NULL;
        cr_compiled_drop(all);
        return st;
    }
    *out = all;
    return CR_OK;
}

void cr_compiled_drop(cr_compiled *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->groups.len; i++)
        code_drop(c->groups.at[i]);
    cr_vec_drop(&c->groups);
    cr_free(c);
}

int cr_compiled_groups(const cr_compiled *c) { return (int)c->groups.len; }

const cr_fused *cr_compiled_fused(const cr_compiled *c, int k) { return c->groups.at[k]->fused; }
