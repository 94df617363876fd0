/* cresset_call.h - lists of arguments, by position and by name, for modules, optimizers and the
 * easy layer.
 *
 *     CR_ARGS(1, 16, 3, CR_NAMED(padding, 1))      Python's (1, 16, 3, padding=1)
 *     CR_ARGS(x, CR_LIST(2, -1), true)             tensors, lists of integers, booleans
 *
 * An argument is an integer, a float or double, a bool, a string, a cr_tensor * (NULL means
 * None), a cr_generator *, a cr_complex, a list, CR_NONE_ARG, or a cr_tensor ** that receives a
 * further result.  A dtype is a cr_dtype or its name.  There are at most 16 arguments,
 * evaluated in the order written.  The list is valid until the end of the enclosing block (C++:
 * of the full expression). */
#ifndef CRESSET_CALL_H
#define CRESSET_CALL_H

#ifndef CR_INSIDE
#include "cresset.h"
#endif

/* A list of tensors. */
typedef struct {
    cr_tensor **at;
    size_t len;
} cr_tensors;

static inline cr_arg cr_arg_make(cr_arg_kind kind, uint32_t len)
{
    cr_arg a;

    a.name = 0;
    a.kind = kind;
    a.len = len;
    a.c.re = a.c.im = 0;
    return a;
}
static inline cr_arg cr_arg_end(void) { return cr_arg_make(CR_ARG_END, 0); }
static inline cr_arg cr_arg_none(const void *nothing)
{
    (void)nothing;
    return cr_arg_make(CR_ARG_NONE, 0);
}
static inline cr_arg cr_arg_bool(bool b)
{
    cr_arg a = cr_arg_make(CR_ARG_BOOL, 0);

    a.i = b;
    return a;
}
static inline cr_arg cr_arg_int(int64_t i)
{
    cr_arg a = cr_arg_make(CR_ARG_INT, 0);

    a.i = i;
    return a;
}
static inline cr_arg cr_arg_float(double d)
{
    cr_arg a = cr_arg_make(CR_ARG_FLOAT, 0);

    a.d = d;
    return a;
}
static inline cr_arg cr_arg_complex(cr_complex c)
{
    cr_arg a = cr_arg_make(CR_ARG_COMPLEX, 0);

    a.c = c;
    return a;
}
static inline cr_arg cr_arg_string(const char *s)
{
    cr_arg a = cr_arg_make(CR_ARG_STRING, 0);

    a.s = s;
    return a;
}
static inline cr_arg cr_arg_tensor(const cr_tensor *t)
{
    cr_arg a = cr_arg_make(CR_ARG_TENSOR, 0);

    a.t = (cr_tensor *)(uintptr_t)t;
    return a;
}
static inline cr_arg cr_arg_generator(cr_generator *g)
{
    cr_arg a = cr_arg_make(CR_ARG_GENERATOR, 0);

    a.generator = g;
    return a;
}
static inline cr_arg cr_arg_result(cr_tensor **result)
{
    cr_arg a = cr_arg_make(CR_ARG_RESULT, 0);

    a.result = result;
    return a;
}
static inline cr_arg cr_arg_ints(const int64_t *ints, size_t len)
{
    cr_arg a = cr_arg_make(CR_ARG_INTS, (uint32_t)len);

    a.ints = ints;
    return a;
}
static inline cr_arg cr_arg_floats(const double *floats, size_t len)
{
    cr_arg a = cr_arg_make(CR_ARG_FLOATS, (uint32_t)len);

    a.floats = floats;
    return a;
}
static inline cr_arg cr_arg_tensors(cr_tensor *const *tensors, size_t len)
{
    cr_arg a = cr_arg_make(CR_ARG_TENSORS, (uint32_t)len);

    a.tensors = tensors;
    return a;
}
static inline cr_arg cr_arg_list_of(cr_tensors list)
{
    return cr_arg_tensors(list.at, list.len);
}
static inline cr_arg cr_arg_same(cr_arg a) { return a; }
static inline cr_arg cr_arg_named(const char *name, cr_arg a)
{
    a.name = name;
    return a;
}

#define CR_NONE_ARG           cr_arg_none(0)
#define CR_EMPTY_LIST         cr_arg_ints(0, 0)
#define CR_NAMED(name, value) cr_arg_named(#name, CR_ARG(value))

#ifndef __cplusplus

#define CR_ARG(x)                                                                              \
    _Generic((x),                                                                              \
        bool: cr_arg_bool,                                                                     \
        char: cr_arg_int,                                                                      \
        signed char: cr_arg_int,                                                               \
        unsigned char: cr_arg_int,                                                             \
        short: cr_arg_int,                                                                     \
        unsigned short: cr_arg_int,                                                            \
        int: cr_arg_int,                                                                       \
        unsigned: cr_arg_int,                                                                  \
        long: cr_arg_int,                                                                      \
        unsigned long: cr_arg_int,                                                             \
        long long: cr_arg_int,                                                                 \
        unsigned long long: cr_arg_int,                                                        \
        float: cr_arg_float,                                                                   \
        double: cr_arg_float,                                                                  \
        cr_complex: cr_arg_complex,                                                            \
        char *: cr_arg_string,                                                                 \
        const char *: cr_arg_string,                                                           \
        cr_tensor *: cr_arg_tensor,                                                            \
        const cr_tensor *: cr_arg_tensor,                                                      \
        cr_tensor **: cr_arg_result,                                                           \
        cr_generator *: cr_arg_generator,                                                      \
        void *: cr_arg_none,                                                                   \
        cr_tensors: cr_arg_list_of,                                                            \
        cr_arg: cr_arg_same)(x)

#define CR_LIST(...)                                                                           \
    cr_arg_ints((const int64_t[]){__VA_ARGS__},                                                \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define CR_FLOATS(...)                                                                         \
    cr_arg_floats((const double[]){__VA_ARGS__},                                               \
                  sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
#define CR_TENSORS(...)                                                                        \
    cr_arg_tensors((cr_tensor *const[]){__VA_ARGS__},                                          \
                   sizeof((cr_tensor *const[]){__VA_ARGS__}) / sizeof(cr_tensor *))

/* A list of at least one argument. */
#define CR_ARGS(...) ((const cr_arg[]){CR_EACH(__VA_ARGS__) cr_arg_end()})
/* An empty list. */
#define CR_NO_ARGS ((const cr_arg[]){cr_arg_end()})

#define CR_PICK_17(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, macro, ...) macro
#define CR_EACH(...)                                                                           \
    CR_PICK_17(__VA_ARGS__, CR_EACH_16, CR_EACH_15, CR_EACH_14, CR_EACH_13, CR_EACH_12,        \
               CR_EACH_11, CR_EACH_10, CR_EACH_9, CR_EACH_8, CR_EACH_7, CR_EACH_6, CR_EACH_5,  \
               CR_EACH_4, CR_EACH_3, CR_EACH_2, CR_EACH_1, CR_EACH_0)                          \
    (__VA_ARGS__)
#define CR_EACH_1(x)       CR_ARG(x),
#define CR_EACH_2(x, ...)  CR_ARG(x), CR_EACH_1(__VA_ARGS__)
#define CR_EACH_3(x, ...)  CR_ARG(x), CR_EACH_2(__VA_ARGS__)
#define CR_EACH_4(x, ...)  CR_ARG(x), CR_EACH_3(__VA_ARGS__)
#define CR_EACH_5(x, ...)  CR_ARG(x), CR_EACH_4(__VA_ARGS__)
#define CR_EACH_6(x, ...)  CR_ARG(x), CR_EACH_5(__VA_ARGS__)
#define CR_EACH_7(x, ...)  CR_ARG(x), CR_EACH_6(__VA_ARGS__)
#define CR_EACH_8(x, ...)  CR_ARG(x), CR_EACH_7(__VA_ARGS__)
#define CR_EACH_9(x, ...)  CR_ARG(x), CR_EACH_8(__VA_ARGS__)
#define CR_EACH_10(x, ...) CR_ARG(x), CR_EACH_9(__VA_ARGS__)
#define CR_EACH_11(x, ...) CR_ARG(x), CR_EACH_10(__VA_ARGS__)
#define CR_EACH_12(x, ...) CR_ARG(x), CR_EACH_11(__VA_ARGS__)
#define CR_EACH_13(x, ...) CR_ARG(x), CR_EACH_12(__VA_ARGS__)
#define CR_EACH_14(x, ...) CR_ARG(x), CR_EACH_13(__VA_ARGS__)
#define CR_EACH_15(x, ...) CR_ARG(x), CR_EACH_14(__VA_ARGS__)
#define CR_EACH_16(x, ...) CR_ARG(x), CR_EACH_15(__VA_ARGS__)

#else

extern "C++" {
#include <initializer_list>

static inline cr_arg cr_arg_of(bool x) { return cr_arg_bool(x); }
static inline cr_arg cr_arg_of(int x) { return cr_arg_int(x); }
static inline cr_arg cr_arg_of(unsigned x) { return cr_arg_int(x); }
static inline cr_arg cr_arg_of(long x) { return cr_arg_int(x); }
static inline cr_arg cr_arg_of(unsigned long x) { return cr_arg_int((int64_t)x); }
static inline cr_arg cr_arg_of(long long x) { return cr_arg_int((int64_t)x); }
static inline cr_arg cr_arg_of(unsigned long long x) { return cr_arg_int((int64_t)x); }
static inline cr_arg cr_arg_of(float x) { return cr_arg_float(x); }
static inline cr_arg cr_arg_of(double x) { return cr_arg_float(x); }
static inline cr_arg cr_arg_of(cr_complex x) { return cr_arg_complex(x); }
static inline cr_arg cr_arg_of(char *x) { return cr_arg_string(x); }
static inline cr_arg cr_arg_of(const char *x) { return cr_arg_string(x); }
static inline cr_arg cr_arg_of(cr_tensor *x) { return cr_arg_tensor(x); }
static inline cr_arg cr_arg_of(const cr_tensor *x) { return cr_arg_tensor(x); }
template <class type> cr_arg cr_arg_of(type *x) = delete; /* pointers must not become bool */
static inline cr_arg cr_arg_of(cr_tensor **x) { return cr_arg_result(x); }
static inline cr_arg cr_arg_of(cr_generator *x) { return cr_arg_generator(x); }
static inline cr_arg cr_arg_of(decltype(nullptr)) { return cr_arg_none(0); }
static inline cr_arg cr_arg_of(cr_tensors x) { return cr_arg_list_of(x); }
static inline cr_arg cr_arg_of(cr_arg x) { return x; }
static inline cr_arg cr_arg_list(std::initializer_list<int64_t> v)
{
    return cr_arg_ints(v.begin(), v.size());
}
static inline cr_arg cr_arg_list(std::initializer_list<double> v)
{
    return cr_arg_floats(v.begin(), v.size());
}
static inline cr_arg cr_arg_list(std::initializer_list<cr_tensor *> v)
{
    return cr_arg_tensors(v.begin(), v.size());
}

/* An argument of any of these types.  A list of them in braces is evaluated in the order
 * written, which arguments of a function are not. */
struct cr_arg_item {
    cr_arg arg;
    template <class type> cr_arg_item(type x) : arg(cr_arg_of(x)) {}
};
static_assert(sizeof(cr_arg_item) == sizeof(cr_arg), "a list of items is one of arguments");

/* The arguments, valid until the end of the full expression. */
static inline const cr_arg *cr_args_in_order(std::initializer_list<cr_arg_item> list)
{
    return &list.begin()->arg;
}
}

#define CR_ARG(x)       cr_arg_of(x)
#define CR_LIST(...)    cr_arg_list(std::initializer_list<int64_t>{__VA_ARGS__})
#define CR_FLOATS(...)  cr_arg_list(std::initializer_list<double>{__VA_ARGS__})
#define CR_TENSORS(...) cr_arg_list(std::initializer_list<cr_tensor *>{__VA_ARGS__})
#define CR_ARGS(...)    cr_args_in_order({__VA_ARGS__, cr_arg_end()})
#define CR_NO_ARGS      cr_args_in_order({cr_arg_end()})

#endif
#endif
