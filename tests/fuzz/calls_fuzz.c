/* Calls every operator that C programs have with random arguments: calls_fuzz [SECONDS] [SEED]
 *
 * Tensors of few elements and any dtype, device and shape, NULL, numbers from ordinary to
 * large, lists of any length: a call must fail with a message or give results that can be
 * dropped.  Run it under asan and ubsan.  Prints the seed; NAME as a third argument calls that
 * operator only, and prints every call. */
#include "autograd/autograd.h"
#include "tensor/arg.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 48, LISTS = 8, ITEMS = 6 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

/* --- arguments --- */

static cr_tensor *pool[TENSORS];
static int64_t ints[LISTS][ITEMS];
static cr_tensor *items[LISTS][ITEMS];

static cr_scalar element(cr_dtype t, bool specials)
{
    static const double values[] = {1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, -0.0, 1e-40, 3e38, -2.5, 0.5};

    return specials && cr_dtype_is_inexact(t) && !draw(3) ? cr_scalar_float(values[draw(CR_LEN(values))])
                                                          : cr_scalar_int(draw(4));
}

static cr_tensor *new_tensor(bool regular)
{
    static const cr_dtype types[] = {CR_F32, CR_F32, CR_F32, CR_F64, CR_I64, CR_I64,
                                     CR_BOOL, CR_U8, CR_F16, CR_C64, CR_I32, CR_BF16};
    int64_t size[5];
    int ndim = (int)draw(5);
    bool specials = !draw(3);
    cr_tensor *t = NULL;

    for (int d = 0; d < ndim; d++)
        size[d] = regular ? 3 : draw(8) ? 1 + draw(4) : 0;
    if (cr_tensor_new(&t, types[draw(CR_LEN(types))], draw(12) ? CR_HOST : CR_META_DEVICE, ndim,
                      size))
        exit(2);
    for (int64_t i = 0; t->data && i < t->numel; i++)
        cr_scalar_store(element((cr_dtype)t->dtype, specials), (cr_dtype)t->dtype,
                        t->data + i * (int64_t)cr_dtype_size((cr_dtype)t->dtype));
    if (cr_dtype_is_inexact((cr_dtype)t->dtype) && !draw(3) && cr_set_requires_grad(t, true))
        exit(2);
    return t;
}

static void renew_pool(void)
{
    for (int i = 0; i < TENSORS; i++) {
        cr_drop(pool[i]);
        pool[i] = new_tensor(i % 3 == 0);
    }
}

/* as_strided_ can make any number of elements of one. */
static void renew_large(void)
{
    for (int i = 0; i < TENSORS; i++)
        if (pool[i]->numel > 100000) {
            cr_drop(pool[i]);
            pool[i] = new_tensor(true);
        }
}

static cr_tensor *any_tensor(void) { return draw(30) ? pool[draw(TENSORS)] : NULL; }

static int64_t any_int(void)
{
    static const int64_t extremes[] = {INT64_MAX, -((int64_t)1 << 40), 20, 9};
    uint32_t k = draw(40);

    return k < 24 ? (int64_t)draw(5) : k < 36 ? -(int64_t)draw(6) : extremes[k - 36];
}

static cr_arg any_list(int slot)
{
    cr_arg a = {.kind = CR_ARG_INTS, .len = draw(5), .ints = ints[slot]};

    for (uint32_t i = 0; i < a.len; i++)
        ints[slot][i] = any_int();
    return draw(3) ? a : (cr_arg){.kind = CR_ARG_INT, .i = any_int()};
}

static cr_arg any_tensors(int slot)
{
    cr_arg a = {.kind = CR_ARG_TENSORS, .len = draw(4), .tensors = items[slot]};

    for (uint32_t i = 0; i < a.len; i++)
        items[slot][i] = any_tensor();
    return a;
}

static cr_arg any_float(void)
{
    static const double extremes[] = {1.0 / 0.0, 0.0 / 0.0, 1e300};

    return (cr_arg){.kind = CR_ARG_FLOAT, .d = draw(6) ? draw(5) - 1.5 : extremes[draw(3)]};
}

static cr_arg any_string(void)
{
    static const char *const words[] = {"",   "none", "tanh", "mean",  "floor", "ij", "xy",
                                        "linear", "sum", "same", "valid", "max", "reflect"};

    return (cr_arg){.kind = CR_ARG_STRING, .s = words[draw(CR_LEN(words))]};
}

/* Mostly what the parameter wants. */
static cr_arg any(const cr_param *p, int slot)
{
    if (p->optional && !draw(3))
        return (cr_arg){.kind = CR_ARG_NONE};
    switch (draw(12) ? (cr_type)p->type : (cr_type)draw(CR_T_DTYPE)) {
    case CR_T_TENSOR:
        return p->number && !draw(4) ? any_float()
                                     : (cr_arg){.kind = CR_ARG_TENSOR, .t = any_tensor()};
    case CR_T_TENSORS: return any_tensors(slot);
    case CR_T_INTS:
    case CR_T_BOOLS: return any_list(slot);
    case CR_T_SCALAR: return draw(2) ? any_float() : (cr_arg){.kind = CR_ARG_INT, .i = any_int()};
    case CR_T_INT: return (cr_arg){.kind = CR_ARG_INT, .i = any_int()};
    case CR_T_FLOAT: return any_float();
    case CR_T_BOOL: return (cr_arg){.kind = CR_ARG_BOOL, .i = draw(2)};
    case CR_T_STRING: return any_string();
    case CR_T_DTYPE: return (cr_arg){.kind = CR_ARG_INT, .i = draw(CR_DTYPE_COUNT + 2)};
    default: return (cr_arg){.kind = CR_ARG_NONE};
    }
}

/* --- where it ended --- */

enum { LONGEST = 60 }; /* seconds of a call; then it hangs */
static char now[128];

static void say_where(int signal_)
{
    (void)!write(1, now, strlen(now));
    signal(signal_, SIG_DFL);
    raise(signal_);
}

static void end(const char *why)
{
    printf("%scalls_fuzz: it %s\n", now, why);
    exit(3);
}

/* --- calls --- */

static void print_arg(const cr_arg *a)
{
    printf(" %s=", a->name);
    if (a->kind == CR_ARG_TENSOR && a->t) {
        printf("%s%s[", cr_dtype_name((cr_dtype)a->t->dtype), a->t->data ? "" : " meta");
        for (int d = 0; d < a->t->ndim; d++)
            printf("%d ", (int)a->t->size[d]);
        printf("]");
    } else if (a->kind == CR_ARG_INTS) {
        for (uint32_t i = 0; i < a->len; i++)
            printf("%c%lld", i ? ',' : '(', (long long)a->ints[i]);
        printf(")");
    } else if (a->kind == CR_ARG_FLOAT) {
        printf("%g", a->d);
    } else if (a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL) {
        printf("%lld", (long long)a->i);
    } else {
        printf("(kind %d, %u)", (int)a->kind, (unsigned)a->len);
    }
}

static int make_args(cr_arg *args, const cr_op *op)
{
    int n = 0;

    for (int i = 0; i < op->param_count; i++) {
        if (op->param[i].has_default && draw(2))
            continue;
        args[n] = any(&op->param[i], i % LISTS);
        args[n++].name = op->param[i].name;
    }
    args[n] = (cr_arg){.kind = CR_ARG_END};
    return n;
}

static void differentiate(cr_tensor *t)
{
    cr_backward_call call = {.roots = &t, .root_count = 1};

    if (t->numel == 1 && t->requires_grad && cr_dtype_is_inexact((cr_dtype)t->dtype) &&
        cr_backward(&call, NULL) && !*cr_error_message())
        end("has a gradient that failed without a message");
}

/* Its elements lie in its storage. */
static bool is_sound(const cr_tensor *t)
{
    int64_t numel = 1, first = t->offset, last = t->offset, item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);

    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] < 0 || CR_MUL_OVERFLOW(numel, t->size[d], &numel))
            return false;
        if (t->numel) /* else strides may be anything */
            *(t->stride[d] < 0 ? &first : &last) += (t->size[d] - 1) * t->stride[d];
    }
    return numel == t->numel && (!numel || !cr_has_bytes(t->device) ||
                                 (first >= 0 && last < (int64_t)t->storage->size / item));
}

static void check_pool(void)
{
    for (int i = 0; i < TENSORS; i++)
        if (!is_sound(pool[i]))
            end("gave a tensor other sizes than it has memory for");
}

static void call(const cr_op *op, bool print)
{
    cr_arg args[CR_MAX_ARGS + 1];
    cr_value result[CR_MAX_RESULTS];
    const cr_op *called;
    uint64_t before = state;

    renew_large();
    int n = make_args(args, op);

    for (int i = 0; print && i < n; i++)
        print_arg(&args[i]);
    if (print) {
        printf("\n");
        fflush(stdout);
    }
    snprintf(now, sizeof now, "calls_fuzz: %s ended it, draws from %llu\n", op->name, (unsigned long long)before);
    alarm(LONGEST);
    if (cr_call_args(op->name, args, &called, result)) {
        if (!*cr_error_message())
            end("failed without a message");
        check_pool();
        return;
    }
    check_pool();
    for (int k = 0; k < called->result_count; k++) {
        if (result[k].tag != CR_TENSOR)
            continue;
        if (!is_sound(result[k].t))
            end("gave a tensor that is larger than its memory");
        differentiate(result[k].t);
    }
    cr_drop_values(result, called->result_count);
}

/* Steps of differentiation trust the sizes that autograd gives them; numbers of indices and of
 * combinations are what is asked for, however many. */
static bool is_left_out(const cr_op *op)
{
    const char *end = strstr(op->name, "_backward");

    return op->name[0] == '_' || (end && !strcmp(end, "_backward")) ||
           !strcmp(op->name, "tril_indices") || !strcmp(op->name, "triu_indices") ||
           !strcmp(op->name, "combinations");
}

/* What asks for terabytes is refused at once; the sanitizer needs them itself. */
static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    struct rlimit most = {(rlim_t)2 << 30, (rlim_t)2 << 30};

    setrlimit(RLIMIT_AS, &most);
#endif
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
    const char *only = argc > 3 ? argv[3] : NULL;
    long calls = 0;

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    printf("calls_fuzz: seed %llu\n", (unsigned long long)state);
    fflush(stdout);
    limit_memory();
    signal(SIGSEGV, say_where);
    signal(SIGABRT, say_where);
    signal(SIGFPE, say_where);
    signal(SIGALRM, say_where);
    if (cr_tensor_start() || cr_autograd_start())
        return 2;
    while (time(NULL) < end) {
        renew_pool();
        for (int i = 0; i < cr_ops_count(); i++) {
            const cr_op *op = cr_ops_at(i);
            if (is_left_out(op) || (only && strcmp(op->name, only)))
                continue;
            for (int k = 0; k < 4; k++, calls++)
                call(op, only != NULL);
        }
    }
    printf("calls_fuzz: %ld calls\n", calls);
    return 0;
}
