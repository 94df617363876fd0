/* Reads digits of 8x8 pixels: digits DIGITS.rt DIGITS.data
 *
 * The data are images of float32, each followed by its label.  The first ones are drawn. */
#include <cresset_rt.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 64, CLASSES = 10, DRAWN = 2 };

static void draw(const float *image, int guess)
{
    for (int i = 0; i < PIXELS; i++) {
        putchar(" .:*#"[(int)(image[i] * 4.99f)]);
        if (i % 8 == 7)
            puts(i == PIXELS - 1 ? "" : "|");
    }
    printf("is a %d\n\n", guess);
}

static int largest(const float *score)
{
    int best = 0;

    for (int k = 1; k < CLASSES; k++)
        best = score[k] > score[best] ? k : best;
    return best;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    const void *file = argc > 2 ? cr_rt_map(argv[1], &n) : NULL;
    FILE *data = argc > 2 ? fopen(argv[2], "rb") : NULL;
    float image[PIXELS + 1], score[CLASSES];
    void *array[] = {image, score}, *work = NULL;
    cr_rt model;
    int read = 0, right = 0;

    if (!file || !data || cr_rt_open(&model, file, n) || cr_rt_count(&model) != 2 ||
        cr_rt_at(&model, 0).bytes != PIXELS * sizeof(float) ||
        cr_rt_at(&model, 1).bytes != sizeof score ||
        posix_memalign(&work, 16, cr_rt_work_bytes(&model)))
        return 1;
    for (; fread(image, sizeof image, 1, data) == 1; read++) {
        if (cr_rt_run(&model, array, work))
            return 1;
        right += largest(score) == (int)image[PIXELS];
        if (read < DRAWN)
            draw(image, largest(score));
    }
    printf("%d of %d digits are right\n", right, read);
    return 0;
}
