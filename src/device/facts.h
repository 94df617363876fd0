/* facts.h - what the library knows of a kind of device, beside its table of operations.
 *
 * Code above this room asks for a fact and names no kind.  A kind without facts of its own has
 * those of a device outside the library. */
#ifndef CR_DEVICE_FACTS_H
#define CR_DEVICE_FACTS_H

#include "device/device.h"
#include "num/dtype.h"

/* What rooms above may ask of a kind of device.
 * Invariant: `ops` or `find` gives the table; facts are constant. A function that is NULL
 * has the meaning that its comment says. */
typedef struct {
    /* The table, or a function that finds it: NULL when there is no such device. */
    const cr_device_ops *ops;
    const cr_device_ops *(*find)(void);

    /* --- kernels --- */
    const char *dialect; /* of the texts that the device builds (emit.h) */
    bool reads_halves;   /* kernels of float32 read and write half types in memory */
    bool lacks_complex;  /* kernels call no functions of complex numbers */
    bool folds_parts;    /* a launch with few lines is slow: their parts are folded first */
    bool has_generators; /* random numbers are a function of a seed and an offset, for each
                            device */
    bool has_fallback;   /* an entry without a kernel is always computed on the host */
    /* Of errors of entries without a kernel: torch's name of the backend, or NULL, and what
     * else to say. */
    const char *backend, *fallback_advice;

    /* --- names and defaults of torch --- */
    const char *const *type_name; /* by dtype: "torch.FloatTensor" */
    cr_dtype low_precision;       /* of autocast */
    bool has_autocast_list;       /* clause autocast_cuda of an entry holds */

    /* --- errors; NULL for the common ones --- */
    cr_status (*no_memory)(int index, size_t size);
    cr_status (*missing)(void); /* there is no device of the kind */
    cr_status (*no_index)(void);

    /* Whether a program's copy from an address of the host is possible now; NULL: always. */
    cr_status (*copies_from)(int index, const void *host);

    /* Says that work of the thread's stream uses a block, which is reused after this work has
     * ended; NULL: work runs in the order in which it was given to the device. */
    cr_status (*note_use)(int index, uint32_t block);

    /* Host memory that the device copies faster; NULL when there is none. */
    void *(*pinned_get)(int index, size_t size);
    void (*pinned_release)(void *p);
} cr_device_facts;

#define CR_DEVICE_FACTS(NAME, name) extern const cr_device_facts cr_##name##_facts;
#include "device/facts.def"
#undef CR_DEVICE_FACTS

const cr_device_facts *cr_device_facts_of(cr_device_kind kind);
/* The table of the kind CR_LAZY; before, there is no such device. */
void cr_device_set_collector(const cr_device_ops *ops);
/* torch's name of the type of tensors there: "torch.cuda.FloatTensor". */
const char *cr_device_type_name(cr_device_kind kind, cr_dtype t);
/* The kind whose devices have pinned memory, and that this process has; CR_CPU for none. */
cr_device_kind cr_device_pinning(void);

/* Entries of the operator table that have kernels for the kind; set at start-up. */
typedef struct {
    const char *entry;
    cr_entry_kernel kernel;
    /* Sizes of the result that depend on elements; it may decline.  NULL: the size function
     * gets copies of the elements. */
    const char *(*sizes)(int index, const cr_given *arg, cr_shape *out);
} cr_device_entry;
/* In the place of a kernel: the host's function of the entry takes views of the device's
 * memory, too, where no argument is a number in the host's. */
const char *cr_device_runs_on_views(int index, const cr_given *arg, const cr_array *result);
/* "an index is out of range", of a command without a text. */
extern const char cr_index_outside[];
/* In the text of a command's error: the place of the index. */
#define CR_INDEX_MARK '\1'
/* The result of a command of the host if this index is out of range: cr_index_outside, or the
 * message of the error of the command's text, which is raised. */
const char *cr_index_error(const cr_indexed *c, int64_t index);
void cr_device_set_entries(cr_device_kind kind, const cr_device_entry *entry, int count);
const cr_device_entry *cr_device_entries(cr_device_kind kind, int *count);

#endif
