/* The easy layer: ownership by scopes, error reports, and calls by name.
 *
 * A thread has one list of the objects that its calls returned.  An open scope is an index into
 * this list.  Ending a scope drops the objects above its index, including those of inner scopes
 * that were left by a jump.  An error is reported after all temporaries are released, because a
 * handler may jump. */
#include "base/env.h"
#include "base/map.h"
#include "device/generators.h"
#include "io/safetensors.h"
#include "nn/nn.h"
#include "script/value.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view
#include "cresset_easy.h"
#include "cresset_script.h"
#include "entry.h"

typedef struct {
    void *object;
    void (*drop)(void *object);
} item;

typedef struct {
    CR_VEC(item) items;
    CR_VEC(size_t) marks; /* index of the first item of each open scope */
    ct_error error;
    char *message;
    bool failed, known; /* known: the thread's exit function will free this */
} easy;

static CR_THREAD_COLD easy state;
static ct_handler user_handler;
static void *user_context;

/* --- start and end --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static cr_status started;

static void drop_from(easy *e, size_t mark)
{
    while (e->items.len > mark) {
        item last = e->items.at[--e->items.len];
        last.drop(last.object);
    }
}

static void end(void *thread)
{
    easy *e = thread;

    drop_from(e, 0);
    cr_vec_drop(&e->items);
    cr_vec_drop(&e->marks);
    cr_free(e->message);
    e->message = NULL;
    e->failed = e->known = false;
}

void cr_easy_end(void) { end(&state); }

/* With CR_SCOPES=1: tensors of scopes that ended, by address.  They stay allocated, so that no
 * new tensor has the address of one. */
static struct {
    bool on;
    pthread_mutex_t lock;
    cr_map tensors;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void easy_start(void)
{
    started = cr_init();
    ended.on = cr_env_int(CR_ENV_CR_SCOPES) != 0;
    if (pthread_key_create(&key, end) || atexit(cr_easy_end))
        started = started ? started : cr_fail(CR_RUNTIME, "the easy layer cannot start");
}

/* --- errors --- */

void cr_easy_set_handler(ct_handler handler, void *context)
{
    user_handler = handler;
    user_context = context;
}

const ct_error *cr_easy_error(void) { return state.failed ? &state.error : NULL; }
void cr_easy_clear_error(void) { state.failed = false; }

static void easy_stop(const ct_error *e)
{
    fprintf(stderr, "%s:%d: %s: %s: %s\n", e->file, e->line, e->call, e->kind_name, e->message);
    exit(1);
}

/* Copies the error record, because the next error of the base layer replaces it. */
static void easy_report(const char *file, int line, const char *call, cr_status st)
{
    const char *name = cr_kind_class(st);

    cr_free(state.message);
    state.message = cr_strdup(cr_error_message());
    state.error = (ct_error){
        st, name ? name : "Error", state.message ? state.message : "", call, file, line};
    state.failed = true;
    if (user_handler)
        user_handler(&state.error, user_context);
    else
        easy_stop(&state.error);
}

/* The macro's name, such as "ct_add", for errors.  Valid until the thread's next use. */
static const char *macro_name(const char *name)
{
    static CR_THREAD_COLD char text[64];

    snprintf(text, sizeof text, "ct_%s", name);
    return text;
}

/* Initializes the thread if need be.  True when the call may proceed. */
static bool ready(const char *file, int line, const char *call)
{
    if (CR_LIKELY(state.known))
        return !state.failed;
    pthread_once(&once, easy_start);
    if (started)
        easy_report(file, line, call, started);
    state.known = !started;
    pthread_setspecific(key, &state);
    return !started && !state.failed;
}

bool cr_easy_check(const char *file, int line, const char *call, cr_status st)
{
    if (st && !state.failed)
        easy_report(file, line, call, st);
    return !st;
}

/* --- owners --- */

/* True if the tensor is now in `ended`, which takes over the scope's reference. */
static bool easy_remember(cr_tensor *t)
{
    if (!ended.on || atomic_load(&t->count) != 1)
        return false;
    pthread_mutex_lock(&ended.lock);
    bool kept = !cr_map_set(&ended.tensors, (const char *)&t, sizeof t, t);
    pthread_mutex_unlock(&ended.lock);
    return kept;
}

static void drop_tensor(void *object)
{
    if (!easy_remember(object))
        cr_drop(object);
}

static cr_status easy_alive(const cr_tensor *t)
{
    if (!ended.on || !t)
        return CR_OK;
    pthread_mutex_lock(&ended.lock);
    bool found = cr_map_get(&ended.tensors, (const char *)&t, sizeof t);
    pthread_mutex_unlock(&ended.lock);
    return found ? cr_fail(CR_RUNTIME,
                           "the scope of this tensor has ended; ct_keep gives a tensor "
                           "to the scope around")
                 : CR_OK;
}

/* As cr_call_by_name, for tensors whose scopes have not ended. */
static cr_status easy_call(const char *name, const cr_arg *args, const cr_op **op,
                           cr_value *result)
{
    for (const cr_arg *a = args; ended.on && a && a->kind != CR_ARG_END; a++) {
        if (a->kind == CR_ARG_TENSOR)
            CR_TRY(easy_alive(a->t));
        for (uint32_t i = 0; a->kind == CR_ARG_TENSORS && i < a->len; i++)
            CR_TRY(easy_alive(a->tensors[i]));
    }
    return cr_call_by_name(name, args, op, result);
}

static void drop_module(void *m) { cr_module_drop(m); }
static void drop_optim(void *o) { cr_optim_drop(o); }
static void drop_loader(void *l) { cr_loader_drop(l); }
static void drop_schedule(void *s) { cr_schedule_drop(s); }

/* Adds `object` to the innermost scope.  Drops it on failure. */
static cr_status easy_own(void *object, void (*drop)(void *))
{
    cr_status st = cr_vec_reserve(&state.items, 1);

    if (st)
        drop(object);
    else
        cr_vec_put(&state.items, ((item){object, drop}));
    return st;
}

/* The result of a call that makes `object`: in the innermost scope, or NULL after an error. */
static void *easy_give(const char *file, int line, const char *call, cr_status st, void *object,
                       void (*drop)(void *))
{
    st = st ? st : easy_own(object, drop);
    if (st)
        easy_report(file, line, call, st);
    return st ? NULL : object;
}

ct_block cr_easy_enter(void)
{
    ct_block b = {state.marks.len, true, false};
    cr_status st = ready("", 0, "ct_scope") ? cr_vec_reserve(&state.marks, 1) : CR_OK;

    if (st)
        easy_report("", 0, "ct_scope", st);
    else if (state.known && state.marks.len < state.marks.cap)
        cr_vec_put(&state.marks, state.items.len);
    return b;
}

void cr_easy_leave(ct_block *b)
{
    if (state.marks.len <= b->depth)
        return;
    drop_from(&state, state.marks.at[b->depth]);
    state.marks.len = b->depth;
}

ct_block cr_easy_enter_no_grad(void)
{
    ct_block b = cr_easy_enter();

    b.grad = cr_set_grad_enabled(false);
    return b;
}

void cr_easy_leave_no_grad(ct_block *b)
{
    cr_set_grad_enabled(b->grad);
    cr_easy_leave(b);
}

cr_tensor *cr_easy_owned(cr_tensor *t)
{
    if (!t || (ready("", 0, "ct_owned") && !easy_own(t, drop_tensor)))
        return t;
    return NULL;
}

/* Makes the enclosing scope another owner of `t`: adds an item below the innermost mark. */
cr_tensor *cr_easy_keep(cr_tensor *t)
{
    size_t *mark = state.marks.len ? &state.marks.at[state.marks.len - 1] : NULL;

    if (!t || !mark)
        return t;
    cr_status st = cr_vec_reserve(&state.items, 1);
    if (st) {
        easy_report("", 0, "ct_keep", st);
        return NULL;
    }
    item *at = state.items.at + *mark;
    memmove(at + 1, at, (state.items.len - *mark) * sizeof *at);
    *at = (item){cr_hold(t), drop_tensor};
    state.items.len++;
    ++*mark;
    return t;
}

/* --- operators --- */

static bool is_inplace(const cr_op *op) { return op->result_count && op->result[0].written; }

/* Returns the first result and adds it to the scope, except the result of an in-place operator,
 * which the caller has already.  Drops the other results. */
static cr_status easy_take_tensor(cr_tensor **out, const cr_op *op, cr_value *result)
{
    cr_tensor *t = op->result_count && result[0].tag == CR_TENSOR ? result[0].t : NULL;

    if (op->result_count)
        cr_drop_values(result + 1, op->result_count - 1);
    if (t && is_inplace(op))
        cr_drop(t);
    else if (t)
        CR_TRY(easy_own(t, drop_tensor));
    *out = t;
    return CR_OK;
}

static cr_status wrong_result(const cr_op *op, cr_value *result)
{
    cr_drop_values(result, op->result_count);
    return cr_fail(CR_TYPE, "%s() with these arguments is ct_%s_%s", op->name, op->name,
                   op->overload);
}

static cr_status call_tensor(cr_tensor **out, const char *name, const cr_arg *args)
{
    cr_value result[CR_MAX_RESULTS];
    const cr_op *op;

    CR_TRY(easy_call(name, args, &op, result));
    if (op->result_count && op->result[0].type != CR_T_TENSOR)
        return wrong_result(op, result);
    return easy_take_tensor(out, op, result);
}

cr_tensor *cr_easy_tensor(const char *file, int line, const char *name, const cr_arg *args)
{
    cr_tensor *out = NULL;

    if (!ready(file, line, name))
        return NULL;
    cr_status st = call_tensor(&out, name, args);
    if (CR_UNLIKELY(st))
        easy_report(file, line, macro_name(name), st);
    return out;
}

static cr_status take_tensors(cr_tensors *out, cr_value *v)
{
    cr_tensor **at = cr_alloc((v->len ? v->len : 1) * sizeof *at);

    CR_NEED(at);
    CR_TRY(easy_own(at, cr_free));
    for (uint32_t i = 0; i < v->len; i++) {
        at[i] = cr_keep(v->list[i].t);
        CR_TRY(easy_own(at[i], drop_tensor));
    }
    *out = (cr_tensors){at, v->len};
    return CR_OK;
}

static cr_status call_tensors(cr_tensors *out, const char *name, const cr_arg *args)
{
    cr_value result[CR_MAX_RESULTS];
    const cr_op *op;

    CR_TRY(easy_call(name, args, &op, result));
    if (op->result[0].type != CR_T_TENSORS)
        return wrong_result(op, result);
    cr_status st = take_tensors(out, &result[0]);
    cr_drop_values(result, op->result_count);
    return st;
}

cr_tensors cr_easy_tensors(const char *file, int line, const char *name, const cr_arg *args)
{
    cr_tensors out = {NULL, 0};

    if (!ready(file, line, name))
        return out;
    cr_status st = call_tensors(&out, name, args);
    if (st)
        easy_report(file, line, macro_name(name), st);
    return out;
}

/* Calls an operator whose result is a number. */
static double call_number(const char *file, int line, const char *name, const cr_arg *args)
{
    cr_value result[CR_MAX_RESULTS];
    const cr_op *op;

    if (!ready(file, line, name))
        return 0;
    cr_status st = easy_call(name, args, &op, result);
    if (st) {
        easy_report(file, line, macro_name(name), st);
        return 0;
    }
    return result[0].tag == CR_NUMBER  ? cr_scalar_as_double(result[0].number)
           : result[0].tag == CR_FLOAT ? result[0].d
                                       : (double)result[0].i;
}

double cr_easy_number(const char *file, int line, const char *name, const cr_arg *args)
{
    return call_number(file, line, name, args);
}

bool cr_easy_bool(const char *file, int line, const char *name, const cr_arg *args)
{
    return call_number(file, line, name, args) != 0;
}

/* --- arguments of functions that are not operators --- */

/* Parses the schema and binds the arguments to it.  Parsing at each call is acceptable because
 * these calls are rare. */
static cr_status easy_bind(cr_binding *b, cr_arena *arena, const char *schema,
                           const cr_arg *args)
{
    cr_op op = {0};
    const cr_op *bound;

    CR_TRY(cr_schema_read(&op, arena, schema));
    return cr_bind(b, &bound, &op, op.name, args);
}

/* --- tensors --- */

static cr_status make_numbers(cr_tensor **out, const cr_arg *a)
{
    int64_t size[] = {a->len};

    switch (a->kind) {
    case CR_ARG_INTS: return cr_tensor_from(out, CR_I64, 1, size, a->ints);
    case CR_ARG_FLOATS: return cr_tensor_from(out, CR_F64, 1, size, a->floats);
    case CR_ARG_INT: return cr_tensor_scalar(out, cr_scalar_int(a->i), CR_I64, false);
    case CR_ARG_FLOAT: return cr_tensor_scalar(out, cr_scalar_float(a->d), CR_F64, false);
    case CR_ARG_BOOL: return cr_tensor_scalar(out, cr_scalar_int(a->i), CR_BOOL, false);
    default: return cr_fail(CR_TYPE, "tensor() takes a number, CT_LIST(...) or CT_FLOATS(...)");
    }
}

/* A tensor of floats gets the default dtype unless a dtype is given. */
static cr_status easy_make_tensor(cr_tensor **out, const cr_arg *args)
{
    bool floats = args[0].kind == CR_ARG_FLOATS || args[0].kind == CR_ARG_FLOAT;
    cr_arg none[] = {{.kind = CR_ARG_END}};
    cr_tensor *made = NULL;
    cr_arena arena = {0};
    cr_binding b = {.lists = {0}};
    cr_status st;

    CR_GO(easy_bind(&b, &arena, "tensor(*, ScalarType? dtype=None) -> Tensor",
                    args[0].kind == CR_ARG_END ? none : args + 1));
    cr_dtype dtype = b.value[0].tag == CR_DTYPE_VAL ? (cr_dtype)b.value[0].i
                     : floats                       ? cr_default_dtype()
                                                    : CR_DTYPE_NONE;
    CR_GO(make_numbers(&made, args));
    cr_value v[] = {cr_of_tensor(made),
                    cr_of_dtype(dtype == CR_DTYPE_NONE ? (cr_dtype)made->dtype : dtype)};
    cr_value result[CR_MAX_RESULTS];
    CR_GO(cr_call_given(result, cr_entry.to_dtype, v, 2));
    *out = result[0].t;
done:
    cr_drop(made);
    cr_binding_drop(&b);
    cr_arena_drop(&arena);
    return st;
}

cr_tensor *cr_easy_make(const char *file, int line, const cr_arg *args)
{
    cr_tensor *t = NULL;

    if (!ready(file, line, "ct_tensor"))
        return NULL;
    cr_status st = easy_make_tensor(&t, args);
    return easy_give(file, line, "ct_tensor", st, t, drop_tensor);
}

cr_tensor *cr_easy_from(const char *file, int line, const void *elements, cr_dtype dtype,
                        cr_arg size)
{
    cr_tensor *t = NULL;
    cr_status st = CR_OK;

    if (!ready(file, line, "ct_from"))
        return NULL;
    if (size.kind == CR_ARG_INT)
        st = cr_tensor_from(&t, dtype, 1, &size.i, elements);
    else if (size.kind == CR_ARG_INTS)
        st = cr_tensor_from(&t, dtype, (int)size.len, size.ints, elements);
    else
        st = cr_fail(CR_TYPE, "from(): argument 'size' must be CT_LIST(...)");
    return easy_give(file, line, "ct_from", st, t, drop_tensor);
}

static cr_status easy_need(const void *p, const char *function, const char *type)
{
    if (p && !strcmp(type, "Tensor"))
        return easy_alive(p);
    return p ? CR_OK
             : cr_fail(CR_TYPE, "%s(): argument 'input' (position 1) must be %s, not NoneType",
                       function, type);
}

int64_t cr_easy_int(const char *file, int line, cr_tensor *t)
{
    cr_scalar number = cr_scalar_int(0);

    if (!ready(file, line, "ct_item_int"))
        return 0;
    cr_status st = easy_need(t, "item", "Tensor");
    st = st ? st : cr_tensor_item(&number, t);
    if (st)
        easy_report(file, line, "ct_item_int", st);
    return cr_scalar_as_int(number);
}

int64_t cr_easy_size(const char *file, int line, const cr_tensor *t, int64_t dim)
{
    if (!ready(file, line, "ct_size"))
        return 0;
    cr_status st = easy_need(t, "size", "Tensor");
    st = st ? st : cr_wrap_dim(&dim, dim, t->ndim);
    if (st)
        easy_report(file, line, "ct_size", st);
    return st ? 0 : t->size[dim];
}

void *cr_easy_data(const char *file, int line, cr_tensor *t, cr_dtype dtype)
{
    if (!ready(file, line, "ct_data"))
        return NULL;
    char *data;
    cr_status st = easy_need(t, "data", "Tensor");
    if (!st && t->dtype != dtype)
        st = cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                     cr_dtype_infos[dtype].legacy, cr_dtype_infos[t->dtype].legacy);
    else if (!st && !t->contiguous)
        st = cr_fail(CR_RUNTIME,
                     "the tensor's elements do not lie one after the other: ct_contiguous");
    if (!st)
        st = cr_reach_to_write(&data, t);
    if (st)
        easy_report(file, line, "ct_data", st);
    return st ? NULL : data;
}

/* --- gradients --- */

cr_tensor *cr_easy_requires_grad(const char *file, int line, cr_tensor *t)
{
    if (!ready(file, line, "ct_requires_grad"))
        return NULL;
    cr_status st = easy_need(t, "requires_grad_", "Tensor");
    st = st ? st : cr_set_requires_grad(t, true);
    if (st)
        easy_report(file, line, "ct_requires_grad", st);
    return st ? NULL : t;
}

/* `v` are the arguments gradient, retain_graph and create_graph. */
static cr_status backward(cr_tensor *root, cr_tensor **inputs, cr_tensor **results,
                          const cr_value *v)
{
    cr_tensor *grad = v[0].tag == CR_TENSOR ? v[0].t : NULL;
    bool create = v[2].i != 0;
    cr_backward_call call = {.roots = &root,
                             .grads = &grad,
                             .root_count = 1,
                             .inputs = inputs,
                             .input_count = inputs != NULL,
                             .retain_graph = v[1].tag == CR_TRUTH ? v[1].i != 0 : create,
                             .create_graph = create};

    return cr_backward(&call, results);
}

void cr_easy_backward(const char *file, int line, const cr_arg *args)
{
    cr_binding b = {.lists = {0}};
    cr_arena arena = {0};

    if (!ready(file, line, "ct_backward"))
        return;
    cr_status st =
        easy_bind(&b, &arena,
                  "backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, "
                  "bool create_graph=False) -> Tensor",
                  args);
    st = st ? st : backward(b.value[0].t, NULL, NULL, b.value + 1);
    cr_binding_drop(&b);
    cr_arena_drop(&arena);
    if (st)
        easy_report(file, line, "ct_backward", st);
}

cr_tensor *cr_easy_gradient(const char *file, int line, const cr_arg *args)
{
    cr_binding b = {.lists = {0}};
    cr_arena arena = {0};
    cr_tensor *out = NULL;

    if (!ready(file, line, "ct_gradient"))
        return NULL;
    cr_status st = easy_bind(&b, &arena,
                             "grad(Tensor outputs, Tensor inputs, Tensor? gradient=None, "
                             "bool? retain_graph=None, bool create_graph=False) -> Tensor",
                             args);
    st = st ? st : backward(b.value[0].t, &b.value[1].t, &out, b.value + 2);
    cr_binding_drop(&b);
    cr_arena_drop(&arena);
    return easy_give(file, line, "ct_gradient", st, out, drop_tensor);
}

void cr_easy_seed(const char *file, int line, uint64_t seed)
{
    if (ready(file, line, "ct_manual_seed")) {
        cr_status st = cr_device_generators_seed(seed);
        st = st ? st : cr_generator_seed(cr_generator_default(), seed);
        (void)cr_easy_check(file, line, "ct_manual_seed", st);
    }
}

static void drop_generator(void *g) { cr_generator_drop(g); }

cr_generator *cr_easy_generator(const char *file, int line, uint64_t seed)
{
    cr_generator *g = NULL;

    if (!ready(file, line, "ct_generator"))
        return NULL;
    cr_status st = cr_generator_new(&g, seed);
    return easy_give(file, line, "ct_generator", st, g, drop_generator);
}

/* --- modules --- */

cr_module *cr_easy_module(const char *file, int line, const char *kind, const cr_arg *args)
{
    cr_module *m = NULL;

    if (!ready(file, line, kind))
        return NULL;
    cr_status st = cr_module_new(&m, kind, args);
    return easy_give(file, line, macro_name(kind), st, m, drop_module);
}

cr_module *cr_easy_script(const char *file, int line, const char *path)
{
    cr_script *program = NULL;
    cr_module *m = NULL;

    if (!ready(file, line, "ct_script"))
        return NULL;
    cr_status st = cr_script_load(&program, path);
    st = st ? st : cr_script_as_module(&m, program);
    cr_script_drop(program);
    return easy_give(file, line, "ct_script", st, m, drop_module);
}

void cr_easy_save_script(const char *file, int line, cr_module *m, const char *path)
{
    if (ready(file, line, "ct_save_script"))
        cr_easy_check(file, line, "ct_save_script",
                      cr_script_save(cr_script_of_module(m), path));
}

cr_module *cr_easy_define(const char *file, int line, const char *kind, cr_forward forward,
                          void *context)
{
    cr_module *m = NULL;

    if (!ready(file, line, "ct_Module"))
        return NULL;
    cr_status st = cr_module_define(&m, kind, forward, context);
    return easy_give(file, line, "ct_Module", st, m, drop_module);
}

cr_module *cr_easy_sequential(const char *file, int line, cr_module *const *modules,
                              size_t count)
{
    static const cr_arg none[] = {{.kind = CR_ARG_END}};
    cr_module *m = cr_easy_module(file, line, "Sequential", none);

    for (size_t i = 0; m && i < count; i++)
        if (!cr_easy_check(file, line, "ct_Sequential", cr_module_append(m, modules[i])))
            return NULL;
    return m;
}

cr_module *cr_easy_stack(const char *file, int line, const char *kind, cr_module *layer,
                         int64_t num_layers, cr_module *norm)
{
    cr_module *m = NULL;

    if (!ready(file, line, kind))
        return NULL;
    cr_status st = cr_module_stack(&m, kind, layer, num_layers, norm);
    return easy_give(file, line, kind, st, m, drop_module);
}

cr_module *cr_easy_copy(const char *file, int line, cr_module *m)
{
    cr_module *made = NULL;

    if (!ready(file, line, "ct_copy_module"))
        return NULL;
    cr_status st = cr_module_copy(&made, m);
    return easy_give(file, line, "ct_copy_module", st, made, drop_module);
}

cr_module *cr_easy_add(const char *file, int line, cr_module *m, const char *name,
                       cr_module *child)
{
    if (!ready(file, line, "ct_add_module") ||
        !cr_easy_check(file, line, "ct_add_module", cr_module_add(m, name, child)))
        return NULL;
    return child;
}

cr_tensor *cr_easy_parameter(const char *file, int line, cr_module *m, const char *name,
                             cr_tensor *t)
{
    if (!ready(file, line, "ct_parameter") ||
        !cr_easy_check(file, line, "ct_parameter", cr_module_set_parameter(m, name, t)))
        return NULL;
    return t;
}

cr_tensor *cr_easy_buffer(const char *file, int line, cr_module *m, const char *name,
                          cr_tensor *t)
{
    if (!ready(file, line, "ct_buffer") ||
        !cr_easy_check(file, line, "ct_buffer", cr_module_set_buffer(m, name, t, true)))
        return NULL;
    return t;
}

static cr_status forward(cr_tensor **out, cr_module *m, const char *path, cr_tensor *x)
{
    cr_module *at = cr_module_at(m, path);

    if (m && !at)
        return cr_fail(CR_ATTRIBUTE, "'%s' object has no attribute '%s'", cr_module_kind(m),
                       path ? path : "");
    CR_TRY(cr_module_forward(out, at, x));
    return easy_own(*out, drop_tensor);
}

cr_tensor *cr_easy_forward(const char *file, int line, cr_module *m, const char *path,
                           cr_tensor *x)
{
    cr_tensor *out = NULL;

    if (!ready(file, line, "ct_forward"))
        return NULL;
    cr_status st = forward(&out, m, path, x);
    if (st)
        cr_easy_check(file, line, "ct_forward", st);
    return st ? NULL : out;
}

static void easy_put(const char *file, int line, const char *call, cr_status st, char *text)
{
    if (cr_easy_check(file, line, call, st)) {
        puts(text);
        cr_free(text);
    }
}

void cr_easy_print(const char *file, int line, cr_module *m)
{
    char *text = NULL;

    if (!ready(file, line, "ct_print"))
        return;
    cr_status st = cr_module_text(&text, m);
    easy_put(file, line, "ct_print", st, text);
}

void cr_easy_print_tensor(const char *file, int line, cr_tensor *t)
{
    char *text = NULL;

    if (!ready(file, line, "ct_print_tensor"))
        return;
    cr_status st = cr_tensor_text(&text, t);
    easy_put(file, line, "ct_print_tensor", st, text);
}

cr_tensors cr_easy_parameters(const char *file, int line, cr_module *m)
{
    cr_tensors out = {NULL, 0};

    if (!ready(file, line, "ct_parameters"))
        return out;
    cr_status st = cr_module_parameters(&out, m);
    st = st ? st : easy_own(out.at, cr_free);
    if (st)
        easy_report(file, line, "ct_parameters", st);
    return st ? (cr_tensors){NULL, 0} : out;
}

static cr_status easy_save(cr_module *m, const char *path)
{
    cr_state *s = NULL;

    CR_TRY(cr_module_state(&s, m));
    cr_status st = cr_state_write(s, path);
    cr_state_drop(s);
    return st;
}

static cr_status easy_load(cr_module *m, const char *path, const char *prefix)
{
    cr_state *s = NULL, *part = NULL;
    cr_status st;

    CR_GO(cr_state_read(&s, path));
    if (prefix)
        CR_GO(cr_state_under(&part, s, prefix));
    CR_GO(cr_module_load_state(m, part ? part : s, true));
done:
    cr_state_drop(part);
    cr_state_drop(s);
    return st;
}

void cr_easy_save(const char *file, int line, cr_module *m, const char *path)
{
    if (ready(file, line, "ct_save"))
        cr_easy_check(file, line, "ct_save", easy_save(m, path));
}

void cr_easy_load(const char *file, int line, cr_module *m, const char *path,
                  const char *prefix)
{
    if (ready(file, line, "ct_load"))
        cr_easy_check(file, line, "ct_load", easy_load(m, path, prefix));
}

/* --- optimizers and data --- */

/* The list of tensors that is the first argument. */
static cr_status first_list(cr_tensors *out, const cr_arg *args, const char *call,
                            const char *what)
{
    if (args[0].kind != CR_ARG_TENSORS)
        return cr_fail(CR_TYPE, "%s(): argument '%s' (position 1) must be tuple of Tensors",
                       call, what);
    *out = (cr_tensors){(cr_tensor **)(uintptr_t)args[0].tensors, args[0].len};
    return CR_OK;
}

cr_optim *cr_easy_optim(const char *file, int line, const char *kind, const cr_arg *args)
{
    cr_optim *o = NULL;
    cr_tensors params = {NULL, 0};

    if (!ready(file, line, kind))
        return NULL;
    cr_status st = first_list(&params, args, kind, "params");
    st = st ? st : cr_optim_new(&o, kind, params.at, params.len, args + 1);
    return easy_give(file, line, macro_name(kind), st, o, drop_optim);
}

static cr_status easy_save_optim(cr_optim *o, const char *path)
{
    cr_state *s = NULL;

    CR_TRY(cr_optim_state(&s, o));
    cr_status st = cr_state_write(s, path);
    cr_state_drop(s);
    return st;
}

static cr_status easy_load_optim(cr_optim *o, const char *path)
{
    cr_state *s = NULL;

    CR_TRY(cr_state_read(&s, path));
    cr_status st = cr_optim_load_state(o, s);
    cr_state_drop(s);
    return st;
}

void cr_easy_save_optim(const char *file, int line, cr_optim *o, const char *path)
{
    if (ready(file, line, "ct_save_optim"))
        cr_easy_check(file, line, "ct_save_optim", easy_save_optim(o, path));
}

void cr_easy_load_optim(const char *file, int line, cr_optim *o, const char *path)
{
    if (ready(file, line, "ct_load_optim"))
        cr_easy_check(file, line, "ct_load_optim", easy_load_optim(o, path));
}

cr_schedule *cr_easy_schedule(const char *file, int line, const char *kind, cr_optim *o,
                              const cr_arg *args)
{
    cr_schedule *s = NULL;

    if (!ready(file, line, "ct_schedule"))
        return NULL;
    cr_status st = cr_schedule_new(&s, kind, o, args);
    return easy_give(file, line, "ct_schedule", st, s, drop_schedule);
}

double cr_easy_clip(const char *file, int line, cr_tensors params, double max_norm)
{
    double norm = 0;

    if (ready(file, line, "ct_clip_grad_norm_"))
        cr_easy_check(file, line, "ct_clip_grad_norm_",
                      cr_clip_grad_norm(&norm, params.at, params.len, max_norm));
    return norm;
}

static cr_status easy_forward_many(cr_module *m, const cr_arg *arg, cr_tensor **out,
                                   size_t outs)
{
    cr_tensor **made = cr_alloc(outs * sizeof *made + 1);
    cr_tensors input = {NULL, 0};
    cr_status st = made ? first_list(&input, arg, "forward", "input") : CR_MEMORY;

    st = st ? st : cr_module_call(made, outs, m, input.at, input.len);

    for (size_t i = 0; !st && i < outs; i++) {
        out[i] = made[i];
        st = easy_own(out[i], drop_tensor);
    }
    cr_free(made);
    return st;
}

void cr_easy_forward_many(const char *file, int line, cr_module *m, const cr_arg *input,
                          cr_tensor **out, size_t outs)
{
    for (size_t i = 0; out && i < outs; i++)
        out[i] = NULL;
    if (ready(file, line, "ct_forward_many"))
        cr_easy_check(file, line, "ct_forward_many", easy_forward_many(m, input, out, outs));
}

/* The scope owns the tensors of a packed batch; all are NULL after an error. */
static cr_packed easy_own_packed(const char *file, int line, const char *call, cr_status st,
                                 cr_packed p)
{
    cr_tensor *part[] = {p.data, p.batch_sizes, p.sorted, p.unsorted};

    for (size_t i = 0; i < CR_LEN(part); i++)
        if (part[i])
            st = easy_own(part[i], drop_tensor) && !st ? CR_MEMORY : st;
    return cr_easy_check(file, line, call, st) ? p : (cr_packed){NULL, NULL, NULL, NULL};
}

cr_packed cr_easy_pack(const char *file, int line, cr_tensor *input, cr_tensor *lengths,
                       bool batch_first, bool enforce_sorted)
{
    cr_packed p = {NULL, NULL, NULL, NULL};

    if (!ready(file, line, "ct_pack_padded_sequence"))
        return p;
    cr_status st = cr_pack_padded(&p, input, lengths, batch_first, enforce_sorted);
    return easy_own_packed(file, line, "ct_pack_padded_sequence", st, p);
}

cr_tensor *cr_easy_pad(const char *file, int line, cr_packed packed, bool batch_first,
                       cr_tensor **lengths)
{
    cr_tensor *out = NULL, *n = NULL;

    if (lengths)
        *lengths = NULL;
    if (!ready(file, line, "ct_pad_packed_sequence"))
        return NULL;
    cr_status st = cr_pad_packed(&out, &n, &packed, batch_first, 0, -1);
    if (!st && lengths)
        *lengths = n;
    if (n)
        st = easy_own(n, drop_tensor) && !st ? CR_MEMORY : st;
    return easy_give(file, line, "ct_pad_packed_sequence", st, out, drop_tensor);
}

cr_packed cr_easy_forward_packed(const char *file, int line, cr_module *m, cr_packed input,
                                 cr_tensor *const *hx, cr_tensor **last, size_t states)
{
    cr_packed p = {NULL, NULL, NULL, NULL};
    cr_tensor *made[2] = {NULL, NULL}; /* hx and last may be one array */
    cr_status st = CR_OK;

    if (ready(file, line, "ct_forward_packed"))
        st = cr_module_call_packed(&p, made, 2, m, &input, hx);
    for (size_t i = 0; i < CR_LEN(made); i++)
        if (made[i] && easy_own(made[i], drop_tensor))
            st = CR_MEMORY;
    for (size_t i = 0; last && i < states; i++)
        last[i] = !st && i < CR_LEN(made) ? made[i] : NULL;
    return p.data || st ? easy_own_packed(file, line, "ct_forward_packed", st, p) : p;
}

cr_loader *cr_easy_loader(const char *file, int line, const cr_arg *args)
{
    cr_loader *l = NULL;
    cr_tensors tensors = {NULL, 0};

    if (!ready(file, line, "ct_loader"))
        return NULL;
    cr_status st = first_list(&tensors, args, "DataLoader", "dataset");
    st = st ? st : cr_loader_new(&l, tensors.at, tensors.len, args + 1);
    return easy_give(file, line, "ct_loader", st, l, drop_loader);
}

ct_epoch cr_easy_epoch(const char *file, int line, cr_loader *l)
{
    ct_epoch e = {NULL, cr_easy_enter()};

    if (ready(file, line, "ct_for_batches") &&
        cr_easy_check(file, line, "ct_for_batches", cr_loader_start(l)))
        e.loader = l;
    return e;
}

static cr_status next(cr_loader *l, bool *more, const cr_arg *to)
{
    cr_tensor *batch[16];
    size_t n = 0, given = cr_loader_tensors(l);

    for (; to[n].kind == CR_ARG_RESULT; n++)
        *to[n].result = NULL;
    if (to[n].kind != CR_ARG_END || n > 16 || n != given)
        return cr_fail(CR_VALUE,
                       n > given ? "not enough values to unpack (expected %zu, got %zu)"
                                 : "too many values to unpack (expected %zu, got %zu)",
                       n, given);
    CR_TRY(cr_loader_next(l, more, batch));
    for (size_t i = 0; *more && i < n; i++)
        *to[i].result = batch[i];
    return CR_OK;
}

/* Drops the previous batch and everything else in the epoch's scope, then gives the next
 * batch. */
bool cr_easy_next(const char *file, int line, ct_epoch *e, const cr_arg *batch)
{
    bool more = false;

    if (!e->loader || !ready(file, line, "ct_for_batches"))
        return false;
    if (state.marks.len > e->block.depth) {
        state.marks.len = e->block.depth + 1;
        drop_from(&state, state.marks.at[e->block.depth]);
    }
    return cr_easy_check(file, line, "ct_for_batches", next(e->loader, &more, batch)) && more;
}

void cr_easy_epoch_end(ct_epoch *e) { cr_easy_leave(&e->block); }

cr_tensor *cr_easy_read_text(const char *file, int line, const cr_arg *args)
{
    cr_tensor *t = NULL;

    if (!ready(file, line, "ct_read_text"))
        return NULL;
    cr_status st =
        args[0].kind == CR_ARG_STRING
            ? cr_read_text(&t, args[0].s, args + 1)
            : cr_fail(CR_TYPE, "read_text(): argument 'path' (position 1) must be str");
    return easy_give(file, line, "ct_read_text", st, t, drop_tensor);
}

cr_tensor *cr_easy_read_idx(const char *file, int line, const char *path)
{
    cr_tensor *t = NULL;

    if (!ready(file, line, "ct_read_idx"))
        return NULL;
    cr_status st = cr_read_idx(&t, path);
    return easy_give(file, line, "ct_read_idx", st, t, drop_tensor);
}
