/* layer_norm.cuh - the gradients of a norm's weight and bias on an NVIDIA GPU.
 *
 * Follows move.cuh.  CL_ITEM is the type of the elements, CL_STAT that of the rows' numbers and
 * of the gradients; sums are of cl_real.  A thread has CL_LANES adjacent columns, which one
 * access reads.  CL_SUMS 2: of a layer norm.  1: of an RMS norm, which has no mean and no bias,
 * and whose products are not rounded.
 *
 * Both gradients are sums down the columns of a matrix, in order P (num/order.h), of which each
 * element is read once: of the cotangents, and of their products with the normalized rows, each
 * rounded to CL_ITEM, as the operators on the host make it.  A block of threads has CL_WIDE
 * vectors of columns and a part of CR_FOLD_COLUMN rows.  Each of its warps has one of the
 * CR_FOLD_BLOCKS blocks of rows (y), and each thread one of the CL_CHAINS sums of the block:
 * x is the number of the vector and, in units of CL_WIDE, that of the sum.  So little work of a
 * thread depends on earlier work of it, and a matrix of few rows has many blocks.  The grid's y
 * blocks share the parts.  The results of parts are the rows of a matrix, whose columns another
 * launch folds in the same way. */
#ifndef CR_EMIT_LAYER_NORM_CUH
#define CR_EMIT_LAYER_NORM_CUH

#include "emit/move.cuh"

typedef decltype(cm_real(CL_ITEM())) cl_real;

/* Matrices are row-major and dense.  to[k]: of `sum[k]` if there are several parts. */
struct cl_call {
    const CL_ITEM *grad, *input;
    const CL_STAT *mean, *rstd;
    const cl_real *from[2]; /* results of parts */
    CL_STAT *to[2];
    cl_real *sum[2];
    cm_i64 rows, columns;
};

enum {
    CL_BLOCK = 64, /* CR_FOLD_BLOCK and so on of num/order.h */
    CL_BLOCKS = 8,
    CL_PART = CL_BLOCK * CL_BLOCKS,
    CL_CHAINS = 4,
    CL_WIDE = 8,
    CL_THREADS = CL_WIDE * CL_CHAINS * CL_BLOCKS,
    CL_SCALARS = CL_WIDE * CL_LANES * CL_SUMS, /* sums of a block of threads */
    CL_AT_ONCE = 4                             /* rows that a thread reads at once */
};

struct alignas(CL_LANES * sizeof(CL_ITEM)) cl_items {
    CL_ITEM item[CL_LANES];
};
struct alignas(CL_LANES * sizeof(cl_real)) cl_reals {
    cl_real lane[CL_LANES];
};
/* Elements of the sums in a row. */
struct cl_pair {
    cl_reals of[CL_SUMS];
};

/* What a row of the first launch has in memory, and of the next ones. */
struct cl_row {
    cl_items grad, input;
    CL_STAT mean, rstd;
};

CV_FN void cl_load(const cl_call &c, cm_i64 row, cm_i64 column, cl_row *r)
{
    r->grad = *(const cl_items *)(c.grad + row * c.columns + column);
    r->input = *(const cl_items *)(c.input + row * c.columns + column);
#if CL_SUMS == 2
    r->mean = c.mean[row];
#endif
    r->rstd = c.rstd[row];
}
CV_FN cl_pair cl_values(const cl_row &r)
{
    const cl_real rstd = cm_real(r.rstd);
    cl_pair p;

    CV_ALL
    for (int l = 0; l < CL_LANES; l++) {
        const cl_real g = cm_real(r.grad.item[l]), x = cm_real(r.input.item[l]);
#if CL_SUMS == 2
        const cl_real product = g * ((x - cm_real(r.mean)) * rstd);
        p.of[0].lane[l] = cm_real(cm_to<CL_ITEM>::of(product));
        p.of[1].lane[l] = g;
#else
        p.of[0].lane[l] = g * (x * rstd);
#endif
    }
    return p;
}
CV_FN void cl_load(const cl_call &c, cm_i64 row, cm_i64 column, cl_pair *p)
{
    CV_ALL
    for (int k = 0; k < CL_SUMS; k++)
        p->of[k] = *(const cl_reals *)(c.from[k] + row * c.columns + column);
}
CV_FN cl_pair cl_values(const cl_pair &p) { return p; }

CV_FN void cl_add(cl_pair *a, const cl_pair &b)
{
    CV_ALL
    for (int k = 0; k < CL_SUMS; k++)
        CV_ALL
    for (int l = 0; l < CL_LANES; l++)
        a->of[k].lane[l] = a->of[k].lane[l] + b.of[k].lane[l];
}

/* The sums of the thread `by` further on in the warp. */
CV_FN cl_pair cl_from(const cl_pair &own, int by)
{
    const int words = sizeof own / 4;
    int word[words];
    cl_pair other;

    __builtin_memcpy(word, &own, sizeof own);
    CV_ALL
    for (int i = 0; i < words; i++)
        word[i] = CK_SHUFFLE_DOWN_(~0u, word[i], by, CL_WIDE * CL_CHAINS);
    __builtin_memcpy(&other, word, sizeof other);
    return other;
}

/* The fold of the rows from `first` on, below `end`, of which the thread adds up those of its
 * chain: at most a block of rows.  The warp's first CL_WIDE threads have it. */
template <class R>
CV_FN cl_pair cl_block(const cl_call &c, cm_i64 first, cm_i64 end, cm_i64 column)
{
    cl_pair acc;

    CV_ALL
    for (int l = 0; l < CL_LANES; l++)
        CV_ALL
    for (int k = 0; k < CL_SUMS; k++)
        acc.of[k].lane[l] = (cl_real)-0.0f;
    cm_i64 row = first + ck_x() / CL_WIDE;
    if (end - first == CL_BLOCK)
        CV_LOOP
    for (int n = 0; n < CL_BLOCK / (CL_CHAINS * CL_AT_ONCE); n++) {
        R read[CL_AT_ONCE];
        CV_ALL
        for (int q = 0; q < CL_AT_ONCE; q++, row += CL_CHAINS)
            cl_load(c, row, column, &read[q]);
        CV_ALL
        for (int q = 0; q < CL_AT_ONCE; q++)
            cl_add(&acc, cl_values(read[q]));
    }
    for (; row < end; row += CL_CHAINS) {
        R read;
        cl_load(c, row, column, &read);
        cl_add(&acc, cl_values(read));
    }
    CV_ALL
    for (int by = CL_WIDE; by < CL_WIDE * CL_CHAINS; by *= 2)
        cl_add(&acc, cl_from(acc, by));
    return acc;
}

template <class R> CV_FN void cl_parts(const cl_call &call)
{
    CK_SHARED cl_real kept[CL_BLOCKS][CL_SUMS][CL_WIDE * CL_LANES];
    const int vector = ck_x() % CL_WIDE, me = ck_y() * CL_WIDE * CL_CHAINS + ck_x(),
              sum = me / (CL_WIDE * CL_LANES), lane = me % (CL_WIDE * CL_LANES);
    const cm_i64 begin = (cm_i64)CK_BLOCK_(x) * CL_WIDE * CL_LANES,
                 column = begin + vector * CL_LANES;
    const bool some = column < call.columns, only = call.rows <= CL_PART;

    for (cm_i64 part = CK_BLOCK_(y); part * CL_PART < call.rows; part += CK_BLOCKS_(y)) {
        const cm_i64 first = part * CL_PART, top = first + ck_y() * CL_BLOCK,
                     left = call.rows - first,
                     end = call.rows < top + CL_BLOCK ? call.rows : top + CL_BLOCK;
        const cl_pair own = cl_block<R>(call, top, some ? end : top, column);
        __syncthreads();
        CV_ALL
        for (int k = 0; k < CL_SUMS; k++)
            CV_ALL
        for (int l = 0; l < CL_LANES; l++)
            if (ck_x() < CL_WIDE)
                kept[ck_y()][k][vector * CL_LANES + l] = own.of[k].lane[l];
        __syncthreads();
        if (me >= CL_SCALARS || begin + lane >= call.columns)
            continue;
        cl_real v[CL_BLOCKS];
        CV_ALL
        for (int b = 0; b < CL_BLOCKS; b++)
            v[b] = kept[b][sum][lane];
        CV_ALL
        for (int by = CL_BLOCKS / 2; by > 0; by /= 2)
            CV_ALL
        for (int b = 0; b < by; b++)
            if ((b + by) * CL_BLOCK < left)
                v[b] = v[b] + v[b + by];
        if (only)
            (sum ? call.to[1] : call.to[0])[begin + lane] = cm_to<CL_STAT>::of(v[0]);
        else
            (sum ? call.sum[1] : call.sum[0])[part * call.columns + begin + lane] = v[0];
    }
}

#define CL_MANY CK_AT_ONCE(CL_THREADS, 3)
CK_KERNEL_OF(CL_MANY, cl_rows, cl_call) { cl_parts<cl_row>(call); }
CK_KERNEL_OF(CL_MANY, cl_join, cl_call) { cl_parts<cl_pair>(call); }

#endif
