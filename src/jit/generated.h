/* generated.h - the tables that opgen writes into the build folder's gen/.
 *
 * There is one row for each entry, compute type and form of a kernel, with a function for each
 * instruction set. */
#ifndef CR_JIT_GENERATED_H
#define CR_JIT_GENERATED_H

#include "base/isa.h"
#include "loop/fn.h"
#include "ops/ops.h"

typedef struct {
    uint16_t op; /* the entry's index */
    uint8_t dtype, form;
    cr_kernel fn[CR_ISA_COUNT];
} cr_kernel_entry;

extern const cr_kernel_entry cr_kernel_table[];
extern const int cr_kernel_table_count;

/* Single loop functions, the steps of tier 0 (loop/build.h, cr_loop_of_fn). */
typedef struct {
    uint8_t fn, dtype, form;
    cr_kernel k[CR_ISA_COUNT];
} cr_fn_kernel_entry;

extern const cr_fn_kernel_entry cr_fn_kernel_table[];
extern const int cr_fn_kernel_count;

/* The chosen instruction set's kernel of one function, or NULL. */
cr_kernel cr_fn_kernel(cr_fn fn, cr_dtype t, cr_form form);
/* The same kernel on one element.  The interpreter evaluates functions with it (cr_fn_eval). */
bool cr_fn_one(cr_fn fn, cr_dtype t, void *out, const void *const *in);

/* The operator table, read and resolved. */
extern const cr_ops_image cr_table_image;

/* Sets cr_entry (entry.h) and the functions that the records name.  A function that is not
 * linked is an error of the linker, which names the entry's line. */
void cr_generated_records(void);
/* Sets the rules of the records that are C. */
void cr_generated_rules(void);

/* Loads the embedded table and fills in every record's kernels and named functions.  Called
 * once, at start-up. */
CR_MUST cr_status cr_generated_install(void);

#endif
