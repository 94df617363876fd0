/* Runs the lines "# eager NAME = OP(ARG, ...)" of a program: the same computation by operators
 * of the tensor library.  Arguments are inputs, earlier results, settings and literals.  The
 * first result of the last line is compared with the program's first output. */
#include "crc_eager.h"
#include "crc.h"
#include "device/facts.h"
#include "tensor/tensor.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct {
    struct {
        char name[64];
        cr_tensor *t;
    } made[MOST];
    int count;
    const crc_eager *e;
} eager;

static cr_tensor *tensor_named(const eager *x, const char *name)
{
    for (int i = x->count - 1; i >= 0; i--)
        if (!strcmp(x->made[i].name, name))
            return x->made[i].t;
    return NULL;
}

static cr_status add(eager *x, const char *name, cr_tensor *t)
{
    if (x->count == MOST)
        return cr_fail(CR_VALUE, "more than %d tensors", MOST);
    snprintf(x->made[x->count].name, sizeof x->made[0].name, "%s", name);
    x->made[x->count++].t = t;
    return CR_OK;
}

/* A number of the parameter's type. */
static cr_value number_for(const cr_param *p, double v)
{
    if (p->type == CR_T_INT)
        return cr_of_int((int64_t)v);
    if (p->type == CR_T_FLOAT)
        return cr_of_float(v);
    return p->type == CR_T_BOOL ? cr_of_bool(v != 0) : cr_of_number(cr_scalar_float(v));
}

static cr_status argument(const eager *x, const cr_op *op, int i, const char *word,
                          cr_value *out)
{
    cr_tensor *t = tensor_named(x, word);
    double v;

    if (i >= op->param_count)
        return cr_fail(CR_VALUE, "%s takes %d arguments", op->name, op->param_count);
    if (t)
        *out = cr_of_tensor(t);
    else if (!strcmp(word, "True") || !strcmp(word, "False"))
        *out = cr_of_bool(*word == 'T');
    else if (x->e->find(x->e->context, word, &v))
        *out = number_for(&op->param[i], v);
    else if (isdigit((unsigned char)*word) || *word == '-')
        *out = number_for(&op->param[i], atof(word));
    else
        return cr_fail(CR_VALUE, "nothing is called '%s'", word);
    return CR_OK;
}

/* Runs one line "NAME = OP(ARG, ...)".  Overwrites the line. */
static cr_status run_line(eager *x, char *line)
{
    char *rest = line, *name = strtok_r(rest, " =", &rest),
         *op_name = strtok_r(rest, " =(", &rest);
    const cr_op *op = op_name ? cr_ops_find(op_name) : NULL;
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    char *word;
    int n = 0;

    if (!op)
        return cr_fail(CR_VALUE, "no operator is called '%s'", op_name ? op_name : "");
    for (; (word = strtok_r(rest, " ,()", &rest)); n++)
        CR_TRY(argument(x, op, n, word, &arg[n]));
    CR_TRY(cr_call_named(op_name, arg, n, result));
    for (int k = 1; k < op->result_count; k++)
        cr_drop_values(&result[k], 1);
    return add(x, name, result[0].t);
}

static cr_status run_lines(eager *x)
{
    for (const char *p = x->e->text; (p = strstr(p, "# eager ")); p++) {
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p + 8, "\n"), p + 8);
        CR_TRY(run_line(x, line));
    }
    return CR_OK;
}

static cr_status borrow(eager *x, const crc_array *a)
{
    cr_storage *s;
    cr_tensor *t;
    int64_t stride[2] = {1, 1}, bytes = (int64_t)cr_dtype_size(a->dtype);

    for (int i = a->ndim - 1; i >= 0; i--) {
        stride[i] = bytes / (int64_t)cr_dtype_size(a->dtype);
        bytes *= a->size[i];
    }
    CR_TRY(cr_storage_foreign(&s, a->memory, (size_t)bytes, NULL, NULL));
    CR_TRY(cr_tensor_over(&t, s, a->dtype, a->ndim, a->size, stride, 0));
    return add(x, a->name, t);
}

cr_status crc_eager_run(const crc_eager *e, void *out, size_t bytes)
{
    eager x = {.e = e};
    cr_status st = cr_tensor_start();
    cr_tensor *last;

    for (int i = 0; !st && i < e->count; i++)
        st = borrow(&x, &e->inputs[i]);
    if (!st)
        st = run_lines(&x);
    last = x.count ? x.made[x.count - 1].t : NULL;
    if (!st && (!last || (size_t)last->numel * cr_dtype_size((cr_dtype)last->dtype) != bytes ||
                !last->contiguous))
        st = cr_fail(CR_VALUE, "the last eager line does not give the program's first output");
    if (!st)
        memcpy(out, last->address, bytes);
    for (int i = 0; i < x.count; i++)
        cr_drop(x.made[i].t);
    return st;
}

/* --- entries that the host computes for a kind of device --- */

static bool has_kernel(cr_device_kind kind, const cr_op *op)
{
    const cr_device_entry *rows;
    int n;

    rows = cr_device_entries(kind, &n);
    for (int i = 0; i < n; i++)
        if (cr_ops_find(rows[i].entry) == op)
            return true;
    return false;
}

/* A function of C alone that has no kernel.  Lists of indices are commands. */
static bool needs_host(cr_device_kind kind, const cr_op *op)
{
    return op->does == CR_DOES_EXTERN && !(op->words & CR_WORD_HOST_INDICES) &&
           !has_kernel(kind, op);
}

int crc_host(int argc, char **argv)
{
    int kind, index;

    if (argc != 2 || cr_tensor_start() || cr_device_parse(argv[1], &kind, &index)) {
        fputs("usage: crc host DEVICE\n", stderr);
        return 2;
    }
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        if (needs_host((cr_device_kind)kind, op))
            printf("%s%s%s\n", op->name, *op->overload ? "." : "", op->overload);
    }
    return 0;
}
