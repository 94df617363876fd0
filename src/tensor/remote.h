/* remote.h - devices whose memory the host does not address.
 *
 * Operators run the same code for all devices: sizes, types and strides are computed on the
 * host, and addresses are only passed on.  Code that accesses bytes calls this file. */
#ifndef CR_TENSOR_REMOTE_H
#define CR_TENSOR_REMOTE_H

#include "device/facts.h"
#include "jit/fused.h"
#include "kern/launch.h"
#include "plan/plan.h"
#include "space/space.h"
#include "tensor/tensor.h"

static inline const cr_device_ops *cr_table_of(cr_device d)
{
    return cr_device_of((cr_device_kind)d.kind);
}

static inline const cr_device_facts *cr_kind_facts(cr_device d)
{
    return cr_device_facts_of((cr_device_kind)d.kind);
}

/* The status of a program's call of `op`.  Where an entry that the call led to has no code on a
 * device, the error names `op`, which the program knows. */
CR_MUST cr_status cr_refused_call(const cr_op *op, cr_status st);

/* --- kernels (place.c) --- */

/* A kernel for one device: a function of the library, or the device's own build of its C
 * text. */
typedef struct {
    cr_kernel fn; /* on the host */
    void *code;   /* on other devices */
    cr_device device;
    cr_host_cut cut; /* of calls on the host */
} cr_placed_kernel;

/* The kernel of a form for a dtype; "not implemented for" when there is none. */
CR_MUST cr_status cr_place_kernel(cr_placed_kernel *out, cr_device device, const cr_op *op,
                                  cr_dtype dtype, cr_form form);
/* True if kernels of the device read and write elements of dtype `memory` where their values
 * have dtype `value`: equal ones, and for many devices halves beside float32. */
bool cr_kernel_accepts(cr_device device, cr_dtype memory, cr_dtype value);
/* The tensor itself if the device's kernels accept it for values of dtype `want`; or else its
 * conversion.  The caller owns *out. */
CR_MUST cr_status cr_cast_for_kernel(cr_tensor **out, cr_tensor *t, cr_dtype want);
/* The dtypes of operands in memory, where they are not those of the kernel's values; else 0. */
typedef struct {
    uint8_t dtype[CR_EMIT_OPERANDS];
    bool any;
} cr_stored;
void cr_stored_note(cr_stored *s, int operand, cr_dtype memory, cr_dtype value);
CR_MUST cr_status cr_place_stored(cr_placed_kernel *out, cr_device device, const cr_op *op,
                                  cr_dtype dtype, cr_form form, const cr_stored *stored);
/* The kernel of a fused program for another device than the host. */
CR_MUST cr_status cr_place_fused(cr_placed_kernel *out, cr_device device, const cr_fused *f,
                                 const cr_stored *stored);
/* True when the device builds texts of scans. */
bool cr_has_scans(cr_device device);
/* Runs a kernel on another device than the host. */
CR_MUST cr_status cr_launch_kernel(const cr_placed_kernel *k, const cr_launch *how);
/* The same on any device, for all positions of the first `outer` dims of a space, whose steps
 * are bytes and whose operands are those of the kernel. */
CR_MUST cr_status cr_launch_space(const cr_placed_kernel *k, const cr_launch *how,
                                  const cr_space *s, int outer);
/* n launches on another device than the host, in any order: none reads or writes what another
 * one writes.  Sets their `code`. */
CR_MUST cr_status cr_launch_list(const cr_placed_kernel *k, cr_launch *l, int n);

/* --- memory and copies --- */

/* A block of a device's memory for the time of a call; `at` is NULL without bytes. */
typedef struct {
    cr_device device;
    char *at;
    uint32_t size_class;
} cr_block;
CR_MUST cr_status cr_block_get(cr_block *b, cr_device device, size_t size);
void cr_block_drop(cr_block *b);

/* Runs an elementwise entry, whose results are allocated (launch.c). */
CR_MUST cr_status cr_remote_body(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                                 cr_dtype compute, const cr_dtype *kernel_result);
/* The same on copies on the host. */
CR_MUST cr_status cr_remote_body_on_host(const cr_op *op, const cr_value *arg,
                                         cr_tensor *const *out);
/* cr_copy_elements when a view is not on the host, and cr_fill_elements on a device. */
CR_MUST cr_status cr_remote_copy(const cr_view *to, const cr_view *from);
CR_MUST cr_status cr_remote_fill(const cr_view *to, const void *element);
/* n copies within a device, whose arrays do not overlap, in any order. */
CR_MUST cr_status cr_remote_copy_list(cr_device device, const cr_array *to,
                                      const cr_array *from, int n);

/* --- entries written in C (library.c), and the host fallback --- */

/* Runs an entry by the kernel that is registered for the device.  *declines: NULL, or when
 * there is none, or when it does not take these arguments, cr_command_declines or CR_LACKS. */
CR_MUST cr_status cr_remote_kernel(const cr_op *op, const cr_value *arg, cr_view *out,
                                   cr_device device, const char **declines);
/* True if a kernel is registered. */
bool cr_remote_has_kernel(const cr_op *op, cr_device device);
/* The argument over which a registered kernel may write its result (word `inplace`), which has
 * its layout; -1: none. */
int cr_remote_over(const cr_op *op, cr_device device);
/* Calls this kernel for a result of the right type, which may be this argument.  The arguments
 * are those of a call that was checked. */
CR_MUST cr_status cr_remote_into(const cr_op *op, const cr_value *arg, const cr_tensor *out,
                                 bool *declined);
/* The same by the command LIBRARY. */
CR_MUST cr_status cr_remote_library(const cr_op *op, const cr_value *arg, const cr_view *out,
                                    cr_device device, bool *declined);
/* Runs an entry whose kernel is a C function on views by the host's function on copies of the
 * views, when the fallback is allowed.  Fails with CR_NOT_IMPLEMENTED in torch's words.
 * `declines` is that of cr_remote_kernel. */
CR_MUST cr_status cr_remote_extern(const cr_op *op, const cr_value *arg, cr_view *out,
                                   cr_device device, const char *declines);
/* Sizes by the function of a device's entry; *declined when there is none, or when it does not
 * take these arguments. */
CR_MUST cr_status cr_remote_sizes(const cr_op *op, const cr_value *arg, cr_shape *shape,
                                  cr_device device, bool *declined);
/* Computes sizes that depend on elements, for tensors on any device. */
CR_MUST cr_status cr_remote_shape(const cr_op *op, const cr_value *arg, cr_shape *shape,
                                  cr_device device);
/* The same as cr_remote_extern for a function on tensors that accesses their bytes (word
 * `host`). */
CR_MUST cr_status cr_remote_whole(const cr_op *op, const cr_value *arg, cr_value *result,
                                  cr_device device);

/* The call of an entry of the word `host_indices`, with its list of index tensors on self's
 * device.  CR_RUNTIME for an index on a third device. */
CR_MUST cr_status cr_remote_indices(const cr_op *op, const cr_value *arg, cr_value *result);

/* Completes the tables of the host and of the oracle (plan/plan.h); at start-up. */
void cr_library_install(void);
extern const cr_executor cr_host_executor;

/* Registers the kernels of entries that devices of the library have. */
CR_MUST cr_status cr_remote_install(void);
/* Registers a kernel for (entry, device kind).  CR_RUNTIME unless the entry's kernel is a C
 * function on views. */
CR_MUST cr_status cr_remote_register(const char *entry, cr_device_kind kind,
                                     cr_entry_kernel fn);
void cr_remote_allow_fallback(bool on);

#endif
