/* cresset_export.h - modules that a C program built, as one C file, as a file for the runtime,
 * or as an exported program of torch.
 *
 *     cr_exported *program;
 *
 *     if (cr_export(&program, net, &x, 1) || cr_export_to_c(program, "net.c", NULL) ||
 *         cr_export_to_rt(program, "net.rt") || cr_export_to_pt2(program, "net.pt2"))
 *         puts(cr_error_message());
 *     cr_exported_drop(program);
 *
 * The C file needs the C library's mathematics only; its head says what it declares and how it
 * is compiled.  The second file runs in the runtime (cresset_rt.h, `make rt`).
 * torch.export.load reads the third, in Python's package as in torch 2.13, and so does
 * cr_script_load (cresset_script.h).  All have the parameters, and sizes are those of the
 * example. */
#ifndef CRESSET_EXPORT_H
#define CRESSET_EXPORT_H

#ifndef CR_INSIDE
#include "cresset.h"
#endif
#include "cresset_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_exported cr_exported;

/* Records a call of a module with one result.  The module's parameters become constants;
 * buffers that the call writes become states, whose first values are those before the call, and
 * which the module has again afterwards.  The caller owns *out, which has copies of all
 * tensors. */
CR_API CR_MUST cr_status cr_export(cr_exported **out, cr_module *m, cr_tensor *const *inputs,
                                   size_t count);
CR_API void cr_exported_drop(cr_exported *e);

typedef struct {
    const char *name;  /* of the functions: NAME_run and NAME_work_bytes; NULL: "model" */
    bool weights_file; /* parameters are in PATH.weights, whose bytes the caller gives */
    bool threads;      /* NAME_run takes threads of its caller */
    cr_dtype dtype;    /* CR_F16 or CR_BF16: parameters of float32 are stored in it; 0: as
                          they are */
} cr_export_options;

/* Writes the program as one C99 file; arguments are in_0, in_1, ..., states state_NAME, and the
 * result is out0.  options may be NULL.  CR_VALUE where an operator has no form, CR_IO where
 * the file cannot be written. */
CR_API CR_MUST cr_status cr_export_to_c(const cr_exported *e, const char *path,
                                        const cr_export_options *options);
/* Writes the program as a file for the runtime, with the same names. */
CR_API CR_MUST cr_status cr_export_to_rt(const cr_exported *e, const char *path);
/* Writes the program as an archive of torch.export (schema 8.20): the calls of the graph, the
 * module's tensors by their paths, and the example.  Arguments are in_0, in_1, ...  Buffers
 * that the call writes are written by the program, too.  CR_VALUE where a call has arguments
 * that the format lacks, CR_IO where the file cannot be written. */
CR_API CR_MUST cr_status cr_export_to_pt2(const cr_exported *e, const char *path);

#ifdef __cplusplus
}
#endif
#endif
