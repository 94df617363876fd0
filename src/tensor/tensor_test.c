/* Promises about storages and tensors. */
#include "base/test.h"
#include "tensor/geometry.h"
#include <string.h>

static cr_tensor *make(int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_new(&t, CR_F32, CR_HOST, ndim, size));
    return t;
}

TEST(a_new_tensor_is_row_major)
{
    cr_tensor *t = make(3, (int64_t[]){2, 0, 4});

    EQ(t->numel, 0);
    EQ(t->stride[0], 4);
    EQ(t->stride[1], 4);
    EQ(t->stride[2], 1);
    CHECK(t->contiguous);
    cr_drop(t);
    t = make(2, (int64_t[]){2, 3});
    EQ(t->storage->size, 24);
    EQ((uintptr_t)t->address % 64, 0);
    cr_drop(t);
}

TEST(many_dims_are_kept)
{
    int64_t size[9] = {1, 2, 1, 2, 1, 2, 1, 2, 3};
    cr_tensor *t = make(9, size);

    EQ(t->numel, 48);
    EQ(t->stride[1], 24);
    EQ(t->size[8], 3);
    cr_drop(t);
}

TEST(impossible_sizes_are_refused_and_out_is_untouched)
{
    cr_tensor *t = NULL;

    FAILS(CR_RUNTIME, cr_tensor_new(&t, CR_F32, CR_HOST, 2, (int64_t[]){2, -3}));
    EQ_STR(cr_error_message(), "Trying to create tensor with negative dimension -3: [2, -3]");
    FAILS(CR_RUNTIME, cr_tensor_new(&t, CR_F32, CR_HOST, 2, (int64_t[]){(int64_t)1 << 62, 4}));
    EQ_STR(cr_error_message(),
           "Storage size calculation overflowed with sizes=[4611686018427387904, 4]");
    FAILS(CR_RUNTIME, cr_tensor_new(&t, CR_F32, CR_HOST, 1, (int64_t[]){(int64_t)1 << 61}));
    FAILS(CR_RUNTIME,
          cr_tensor_new_strided(&t, CR_F32, CR_HOST, 2, (int64_t[]){2, 3}, (int64_t[]){-1, 1}));
    EQ_STR(cr_error_message(),
           "Storage size calculation overflowed with sizes=[2, 3] and strides=[-1, 1]");
    EQ(t, NULL);
}

TEST(a_failed_allocation_leaks_nothing)
{
    cr_memory_stats before, after;
    cr_tensor *t = NULL;
    int64_t size[7] = {2, 2, 2, 2, 2, 2, 1000};

    cr_cpu_memory_stats(&before);
    for (uint64_t n = 1; n <= 4; n++) {
        cr_fail_alloc_after(n);
        FAILS(CR_MEMORY, cr_tensor_new(&t, CR_F64, CR_HOST, 7, size));
    }
    cr_fail_alloc_after(0);
    cr_cpu_memory_stats(&after);
    EQ(after.used, before.used);
}

TEST(views_keep_the_storage)
{
    cr_tensor *t = make(2, (int64_t[]){3, 4}), *v = NULL;
    cr_geometry g = {.ndim = 1, .offset = 4, .size = {2}, .stride = {2}};

    ((float *)(void *)t->address)[6] = 5;
    OK(cr_tensor_view(&v, t, &g));
    cr_drop(t);
    EQ(((float *)(void *)v->address)[2], 5);
    CHECK(!v->contiguous);
    EQ(v->offset, 4);
    cr_drop(v);
}

static int releases;
static void count_release(void *owner)
{
    (void)owner;
    releases++;
}

TEST(foreign_bytes_are_released_once)
{
    static float bytes[4] = {1, 2, 3, 4};
    cr_storage *s = NULL;
    cr_tensor *t = NULL;
    int64_t size = 4, stride = 1;

    OK(cr_storage_foreign(&s, bytes, sizeof bytes, count_release, NULL));
    OK(cr_tensor_over(&t, s, CR_F32, 1, &size, &stride, 0));
    EQ(t->address, (char *)bytes);
    FAILS(CR_RUNTIME, cr_storage_resize(s, 1000));
    EQ_STR(cr_error_message(), "Trying to resize storage that is not resizable");
    cr_drop(t);
    EQ(releases, 1);
}

TEST(resizing_keeps_elements_and_old_views_stay_readable)
{
    cr_tensor *t = make(1, (int64_t[]){4}), *view = NULL;
    int64_t large = 5000, one = 1;

    for (int i = 0; i < 4; i++)
        ((float *)(void *)t->address)[i] = (float)i;
    OK(cr_tensor_alias(&view, t));
    OK(cr_tensor_resize(t, 1, &large, &one));
    EQ(t->numel, 5000);
    EQ(((float *)(void *)t->address)[3], 3);
    EQ(((float *)(void *)view->address)[3], 3);
    memset(t->address, 0, 5000 * 4);
    large = 2000000;
    OK(cr_tensor_resize(t, 1, &large, &one));
    EQ(((float *)(void *)t->address)[4999], 0);
    cr_drop(t);
    EQ(((float *)(void *)view->address)[3], 3);
    cr_drop(view);
}

TEST(an_alias_has_a_separate_version)
{
    cr_tensor *t = make(1, (int64_t[]){4});
    cr_storage *s = NULL;

    OK(cr_storage_alias(&s, t->storage));
    s->version = 7;
    EQ(t->storage->version, 0);
    EQ(s->chunk, t->storage->chunk);
    cr_drop(t);
    memset(s->chunk, 0, 16);
    cr_storage_drop(s);
}

TEST(an_alias_is_resized_with_the_storage_behind_it_and_tensors_keep_their_bytes)
{
    int64_t large = 81000, twice = 200000, one = 1;
    cr_tensor *t = make(1, &large), *view = NULL;
    cr_storage *s = NULL;
    cr_geometry whole = {.ndim = 1, .size = {large}, .stride = {1}};

    OK(cr_storage_alias(&s, t->storage));
    OK(cr_storage_resize(s, 4));
    EQ(s->size, 4);
    EQ(t->storage->size, 4);
    OK(cr_storage_resize(s, 2000));
    OK(cr_tensor_view(&view, t, &whole));
    memset(view->address, 1, (size_t)large * 4);
    memset(t->address, 1, (size_t)large * 4);
    OK(cr_storage_resize(s, (size_t)twice * 4));
    EQ(s->chunk, t->storage->chunk);
    memset(view->address, 2, (size_t)large * 4);
    OK(cr_tensor_resize(t, 1, &twice, &one));
    memset(t->address, 3, (size_t)twice * 4);
    EQ(s->chunk[twice * 4 - 1], 3);
    cr_drop(view);
    cr_drop(t);
    memset(s->chunk, 4, (size_t)twice * 4);
    cr_storage_drop(s);
}

TEST(a_part_of_a_storage_cannot_be_resized)
{
    cr_tensor *t = make(1, (int64_t[]){4});
    cr_storage *part = NULL;

    OK(cr_storage_part(&part, t->storage, 4, 8));
    EQ(part->chunk, t->address + 4);
    FAILS(CR_RUNTIME, cr_storage_resize(part, 4));
    EQ_STR(cr_error_message(), "Trying to resize storage that is not resizable");
    EQ(t->storage->size, 16);
    cr_drop(t);
    part->chunk[7] = 1;
    cr_storage_drop(part);
}

TEST(bytes_whose_address_was_given_out_stay)
{
    int64_t size = 5000, large = 1000000, one = 1;
    cr_tensor *t = make(1, &size);
    char *bytes = t->address;

    t->storage->exposed = true;
    OK(cr_tensor_resize(t, 1, &large, &one));
    memset(bytes, 1, (size_t)size * 4);
    CHECK(t->address != bytes);
    cr_drop(t);
}

TEST(calls_in_progress_keep_the_bytes_that_a_tensor_leaves)
{
    int64_t size = 5000, large = 1000000, one = 1;
    cr_tensor *t = make(1, &size), *other = make(1, &size);
    char *first = t->address, *second = other->address;

    cr_calls_apart++;
    OK(cr_tensor_resize(t, 1, &large, &one));
    memset(first, 1, (size_t)size * 4);
    OK(cr_tensor_set_from(other, t));
    memset(second, 1, (size_t)size * 4);
    EQ(other->storage, t->storage);
    cr_calls_apart--;
    cr_storages_drop_left();
    EQ(cr_calls_apart, 0);
    cr_drop(t);
    cr_drop(other);
}

TEST(geometry_can_be_replaced)
{
    cr_tensor *t = make(2, (int64_t[]){2, 6});
    cr_geometry g = {
        .ndim = 7, .offset = 1, .size = {1, 1, 1, 1, 1, 2, 2}, .stride = {1, 1, 1, 1, 1, 6, 2}};

    OK(cr_tensor_set_geometry(t, &g));
    EQ(t->ndim, 7);
    EQ(t->stride[5], 6);
    EQ(t->offset, 1);
    g = (cr_geometry){.ndim = 1, .offset = 0, .size = {2}, .stride = {6}};
    OK(cr_tensor_set_geometry(t, &g));
    EQ(t->ndim, 1);
    EQ(t->offset, 1);
    EQ(t->address - t->storage->chunk, 4);
    cr_drop(t);
}

TEST(density_and_formats)
{
    int64_t size[4] = {2, 3, 4, 5}, out[4];

    OK(cr_format_strides(CR_FORMAT_CHANNELS_LAST, 4, size, out));
    EQ(out[0], 60);
    EQ(out[1], 1);
    EQ(out[2], 15);
    EQ(out[3], 3);
    CHECK(cr_is_dense_view(4, size, out));
    CHECK(!cr_is_contiguous(4, size, out));
    CHECK(cr_has_format(CR_FORMAT_CHANNELS_LAST, 4, size, out));
    FAILS(CR_RUNTIME, cr_format_strides(CR_FORMAT_CHANNELS_LAST, 3, size, out));
    EQ_STR(cr_error_message(), "required rank 4 tensor to use channels_last format");
    cr_like_strides(2, (int64_t[]){4, 3}, (int64_t[]){0, 1}, out);
    EQ(out[0], 3);
    EQ(out[1], 1);
    cr_like_strides(3, (int64_t[]){4, 2, 3}, (int64_t[]){1, 24, 8}, out);
    EQ(out[0], 1);
    EQ(out[1], 12);
    EQ(out[2], 4);
}

TEST(overlap_is_seen)
{
    cr_tensor *t = make(1, (int64_t[]){10});
    cr_view all = cr_view_of(t), front = all, back = all;
    int64_t five = 5, zero = 0;

    front.size = back.size = &five;
    back.data = t->address + 5 * 4;
    EQ(cr_overlap_of(&front, &back), CR_APART);
    EQ(cr_overlap_of(&all, &all), CR_SAME);
    EQ(cr_overlap_of(&all, &front), CR_PARTLY);
    back.stride = &zero;
    EQ(cr_overlap_of(&all, &back), CR_UNSURE);
    back.size = &zero;
    EQ(cr_overlap_of(&all, &back), CR_APART);
    cr_drop(t);
}

TEST(single_elements)
{
    cr_tensor *t = NULL;
    cr_scalar s;

    OK(cr_tensor_scalar(&t, cr_scalar_float(2.5), CR_BF16, true));
    CHECK(t->number);
    OK(cr_tensor_item(&s, t));
    NEAR(s.d, 2.5, 0);
    EQ_STR(cr_tensor_type_name(t), "torch.BFloat16Tensor");
    cr_drop(t);
    t = make(1, (int64_t[]){12});
    FAILS(CR_RUNTIME, cr_tensor_item(&s, t));
    EQ_STR(cr_error_message(), "a Tensor with 12 elements cannot be converted to Scalar");
    cr_drop(t);
}

TEST(meta_tensors_have_sizes_only)
{
    cr_tensor *t = NULL;
    int64_t size = (int64_t)1 << 40;

    OK(cr_tensor_new(&t, CR_F32, CR_META_DEVICE, 1, &size));
    EQ(t->address, NULL);
    EQ(t->storage->size, (size_t)1 << 42);
    CHECK(t->stages & CR_STAGE_BIT(FAKE));
    cr_drop(t);
}
