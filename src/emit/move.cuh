/* move.cuh - copies, conversions and fills of elements with any strides, on an NVIDIA GPU.
 *
 * When CM_TO and CM_FROM are defined as two dtypes, the text is one kernel that converts.
 * Without them it has a copy, a copy by tiles and a fill for each size of elements, or with
 * CM_NO_KERNELS only the types.  Conversions have the bits of num/convert.c: a float that is
 * out of an integer's range becomes the least integer, as on x86. */
#ifndef CR_EMIT_MOVE_CUH
#define CR_EMIT_MOVE_CUH

#include "emit/half.cuh"

typedef __INT64_TYPE__ cm_i64;

/* --- dtypes --- */

struct cm_bool {
    unsigned char bits;
};
struct cm_f16 {
    unsigned short bits;
};
struct cm_bf16 {
    unsigned short bits;
};
struct cm_c64 {
    float re, im;
};
struct cm_c128 {
    double re, im;
};
typedef unsigned char cm_u8;
typedef signed char cm_i8;
typedef short cm_i16;
typedef int cm_i32;
typedef float cm_f32;
typedef double cm_f64;

/* --- reading: the real part, in a type that represents it exactly --- */

CV_FN int cm_real(cm_bool x) { return x.bits; }
CV_FN int cm_real(cm_u8 x) { return x; }
CV_FN int cm_real(cm_i8 x) { return x; }
CV_FN int cm_real(cm_i16 x) { return x; }
CV_FN int cm_real(int x) { return x; }
CV_FN cm_i64 cm_real(cm_i64 x) { return x; }
CV_FN float cm_real(float x) { return x; }
CV_FN double cm_real(double x) { return x; }
CV_FN float cm_real(cm_c64 x) { return x.re; }
CV_FN double cm_real(cm_c128 x) { return x.re; }
CV_FN float cm_real(cm_bf16 x) { return ck_widen_bf16(x.bits); }
CV_FN float cm_real(cm_f16 x) { return ck_widen_f16(x.bits); }
template <class F> CV_FN int cm_imag(F) { return 0; }
CV_FN float cm_imag(cm_c64 x) { return x.im; }
CV_FN double cm_imag(cm_c128 x) { return x.im; }

/* --- integers --- */

CV_FN int cm_to32(int x) { return x; }
CV_FN int cm_to32(cm_i64 x) { return (int)x; }
CV_FN int cm_to32(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int)x : -2147483647 - 1; }
CV_FN int cm_to32(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int)x : -2147483647 - 1; }
CV_FN cm_i64 cm_to64(int x) { return x; }
CV_FN cm_i64 cm_to64(cm_i64 x) { return x; }
CV_FN cm_i64 cm_to64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (cm_i64)x : -9223372036854775807 - 1;
}
CV_FN cm_i64 cm_to64(float x) { return cm_to64((double)x); }

/* --- writing --- */

template <class T> struct cm_to;
#define CM_DEFINE_TO(T, ...)                                                                   \
    template <> struct cm_to<T> {                                                              \
        template <class F> __attribute__((device, always_inline)) static T of(F x)             \
        {                                                                                      \
            return __VA_ARGS__;                                                                \
        }                                                                                      \
    };
CM_DEFINE_TO(cm_bool, {(unsigned char)((cm_real(x) != 0) | (cm_imag(x) != 0))})
CM_DEFINE_TO(cm_u8, (unsigned char)cm_to64(cm_real(x)))
CM_DEFINE_TO(cm_i8, (signed char)cm_to32(cm_real(x)))
CM_DEFINE_TO(cm_i16, (short)cm_to32(cm_real(x)))
CM_DEFINE_TO(cm_i32, cm_to32(cm_real(x)))
CM_DEFINE_TO(cm_i64, cm_to64(cm_real(x)))
CM_DEFINE_TO(cm_f16, {ck_half_f16((float)cm_real(x))})
CM_DEFINE_TO(cm_bf16, {ck_half_bf16((float)cm_real(x))})
CM_DEFINE_TO(cm_f32, (float)cm_real(x))
CM_DEFINE_TO(cm_f64, (double)cm_real(x))
CM_DEFINE_TO(cm_c64, {(float)cm_real(x), (float)cm_imag(x)})
CM_DEFINE_TO(cm_c128, {(double)cm_real(x), (double)cm_imag(x)})

/* --- vectors --- */

/* Writes `bytes` bytes, a power of two up to 16, by one access: of a vector of items the
 * compiler may make an access for each. */
template <int bytes> CV_FN void cm_store(void *to, const void *from)
{
#ifdef __CUDA_ARCH__
    if (bytes == 16) {
        unsigned w[4];
        __builtin_memcpy(w, from, bytes < 16 ? bytes : 16);
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
        return;
    }
#endif
    __builtin_memcpy(to, from, bytes);
}

/* --- kernels --- */

enum { CM_DIMS = 8, CM_COPIES = 4 };

/* Divides numbers below 2^31 by one that launches share (cr_cuda_divisor): a product instead of
 * some twenty instructions. */
struct cm_divisor {
    unsigned factor, shift;
};
CV_FN unsigned cm_quotient(unsigned i, const cm_divisor &d)
{
    return (unsigned)((unsigned long long)i * d.factor >> d.shift);
}

/* The argument of a kernel; a fill writes `item`. */
struct cm_call {
    char *to;
    const char *from;
    cm_i64 n, ndim, size[CM_DIMS], to_step[CM_DIMS], from_step[CM_DIMS];
    char item[16] __attribute__((aligned(16)));
};

/* The offsets of element i in bytes.  I is `unsigned` when all numbers fit, because division of
 * 32 bits is much faster than division of 64 bits. */
template <class I> CV_FN void cm_place(const cm_call &c, I i, cm_i64 *to, cm_i64 *from)
{
    *to = *from = 0;
    CV_LOOP
    for (int d = (int)c.ndim - 1; d > 0; d--) {
        I next = i / (I)c.size[d], k = i - next * (I)c.size[d];
        *to += (cm_i64)k * c.to_step[d];
        *from += (cm_i64)k * c.from_step[d];
        i = next;
    }
    *to += (cm_i64)i * c.to_step[0];
    *from += (cm_i64)i * c.from_step[0];
}

#define CM_EACH(text)                                                                          \
    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x()) {                              \
        cm_i64 to, from;                                                                       \
        if (call.n <= 0x7fffffff)                                                              \
            cm_place(call, (unsigned)i, &to, &from);                                           \
        else                                                                                   \
            cm_place(call, i, &to, &from);                                                     \
        text;                                                                                  \
    }

#ifdef CM_TO
/* Eight elements that are read and written by accesses of up to 16 bytes. */
template <class T> struct alignas(sizeof(T) < 2 ? 8 : 16) cm_eight {
    T item[8];
};

CV_FN bool cm_is_dense(const cm_call &c)
{
    return c.ndim == 1 && c.to_step[0] == sizeof(CM_TO) && c.from_step[0] == sizeof(CM_FROM) &&
           (((cm_i64)c.to | (cm_i64)c.from) & 15) == 0;
}

CV_FN void cm_convert_eight(const cm_call &c, cm_i64 at)
{
    const cm_eight<CM_FROM> from = *(const cm_eight<CM_FROM> *)((const CM_FROM *)c.from + at);
    cm_eight<CM_TO> to;

    CV_ALL
    for (int k = 0; k < 8; k++)
        to.item[k] = cm_to<CM_TO>::of(from.item[k]);
    *(cm_eight<CM_TO> *)((CM_TO *)c.to + at) = to;
}

CK_KERNEL(cm_convert, cm_call)
{
    if (cm_is_dense(call)) {
        for (cm_i64 at = 8 * ck_first_x(); at < call.n; at += 8 * ck_step_x())
            if (at + 8 <= call.n)
                cm_convert_eight(call, at);
            else
                for (cm_i64 i = at; i < call.n; i++)
                    ((CM_TO *)call.to)[i] = cm_to<CM_TO>::of(((const CM_FROM *)call.from)[i]);
        return;
    }
    CM_EACH(*(CM_TO *)(call.to + to) = cm_to<CM_TO>::of(*(const CM_FROM *)(call.from + from)))
}
#elif !defined(CM_NO_KERNELS)
struct cm_pair8 {
    cm_i64 part[2];
};

/* --- tiles --- */

/* Along t the destination is dense, along f the source; steps of the other dims. */
struct cm_turn_call {
    char *to;
    const char *from;
    cm_i64 tiles, tiles_f, tiles_t, nf, nt, f_to, t_from;
    cm_i64 ndim, size[CM_DIMS], to_step[CM_DIMS], from_step[CM_DIMS];
    int reads_packs, writes_packs; /* a pack is at an address of its size */
};

enum { CM_TURN_ROWS = 8 }; /* rows of 32 threads in a block */

template <class E, int P> struct alignas(sizeof(E) * P) cm_pack {
    E item[P];
};

/* The elements of a pack that are below n. */
template <class E, int P> CV_FN cm_pack<E, P> cm_load_pack(const char *at, cm_i64 n, bool whole)
{
    cm_pack<E, P> v;

    if (whole && n >= P)
        return *(const cm_pack<E, P> *)at;
    CV_ALL
    for (int k = 0; k < P; k++)
        if (k < n)
            v.item[k] = ((const E *)at)[k];
    return v;
}
template <class E, int P>
CV_FN void cm_store_pack(char *at, const cm_pack<E, P> &v, cm_i64 n, bool whole)
{
    if (whole && n >= P) {
        *(cm_pack<E, P> *)at = v;
        return;
    }
    CV_ALL
    for (int k = 0; k < P; k++)
        if (k < n)
            ((E *)at)[k] = v.item[k];
}

/* The first element of tile b. */
CV_FN void cm_turn_place(const cm_turn_call &c, cm_i64 b, int side, cm_i64 *f, cm_i64 *t,
                         cm_i64 *to, cm_i64 *from)
{
    cm_i64 next = b / c.tiles_f, up = next / c.tiles_t;

    *f = (b - next * c.tiles_f) * side;
    *t = (next - up * c.tiles_t) * side;
    *to = *from = 0;
    for (int d = (int)c.ndim - 1; d >= 0; d--) {
        const cm_i64 rest = up / c.size[d], k = up - rest * c.size[d];
        *to += k * c.to_step[d];
        *from += k * c.from_step[d];
        up = rest;
    }
}

/* A thread reads packs of P elements along f and writes packs along t.  A row of the tile has
 * one element more than it needs, so that a column is in different banks. */
template <class E, int P> CV_FN void cm_turn(const cm_turn_call &call)
{
    const int side = 32 * P, lane = ck_x() % 32 * P, row = ck_x() / 32;
    CK_SHARED E tile[side][side + 1];

    for (cm_i64 b = CK_BLOCK_(x); b < call.tiles; b += CK_BLOCKS_(x)) {
        cm_i64 f, t, to, from;
        cm_turn_place(call, b, side, &f, &t, &to, &from);
        CV_ALL
        for (int k = 0; k < side / CM_TURN_ROWS; k++) {
            const int r = row + k * CM_TURN_ROWS;
            if (t + r >= call.nt)
                continue;
            const char *at =
                call.from + from + (t + r) * call.t_from + (f + lane) * (cm_i64)sizeof(E);
            const cm_pack<E, P> v =
                cm_load_pack<E, P>(at, call.nf - f - lane, call.reads_packs);
            CV_ALL
            for (int i = 0; i < P; i++)
                tile[r][lane + i] = v.item[i];
        }
        __syncthreads();
        CV_ALL
        for (int k = 0; k < side / CM_TURN_ROWS; k++) {
            const int r = row + k * CM_TURN_ROWS;
            cm_pack<E, P> v;
            if (f + r >= call.nf)
                continue;
            CV_ALL
            for (int i = 0; i < P; i++)
                v.item[i] = tile[lane + i][r];
            cm_store_pack<E, P>(call.to + to + (f + r) * call.f_to +
                                    (t + lane) * (cm_i64)sizeof(E),
                                v, call.nt - t - lane, call.writes_packs);
        }
        __syncthreads();
    }
}

/* --- triangles --- */

/* Elements that one access moves. */
template <class T> struct alignas(16) cm_row {
    T item[16 / sizeof(T)];
};

/* The column less the row of pack i of matrices, whose rows and columns are the last two dims;
 * a pack has `wide` columns. */
CV_FN cm_i64 cm_beyond_diagonal(const cm_call &c, cm_i64 i, int wide)
{
    const cm_i64 columns = c.size[c.ndim - 1], rows = c.size[c.ndim - 2];

    if (c.n <= 0x7fffffff) {
        const unsigned up = (unsigned)i / (unsigned)columns;
        return (cm_i64)((unsigned)i - up * (unsigned)columns) * wide - up % (unsigned)rows;
    }
    return i % columns * wide - i / columns % rows;
}

/* `item` has the diagonal, and 1 for the upper triangle. */
CV_FN bool cm_in_triangle(const cm_call &c, cm_i64 by)
{
    const cm_i64 *const side = (const cm_i64 *)c.item;

    return side[1] ? by >= side[0] : by <= side[0];
}

/* Reads nothing where no element of the pack is in the triangle. */
template <class T>
CV_FN void cm_triangle_row(const cm_call &c, cm_i64 i, void *to, const void *from)
{
    const int wide = 16 / sizeof(T);
    const cm_i64 by = cm_beyond_diagonal(c, i, wide);
    cm_row<T> v = {};

    if (cm_in_triangle(c, by) || cm_in_triangle(c, by + wide - 1))
        v = *(const cm_row<T> *)from;
    CV_ALL
    for (int k = 0; k < wide; k++)
        if (!cm_in_triangle(c, by + k))
            v.item[k] = T();
    cm_store<16>(to, &v);
}

#define CM_DEFINE_TRIANGLE(bytes, T)                                                           \
    CK_KERNEL(cm_triangle##bytes, cm_call)                                                     \
    {                                                                                          \
        const T zero = {};                                                                     \
        CM_EACH(*(T *)(call.to + to) = cm_in_triangle(call, cm_beyond_diagonal(call, i, 1))    \
                                           ? *(const T *)(call.from + from)                    \
                                           : zero)                                             \
    }                                                                                          \
    CK_KERNEL(cm_triangle_row##bytes, cm_call)                                                 \
    {                                                                                          \
        CM_EACH(cm_triangle_row<T>(call, i, call.to + to, call.from + from))                   \
    }
CM_DEFINE_TRIANGLE(1, unsigned char)
CM_DEFINE_TRIANGLE(2, unsigned short)
CM_DEFINE_TRIANGLE(4, unsigned)
CM_DEFINE_TRIANGLE(8, cm_i64)
CM_DEFINE_TRIANGLE(16, cm_pair8)

/* --- copies and fills --- */

/* A thread reads several elements before it writes the first of them. */
template <class T> CV_FN void cm_copy(const cm_call &call)
{
    const cm_i64 step = ck_step_x();

    for (cm_i64 first = ck_first_x(); first < call.n; first += CM_COPIES * step) {
        cm_i64 to[CM_COPIES], from;
        T x[CM_COPIES];
        CV_ALL
        for (int k = 0; k < CM_COPIES; k++) {
            const cm_i64 i = first + k * step;
            if (i >= call.n)
                continue;
            if (call.n <= 0x7fffffff)
                cm_place(call, (unsigned)i, &to[k], &from);
            else
                cm_place(call, i, &to[k], &from);
            x[k] = *(const T *)(call.from + from);
        }
        CV_ALL
        for (int k = 0; k < CM_COPIES; k++)
            if (first + k * step < call.n)
                *(T *)(call.to + to[k]) = x[k];
    }
}

/* --- lists of copies --- */

enum { CM_PIECES = 64, CM_LISTED = 256 /* threads */ };

/* A copy of `n` elements in rows of `columns` dense ones; `first` is its first block. */
struct cm_piece {
    char *to;
    const char *from;
    cm_i64 to_step, from_step;
    unsigned n, columns, first;
    cm_divisor over; /* columns */
};
struct cm_list_call {
    cm_i64 pieces;
    cm_piece of[CM_PIECES];
};

/* The piece of the block at hand. */
CV_FN int cm_find_piece(const cm_list_call &c)
{
    int low = 0, high = (int)c.pieces;

    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (c.of[middle].first <= (unsigned)CK_BLOCK_(x))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A thread copies CM_COPIES elements, which are a block of threads apart. */
template <class T> CV_FN void cm_list(const cm_list_call &call)
{
    const cm_piece &p = call.of[cm_find_piece(call)];
    const unsigned first = ((unsigned)CK_BLOCK_(x) - p.first) * CM_LISTED * CM_COPIES + ck_x();
    T x[CM_COPIES];
    char *to[CM_COPIES];

    CV_ALL
    for (int k = 0; k < CM_COPIES; k++) {
        const unsigned i = first + k * CM_LISTED, row = cm_quotient(i, p.over);
        const cm_i64 column = (i - row * p.columns) * (cm_i64)sizeof(T);
        if (i >= p.n)
            continue;
        to[k] = p.to + row * p.to_step + column;
        x[k] = *(const T *)(p.from + row * p.from_step + column);
    }
    CV_ALL
    for (int k = 0; k < CM_COPIES; k++)
        if (first + k * CM_LISTED < p.n)
            *(T *)to[k] = x[k];
}

#define CM_DEFINE_ITEM(bytes, T, pack)                                                         \
    CK_KERNEL(cm_copy##bytes, cm_call) { cm_copy<T>(call); }                                   \
    CK_KERNEL_OF(CM_LISTED, cm_list##bytes, cm_list_call) { cm_list<T>(call); }                \
    CK_KERNEL(cm_fill##bytes, cm_call){CM_EACH(                                                \
        *(T *)(call.to + to) = *(const T *)call.item)} CK_KERNEL(cm_turn##bytes, cm_turn_call) \
    {                                                                                          \
        cm_turn<T, pack>(call);                                                                \
    }
CM_DEFINE_ITEM(1, unsigned char, 4)
CM_DEFINE_ITEM(2, unsigned short, 2)
CM_DEFINE_ITEM(4, unsigned, 1)
CM_DEFINE_ITEM(8, cm_i64, 1)
CM_DEFINE_ITEM(16, cm_pair8, 1)
#endif

#endif
