/* Refinements of shapes, and steps of operands through them, against enumeration. */
#include "base/test.h"
#include "space/space.h"

TEST(shapes_of_one_space_have_a_common_refinement)
{
    cr_refined r = {.ndim = 0};

    CHECK(cr_refine(&r, 2, (int64_t[]){6, 4}));
    CHECK(cr_refine(&r, 3, (int64_t[]){1, 3, 8}));
    EQ(r.ndim, 3);
    EQ(r.size[0], 3);
    EQ(r.size[1], 2);
    EQ(r.size[2], 4);
    EQ(cr_refined_cut(&r, 8), 2);
}

TEST(shapes_that_cut_across_each_other_are_refused_and_the_refinement_is_untouched)
{
    cr_refined r = {2, {2, 3}};

    CHECK(!cr_refine(&r, 2, (int64_t[]){3, 2}));
    EQ(r.ndim, 2);
    EQ(r.size[0], 2);
    EQ(r.size[1], 3);
}

TEST(a_shape_without_elements_is_one_dim_of_none)
{
    cr_refined r = {.ndim = 0};

    CHECK(cr_refine(&r, 3, (int64_t[]){4, 0, 2}));
    EQ(r.ndim, 1);
    EQ(r.size[0], 0);
}

TEST(more_dims_than_a_refinement_has_are_refused)
{
    int64_t size[CR_REFINED_DIMS + 1];
    cr_refined r = {.ndim = 0};

    for (int d = 0; d <= CR_REFINED_DIMS; d++)
        size[d] = 2;
    CHECK(!cr_refine(&r, CR_REFINED_DIMS + 1, size));
    CHECK(cr_refine(&r, CR_REFINED_DIMS, size));
}

/* The offset of element `i` of an operand that is broadcast to `size`. */
static int64_t element_offset(int ndim, const int64_t *size, int own, const int64_t *own_size,
                              const int64_t *stride, int64_t i)
{
    int64_t at = 0;

    for (int d = ndim - 1; d >= 0; i /= size[d--]) {
        int k = d - (ndim - own);
        at += k < 0 || own_size[k] == 1 ? 0 : i % size[d] * stride[k];
    }
    return at;
}

static void check_steps(int own, const int64_t *own_size, const int64_t *stride)
{
    const cr_refined r = {4, {2, 3, 2, 4}};
    const int64_t size[] = {6, 8};
    int64_t step[CR_REFINED_DIMS];

    cr_refined_steps(step, &r, r.ndim, 2, size, own, own_size, stride);
    for (int64_t i = 0; i < 48; i++) {
        int64_t at = 0, rest = i;
        for (int d = r.ndim - 1; d >= 0; rest /= r.size[d--])
            at += rest % r.size[d] * step[d];
        EQ(at, element_offset(2, size, own, own_size, stride, i));
    }
}

TEST(an_operand_of_any_shape_has_one_step_for_each_dim)
{
    check_steps(2, (int64_t[]){6, 8}, (int64_t[]){8, 1});
    check_steps(2, (int64_t[]){6, 8}, (int64_t[]){1, 6});
    check_steps(2, (int64_t[]){6, 1}, (int64_t[]){5, 77});
    check_steps(2, (int64_t[]){1, 8}, (int64_t[]){77, 3});
    check_steps(1, (int64_t[]){8}, (int64_t[]){2});
    check_steps(0, NULL, NULL);
}

TEST(an_operand_without_strides_is_row_major)
{
    const cr_refined r = {2, {3, 4}};
    int64_t step[CR_REFINED_DIMS];

    cr_refined_steps(step, &r, 2, 2, (int64_t[]){3, 4}, 2, (int64_t[]){3, 4}, NULL);
    EQ(step[0], 4);
    EQ(step[1], 1);
    cr_refined_steps(step, &r, 1, 1, (int64_t[]){3}, 1, (int64_t[]){3}, NULL);
    EQ(step[0], 1);
}

TEST(values_for_each_row_and_for_each_column_are_distinguished)
{
    CHECK(cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, 2, (int64_t[]){5, 1}));
    CHECK(!cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, 1, (int64_t[]){5}));
    CHECK(!cr_is_one_a_row(2, (int64_t[]){5, 0}, 5, 2, (int64_t[]){5, 1}));
}

/* Elements of two shapes of one operand, in row-major order. */
static void check_strides(int ndim, const int64_t *size, int own, const int64_t *own_size,
                          const int64_t *own_stride)
{
    int64_t stride[CR_REFINED_DIMS], n = 1;

    for (int d = 0; d < ndim; d++)
        n *= size[d];
    CHECK(cr_strides_for_sizes(stride, ndim, size, own, own_size, own_stride));
    for (int64_t i = 0; i < n; i++)
        EQ(cr_broadcast_offset(ndim, size, stride, ndim, size, i),
           cr_broadcast_offset(own, own_size, own_stride, own, own_size, i));
}

TEST(other_sizes_have_strides_where_no_dim_crosses_a_gap)
{
    int64_t stride[2];

    check_strides(1, (int64_t[]){24}, 2, (int64_t[]){4, 6}, (int64_t[]){6, 1});
    check_strides(3, (int64_t[]){2, 2, 6}, 2, (int64_t[]){4, 6}, (int64_t[]){9, 1});
    check_strides(4, (int64_t[]){4, 1, 3, 2}, 2, (int64_t[]){4, 6}, (int64_t[]){1, 4});
    check_strides(2, (int64_t[]){1, 1}, 0, NULL, NULL);
    check_strides(2, (int64_t[]){2, 12}, 3, (int64_t[]){2, 3, 4}, (int64_t[]){0, 4, 1});
    CHECK(!cr_strides_for_sizes(stride, 1, (int64_t[]){24}, 2, (int64_t[]){4, 6},
                                (int64_t[]){9, 1}));
    CHECK(!cr_strides_for_sizes(stride, 2, (int64_t[]){8, 3}, 2, (int64_t[]){4, 6},
                                (int64_t[]){9, 1}));
}

TEST(elements_of_several_dims_have_one_distance_or_not)
{
    int64_t step = 7;

    CHECK(cr_one_step(&step, 2, (int64_t[]){1, 1}, (int64_t[]){3, 5}));
    EQ(step, 7);
    CHECK(cr_one_step(&step, 3, (int64_t[]){2, 1, 3}, (int64_t[]){6, 99, 2}));
    EQ(step, 2);
    CHECK(!cr_one_step(&step, 2, (int64_t[]){2, 3}, (int64_t[]){7, 2}));
    EQ(step, 2);
}
