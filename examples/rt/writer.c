/* Writes text, character by character: writer WRITER.rt START [COUNT]
 *
 * The program takes a character and its position; keys and values of earlier ones are
 * states. */
#include <cresset_rt.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHARACTERS = 128, MOST_ARRAYS = 64 };

int main(int argc, char **argv)
{
    size_t n = 0;
    const void *file = argc > 2 ? cr_rt_map(argv[1], &n) : NULL;
    int64_t character = 0, position = 0, count = argc > 3 ? atoll(argv[3]) : 200;
    float score[CHARACTERS];
    void *array[MOST_ARRAYS] = {&character, &position}, *work = NULL;
    const char *start = argc > 2 ? argv[2] : "";
    cr_rt model;

    if (!file || cr_rt_open(&model, file, n) || cr_rt_count(&model) > MOST_ARRAYS ||
        posix_memalign(&work, 16, cr_rt_work_bytes(&model)))
        return 1;
    for (int k = 2; k < cr_rt_count(&model); k++)
        if (cr_rt_at(&model, k).kind == CR_RT_RESULT)
            array[k] = score;
        else if (posix_memalign(&array[k], 16, cr_rt_at(&model, k).bytes))
            return 1;
    if (cr_rt_start(&model, array))
        return 1;
    for (; position < count; position++) {
        int best = 0;

        character = *start ? *start++ : character;
        putchar((int)character);
        if (cr_rt_run(&model, array, work))
            break; /* the cache is full */
        for (int k = 1; k < CHARACTERS; k++)
            best = score[k] > score[best] ? k : best;
        character = best;
    }
    puts("");
    return 0;
}
