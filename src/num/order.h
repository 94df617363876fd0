/* order.h - order P: in which order the elements of a sum or a product meet.
 *
 * The order is the same on every device, at every vector width and number of threads.  It
 * holds for sums and products of floats and complex numbers, in the compute type (float32
 * for half types).  Integers, truth values, extremes and positions of extremes have no order:
 * NaN wins over any number, and a fold's extreme that is zero is +0.0.
 *
 * Rows.  A row is cut into blocks of CR_FOLD_ROW elements, a block into chunks of
 * CR_FOLD_CHUNK.  Element i of a chunk goes to lane i mod CR_FOLD_LANES, in ascending order.
 * The chunks of a block combine lane by lane, (c, c+4), (c, c+2), (c, c+1), then the lanes,
 * (l, l+32) ... (l, l+1), the lower number on the left.  The blocks' results are a row again.
 *
 * Columns.  A column is cut into blocks of CR_FOLD_BLOCK rows; row r of a block goes to
 * accumulator r mod CR_FOLD_ACCUMULATORS, and these combine (0+1)+(2+3).  Eight blocks
 * combine (b, b+4), (b, b+2), (b, b+1).  The results of CR_FOLD_COLUMN rows are a column again.
 *
 * Lanes and accumulators start at the identity, which for add is -0.0, because x + -0.0 is x
 * for every x.  Chunks and blocks without elements are left out.  The sum of nothing is +0.0.
 *
 * Scans.  A line is cut into blocks of CR_SCAN_BLOCK elements, a block into runs of
 * CR_SCAN_RUN.  A run is scanned in order, starting at its first element.  The totals of the
 * runs before it, folded in order from the start of its block, are appended to the totals of
 * the blocks before it, folded in order from the start of the line; every element of the run
 * is appended to that.  Scans of float32 and of complex numbers are kept in double.
 *
 * Combining writes.  The entries of one destination, in index order, are a column; its
 * result joins what the destination holds, which is the left operand.  Of extremes, -0 is
 * below +0. */
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
    CR_SCAN_RUN = 16,
    CR_SCAN_BLOCK = 256
};

#endif
