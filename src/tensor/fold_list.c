/* Folds of the elements of each of several tensors on another device than the host, as lists of
 * launches: their order is that of fold.c, which folds one tensor. */
#include "base/memory.h"
#include "num/order.h"
#include "tensor/geometry.h"
#include "tensor/kernel.h"
#include "tensor/remote.h"

/* Elements that become element `to` of the results. */
typedef struct {
    char *at;
    int64_t n;
    uint32_t to;
} list_line;

typedef struct {
    const cr_op *op;
    cr_dtype compute;
    bool joining;      /* lines are results of folds */
    uint8_t memory;    /* the dtype of the lines' elements */
    cr_tensor *result; /* on the tensors' device */
    list_line *line;
    uint32_t lines;
    cr_launch *launch; /* room for two launches of each line, and for their addresses */
    void *(*pointer)[2];
    int launches;
    int64_t stride[4];
    cr_params params;
} list_fold;

static int64_t list_parts(int64_t n) { return (n + CR_FOLD_ROW - 1) / CR_FOLD_ROW; }

static void list_add(list_fold *f, char *to, char *from, int64_t rows, int64_t columns)
{
    void **pointer = f->pointer[f->launches];

    if (!rows || !columns)
        return;
    pointer[0] = to;
    pointer[1] = from;
    f->launch[f->launches++] = (cr_launch){.operands = 2,
                                           .pointer = pointer,
                                           .stride = f->stride,
                                           .size = {rows, columns},
                                           .param = f->params.slot,
                                           .param_bytes = sizeof f->params.slot};
}

/* Folds the blocks of a line; the results of a line of several are the next line. */
static void list_add_line(list_fold *f, list_line *l, char **partial)
{
    int64_t whole = l->n / CR_FOLD_ROW, parts = list_parts(l->n), out = f->stride[0];
    char *to = parts > 1 ? *partial : f->result->address + l->to * out;

    list_add(f, to, l->at, whole, CR_FOLD_ROW);
    list_add(f, to + whole * out, l->at + whole * f->stride[2], 1, l->n - whole * CR_FOLD_ROW);
    if (parts == 1)
        return;
    *partial += parts * out;
    f->line[f->lines++] = (list_line){to, parts, l->to};
}

static cr_status list_level(list_fold *f, cr_tensor *partial)
{
    cr_placed_kernel kernel;
    cr_stored stored = {.any = false};
    char *at = partial ? partial->address : NULL;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)f->memory);
    uint32_t lines = f->lines;

    f->stride[0] = (int64_t)cr_dtype_size(f->compute);
    f->stride[1] = 0;
    f->stride[2] = CR_FOLD_ROW * item;
    f->stride[3] = item;
    f->lines = 0;
    f->launches = 0;
    for (uint32_t i = 0; i < lines; i++) {
        list_line l = f->line[i];
        list_add_line(f, &l, &at);
    }
    cr_stored_note(&stored, 1, (cr_dtype)f->memory, f->compute);
    CR_TRY(cr_place_stored(&kernel, f->result->device, f->op, f->compute,
                           f->joining ? CR_FORM_JOIN : CR_FORM_MAIN, &stored));
    return cr_launch_list(&kernel, f->launch, f->launches);
}

/* The results of blocks of lines that have several. */
static cr_status list_partial(cr_tensor **out, const list_fold *f)
{
    int64_t n = 0;

    *out = NULL;
    for (uint32_t i = 0; i < f->lines; i++)
        n += f->line[i].n > CR_FOLD_ROW ? list_parts(f->line[i].n) : 0;
    return n ? cr_tensor_new(out, f->compute, f->result->device, 1, &n) : CR_OK;
}

static cr_status list_run(list_fold *f)
{
    cr_tensor *elements = NULL;
    cr_status st = CR_OK;

    while (!st && f->lines) {
        cr_tensor *partial;
        st = list_partial(&partial, f);
        if (!st)
            st = list_level(f, partial);
        cr_drop(elements);
        elements = partial;
        f->joining = true;
        f->memory = (uint8_t)f->compute;
    }
    cr_drop(elements);
    return st;
}

bool cr_can_fold_list(const cr_value *list)
{
    const cr_tensor *first = list->len ? list->list[0].t : NULL;
    bool can = first && !cr_is_host(first->device) && cr_has_bytes(first->device) &&
               cr_dtype_is_float((cr_dtype)first->dtype) &&
               cr_kernel_accepts(first->device, (cr_dtype)first->dtype,
                                 cr_dtype_compute((cr_dtype)first->dtype));

    for (uint32_t i = 0; i < list->len && can; i++) {
        const cr_tensor *t = list->list[i].t;
        can = !cr_is_lazy(t) && t->address && t->numel && t->dtype == first->dtype &&
              cr_is_dense(t) && cr_same_device(t->device, first->device);
    }
    return can;
}

cr_status cr_fold_list(cr_tensor **out, const cr_op *op, const cr_value *list)
{
    const cr_tensor *first = list->list[0].t;
    int64_t n = list->len;
    list_fold f = {.op = op,
                   .compute = cr_dtype_compute((cr_dtype)first->dtype),
                   .memory = first->dtype,
                   .lines = list->len};
    cr_status st = CR_OK;

    f.line = cr_alloc((size_t)n * sizeof *f.line);
    f.launch = cr_alloc(2 * (size_t)n * sizeof *f.launch);
    f.pointer = cr_alloc(2 * (size_t)n * sizeof *f.pointer);
    if (!f.line || !f.launch || !f.pointer)
        CR_GO(CR_MEMORY);
    CR_GO(cr_tensor_new(&f.result, f.compute, first->device, 1, &n));
    for (uint32_t i = 0; i < list->len; i++)
        f.line[i] = (list_line){list->list[i].t->address, list->list[i].t->numel, i};
    CR_GO(list_run(&f));
    *out = cr_keep(f.result);
done:
    cr_drop(f.result);
    cr_free(f.pointer);
    cr_free(f.launch);
    cr_free(f.line);
    return st;
}
