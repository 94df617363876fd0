/* cresset_aot.h - compiled models that were exported, run from C without Python and without the
 * rest of the library.
 *
 *     cr_aot *m;
 *     cr_aot_value in = {.data = x, .dtype = "float32", .ndim = 2, .size = (int64_t[]){8, 16}};
 *     void *out[] = {y};
 *
 *     if (cr_aot_load(&m, "model.pt2", 2) || cr_aot_run(m, &in, 1, out, 1))
 *         puts(cr_error_message());
 *     cr_aot_free(m);
 *
 * A file is one that torch._inductor.aoti_compile_and_package() of the Python package has
 * written.  Link with -lcresset_aot (or -lcresset).
 *
 * Functions that can fail return 0, or else the kind of the failure; cr_error_message() has its
 * text.  All functions may be called from several threads; calls of cr_aot_run for one
 * model wait for each other. */
#ifndef CRESSET_AOT_H
#define CRESSET_AOT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CR_AOT_API __attribute__((visibility("default")))

typedef struct cr_aot cr_aot;

/* The text of the calling thread's last failure, borrowed until its next one. */
CR_AOT_API const char *cr_error_message(void);

/* Loads a model: the file is checked as a whole, the weights are mapped and not copied.
 * threads: how many share a call; 0: as many as there are processors.  The caller owns *out.
 * The file must stay as it is until cr_aot_free.  Fails if the file is missing, damaged,
 * or compiled for instructions that this processor lacks. */
CR_AOT_API int cr_aot_load(cr_aot **out, const char *path, int threads);
CR_AOT_API void cr_aot_free(cr_aot *m);

/* An input or output: its name; its dtype ("float32", "int64", "bool", ...) and the bytes of an
 * element; sizes.  Dim d has between least[d] and most[d] elements; most[d] is INT64_MAX if
 * there is no limit.  Borrowed from the model. */
typedef struct {
    const char *name, *dtype;
    int item_bytes, ndim;
    const int64_t *least, *most;
} cr_aot_array;

CR_AOT_API int cr_aot_inputs(const cr_aot *m);
CR_AOT_API int cr_aot_outputs(const cr_aot *m);
/* Input or output k; NULL if there is none. */
CR_AOT_API const cr_aot_array *cr_aot_input(const cr_aot *m, int k);
CR_AOT_API const cr_aot_array *cr_aot_output(const cr_aot *m, int k);

/* Elements in row-major order. */
typedef struct {
    void *data;
    const char *dtype;
    int ndim;
    const int64_t *size;
} cr_aot_value;

/* The sizes of output k for these inputs, whose data may be NULL.  size: room for the output's
 * dims. */
CR_AOT_API int cr_aot_output_size(const cr_aot *m, const cr_aot_value *in, int inputs, int k,
                                  int64_t *size);

/* Runs the model.  out[k]: memory for output k, in row-major order, apart from all other
 * arrays. Fails, before anything is computed, if inputs have other dtypes or sizes than the
 * model takes, or an array that has elements has no memory (NULL). Buffers that the model
 * writes keep their values for the next call. */
CR_AOT_API int cr_aot_run(cr_aot *m, const cr_aot_value *in, int inputs, void *const *out,
                          int outputs);

#ifdef __cplusplus
}
#endif
#endif
