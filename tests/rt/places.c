/* Promises of elements at computed places, on programs that no exporter writes.  Prints what
 * does not hold. */
#include "rt/format.h"
#include <cresset_rt.h>
#include <stdio.h>
#include <string.h>

enum { PLACE = RT_PLACE_WORDS + 4, AT_SIZES = RT_HEAD_WORDS + RT_ARRAY_WORDS };

static int failures;
#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            failures++;                                                                        \
            puts(#what);                                                                       \
        }                                                                                      \
    } while (0)

/* A program that reads `n` elements of array 0, which has two, to the work memory. */
typedef struct {
    _Alignas(16) int64_t word[64];
    int64_t work[4], table[2];
    cr_rt m;
} program;

/* The first index is at byte 0 of the work memory, the first element goes to byte `to`. */
static cr_rt_status program_open(program *p, int64_t n, int64_t to, int64_t table,
                                 int64_t extent, int64_t unit)
{
    const int64_t array[RT_ARRAY_WORDS] = {CR_RT_INPUT, CR_RT_I64,    1,
                                           AT_SIZES,    AT_SIZES + 1, 0};
    const int64_t command[PLACE] = {[RT_PLACE_HOW] = RT_PLACE_READ,
                                    [RT_PLACE_DTYPE] = CR_RT_I64,
                                    [RT_PLACE_DENSE] = RT_ADDRESS(RT_WORK, to),
                                    [RT_PLACE_TABLE] = RT_ADDRESS(RT_ARRAY, table),
                                    [RT_PLACE_INDEX] = RT_ADDRESS(RT_WORK, 0),
                                    [RT_PLACE_UNIT] = unit,
                                    [RT_PLACE_EXTENT] = extent,
                                    [RT_PLACE_NDIM] = 1,
                                    [RT_PLACE_WORDS] = n,
                                    [RT_PLACE_WORDS + 1] = 8,
                                    [RT_PLACE_WORDS + 3] = 8};
    int64_t *w = p->word, at = AT_SIZES + 3, end = at + 1 + PLACE;

    memset(p, 0, sizeof *p);
    memcpy(w + RT_HEAD_WORDS, array, sizeof array);
    w[AT_SIZES] = 2;
    w[AT_SIZES + 1] = 't';
    w[at] = RT_COMMAND(RT_PLACE, 1 + PLACE);
    memcpy(w + at + 1, command, sizeof command);
    w[RT_HEAD_MAGIC] = RT_MAGIC;
    w[RT_HEAD_WORDS_ALL] = end;
    w[RT_HEAD_WORK] = w[RT_HEAD_VALUES] = sizeof p->work;
    w[RT_HEAD_LANES] = 1;
    w[RT_HEAD_ARRAYS] = 1;
    w[RT_HEAD_COMMANDS] = at;
    w[RT_HEAD_DATA] = end;
    w[RT_HEAD_SUM] = rt_sum(w + RT_HEAD_SUM + 1, w[RT_HEAD_WORDS_ALL] - RT_HEAD_SUM - 1);
    return cr_rt_open(&p->m, w, 8 * (size_t)w[RT_HEAD_WORDS_ALL]);
}

static cr_rt_status program_run(program *p)
{
    _Alignas(16) int64_t work[4];
    void *array[] = {p->table};

    memcpy(work, p->work, sizeof work);
    cr_rt_status status = cr_rt_run(&p->m, array, work);
    memcpy(p->work, work, sizeof work);
    return status;
}

static void an_index_that_the_program_overwrites_is_checked_again(void)
{
    program p;

    CHECK(program_open(&p, 2, 8, 0, 1, 8) == CR_RT_OK);
    p.table[0] = 5; /* becomes the second index */
    CHECK(program_run(&p) == CR_RT_INDEX);
}

static void a_table_may_be_read_backwards(void)
{
    program p;

    CHECK(program_open(&p, 2, 16, 8, 2, -8) == CR_RT_OK);
    p.work[1] = 1;
    p.table[0] = 7;
    p.table[1] = 9;
    CHECK(program_run(&p) == CR_RT_OK);
    CHECK(p.work[2] == 9 && p.work[3] == 7);
}

static void a_name_ends_before_the_commands(void)
{
    program p;

    CHECK(program_open(&p, 1, 8, 0, 1, 8) == CR_RT_OK);
    p.word[AT_SIZES + 1] = p.word[AT_SIZES + 2] = -1;
    p.word[RT_HEAD_SUM] =
        rt_sum(p.word + RT_HEAD_SUM + 1, p.word[RT_HEAD_WORDS_ALL] - RT_HEAD_SUM - 1);
    CHECK(cr_rt_open(&p.m, p.word, 8 * (size_t)p.word[RT_HEAD_WORDS_ALL]) == CR_RT_INVALID);
}

int main(void)
{
    an_index_that_the_program_overwrites_is_checked_again();
    a_table_may_be_read_backwards();
    a_name_ends_before_the_commands();
    return failures != 0;
}
