/* layer_norm.cuh - the gradients of a norm's weight and bias on an NVIDIA GPU.
 *
 * Follows move.cuh.  CL_ITEM is the type of the elements, CL_STAT that of the rows' numbers and
 * of the gradients; sums are of cl_real.  A thread has CL_LANES adjacent columns, which one
 * access reads.  CL_SUMS 2: of a layer norm.  1: of an RMS norm, which has no mean and no bias,
 * and whose products are not rounded.
 *
 * Both gradients are sums down the columns of a matrix, in order P (num/order.h), of which each
 * element is read once: of the cotangents, and of their products with the normalized rows, each
 * rounded to CL_ITEM, as the operators on the host make it.  A block of threads has up to 32
 * vectors of columns (x) and the CR_FOLD_BLOCKS blocks (y) of a part of CR_FOLD_COLUMN rows,
 * as in columns of kernel.cuh; the grid's y blocks share the parts.  The results of parts are
 * the rows of a matrix, whose columns another launch folds in the same way. */
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
    CL_WIDE = 32,
    CL_THREADS = CL_WIDE * CL_BLOCKS,
    CL_AT_ONCE = 4 * (sizeof(CL_ITEM) < 4 ? 2 : 1) /* rows that a thread reads at once */
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

/* The fold of the rows from `first` on, below `end`: at most a block of them. */
template <class R>
CV_FN cl_pair cl_block(const cl_call &c, cm_i64 first, cm_i64 end, cm_i64 column)
{
    cl_pair acc[4];

    CV_ALL
    for (int q = 0; q < 4; q++)
        CV_ALL
    for (int l = 0; l < CL_LANES; l++)
        CV_ALL
    for (int k = 0; k < CL_SUMS; k++)
        acc[q].of[k].lane[l] = (cl_real)-0.0f;
    for (cm_i64 row = first; row < end; row += CL_AT_ONCE) {
        R read[CL_AT_ONCE];
        CV_ALL
        for (int q = 0; q < CL_AT_ONCE; q++)
            if (row + q < end)
                cl_load(c, row + q, column, &read[q]);
        CV_ALL
        for (int q = 0; q < CL_AT_ONCE; q++)
            if (row + q < end)
                cl_add(&acc[q % 4], cl_values(read[q]));
    }
    cl_add(&acc[0], acc[1]);
    cl_add(&acc[2], acc[3]);
    cl_add(&acc[0], acc[2]);
    return acc[0];
}

/* The result of a part, or of all rows if that is the only one. */
CV_FN void cl_store(const cl_call &c, cm_i64 part, cm_i64 column, const cl_pair &v)
{
    const bool only = c.rows <= CL_PART;

    CV_ALL
    for (int k = 0; k < CL_SUMS; k++)
        CV_ALL
    for (int l = 0; l < CL_LANES; l++)
        if (only)
            c.to[k][column + l] = cm_to<CL_STAT>::of(v.of[k].lane[l]);
        else
            c.sum[k][part * c.columns + column + l] = v.of[k].lane[l];
}

template <class R> CV_FN void cl_parts(const cl_call &call)
{
    CK_SHARED cl_pair kept[CL_BLOCKS][CL_WIDE];
    const cm_i64 column = ((cm_i64)CK_BLOCK_(x) * CK_WIDTH_(x) + ck_x()) * CL_LANES;
    const bool some = column < call.columns;

    for (cm_i64 part = CK_BLOCK_(y); part * CL_PART < call.rows; part += CK_BLOCKS_(y)) {
        const cm_i64 first = part * CL_PART, top = first + ck_y() * CL_BLOCK,
                     left = call.rows - first,
                     end = call.rows < top + CL_BLOCK ? call.rows : top + CL_BLOCK;
        const cl_pair own = cl_block<R>(call, top, some ? end : top, column);
        __syncthreads();
        kept[ck_y()][ck_x()] = own;
        __syncthreads();
        if (!some || ck_y())
            continue;
        cl_pair v[CL_BLOCKS];
        CV_ALL
        for (int b = 0; b < CL_BLOCKS; b++)
            v[b] = kept[b][ck_x()];
        CV_ALL
        for (int by = CL_BLOCKS / 2; by > 0; by /= 2)
            CV_ALL
        for (int b = 0; b < by; b++)
            if ((b + by) * CL_BLOCK < left)
                cl_add(&v[b], v[b + by]);
        cl_store(call, part, column, v[0]);
    }
}

#define CL_MANY CK_AT_ONCE(CL_THREADS, 2)
CK_KERNEL_OF(CL_MANY, cl_rows, cl_call) { cl_parts<cl_row>(call); }
CK_KERNEL_OF(CL_MANY, cl_join, cl_call) { cl_parts<cl_pair>(call); }

#endif
