/* What the library knows of NVIDIA devices. */
#include "device/facts.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"

static const char *const type_names[] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = "torch.cuda." legacy "Tensor",
#include "num/dtype.def"
#undef CR_DTYPE
};

static cr_status facts_no_memory(int index, size_t size)
{
    char text[1024];
    const char *error = cr_cuda_use(index);

    if (error)
        return cr_device_status(error);
    cr_cuda_describe_shortage(text, sizeof text, index, size);
    return cr_fail(CR_DEVICE_MEMORY, "%s", text);
}

static cr_status facts_no_index(void)
{
    return cr_device_status(cr_cuda_check(CR_CUDA_NO_SUCH_DEVICE));
}

/* A copy that is captured reads the host's memory whenever the graph runs. */
static cr_status facts_copies_from(int index, const void *host)
{
    if (!cr_cuda_is_capturing(index) || cr_cuda_is_pinned(host))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless "
                   "the CPU tensor is pinned. Please use tensor.pin_memory() or allocate the "
                   "tensor with pin_memory=True.");
}

static cr_status facts_note_use(int index, uint32_t block)
{
    return cr_device_status(cr_cuda_memory_record(block, cr_cuda_stream(index)));
}

const cr_device_facts cr_cuda_facts = {.find = cr_cuda_table,
                                       .dialect = "cuda",
                                       .reads_halves = true,
                                       .lacks_complex = true,
                                       .folds_parts = true,
                                       .has_generators = true,
                                       .backend = "CUDA",
                                       .fallback_advice =
                                           " torch.backends.cuda.enable_host_fallback(True), "
                                           "or CR_HOST_FALLBACK=1, lets the host compute it.",
                                       .type_name = type_names,
                                       .low_precision = CR_F16,
                                       .has_autocast_list = true,
                                       .no_memory = facts_no_memory,
                                       .missing = cr_cuda_driver_missing,
                                       .no_index = facts_no_index,
                                       .copies_from = facts_copies_from,
                                       .note_use = facts_note_use,
                                       .pinned_get = cr_cuda_pinned_get,
                                       .pinned_release = cr_cuda_pinned_release};
