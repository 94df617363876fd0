/* Kernels: instructions on registers of as many lanes as the file says.
 *
 * A register has 8 bytes a lane, which are floats, doubles, or int64 for integers and truths. A
 * loop takes an axis lane by lane, or a register at a time; an instruction computes `n`
 * lanes. */
#include "rt/rt.h"
#include "rt/words.h"

typedef struct {
    const int64_t *c, *operands, *constants, *code; /* of the command */
    unsigned char *at[RT_MOST_OPERANDS], *registers, *put;
    int64_t index[2], first;
    int lanes, wide; /* wide: the axis of the lanes, or -1 */
} rt_call;

/* --- elements --- */

int rt_item(int64_t dtype)
{
    static const signed char item[] = {1, 1, 1, 2, 4, 8, 0, 0, 4, 8};

    return dtype < 0 || dtype >= (int64_t)sizeof item ? 0 : item[dtype];
}

#define RT_LOADS(DTYPE, T, R, value)                                                           \
    case DTYPE:                                                                                \
        for (i = 0; i < n; i++)                                                                \
            ((R *)to)[i] = value(*(const T *)(const void *)(from + i * step));                 \
        break;

void rt_load(int dtype, void *to, const unsigned char *from, int64_t step, int64_t n)
{
    int64_t i;

    switch (dtype) {
        RT_LOADS(CR_RT_BOOL, unsigned char, int64_t, 0 !=)
        RT_LOADS(CR_RT_U8, uint8_t, int64_t, )
        RT_LOADS(CR_RT_I8, int8_t, int64_t, )
        RT_LOADS(CR_RT_I16, int16_t, int64_t, )
        RT_LOADS(CR_RT_I32, int32_t, int64_t, )
        RT_LOADS(CR_RT_I64, int64_t, int64_t, )
        RT_LOADS(CR_RT_F64, double, double, )
    case CR_RT_F32:
        if (step == sizeof(float))
            memcpy(to, from, (size_t)n * sizeof(float));
        else
            for (i = 0; i < n; i++)
                ((float *)to)[i] = *(const float *)(const void *)(from + i * step);
    }
}

#define RT_STORES(DTYPE, T, R)                                                                 \
    case DTYPE:                                                                                \
        for (i = 0; i < n; i++)                                                                \
            *(T *)(void *)(to + i * step) = (T)((const R *)from)[i];                           \
        break;

void rt_store(int dtype, unsigned char *to, int64_t step, const void *from, int64_t n)
{
    int64_t i;

    switch (dtype) {
        RT_STORES(CR_RT_BOOL, unsigned char, int64_t)
        RT_STORES(CR_RT_U8, uint8_t, int64_t)
        RT_STORES(CR_RT_I8, int8_t, int64_t)
        RT_STORES(CR_RT_I16, int16_t, int64_t)
        RT_STORES(CR_RT_I32, int32_t, int64_t)
        RT_STORES(CR_RT_I64, int64_t, int64_t)
        RT_STORES(CR_RT_F64, double, double)
    case CR_RT_F32:
        if (step == sizeof(float))
            memcpy(to, from, (size_t)n * sizeof(float));
        else
            for (i = 0; i < n; i++)
                *(float *)(void *)(to + i * step) = ((const float *)from)[i];
    }
}

/* The integer of a dtype that has the low bits of v. */
static int64_t kernel_wrap(int dtype, uint64_t v)
{
    uint64_t bits, half;

    if (dtype == CR_RT_I64)
        return (int64_t)v;
    if (dtype == CR_RT_BOOL || dtype == CR_RT_U8)
        return (int64_t)(v & (dtype == CR_RT_BOOL ? 1 : 255));
    bits = dtype == CR_RT_I8 ? 8 : dtype == CR_RT_I16 ? 16 : 32;
    half = UINT64_C(1) << (bits - 1);
    return (int64_t)((v + half) & (2 * half - 1)) - (int64_t)half;
}

static void kernel_wrap_all(int dtype, int64_t *v, int64_t n)
{
    int64_t i;

    for (i = 0; i < n && dtype != CR_RT_I64; i++)
        v[i] = kernel_wrap(dtype, (uint64_t)v[i]);
}

/* A number as an integer: numbers out of range have the least one, as on x86-64. */
static int64_t kernel_whole(int dtype, double v)
{
    int wide = dtype == CR_RT_I64 || dtype == CR_RT_U8;

    if (dtype == CR_RT_BOOL)
        return v != 0;
    if (wide)
        return kernel_wrap(dtype, v >= -0x1p63 && v < 0x1p63 ? (uint64_t)(int64_t)v
                                                             : UINT64_C(1) << 63);
    return kernel_wrap(dtype, v > -2147483649.0 && v < 2147483648.0
                                  ? (uint64_t)(int64_t)v
                                  : (uint64_t)INT64_C(-2147483648));
}

static int kernel_class(int dtype)
{
    return dtype == CR_RT_F32 ? 1 : dtype == CR_RT_F64 ? 2 : 0;
}

#define RT_CASTS(T, F, value)                                                                  \
    for (i = 0; i < n; i++)                                                                    \
        ((T *)to)[i] = value((const F *)from)[i];                                              \
    break

void rt_cast(int to_dtype, void *to, int from_dtype, const void *from, int64_t n)
{
    int64_t i;

    switch (3 * kernel_class(to_dtype) + kernel_class(from_dtype)) {
    case 0:
        for (i = 0; i < n; i++) {
            int64_t v = ((const int64_t *)from)[i];

            ((int64_t *)to)[i] =
                to_dtype == CR_RT_BOOL ? v != 0 : kernel_wrap(to_dtype, (uint64_t)v);
        }
        break;
    case 1:
        for (i = 0; i < n; i++)
            ((int64_t *)to)[i] = kernel_whole(to_dtype, (double)((const float *)from)[i]);
        break;
    case 2:
        for (i = 0; i < n; i++)
            ((int64_t *)to)[i] = kernel_whole(to_dtype, ((const double *)from)[i]);
        break;
    case 3: RT_CASTS(float, int64_t, (float));
    case 4: RT_CASTS(float, float, );
    case 5: RT_CASTS(float, double, (float));
    case 6: RT_CASTS(double, int64_t, (double));
    case 7: RT_CASTS(double, float, (double));
    default: RT_CASTS(double, double, );
    }
}

/* --- operations of ops.def --- */

#define A a[i]
#define B b[i]
#define C c[i]
#define RT_EACH(number, used, result, value)                                                   \
    case number:                                                                               \
        for (i = 0; i < n && RT_USE(used); i++)                                                \
            result[i] = value;                                                                 \
        break;

static void kernel_f32(int operation, void *to, const float *a, const float *b, const float *c,
                       int64_t n)
{
    int64_t i, *truth = to;
    float *d = to;

    switch (operation) {
#define W(name)                                  cv_##name##_f32
#define RT_FLOAT(number, name, arguments, value) RT_EACH(number, f32_##name, d, value)
#define RT_TEST(number, name, arguments, value)  RT_EACH(number, f32_##name, truth, value)
#include "rt/ops.def"
#undef W
    }
}

static void kernel_f64(int operation, void *to, const double *a, const double *b,
                       const double *c, int64_t n)
{
    int64_t i, *truth = to;
    double *d = to;

    switch (operation) {
#define W(name)                                  cv_##name##_f64
#define RT_FLOAT(number, name, arguments, value) RT_EACH(number, f64_##name, d, value)
#define RT_TEST(number, name, arguments, value)  RT_EACH(number, f64_##name, truth, value)
#include "rt/ops.def"
#undef W
    }
}

static void kernel_integer(int operation, int64_t *d, const int64_t *a, const int64_t *b,
                           int64_t n)
{
    int64_t i;

    switch (operation) {
#define RT_INTEGER(number, name, arguments, value)                                             \
    RT_EACH(number, integer_##name, d, (int64_t)(value))
#include "rt/ops.def"
    }
}

static void kernel_operation(int operation, int dtype, void *d, const void *a, const void *b,
                             const void *c, int64_t n)
{
    if (dtype == CR_RT_F32) {
        kernel_f32(operation, d, a, b, c, n);
    } else if (dtype == CR_RT_F64) {
        kernel_f64(operation, d, a, b, c, n);
    } else {
        kernel_integer(operation, d, a, b, n);
        kernel_wrap_all(dtype, d, n);
    }
}

#define RT_HAS_REAL(number, name, arguments, test)                                             \
    case number:                                                                               \
        *tests = test;                                                                         \
        return (dtype == CR_RT_F32 && RT_USE(f32_##name)) ||                                   \
                       (dtype == CR_RT_F64 && RT_USE(f64_##name))                              \
                   ? arguments                                                                 \
                   : 0;

#define RT_HAS(number, name, arguments)                                                        \
    case number: return real || !RT_USE(integer_##name) ? 0 : arguments;

int rt_arguments(int operation, int dtype, int *tests)
{
    int real = dtype == CR_RT_F32 || dtype == CR_RT_F64;

    *tests = 0;
    switch (operation) {
#define RT_FLOAT(number, name, arguments, value)   RT_HAS_REAL(number, name, arguments, 0)
#define RT_TEST(number, name, arguments, value)    RT_HAS_REAL(number, name, arguments, 1)
#define RT_INTEGER(number, name, arguments, value) RT_HAS(number, name, arguments)
#include "rt/ops.def"
    }
    return 0;
}

/* --- instructions --- */

static void *kernel_register(const rt_call *k, int r)
{
    return k->registers + (int64_t)r * k->lanes * 8;
}

static unsigned char *kernel_place(const rt_call *k, int operand)
{
    const int64_t *o = k->operands + operand * (RT_OPERAND_WORDS + k->c[RT_KERNEL_OUTER]);

    return k->at[operand] + k->index[0] * o[RT_OPERAND_ROW] +
           k->index[1] * o[RT_OPERAND_COLUMN];
}

static int64_t kernel_step(const rt_call *k, int operand)
{
    const int64_t *o = k->operands + operand * (RT_OPERAND_WORDS + k->c[RT_KERNEL_OUTER]);

    return k->wide < 0 ? 0 : o[RT_OPERAND_ROW + k->wide];
}

static int kernel_operand_dtype(const rt_call *k, int operand)
{
    return (int)
        k->operands[operand * (RT_OPERAND_WORDS + k->c[RT_KERNEL_OUTER]) + RT_OPERAND_DTYPE];
}

static void kernel_splat(int dtype, void *to, const void *from, int64_t n)
{
    int64_t i, wide = *(const int64_t *)from;
    float narrow = *(const float *)from;

    for (i = 0; i < n; i++)
        if (dtype == CR_RT_F32)
            ((float *)to)[i] = narrow;
        else
            ((int64_t *)to)[i] = wide;
}

static void kernel_constant(const rt_call *k, int dtype, void *to, int number, int64_t n)
{
    kernel_splat(dtype, to, &k->constants[number], n);
}

static void kernel_index(const rt_call *k, int64_t *to, int axis, int64_t n)
{
    int64_t i, start = k->index[axis] + (axis == 0 ? k->first : 0);

    for (i = 0; i < n; i++)
        to[i] = k->wide == axis ? start + i : start;
}

#define RT_SELECTS(T)                                                                          \
    for (i = 0; i < n; i++)                                                                    \
    ((T *)to)[i] = test[i] ? ((const T *)a)[i] : ((const T *)b)[i]

static void kernel_select(int dtype, void *to, const int64_t *test, const void *a,
                          const void *b, int64_t n)
{
    int64_t i;

    if (dtype == CR_RT_F32)
        RT_SELECTS(float);
    else
        RT_SELECTS(int64_t);
}

static int kernel_lane(int dtype) { return dtype == CR_RT_F32 ? 4 : 8; }

/* Folds that do not depend on the order: halves of the lanes meet. */
static void kernel_reduce(int operation, int dtype, void *to, const void *from, void *other,
                          int64_t n)
{
    int64_t half, item = kernel_lane(dtype);

    memcpy(other, from, (size_t)(n * item));
    for (; n > 1; n = half) {
        half = (n + 1) / 2;
        kernel_operation(operation, dtype, other, other, (char *)other + half * item, other,
                         n - half);
    }
    kernel_operation(operation, dtype, to, to, other, other, 1);
}

#define RT_BEYONDS(T, real)                                                                    \
    for (i = 0; i < n; i++) {                                                                  \
        T v = ((const T *)from)[i], r = *(T *)to;                                              \
        int more = below ? v < r : v > r, less = below ? v >= r : v <= r;                      \
                                                                                               \
        if (start + i == 0 || ((real) ? !less && r == r : more)) {                             \
            *(T *)to = v;                                                                      \
            *index = start + i;                                                                \
        }                                                                                      \
    }

static void kernel_beyond(int dtype, void *to, int64_t *index, const void *from, int below,
                          int64_t start, int64_t n)
{
    int64_t i;

    if (dtype == CR_RT_F32)
        RT_BEYONDS(float, 1)
    else if (dtype == CR_RT_F64)
        RT_BEYONDS(double, 1)
    else
        RT_BEYONDS(int64_t, 0)
}

/* --- scans --- */

/* What a scan keeps, in a register. */
typedef struct {
    uint64_t count; /* of elements so far */
    int64_t place;  /* of the extreme */
    union {
        float f32;
        double f64;
        int64_t integer;
        cv_scan runs; /* which begins with doubles */
    } best;
} kernel_kept;
typedef char kernel_kept_fits[sizeof(kernel_kept) <= 8 * RT_SCAN_LANES ? 1 : -1];

static double kernel_running(kernel_kept *s, int number, double x)
{
    if (number == RT_SCAN_LOG)
        return s->best.f64 = cv_log_add(s->count ? s->best.f64 : -HUGE_VAL, x);
    s->best.runs.count = s->count;
    return number ? cv_scan_mul(&s->best.runs, x) : cv_scan_add(&s->best.runs, x);
}

#define RT_RUNNING(T)                                                                          \
    for (i = 0; i < n; i++, s->count++)                                                        \
    ((T *)to)[i] = (T)kernel_running(s, number, (double)((const T *)from)[i])

/* An element is the extreme unless the one so far is beyond it. */
#define RT_EXTREMES(T, best)                                                                   \
    for (i = 0; i < n; i++, s->count++) {                                                      \
        T v = ((const T *)from)[i], r = best;                                                  \
        int beyond = (number == RT_SCAN_BELOW ? r < v : r > v) || r != r;                      \
                                                                                               \
        if (!s->count || v != v || !beyond) {                                                  \
            best = v;                                                                          \
            s->place = (int64_t)s->count;                                                      \
        }                                                                                      \
        ((T *)to)[i] = best;                                                                   \
        place[i] = s->place;                                                                   \
    }

static void kernel_scan_integers(kernel_kept *s, int product, int dtype, int64_t *to,
                                 const int64_t *from, int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++, s->count++) {
        uint64_t was = s->count ? (uint64_t)s->best.integer : (uint64_t)product,
                 v = (uint64_t)from[i];

        s->best.integer = to[i] = kernel_wrap(dtype, product ? was * v : was + v);
    }
}

static void kernel_scan(int number, int dtype, void *to, const void *from, kernel_kept *s,
                        int64_t *place, int64_t n)
{
    int64_t i;

    if (number < RT_SCAN_ABOVE) {
        if (dtype == CR_RT_F32)
            RT_RUNNING(float);
        else if (dtype == CR_RT_F64)
            RT_RUNNING(double);
        else
            kernel_scan_integers(s, number == RT_SCAN_MUL, dtype, to, from, n);
    } else if (dtype == CR_RT_F32) {
        RT_EXTREMES(float, s->best.f32)
    } else if (dtype == CR_RT_F64) {
        RT_EXTREMES(double, s->best.f64)
    } else {
        RT_EXTREMES(int64_t, s->best.integer)
    }
}

static void kernel_fold_f32(float *to, float *v, int64_t n, int product, int column)
{
    if (product)
        *to = column ? cv_fold_column_mul_f32(v, n) : cv_fold_row_mul_f32(v, n);
    else
        *to = column ? cv_fold_column_add_f32(v, n) : cv_fold_row_add_f32(v, n);
}

static void kernel_fold_f64(double *to, double *v, int64_t n, int product, int column)
{
    if (product)
        *to = column ? cv_fold_column_mul_f64(v, n) : cv_fold_row_mul_f64(v, n);
    else
        *to = column ? cv_fold_column_add_f64(v, n) : cv_fold_row_add_f64(v, n);
}

static void kernel_fold(const rt_call *k, int dtype, void *to, int axis, int column,
                        int product)
{
    void *put = k->put;

    if (dtype == CR_RT_F32 && RT_USE(fold_f32))
        kernel_fold_f32(to, put, k->c[RT_KERNEL_ROWS + axis], product, column);
    if (dtype == CR_RT_F64 && RT_USE(fold_f64))
        kernel_fold_f64(to, put, k->c[RT_KERNEL_ROWS + axis], product, column);
}

static void kernel_run(rt_call *k, int64_t from, int64_t to, int64_t n);

/* Runs the instructions of a loop. */
static void kernel_loop(rt_call *k, int64_t from, int64_t to, int axis, int wide)
{
    int64_t i, n, size = k->c[RT_KERNEL_ROWS + axis], step = wide ? k->lanes : 1;
    int was = k->wide;

    for (i = 0; i < size; i += step) {
        n = size - i < step ? size - i : step;
        k->wide = wide ? axis : -1;
        k->index[axis] = i;
        kernel_run(k, from, to, n);
    }
    k->index[axis] = 0;
    k->wide = was;
}

static void kernel_put(rt_call *k, int dtype, const void *from, int axis, int64_t n)
{
    int64_t item = kernel_lane(dtype);

    memcpy(k->put + k->index[axis] * item, from, (size_t)(n * item));
}

static void kernel_special(rt_call *k, const int64_t *code, int64_t n)
{
    int dtype = RT_PART(code[0], 1), number = RT_PART(code[1], 2), b = RT_PART(code[1], 0),
        c = RT_PART(code[1], 1);
    void *d = kernel_register(k, RT_PART(code[0], 2)),
         *a = kernel_register(k, RT_PART(code[0], 3));

    switch (RT_PART(code[0], 0)) {
    case RT_LOAD:
        rt_load(kernel_operand_dtype(k, number), d, kernel_place(k, number),
                kernel_step(k, number), n);
        break;
    case RT_STORE:
        rt_store(kernel_operand_dtype(k, number), kernel_place(k, number),
                 kernel_step(k, number), a, n);
        break;
    case RT_CONSTANT: kernel_constant(k, dtype, d, number, n); break;
    case RT_INDEX: kernel_index(k, d, number, n); break;
    case RT_SELECT:
        kernel_select(dtype, d, a, kernel_register(k, b), kernel_register(k, c), n);
        break;
    case RT_CAST: rt_cast(dtype, d, number, a, n); break;
    case RT_SPLAT: kernel_splat(dtype, d, a, k->lanes); break;
    case RT_PUT: kernel_put(k, dtype, a, b, n); break;
    case RT_FOLD: kernel_fold(k, dtype, d, RT_PART(code[0], 3), b, number); break;
    case RT_REDUCE: kernel_reduce(number, dtype, d, a, kernel_register(k, b), n); break;
    case RT_BEYOND:
        kernel_beyond(dtype, d, kernel_register(k, b), a, number, k->index[c], n);
        break;
    case RT_SCAN:
        if (RT_USE(scan))
            kernel_scan(number, dtype, d, a, kernel_register(k, b), kernel_register(k, c), n);
        break;
    }
}

/* Instructions from number `from` up to `to`, for n lanes. */
static void kernel_run(rt_call *k, int64_t from, int64_t to, int64_t n)
{
    for (; from < to; from++) {
        const int64_t *code = k->code + RT_INSTRUCTION_WORDS * from;
        int operation = RT_PART(code[0], 0);

        if (operation == RT_FOR) {
            int64_t inside = RT_PART(code[1], 2);

            kernel_loop(k, from + 1, from + 1 + inside, RT_PART(code[0], 2),
                        RT_PART(code[0], 3));
            from += inside;
        } else if (operation >= RT_LOAD) {
            kernel_special(k, code, n);
        } else {
            kernel_operation(operation, RT_PART(code[0], 1),
                             kernel_register(k, RT_PART(code[0], 2)),
                             kernel_register(k, RT_PART(code[0], 3)),
                             kernel_register(k, RT_PART(code[1], 0)),
                             kernel_register(k, RT_PART(code[1], 1)), n);
        }
    }
}

void rt_run_kernel(const rt_memory *m, const int64_t *c)
{
    int64_t outer = c[RT_KERNEL_OUTER], at[RT_MOST_OUTER] = {0}, d, operand, back;
    const int64_t *size = c + RT_KERNEL_WORDS, *first = size + outer;
    rt_call k = {0};

    k.c = c;
    k.operands = first + outer;
    k.constants = k.operands + c[RT_KERNEL_OPERANDS] * (RT_OPERAND_WORDS + outer);
    k.code = k.constants + c[RT_KERNEL_CONSTANTS];
    k.lanes = m->lanes;
    k.wide = -1;
    k.registers = rt_reach(m, c[RT_KERNEL_MEMORY]);
    k.put = k.registers + c[RT_KERNEL_REGISTERS] * k.lanes * 8;
    for (operand = 0; operand < c[RT_KERNEL_OPERANDS]; operand++)
        k.at[operand] =
            rt_reach(m, k.operands[operand * (RT_OPERAND_WORDS + outer) + RT_OPERAND_AT]);
    for (;;) {
        kernel_run(&k, 0, c[RT_KERNEL_INSTRUCTIONS], 1);
        for (d = outer - 1; d >= 0; d--) {
            back = ++at[d] < size[d] ? 1 : 1 - size[d];
            k.first += back * first[d];
            for (operand = 0; operand < c[RT_KERNEL_OPERANDS]; operand++)
                k.at[operand] +=
                    back *
                    k.operands[operand * (RT_OPERAND_WORDS + outer) + RT_OPERAND_WORDS + d];
            if (back == 1)
                break;
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}
