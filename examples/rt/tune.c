/* Trains the last layer of a network on the user's data: tune TUNE.rt TUNE.data
 *
 * The data are batches: images of float32, then their labels of int64.  A call returns the loss
 * and the scores of a batch before its step of Adam; weights and moments are states. */
#include <cresset_rt.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ARRAYS = 32, CLASSES = 10 };

static int count_right(const float *score, const int64_t *label, int64_t n)
{
    int right = 0;

    for (int64_t i = 0; i < n; i++) {
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            best = score[i * CLASSES + k] > score[i * CLASSES + best] ? k : best;
        right += best == label[i];
    }
    return right;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    const void *file = argc > 2 ? cr_rt_map(argv[1], &n) : NULL;
    FILE *data = argc > 2 ? fopen(argv[2], "rb") : NULL;
    void *array[MOST_ARRAYS] = {NULL}, *work = NULL;
    cr_rt model;

    if (!file || !data || cr_rt_open(&model, file, n) || cr_rt_count(&model) > MOST_ARRAYS ||
        posix_memalign(&work, 16, cr_rt_work_bytes(&model)))
        return 1;
    for (int k = 0; k < cr_rt_count(&model); k++)
        if (posix_memalign(&array[k], 16, cr_rt_at(&model, k).bytes + 1))
            return 1;
    if (cr_rt_start(&model, array))
        return 1;
    int loss = cr_rt_find(&model, "out0"), score = cr_rt_find(&model, "out1");
    int64_t batch = cr_rt_at(&model, 1).size[0];
    for (int step = 1; fread(array[0], cr_rt_at(&model, 0).bytes, 1, data) == 1 &&
                       fread(array[1], cr_rt_at(&model, 1).bytes, 1, data) == 1;
         step++) {
        if (cr_rt_run(&model, array, work))
            return 1;
        if (step % 20 == 1)
            printf("step %3d  loss %.4f  %d of %d right\n", step, (double)*(float *)array[loss],
                   count_right(array[score], array[1], batch), (int)batch);
    }
    return 0;
}
