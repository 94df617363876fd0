/* order.h - order P: the order in which the elements of a sum or a product are combined.
 *
 * The order is the same on every device, at every vector width and number of threads.  It holds
 * for sums and products of floats and complex numbers, in the compute type (float32 for half
 * types).  Folds of integers and bools, extremes and indices of extremes do not depend on the
 * order: NaN wins over any number, and an extreme that is zero is +0.0.
 *
 * Rows.  A row is cut into blocks of CR_FOLD_ROW elements, a block into chunks of
 * CR_FOLD_CHUNK.  Element i of a chunk goes to lane i mod CR_FOLD_LANES, in ascending order.
 * The chunks of a block combine lane by lane, (c, c+4), (c, c+2), (c, c+1), then the lanes, (l,
 * l+32) ... (l, l+1), the lower number on the left.  The blocks' results form a row, which is
 * folded in the same way.
 *
 * Columns.  A column is cut into blocks of CR_FOLD_BLOCK rows; row r of a block goes to
 * accumulator r mod CR_FOLD_ACCUMULATORS, and these combine (0+1)+(2+3).  Eight blocks combine
 * (b, b+4), (b, b+2), (b, b+1).  The results of CR_FOLD_COLUMN rows each form a column, which
 * is folded in the same way.
 *
 * Lanes and accumulators start at the identity, which for add is -0.0, because x + -0.0 is x
 * for every x. Chunks and blocks without elements are skipped.  The sum of no elements is +0.0.
 *
 * Scans.  A line is cut into runs of CR_SCAN_RUN elements, and CR_SCAN_RUN runs form a run of
 * the next level, and so on.  A run's total is the fold, in order, of its elements or of the
 * totals of its runs.  Element i of the result folds what is before it, longest runs first: the
 * totals of the runs of each level that end before i and whose run of the next level has i, in
 * order, are folded to one value of the level, and these values are combined from the left; the
 * last value is the fold of the elements of i's own run up to i.  A block has CR_SCAN_BLOCK
 * elements, which are a run of the second level.  Running values of float32, half types and
 * complex numbers have double precision.
 *
 * Combining writes.  The values for one destination, in index order, are folded as a column;
 * the result is combined with the destination's value, which is the left operand.  For
 * extremes, -0 is below +0. */
#ifndef CR_NUM_ORDER_H
#define CR_NUM_ORDER_H

enum {
    CR_FOLD_LANES = 64,
    CR_FOLD_CHUNK = 1024,
    CR_FOLD_CHUNKS = 8,
    CR_FOLD_ROW = CR_FOLD_CHUNK * CR_FOLD_CHUNKS,
    CR_FOLD_ACCUMULATORS = 4,
    CR_FOLD_BLOCK = 64,
    CR_FOLD_BLOCKS = 8,
    CR_FOLD_COLUMN = CR_FOLD_BLOCK * CR_FOLD_BLOCKS,
    CR_SCAN_BITS = 4,
    CR_SCAN_RUN = 1 << CR_SCAN_BITS,
    CR_SCAN_BLOCK = CR_SCAN_RUN * CR_SCAN_RUN,
    CR_SCAN_LEVELS = 14 /* of runs of blocks, up to the longest line */
};

#endif
