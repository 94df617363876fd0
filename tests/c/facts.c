/* Compares the public header's types with the library's.
 *
 * The file is compiled twice: with -DINSIDE it includes the rooms' headers, without it the
 * installed header.  The program compares the two lists of sizes and fields. */
#ifdef INSIDE
#include "autograd/autograd.h"
#include "device/device.h"
#include "io/safetensors.h"
#include "script/value.h"
#include "tensor/arg.h"
#define FACTS cr_facts_inside
#else
#include <cresset.h>
#include <cresset_script.h>
#include <stdio.h>
#define FACTS cr_facts_outside
#endif

#define SIZE(type)                                                                             \
    {                                                                                          \
        "size of " #type, sizeof(type)                                                         \
    }
#define FIELD(type, field)                                                                     \
    {                                                                                          \
#type "." #field, offsetof(type, field)                                                \
    }
#define VALUE(constant)                                                                        \
    {                                                                                          \
#constant, (size_t)(constant)                                                          \
    }

typedef struct {
    const char *what;
    size_t value;
} fact;

extern const fact cr_facts_inside[], cr_facts_outside[];

const fact FACTS[] = {
    SIZE(cr_status),
    VALUE(CR_OK),
    VALUE(CR_RUNTIME),
    VALUE(CR_VALUE),
    VALUE(CR_PYTHON),
    VALUE(CR_KIND_COUNT),
    SIZE(cr_dtype),
    VALUE(CR_BOOL),
    VALUE(CR_F32),
    VALUE(CR_C128),
    VALUE(CR_DTYPE_COUNT),
    VALUE(CR_DTYPE_NONE),
    SIZE(cr_device_kind),
    VALUE(CR_CPU),
    VALUE(CR_META),
    VALUE(CR_CUDA),
    VALUE(CR_DEVICE_COUNT),
    SIZE(cr_ivalue),
    FIELD(cr_ivalue, kind),
    FIELD(cr_ivalue, i),
    FIELD(cr_ivalue, t),
    FIELD(cr_ivalue, object),
    VALUE(CR_IV_TENSOR),
    VALUE(CR_IV_STRING),
    VALUE(CR_IV_DICT),
    VALUE(CR_IV_KIND_COUNT),
    SIZE(cr_complex),
    FIELD(cr_complex, re),
    FIELD(cr_complex, im),
    SIZE(cr_category),
    VALUE(CR_CAT_BOOL),
    VALUE(CR_CAT_INT),
    VALUE(CR_CAT_FLOAT),
    VALUE(CR_CAT_COMPLEX),
    SIZE(cr_scalar),
    FIELD(cr_scalar, category),
    FIELD(cr_scalar, i),
    FIELD(cr_scalar, d),
    FIELD(cr_scalar, c),
    SIZE(cr_backward_call),
    FIELD(cr_backward_call, roots),
    FIELD(cr_backward_call, grads),
    FIELD(cr_backward_call, root_count),
    FIELD(cr_backward_call, inputs),
    FIELD(cr_backward_call, input_count),
    FIELD(cr_backward_call, accumulate_inputs),
    FIELD(cr_backward_call, retain_graph),
    FIELD(cr_backward_call, create_graph),
    FIELD(cr_backward_call, allow_unused),
    SIZE(cr_arg_kind),
    VALUE(CR_ARG_END),
    VALUE(CR_ARG_TENSOR),
    VALUE(CR_ARG_INTS),
    VALUE(CR_ARG_RESULT),
    SIZE(cr_arg),
    FIELD(cr_arg, name),
    FIELD(cr_arg, kind),
    FIELD(cr_arg, len),
    FIELD(cr_arg, t),
    FIELD(cr_arg, c),
    FIELD(cr_arg, result),
    SIZE(cr_memory_stats),
    FIELD(cr_memory_stats, used),
    FIELD(cr_memory_stats, cached),
    FIELD(cr_memory_stats, peak),
    SIZE(cr_safetensors_entry),
    FIELD(cr_safetensors_entry, name),
    FIELD(cr_safetensors_entry, dtype),
    FIELD(cr_safetensors_entry, ndim),
    FIELD(cr_safetensors_entry, size),
    FIELD(cr_safetensors_entry, begin),
    FIELD(cr_safetensors_entry, end),
    {NULL, 0},
};

#ifndef INSIDE
int main(void)
{
    int wrong = 0, n = 0;

    for (; cr_facts_outside[n].what; n++)
        if (cr_facts_inside[n].value != cr_facts_outside[n].value) {
            printf("%s is %zu inside and %zu outside\n", cr_facts_inside[n].what,
                   cr_facts_inside[n].value, cr_facts_outside[n].value);
            wrong++;
        }
    printf("cresset.h: %d facts agree, %d do not\n", n - wrong, wrong);
    return wrong != 0;
}
#endif
