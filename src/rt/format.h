/* format.h - the file of a program for the runtime (cresset_rt.h), shared with its writer.
 *
 * A file is words of 64 bits, little-endian:
 *
 *     head         RT_HEAD_WORDS words (rt_head)
 *     arrays       RT_ARRAY_WORDS words each; sizes and names lie behind the last one
 *     commands     a word RT_COMMAND(kind, words), then the command's words
 *     data         parameters and constants, aligned to 16 bytes
 *
 * An address is a space and a distance in bytes.  Spaces are the values in the work memory, the
 * data, the rest of the work memory, which is scratch memory of single commands, and the
 * arrays. */
#ifndef CR_RT_FORMAT_H
#define CR_RT_FORMAT_H

#include <stdint.h>

#define RT_MAGIC INT64_C(0x0131747273736572) /* "ressrt1" and the version */

typedef enum {
    RT_HEAD_MAGIC,
    RT_HEAD_WORDS_ALL, /* of the file */
    RT_HEAD_SUM,       /* rt_sum of the words after this one */
    RT_HEAD_WORK,      /* bytes of work memory */
    RT_HEAD_VALUES,    /* of these, the bytes of values, a multiple of 16; the rest is scratch
                          memory */
    RT_HEAD_LANES,     /* elements of a register */
    RT_HEAD_ARRAYS,    /* how many */
    RT_HEAD_COMMANDS,  /* the word of the first command */
    RT_HEAD_DATA,      /* the word behind the last command, where the data begins */
    RT_HEAD_WORDS
} rt_head;

typedef enum {
    RT_ARRAY_KIND, /* cr_rt_kind */
    RT_ARRAY_DTYPE,
    RT_ARRAY_NDIM,
    RT_ARRAY_SIZES, /* a word of the file */
    RT_ARRAY_NAME,  /* a word of the file; the text ends with 0 */
    RT_ARRAY_FIRST, /* the address of a state's first values in the data */
    RT_ARRAY_WORDS
} rt_array_word;

/* --- addresses --- */

enum { RT_NONE, RT_WORK, RT_DATA, RT_SCRATCH, RT_ARRAY }; /* RT_ARRAY + k: array k */
#define RT_SPACE_SHIFT              44
#define RT_ADDRESS(space, distance) ((int64_t)(space) << RT_SPACE_SHIFT | (int64_t)(distance))
#define RT_DISTANCE_MASK            ((INT64_C(1) << RT_SPACE_SHIFT) - 1)

/* --- commands --- */

enum { RT_MOST_DIMS = 16, RT_MOST_ARRAYS = 1 << 16 };

typedef enum {
    RT_MOVE,
    RT_PLACE,
    RT_WINDOWS,
    RT_PRODUCT,
    RT_CONVOLVE,
    RT_KERNEL,
    RT_SPREAD,
    RT_WEIGH,
    RT_KINDS
} rt_kind;
#define RT_COMMAND(kind, words) ((int64_t)(words) << 8 | (kind))

/* MOVE: converts elements.  Then sizes, steps of `to` and of `from` in bytes. */
typedef enum {
    RT_MOVE_TO,
    RT_MOVE_TO_DTYPE,
    RT_MOVE_FROM,
    RT_MOVE_FROM_DTYPE,
    RT_MOVE_NDIM,
    RT_MOVE_WORDS
} rt_move;

/* PLACE: elements of a table at computed places are read, set, or combined with elements of
 * `dense`: sums and products of floats in the order of columns; DIVIDE by int64 numbers above
 * 1, integers downwards.  Then sizes, and steps of dense, table and index in bytes. */
enum {
    RT_PLACE_READ,
    RT_PLACE_SET,
    RT_PLACE_ADD,
    RT_PLACE_MUL,
    RT_PLACE_MIN,
    RT_PLACE_MAX,
    RT_PLACE_DIVIDE
};
typedef enum {
    RT_PLACE_HOW,
    RT_PLACE_DTYPE,
    RT_PLACE_DENSE,
    RT_PLACE_TABLE,
    RT_PLACE_INDEX,
    RT_PLACE_IS32,
    RT_PLACE_WRAPS,
    RT_PLACE_UNIT,
    RT_PLACE_EXTENT,
    RT_PLACE_SCRATCH, /* of sums and products of floats */
    RT_PLACE_NDIM,
    RT_PLACE_WORDS
} rt_place;

/* WINDOWS of row-major float32 planes.  Then for each of three dims: starts (places + 1),
 * ranges (3 each), and factors of the divisor as doubles (places). */
typedef enum {
    RT_WINDOWS_EXTREME,
    RT_WINDOWS_RESULT,
    RT_WINDOWS_WHICH,
    RT_WINDOWS_FROM,
    RT_WINDOWS_PLANES,
    RT_WINDOWS_IN,
    RT_WINDOWS_OUT,
    RT_WINDOWS_DIVISOR,
    RT_WINDOWS_PLACES, /* three numbers */
    RT_WINDOWS_WORDS = RT_WINDOWS_PLACES + 3
} rt_windows;

/* PRODUCT (file/matrix.inc): out[n, m] = the sum over k of a[n, k] b[k, m], and bias[n, m];
 * strides in elements.  Then sizes of the dims before, and strides of out, a, b and bias. */
typedef enum {
    RT_PRODUCT_DTYPE,
    RT_PRODUCT_OUT,
    RT_PRODUCT_A,
    RT_PRODUCT_B,
    RT_PRODUCT_BIAS, /* or RT_NONE */
    RT_PRODUCT_SCRATCH,
    RT_PRODUCT_N,
    RT_PRODUCT_M,
    RT_PRODUCT_DEPTH,
    RT_PRODUCT_ON,
    RT_PRODUCT_OM,
    RT_PRODUCT_AN,
    RT_PRODUCT_AK,
    RT_PRODUCT_BM,
    RT_PRODUCT_BK,
    RT_PRODUCT_CN,
    RT_PRODUCT_CM,
    RT_PRODUCT_NDIM,
    RT_PRODUCT_WORDS
} rt_product;

/* CONVOLVE (file/convolve.inc): the numbers of cv_convolution in their order.  SPREAD and WEIGH
 * have the same words: the first writes the image X of the result and the weight, the other
 * writes the weight W of both (file/spread.inc, weigh.inc). */
enum { RT_CONVOLUTION_NUMBERS = 24 };
typedef enum {
    RT_CONVOLVE_DTYPE,
    RT_CONVOLVE_OUT,
    RT_CONVOLVE_X,
    RT_CONVOLVE_W,
    RT_CONVOLVE_BIAS,
    RT_CONVOLVE_SCRATCH,
    RT_CONVOLVE_NUMBERS,
    RT_CONVOLVE_WORDS = RT_CONVOLVE_NUMBERS + RT_CONVOLUTION_NUMBERS
} rt_convolve;

/* KERNEL: calls of a program for rows and columns at each index of outer dims.  Then the outer
 * sizes; what an index adds to the number of the first row; for each operand RT_OPERAND words
 * and its outer steps; constants; instructions of RT_INSTRUCTION_WORDS words. */
typedef enum {
    RT_KERNEL_ROWS,
    RT_KERNEL_COLUMNS,
    RT_KERNEL_OUTER,
    RT_KERNEL_OPERANDS,
    RT_KERNEL_RESULTS, /* the first operands */
    RT_KERNEL_CONSTANTS,
    RT_KERNEL_INSTRUCTIONS,
    RT_KERNEL_REGISTERS,
    RT_KERNEL_MEMORY, /* registers, then max(rows, columns) elements of 8 bytes */
    RT_KERNEL_WORDS
} rt_kernel_word;
enum { RT_MOST_OUTER = 8, RT_MOST_OPERANDS = 32 };
typedef enum {
    RT_OPERAND_AT,
    RT_OPERAND_DTYPE,
    RT_OPERAND_ROW,
    RT_OPERAND_COLUMN,
    RT_OPERAND_WORDS
} rt_operand;

/* An instruction: two words of 16-bit parts, the lowest first. */
enum { RT_INSTRUCTION_WORDS = 2 };
#define RT_PART(word, k) ((int)((uint64_t)(word) >> 16 * (k)&0xffff))
#define RT_PARTS(a, b, c, d)                                                                   \
    (int64_t)((uint64_t)(a) | (uint64_t)(b) << 16 | (uint64_t)(c) << 32 | (uint64_t)(d) << 48)
/* Word 0: operation, dtype, result, first argument.  Word 1: second and third argument, number,
 * 0.  Operations that are not in ops.def: */
typedef enum {
    RT_LOAD = 128, /* result = operand `number` */
    RT_STORE,      /* operand `number` = first argument */
    RT_CONSTANT,   /* result = constant `number` */
    RT_INDEX,      /* result = the row (number 0) or column (1) */
    RT_SELECT,     /* first argument ? second : third */
    RT_CAST,       /* from dtype `number` to dtype */
    RT_SPLAT,      /* all lanes of result = lane 0 of the argument */
    RT_FOR,    /* the next `number` instructions for each index of an axis: 0 rows, 1 columns
                  (result); lane by lane, or as many lanes as a register has (argument 1) */
    RT_PUT,    /* elements for a fold = first argument, at the index of axis (argument 2) */
    RT_FOLD,   /* result = the fold of the elements put: number 0 sum, 1 product; argument:
                  axis 0 or 1; second argument: 0 in the order of rows, 1 of columns */
    RT_REDUCE, /* lane 0 of result = operation `number` of itself and the argument's lanes;
                  second argument: a register that it may change */
    RT_BEYOND, /* lane 0 of result = itself, or the first lane of the argument that no other
                  is beyond; second argument: its index along the axis (third argument);
                  number 0 above, 1 below */
    RT_SCAN    /* each lane of result = the fold of the argument's lanes up to it, and of all
                  before: number 0 sum, 1 product, 2 logarithm of the sum of exponentials, 3
                  above, 4 below; second argument: a register for what the scan keeps, whose
                  first lane is 0 at the start; third argument, of above and below: the number
                  of the lane that is the extreme */
} rt_special;
enum { RT_MOST_NESTED = 3 };
enum { RT_SCAN_ADD, RT_SCAN_MUL, RT_SCAN_LOG, RT_SCAN_ABOVE, RT_SCAN_BELOW, RT_SCANS };
/* Lanes of a register that keeps what a scan needs. */
enum { RT_SCAN_LANES = 32 };

/* Bytes of scratch memory of a product: a panel of file/matrix.inc. */
enum { RT_PRODUCT_SCRATCH_BYTES = 24576 };

/* Elements along a dim of a copied image: whole planes of compile/file/convolve.inc. */
static inline int64_t rt_along_planes(int64_t size, int64_t padding, int64_t stride)
{
    int64_t n = size + 2 * padding;

    return stride < n ? (n + stride - 1) / stride * stride : n;
}

/* The same of a convolution of elements of `item` bytes: a panel, steps of a window, a padded
 * image of a group, and two panels of 12 places. */
static inline int64_t rt_convolution_scratch(int item, const int64_t *number)
{
    int64_t depth = number[0] * number[4] * number[5],
            image = number[8] || number[9]
                        ? number[0] * rt_along_planes(number[2], number[8], number[6]) *
                              rt_along_planes(number[3], number[9], number[7])
                        : 0;

    return RT_PRODUCT_SCRATCH_BYTES + 8 * depth + (image + 24 * depth) * item;
}

/* From so many channels of a group on, gradients of convolutions have channels as columns of
 * products: panels of up to RT_COLUMNS (CV_MANY_CHANNELS and CV_WIDTH in file/matrix.inc). */
enum { RT_MANY_CHANNELS = 8, RT_COLUMNS = 32 };

/* Elements of the weights of a group, and of an image without padding. */
static inline int64_t rt_turned_spread(const int64_t *number)
{
    return ((number[0] + RT_COLUMNS - 1) / RT_COLUMNS * number[1] * number[4] * number[5] +
            number[2] * number[3]) *
           RT_COLUMNS;
}

/* Elements of a panel of the weight, and of a padded image. */
static inline int64_t rt_turned_weigh(const int64_t *number)
{
    return (number[1] * number[4] * number[5] +
            (number[2] + 2 * number[8]) * (number[3] + 2 * number[9])) *
           RT_COLUMNS;
}

/* The same of a transposed convolution: a panel, and 64 places of each element of a window. */
static inline int64_t rt_spread_scratch(int item, const int64_t *number)
{
    return number[0] < RT_MANY_CHANNELS
               ? RT_PRODUCT_SCRATCH_BYTES + 64 * number[0] * number[4] * number[5] * item
               : rt_turned_spread(number) * item;
}

/* The same of a weight's gradient. */
static inline int64_t rt_weigh_scratch(int item, const int64_t *number)
{
    return number[0] < RT_MANY_CHANNELS ? rt_convolution_scratch(item, number)
                                        : rt_turned_weigh(number) * item;
}

static inline int64_t rt_sum(const int64_t *word, int64_t n)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    int64_t i;

    for (i = 0; i < n; i++)
        sum = (sum ^ (uint64_t)word[i]) * UINT64_C(0x100000001b3) + (sum >> 29);
    return (int64_t)sum;
}

#endif
