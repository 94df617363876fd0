/* The host as an executor of plans: calls of operators, and kernels that its compiler
 * builds. */
#include "base/map.h"
#include "device/cpu/cpu.h"
#include "jit/oracle.h"
#include "ops/shape.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* --- calls of operators --- */

/* The values of a call: tensors over the memory of the command's arrays. */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    CR_VEC(cr_tensor *) made;
    cr_arena room;
    cr_status failed;
} library_call;

static void library_keeps_bytes(void *owner) { (void)owner; }

static cr_status library_tensor(cr_tensor **out, const cr_array *a)
{
    cr_view v = cr_host_view(a);
    const char *begin, *end;
    cr_storage *s;

    if (!cr_numel(a->ndim, a->size))
        return cr_tensor_new(out, (cr_dtype)a->dtype, CR_HOST, a->ndim, a->size);
    cr_view_extent(&v, &begin, &end);
    CR_TRY(cr_storage_foreign(&s, (void *)(uintptr_t)begin, (size_t)(end - begin),
                              library_keeps_bytes, NULL));
    cr_status st =
        cr_tensor_over(out, s, (cr_dtype)a->dtype, a->ndim, a->size, a->stride,
                       (a->data - begin) / (int64_t)cr_dtype_size((cr_dtype)a->dtype));
    if (st)
        cr_storage_drop(s);
    return st;
}

static cr_value library_array(library_call *c, const cr_array *a)
{
    cr_tensor *t;

    c->failed = c->failed ? c->failed : cr_vec_reserve(&c->made, 1);
    c->failed = c->failed ? c->failed : library_tensor(&t, a);
    if (c->failed)
        return cr_of_none();
    cr_vec_put(&c->made, t);
    return cr_of_tensor(t);
}

static cr_value library_integer(int64_t i, cr_type type)
{
    switch (type) {
    case CR_T_TENSOR:
    case CR_T_SCALAR: return cr_of_number(cr_scalar_int(i));
    case CR_T_BOOL: return cr_of_bool(i != 0);
    case CR_T_DTYPE:
        return i >= 0 && i < CR_DTYPE_COUNT ? cr_of_dtype((cr_dtype)i) : cr_of_int(i);
    default: return cr_of_int(i);
    }
}

static cr_value library_value(library_call *c, const cr_given *g, cr_type type);

static cr_value library_list(library_call *c, const cr_given *g)
{
    cr_value *list = cr_arena_get(&c->room, g->count * sizeof *list + 1);

    if (!list) {
        c->failed = CR_MEMORY;
        return cr_of_none();
    }
    for (size_t i = 0; i < g->count; i++)
        list[i] = library_value(c, &g->list[i], CR_T_TENSOR);
    return (cr_value){.tag = CR_TENSORS, .len = (uint32_t)g->count, .list = list};
}

static cr_value library_value(library_call *c, const cr_given *g, cr_type type)
{
    bool number = type == CR_T_TENSOR || type == CR_T_SCALAR;
    cr_value v = {.len = (uint32_t)g->count};

    switch (g->kind) {
    case CR_GIVEN_ARRAY: return library_array(c, &g->array);
    case CR_GIVEN_INT: return library_integer(g->i, type);
    case CR_GIVEN_FLOAT:
        return number ? cr_of_number(cr_scalar_float(g->d)) : cr_of_float(g->d);
    case CR_GIVEN_INTS: v.tag = type == CR_T_BOOLS ? CR_TRUTHS : CR_INTS; break;
    case CR_GIVEN_FLOATS: v.tag = CR_FLOATS; break;
    case CR_GIVEN_TEXT:
        v.tag = CR_STRING;
        v.s = cr_arena_text(&c->room, g->text, g->count);
        c->failed = v.s ? c->failed : CR_MEMORY;
        return v;
    case CR_GIVEN_LIST: return library_list(c, g);
    case CR_GIVEN_COMPLEX:
        return cr_of_number((cr_scalar){.category = CR_CAT_COMPLEX,
                                        .c = {g->complex_number[0], g->complex_number[1]}});
    case CR_GIVEN_NONE:
    case CR_GIVEN_OTHER: return cr_of_none();
    }
    v.ints = g->ints;
    return v;
}

static bool library_takes(const cr_param *p, const cr_value *v)
{
    bool takes = cr_param_takes(p, (cr_tag)v->tag);

    for (uint32_t i = 0; takes && v->tag == CR_TENSORS && i < v->len; i++)
        takes = v->list[i].tag == CR_TENSOR || (v->list[i].tag == CR_NONE && p->item_optional);
    return takes;
}

static cr_status library_arguments(library_call *c, const cr_op *op, const cr_library *l)
{
    if (!op || !cr_op_on_views(op) || op->param_count != l->args ||
        op->result_count != l->results)
        return cr_fail(CR_VALUE, "'%s' is no operator with %d arguments that is written in C",
                       l->entry, l->args);
    for (int i = 0; i < l->args; i++) {
        c->arg[i] = library_value(c, &l->arg[i], (cr_type)op->param[i].type);
        CR_TRY(c->failed);
        if (!library_takes(&op->param[i], &c->arg[i]))
            return cr_fail(CR_TYPE, "%s(): argument '%s' has another type", op->name,
                           op->param[i].name);
    }
    return CR_OK;
}

/* A result that the operator wrote to an argument is there already. */
static cr_status library_result(const cr_op *op, const cr_array *a, const cr_tensor *made)
{
    cr_view to = cr_host_view(a), from = cr_view_of(made);

    if (made->dtype != a->dtype || !cr_has_sizes(made, a->ndim, a->size))
        return cr_fail(CR_VALUE,
                       "%s(): a result of the command has not the sizes or the dtype "
                       "that the operator gives it",
                       op->name);
    return to.data == from.data ? CR_OK : cr_copy_elements(&to, &from);
}

/* The rules of the entry check the arguments and make the results. */
static cr_status library_call_op(const cr_op *op, const cr_value *arg, const cr_library *l)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st = cr_run_extern(op, arg, made);

    if (st)
        return st;
    for (int k = 0; !st && k < l->results; k++)
        st = library_result(op, &l->result[k], made[k].t);
    cr_drop_values(made, l->results);
    return st;
}

static const char *library_run(int index, const cr_library *l)
{
    const cr_op *op = cr_ops_find(l->entry);
    library_call c = {.failed = CR_OK};
    cr_status st = library_arguments(&c, op, l);

    (void)index;
    if (!st)
        st = library_call_op(op, c.arg, l);
    for (size_t i = 0; i < c.made.len; i++)
        cr_drop(c.made.at[i]);
    cr_vec_drop(&c.made);
    cr_arena_drop(&c.room);
    return st ? cr_error_message() : NULL;
}

/* --- calls on other devices: a registered kernel, or the command LIBRARY --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map entries; /* kind and name -> cr_entry_kernel */
static cr_map sizers;  /* kind and name -> cr_device_entry whose `sizes` is not NULL */

static size_t entry_key(char *key, size_t room, cr_device_kind kind, const cr_op *op)
{
    return (size_t)snprintf(key, room, "%d %s.%s", (int)kind, op->name, op->overload);
}

cr_status cr_remote_register(const char *entry, cr_device_kind kind, cr_entry_kernel fn)
{
    const cr_op *op = cr_ops_find(entry);
    char key[160];

    if (!op)
        return cr_fail(CR_RUNTIME, "no operator is called '%s'", entry);
    if (!cr_op_on_views(op))
        return cr_fail(CR_RUNTIME, "%s states what it computes: it takes no kernel of a device",
                       entry);
    size_t n = entry_key(key, sizeof key, kind, op);
    pthread_mutex_lock(&lock);
    cr_status st = cr_map_set(&entries, key, n, (void *)(uintptr_t)fn);
    pthread_mutex_unlock(&lock);
    return st;
}

static cr_status remember_sizes(const cr_device_entry *row, cr_device_kind kind)
{
    char key[160];
    size_t n = entry_key(key, sizeof key, kind, cr_ops_find(row->entry));

    pthread_mutex_lock(&lock);
    cr_status st = cr_map_set(&sizers, key, n, (void *)(uintptr_t)row);
    pthread_mutex_unlock(&lock);
    return st;
}

cr_status cr_remote_install(void)
{
    for (int kind = 0; kind < CR_DEVICE_COUNT; kind++) {
        int n;
        const cr_device_entry *rows = cr_device_entries((cr_device_kind)kind, &n);
        for (int i = 0; i < n; i++) {
            if (rows[i].kernel)
                CR_TRY(cr_remote_register(rows[i].entry, (cr_device_kind)kind, rows[i].kernel));
            if (rows[i].sizes)
                CR_TRY(remember_sizes(&rows[i], (cr_device_kind)kind));
        }
    }
    return CR_OK;
}

static void *registered(const cr_map *map, const cr_op *op, cr_device device)
{
    char key[160];
    size_t n = entry_key(key, sizeof key, (cr_device_kind)device.kind, op);

    pthread_mutex_lock(&lock);
    void *found = cr_map_get(map, key, n);
    pthread_mutex_unlock(&lock);
    return found;
}

static cr_given given_number(cr_scalar s)
{
    if (s.category == CR_CAT_COMPLEX)
        return (cr_given){.kind = CR_GIVEN_COMPLEX, .complex_number = {s.c.re, s.c.im}};
    return s.category == CR_CAT_FLOAT ? (cr_given){.kind = CR_GIVEN_FLOAT, .d = s.d}
                                      : (cr_given){.kind = CR_GIVEN_INT, .i = s.i};
}

static cr_given given_of(const cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_NONE: return (cr_given){.kind = CR_GIVEN_NONE};
    case CR_VIEW:
        if (cr_is_host(v->view->device))
            return given_number(cr_scalar_load((cr_dtype)v->view->dtype, v->view->data));
        return (cr_given){.kind = CR_GIVEN_ARRAY, .array = cr_array_of(v->view)};
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL: return (cr_given){.kind = CR_GIVEN_INT, .i = v->i};
    case CR_FLOAT: return (cr_given){.kind = CR_GIVEN_FLOAT, .d = v->d};
    case CR_NUMBER: return given_number(v->number);
    case CR_INTS:
    case CR_TRUTHS: return (cr_given){.kind = CR_GIVEN_INTS, .count = v->len, .ints = v->ints};
    case CR_FLOATS:
        return (cr_given){.kind = CR_GIVEN_FLOATS, .count = v->len, .floats = v->floats};
    case CR_STRING: return (cr_given){.kind = CR_GIVEN_TEXT, .count = v->len, .text = v->s};
    case CR_GENERATOR: return (cr_given){.kind = CR_GIVEN_OTHER, .object = v->generator};
    default: return (cr_given){.kind = CR_GIVEN_OTHER};
    }
}

static const char *ask_library(const cr_op *op, const cr_given *arg, const cr_array *result,
                               cr_device device)
{
    char name[160];
    cr_library c = {name, op->param_count, op->result_count, arg, result};

    snprintf(name, sizeof name, "%s%s%s", op->name, *op->overload ? "." : "", op->overload);
    return cr_table_of(device)->library(device.index, &c);
}

static cr_status given_all(cr_given *given, cr_arena *room, const cr_op *op,
                           const cr_value *arg)
{
    for (int i = 0; i < op->param_count; i++) {
        given[i] = given_of(&arg[i]);
        if (arg[i].tag != CR_TENSORS)
            continue;
        cr_given *list = cr_arena_get(room, arg[i].len * sizeof *list + 1);
        CR_NEED(list);
        for (uint32_t k = 0; k < arg[i].len; k++)
            list[k] = given_of(&arg[i].list[k]);
        given[i] = (cr_given){.kind = CR_GIVEN_LIST, .count = arg[i].len, .list = list};
    }
    return CR_OK;
}

cr_status cr_remote_sizes(const cr_op *op, const cr_value *arg, cr_shape *shape,
                          cr_device device, bool *declined)
{
    const cr_device_entry *row = registered(&sizers, op, device);
    cr_given given[CR_MAX_ARGS];
    cr_arena room = {0};
    const char *error = NULL;

    *declined = !row || !cr_has_bytes(device);
    if (*declined)
        return CR_OK;
    cr_status st = given_all(given, &room, op, arg);
    if (!st)
        error = row->sizes(device.index, given, shape);
    cr_arena_drop(&room);
    *declined = error == cr_command_declines;
    cr_sizes_of_values = true;
    return st || *declined ? st : cr_device_status(error);
}

/* Without a function, by the command LIBRARY.  *declines: NULL, or what the kernel returned. */
static cr_status call_registered(cr_entry_kernel fn, const cr_op *op, const cr_value *arg,
                                 const cr_view *out, cr_device device, const char **declines)
{
    cr_given given[CR_MAX_ARGS];
    cr_array result[CR_MAX_RESULTS];
    cr_arena room = {0};
    const char *error = NULL;

    cr_status st = given_all(given, &room, op, arg);
    for (int k = 0; k < op->result_count; k++)
        result[k] = cr_array_of(&out[k]);
    if (!st)
        error = fn ? fn(device.index, given, result) : ask_library(op, given, result, device);
    cr_arena_drop(&room);
    *declines = error == cr_command_declines || cr_device_lacks(error) ? error : NULL;
    return st || *declines ? st : cr_device_status(error);
}

bool cr_remote_has_kernel(const cr_op *op, cr_device device)
{
    return registered(&entries, op, device) != NULL;
}

/* True unless an argument is a number in the host's memory. */
static bool all_on_device(const cr_op *op, const cr_value *arg, cr_device device)
{
    bool all = true;

    for (int i = 0; i < op->param_count; i++) {
        all = all && (arg[i].tag != CR_VIEW || cr_same_device(arg[i].view->device, device));
        for (uint32_t k = 0; arg[i].tag == CR_TENSORS && k < arg[i].len; k++)
            all = all && (arg[i].list[k].tag != CR_VIEW ||
                          cr_same_device(arg[i].list[k].view->device, device));
    }
    return all;
}

cr_status cr_remote_kernel(const cr_op *op, const cr_value *arg, cr_view *out, cr_device device,
                           const char **declines)
{
    cr_entry_kernel fn = (cr_entry_kernel)(uintptr_t)registered(&entries, op, device);
    cr_status st;

    *declines = cr_command_declines;
    if (!fn)
        return CR_OK;
    if (fn == cr_device_runs_on_views) {
        if (!all_on_device(op, arg, device))
            return CR_OK;
        *declines = NULL;
        return op->fn.on_views(arg, out);
    }
    st = call_registered(fn, op, arg, out, device, declines);
    return *declines ? CR_OK : st;
}

int cr_remote_over(const cr_op *op, cr_device device)
{
    if (!(op->words & CR_WORD_INPLACE) || !cr_remote_has_kernel(op, device))
        return -1;
    for (int i = 0; i < op->param_count; i++)
        if (!strcmp(op->param[i].name, "self"))
            return i;
    return -1;
}

cr_status cr_remote_into(const cr_op *op, const cr_value *arg, const cr_tensor *out,
                         bool *declined)
{
    cr_view view[CR_MAX_ARGS], to = cr_view_of(out);
    cr_value given[CR_MAX_ARGS];
    const char *declines = cr_command_declines;

    for (int i = 0; i < op->param_count; i++) {
        given[i] = arg[i];
        if (arg[i].tag == CR_TENSOR) {
            view[i] = cr_view_of(arg[i].t);
            given[i] = (cr_value){.tag = CR_VIEW, .view = &view[i]};
        }
    }
    cr_status st = cr_remote_kernel(op, given, &to, out->device, &declines);
    *declined = declines != NULL;
    return st;
}

/* A command of a plan has the values of real numbers, but no other objects of the host. */
static bool fits_library(const cr_value *v)
{
    bool fits = v->tag != CR_VIEW || !cr_is_host(v->view->device);
    cr_given_kind kind = v->tag == CR_TENSORS ? CR_GIVEN_LIST : given_of(v).kind;

    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        fits = fits && fits_library(&v->list[i]);
    return fits && kind != CR_GIVEN_OTHER && kind != CR_GIVEN_COMPLEX;
}

cr_status cr_remote_library(const cr_op *op, const cr_value *arg, const cr_view *out,
                            cr_device device, bool *declined)
{
    const cr_device_ops *ops = cr_table_of(device);
    const char *declines;

    *declined = !ops->library || (op->words & CR_WORD_RANDOM); /* the host has the generators */
    for (int i = 0; i < op->param_count; i++)
        *declined = *declined || !fits_library(&arg[i]);
    if (*declined)
        return CR_OK;
    cr_status st = call_registered(NULL, op, arg, out, device, &declines);
    *declined = declines != NULL;
    return st;
}

/* --- kernels --- */

static const char *library_build(int index, const cr_kernel_source *source, void **code)
{
    cr_kernel_function function;
    const char *error = cr_kernel_compile(&function, source);

    (void)index;
    *code = error ? NULL : (void *)(uintptr_t)function;
    return error;
}

static const char *library_launch(int index, const cr_launch *l)
{
    (void)index;
    cr_launch_run((cr_kernel_function)(uintptr_t)l->code, l);
    return NULL;
}

const cr_executor cr_host_executor = {
    .ops = &cr_cpu_ops, .build = cr_plan_build, .operands = cr_kernel_operands};

void cr_library_install(void)
{
    cr_cpu_ops.library = cr_oracle_ops.library = library_run;
    cr_cpu_ops.build = library_build;
    cr_cpu_ops.launch = library_launch;
    cr_oracle_install();
}
