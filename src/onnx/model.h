/* model.h - nodes and initializers of an ONNX file, and its bytes.  For files of onnx/ only. */
#ifndef CR_ONNX_MODEL_H
#define CR_ONNX_MODEL_H

#include "base/map.h"
#include "onnx/onnx.h"

/* A value of the file; `name` is NULL for an input that is left out. */
typedef struct {
    const char *name;
    cr_dtype dtype;
} ox_value;

typedef enum {
    OX_INT = 2,
    OX_FLOAT = 1,
    OX_TEXT = 3,
    OX_TENSOR = 4,
    OX_FLOATS = 6,
    OX_INTS = 7
} ox_kind;

typedef struct {
    const char *name;
    ox_kind kind;   /* the number that files have for it */
    int64_t i;      /* OX_INT */
    double d;       /* OX_FLOAT; of OX_TENSOR of floats: its only element, of others i */
    cr_dtype dtype; /* OX_TENSOR */
    const char *text;
    size_t len;
    const int64_t *ints;
    const double *floats;
} ox_attr;

enum { OX_RESULTS = 8 };
typedef struct {
    const char *op, *source;
    int inputs, outputs, attrs;
    const char **input;
    const char *output[OX_RESULTS];
    ox_attr *attr;
} ox_node;

typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    const int64_t *size;
    const void *bytes;
    const cr_tensor *values; /* of weights: the tensor of `bytes` */
} ox_weight;

typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    const int64_t *size;
    const char *const *dim; /* of each dim NULL, its name, or "" for an unknown size */
} ox_port;

/* Equal nodes and equal constants are made once.
 * Invariant: every name of a node, weight or port is taken once, and is a key of `known`. */
typedef struct {
    cr_session *s;
    const cr_onnx_how *how;
    CR_VEC(ox_node *) nodes;
    CR_VEC(ox_weight) weights;
    struct {
        size_t len, cap;
        ox_port *at;
    } inputs, outputs;
    cr_map known; /* keys of nodes and constants, and names that are taken */
    unsigned names;
    const char *source; /* of the nodes that are made now */
} ox_model;

/* The number that files have for a dtype; 0: none. */
int ox_dtype(cr_dtype t);
/* Takes a name that no other value has. */
void ox_take_name(ox_model *m, const char *name);
/* Result `out` of a node. */
ox_value ox_call(ox_model *m, const char *op, const ox_value *in, int inputs,
                 const ox_attr *attr, int attrs, int out, cr_dtype dtype);
ox_value ox_constant(ox_model *m, cr_dtype t, int ndim, const int64_t *size, const void *bytes);
ox_value ox_number(ox_model *m, cr_dtype t, cr_scalar value);
ox_value ox_ints(ox_model *m, const int64_t *value, size_t n);
ox_value ox_cast(ox_model *m, ox_value v, cr_dtype t);
ox_value ox_op2(ox_model *m, const char *op, ox_value a, ox_value b);
/* Makes the value a result of the file. */
void ox_put_output(ox_model *m, const char *name, ox_value v);
void ox_print(ox_model *m, cr_text *out, cr_onnx_places *places);

#endif
