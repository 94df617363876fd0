/* Finds spoken words in samples of 8,000 Hz: keywords KEYWORDS.rt SOUND.data
 *
 * The sound is int16 samples.  A window of a second moves by a quarter of a second; a word is
 * printed with its time when two windows in a row have it. */
#include <cresset_rt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND = 8000, HOP = SECOND / 4, WORDS = 4 };

static const char *const words[WORDS] = {"", "yes", "no", "stop"};

static int find(const cr_rt *model, float *sound, void *work)
{
    float score[WORDS];
    void *array[] = {sound, score};
    int best = 0;

    if (cr_rt_run(model, array, work))
        exit(1);
    for (int k = 1; k < WORDS; k++)
        best = score[k] > score[best] ? k : best;
    return best;
}

int main(int argc, char **argv)
{
    static float sound[SECOND];
    size_t n = 0;
    const void *file = argc > 2 ? cr_rt_map(argv[1], &n) : NULL;
    FILE *data = argc > 2 ? fopen(argv[2], "rb") : NULL;
    int16_t part[HOP];
    void *work = NULL;
    cr_rt model;
    int last = 0, said = 0;

    if (!file || !data || cr_rt_open(&model, file, n) || cr_rt_count(&model) != 2 ||
        cr_rt_at(&model, 0).bytes != sizeof sound ||
        cr_rt_at(&model, 1).bytes != WORDS * sizeof(float) ||
        posix_memalign(&work, 16, cr_rt_work_bytes(&model)))
        return 1;
    for (int hop = 1; fread(part, sizeof part, 1, data) == 1; hop++) {
        memmove(sound, sound + HOP, (SECOND - HOP) * sizeof *sound);
        for (int i = 0; i < HOP; i++)
            sound[SECOND - HOP + i] = (float)part[i] / 32768;
        int word = find(&model, sound, work);
        if (word == last && word != said) {
            said = word;
            if (word)
                printf("%6.2f s: %s\n", (double)hop * HOP / SECOND - 1, words[word]);
        }
        last = word;
    }
    return 0;
}
