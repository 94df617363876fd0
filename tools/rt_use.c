/* Prints the header that limits a build of the runtime to what programs use: rt_use FILE...
 * (make rt OPS="FILE..."). */
#include "rt/rt.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Uses by the numbers of ops.def, and of other parts. */
typedef struct {
    bool operation[2][128]; /* of float32 and integers; of float64 */
    bool fold[2], product[2], convolve[2], spread[2], weigh[2], place, place_fold,
        place_combine, windows, scan;
} uses;

static void note_kernel(uses *u, const int64_t *c)
{
    int64_t outer = c[RT_KERNEL_OUTER],
            at = RT_KERNEL_WORDS + 2 * outer +
                 c[RT_KERNEL_OPERANDS] * (RT_OPERAND_WORDS + outer) + c[RT_KERNEL_CONSTANTS];

    for (int64_t i = 0; i < c[RT_KERNEL_INSTRUCTIONS]; i++, at += RT_INSTRUCTION_WORDS) {
        int operation = RT_PART(c[at], 0);
        bool wide = RT_PART(c[at], 1) == CR_RT_F64;
        if (operation == RT_REDUCE)
            operation = RT_PART(c[at + 1], 2);
        if (operation < 128)
            u->operation[wide][operation] = true;
        if (operation == RT_FOLD)
            u->fold[wide] = true;
        u->scan |= operation == RT_SCAN;
    }
}

static void note_place(uses *u, const int64_t *c)
{
    int64_t how = c[RT_PLACE_HOW], dtype = c[RT_PLACE_DTYPE];

    if ((how == RT_PLACE_ADD || how == RT_PLACE_MUL) &&
        (dtype == CR_RT_F32 || dtype == CR_RT_F64))
        u->place_fold = true;
    else if (how > RT_PLACE_SET)
        u->place_combine = true;
}

static void note_command(uses *u, const int64_t *c)
{
    bool wide = c[1] == CR_RT_F64; /* of products */

    switch ((rt_kind)(c[0] & 255)) {
    case RT_PRODUCT: u->product[wide] = true; break;
    case RT_CONVOLVE: u->convolve[wide] = true; break;
    case RT_SPREAD: u->spread[wide] = true; break;
    case RT_WEIGH: u->weigh[wide] = true; break;
    case RT_WINDOWS: u->windows = true; break;
    case RT_PLACE:
        u->place = true;
        note_place(u, c + 1);
        break;
    case RT_KERNEL: note_kernel(u, c + 1); break;
    default: break;
    }
}

static int note_file(uses *u, const char *path)
{
    size_t n = 0;
    const void *bytes = cr_rt_map(path, &n);
    cr_rt m;
    cr_rt_status status = bytes ? cr_rt_open(&m, bytes, n) : CR_RT_FORMAT;

    if (status) {
        fprintf(stderr, "rt_use: %s: %s\n", path, cr_rt_text(status));
        return 1;
    }
    for (int64_t at = m.word[RT_HEAD_COMMANDS]; at < m.word[RT_HEAD_DATA];
         at += m.word[at] >> 8)
        note_command(u, m.word + at);
    return 0;
}

static void print(const char *name, bool used) { printf("#define RT_USE_%s %d\n", name, used); }

static void print_operations(const uses *u)
{
#define RT_FLOAT(number, name, arguments, value)                                               \
    print("f32_" #name, u->operation[0][number]);                                              \
    print("f64_" #name, u->operation[1][number]);
#define RT_TEST(number, name, arguments, value) RT_FLOAT(number, name, arguments, value)
#define RT_INTEGER(number, name, arguments, value)                                             \
    print("integer_" #name, u->operation[0][number]);
#include "rt/ops.def"
}

int main(int argc, char **argv)
{
    uses u = {.place = false};

    for (int i = 1; i < argc; i++)
        if (note_file(&u, argv[i]))
            return 1;
    print_operations(&u);
    print("fold_f32", u.fold[0]);
    print("fold_f64", u.fold[1]);
    print("product_f32", u.product[0]);
    print("product_f64", u.product[1]);
    print("convolve_f32", u.convolve[0]);
    print("convolve_f64", u.convolve[1]);
    print("spread_f32", u.spread[0]);
    print("spread_f64", u.spread[1]);
    print("weigh_f32", u.weigh[0]);
    print("weigh_f64", u.weigh[1]);
    print("place", u.place);
    print("place_fold", u.place_fold);
    print("place_combine", u.place_combine);
    print("scan", u.scan);
    print("windows", u.windows);
    return 0;
}
