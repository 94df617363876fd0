/* exported.h - exported programs (.pt2, schema 8 of torch.export) as modules of TorchScript.
 *
 * The graph becomes the source text of a class, which is compiled and runs like that of an
 * archive.  Parameters, buffers and constants are attributes with the names of the graph's
 * inputs; the tensors that the program takes are arguments of `forward`, which first compares
 * their dtypes and sizes with those of the program.  The results are a tensor, or a tuple of
 * them.
 *
 * The attribute `signature` is a text of lines:
 *
 *     input NAME DTYPE SIZE,SIZE...     a size is a number, or an expression of symbols
 *     output NAME DTYPE SIZE,SIZE...
 *     size NAME LEAST MOST HINT         a symbol, its bounds (MOST -1: none), and the example's
 *
 * A program without sizes has "-" in place of them. */
#ifndef CR_SCRIPT_EXPORTED_H
#define CR_SCRIPT_EXPORTED_H

#include "io/zip.h"
#include "script/unit.h"
#include "script/value.h"

/* The module of an archive's exported program; None where the source is another archive, or no
 * archive.  CR_RUNTIME where it is damaged, or the program has what modules lack. */
CR_MUST cr_status cr_sexported_read(cr_ivalue *out, cr_source *source);

#endif
