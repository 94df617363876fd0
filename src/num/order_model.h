/* order_model.h - a plain implementation of num/order.h, with which tests compare kernels.
 *
 * It is recursive, handles one element at a time, and has numbers in place of order.h's names,
 * so that a test fails when either side changes. */
#ifndef CR_NUM_ORDER_MODEL_H
#define CR_NUM_ORDER_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define CR_DEFINE_ORDER_MODEL(T)                                                               \
    static inline T model_op_##T(bool product, T a, T b) { return product ? a * b : a + b; }   \
    /* Combines part[0..n): (k, k + width / 2), then with half the width; absent parts are     \
     * skipped. */                                                                             \
    static inline T model_halves_##T(bool product, T *part, int64_t n, int64_t width)          \
    {                                                                                          \
        for (int64_t half = width / 2; half; half /= 2)                                        \
            for (int64_t k = 0; k < half && k + half < n; k++)                                 \
                part[k] = model_op_##T(product, part[k], part[k + half]);                      \
        return part[0];                                                                        \
    }                                                                                          \
    static inline T model_row_##T(bool product, const T *x, int64_t n)                         \
    {                                                                                          \
        T chunk[8][64], of_lane[8], lane[64];                                                  \
        int64_t parts = (n + 8191) / 8192, chunks = (n + 1023) / 1024;                         \
        if (n == 0)                                                                            \
            return product;                                                                    \
        if (parts > 1) {                                                                       \
            T *part = malloc((size_t)parts * sizeof *part), result;                            \
            for (int64_t p = 0; p < parts; p++)                                                \
                part[p] = model_row_##T(product, x + p * 8192,                                 \
                                        n - p * 8192 < 8192 ? n - p * 8192 : 8192);            \
            result = model_row_##T(product, part, parts);                                      \
            free(part);                                                                        \
            return result;                                                                     \
        }                                                                                      \
        for (int c = 0; c < 8; c++)                                                            \
            for (int l = 0; l < 64; l++)                                                       \
                chunk[c][l] = product ? (T)1 : -(T)0;                                          \
        for (int64_t i = 0; i < n; i++)                                                        \
            chunk[i / 1024][i % 64] = model_op_##T(product, chunk[i / 1024][i % 64], x[i]);    \
        for (int l = 0; l < 64; l++) {                                                         \
            for (int64_t c = 0; c < chunks; c++)                                               \
                of_lane[c] = chunk[c][l];                                                      \
            lane[l] = model_halves_##T(product, of_lane, chunks, 8);                           \
        }                                                                                      \
        return model_halves_##T(product, lane, 64, 64);                                        \
    }                                                                                          \
    static inline T model_column_##T(bool product, const T *x, int64_t n)                      \
    {                                                                                          \
        T block[8], acc[4];                                                                    \
        int64_t parts = (n + 511) / 512, blocks = (n + 63) / 64;                               \
        if (n == 0)                                                                            \
            return product;                                                                    \
        if (parts > 1) {                                                                       \
            T *part = malloc((size_t)parts * sizeof *part), result;                            \
            for (int64_t p = 0; p < parts; p++)                                                \
                part[p] = model_column_##T(product, x + p * 512,                               \
                                           n - p * 512 < 512 ? n - p * 512 : 512);             \
            result = model_column_##T(product, part, parts);                                   \
            free(part);                                                                        \
            return result;                                                                     \
        }                                                                                      \
        for (int64_t b = 0; b < blocks; b++) {                                                 \
            for (int k = 0; k < 4; k++)                                                        \
                acc[k] = product ? (T)1 : -(T)0;                                               \
            for (int64_t i = 64 * b; i < n && i < 64 * b + 64; i++)                            \
                acc[i % 4] = model_op_##T(product, acc[i % 4], x[i]);                          \
            block[b] = model_op_##T(product, model_op_##T(product, acc[0], acc[1]),            \
                                    model_op_##T(product, acc[2], acc[3]));                    \
        }                                                                                      \
        return model_halves_##T(product, block, blocks, 8);                                    \
    }                                                                                          \
    /* y[i]: the running sum or product of x[0..n) */                                          \
    static inline void model_scan_##T(bool product, const T *x, double *y, int64_t n)          \
    {                                                                                          \
        double none = product ? 1 : -0.0, blocks = none, runs = none, own = none;              \
        for (int64_t i = 0; i < n; i++) {                                                      \
            double xi = (double)x[i];                                                          \
            if (i % 16 == 0 && i)                                                              \
                runs = product ? runs * own : runs + own;                                      \
            if (i % 256 == 0 && i) {                                                           \
                blocks = product ? blocks * runs : blocks + runs;                              \
                runs = none;                                                                   \
            }                                                                                  \
            own = i % 16 == 0 ? xi : product ? own * xi : own + xi;                            \
            y[i] = product ? blocks * runs * own : blocks + runs + own;                        \
        }                                                                                      \
    }

CR_DEFINE_ORDER_MODEL(float)
CR_DEFINE_ORDER_MODEL(double)

#endif
