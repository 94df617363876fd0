/* onnx.h - graphs as files of ONNX (https://onnx.ai).
 *
 * How an entry is written in ONNX stands in its clause `onnx`.  Without the clause it follows
 * from the entry: a pointwise expression, a reduction or a fused row becomes the functions of
 * its loop program (loop/build.h); views follow from the promises `reshape`, `permute`,
 * `expand`, `join`, `split`; other compositions are written as the calls that they make.
 *
 * Sizes that vary: the graph is made concrete for several sizes (`sample`), and the same nodes
 * result each time.  A number of a node that is not the same each time is a size of a value, or
 * the simplest expression over sizes that gives all of them, and is computed when the file
 * runs. */
#ifndef CR_ONNX_ONNX_H
#define CR_ONNX_ONNX_H

#include "graph/graph.h"

/* Input k of the graph. */
typedef struct {
    const char *name;
    cr_tensor *values;      /* NULL: an argument; else a weight, contiguous on the host */
    const char *const *dim; /* of each dim, its name in the file, or NULL for a fixed size */
} cr_onnx_input;

typedef struct {
    int opset;              /* CR_ONNX_LEAST to CR_ONNX_MOST */
    bool weights;           /* the file has the elements of weights; else they are arguments */
    bool weights_as_inputs; /* weights are also inputs, which callers may replace */
    const char *external;   /* the name of a second file that has large weights, or NULL */
    const char *producer, *version;
    const char *const *output; /* names of the results */
} cr_onnx_how;
enum { CR_ONNX_LEAST = 18, CR_ONNX_MOST = 21 };

/* A tensor whose bytes are in the second file. */
typedef struct {
    const cr_tensor *values;
    int64_t offset;
} cr_onnx_place;
typedef CR_VEC(cr_onnx_place) cr_onnx_places;

/* Appends the bytes of the file.  sample[i]: values of all of g's numbers, those of the example
 * first; none if g has no symbols.  Memory is that of the session.  Bails with
 * CR_NOT_IMPLEMENTED where an operator has no form in ONNX: "aten::name (file.py:12): why"; the
 * source of nodes is "aten::name\tfile.py:12". */
void cr_onnx_file(cr_session *s, cr_text *out, cr_onnx_places *places, const cr_graph *g,
                  const cr_scalar *const *sample, int samples, const cr_onnx_input *input,
                  const cr_onnx_how *how);

#endif
