/* Both tiers and the interpreter agree: random programs, all sizes, threads, ranges. */
#include "base/isa.h"
#include "base/parallel.h"
#include "base/test.h"
#include "jit/fused.h"
#include "jit/generated.h"
#include "jit/oracle.h"
#include "loop/interp.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char cache[64];

static void use_cache(void)
{
    snprintf(cache, sizeof cache, "/tmp/cr_fused_test.%ld", (long)getpid());
    setenv("CR_CACHE", cache, 1);
}

static void remove_cache(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", cache);
    EQ(system(command), 0);
}

static cr_loop *parse(cr_session *s, void *context) { return cr_loop_parse(s, context); }

enum { MOST = 16 };

/* Memory for every operand of a program over R x C. */
typedef struct {
    cr_fused *f;
    const char *text;
    cr_buffer *operand[MOST];
    int operands;
    int64_t rows, columns, bytes[MOST], stride[2 * MOST];
    char *memory[MOST], *copy[MOST];
    char param[MOST * CR_PARAM_BYTES];
} setting;

static const float specials[] = {0.0f,      -0.0f,    INFINITY, -INFINITY, NAN,
                                 0x1p-149f, 0x1p127f, 1.0f,     -1.0f,     3.5f};

static float number(uint64_t *seed, bool special)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t r = (uint32_t)(*seed >> 33);
    if (special && r % 11 == 0)
        return specials[r / 11 % CR_LEN(specials)];
    return ((float)(r & 0xffff) - 32768) / 4096;
}

static void lay_out(setting *x, int64_t rows, int64_t columns, bool special)
{
    uint64_t seed = (uint64_t)(rows * 1000 + columns);
    const cr_nest *n = cr_fused_nest(x->f);

    x->rows = rows;
    x->columns = columns;
    x->operands = cr_loop_operands(n->loop, x->operand, MOST);
    for (int k = 0; k < x->operands; k++) {
        const cr_buffer *b = x->operand[k];
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)b->dtype);
        bool by_column = b->ndim == 2 || b->size[0] == n->column.extent;
        bool by_row = b->ndim == 2 || !by_column;
        int64_t count = (by_row ? rows : 1) * (by_column ? columns : 1);
        x->stride[2 * k] = by_row ? (by_column ? columns : 1) * item : 0;
        x->stride[2 * k + 1] = by_column ? item : 0;
        x->bytes[k] = count * item;
        x->memory[k] = calloc(1, (size_t)x->bytes[k] + 64);
        x->copy[k] = calloc(1, (size_t)x->bytes[k] + 64);
        for (int64_t i = 0; i < count; i++)
            cr_scalar_store(cr_scalar_float((double)number(&seed, special)), (cr_dtype)b->dtype,
                            x->memory[k] + i * item);
    }
    for (size_t i = 0; i < n->loop->params.len; i++) {
        const cr_loop_param *p = n->loop->params.at[i];
        cr_scalar_store(cr_scalar_float(0.75 + (double)p->slot), (cr_dtype)p->dtype,
                        x->param + p->slot * CR_PARAM_BYTES);
    }
}

static void tidy(setting *x)
{
    for (int k = 0; k < x->operands; k++) {
        free(x->memory[k]);
        free(x->copy[k]);
    }
}

/* Compares bits; all NaNs are equal. */
static bool same_bits(cr_dtype t, const char *a, const char *b, int64_t bytes)
{
    int64_t item = (int64_t)cr_dtype_size(t = cr_dtype_real(t));

    for (int64_t i = 0; i < bytes; i += item) {
        if (!memcmp(a + i, b + i, (size_t)item))
            continue;
        if (!cr_dtype_is_float(t) || !isnan(cr_scalar_as_double(cr_scalar_load(t, a + i))) ||
            !isnan(cr_scalar_as_double(cr_scalar_load(t, b + i))))
            return false;
    }
    return true;
}

static bool outputs_same(const setting *x)
{
    for (int k = 0; k < x->operands && x->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        if (!same_bits((cr_dtype)x->operand[k]->dtype, x->memory[k], x->copy[k], x->bytes[k]))
            return false;
    return true;
}

static void save_and_clear(setting *x)
{
    for (int k = 0; k < x->operands && x->operand[k]->role == CR_BUFFER_OUTPUT; k++) {
        memcpy(x->copy[k], x->memory[k], (size_t)x->bytes[k]);
        memset(x->memory[k], 0xA5, (size_t)x->bytes[k]);
    }
}

static void run(setting *x, cr_tier tier)
{
    OK(cr_fused_run_by(x->f, tier, (void *const *)x->memory, x->stride, x->rows, x->columns,
                       x->param));
}

/* Runs the text by the interpreter into the outputs. */
static void interpret(cr_session *s, void *context)
{
    setting *x = context;
    cr_loop *l = cr_loop_parse(s, x->text);
    cr_loop_size sizes[2] = {{cr_sym_find(l->syms, "R"), x->rows},
                             {cr_sym_find(l->syms, "C"), x->columns}};

    cr_loop_interpret(l, &(cr_loop_run){.sizes = sizes,
                                        .size_count = 2,
                                        .operand = (void *const *)x->memory,
                                        .param = x->param,
                                        .eval = cr_fn_one});
}

static void tiers_agree(setting *x, int64_t rows, int64_t columns, bool special)
{
    lay_out(x, rows, columns, special);
    run(x, CR_TIER_TILES);
    save_and_clear(x);
    run(x, CR_TIER_NATIVE);
    cr_test_compared();
    if (!outputs_same(x))
        cr_test_failed(__FILE__, __LINE__, "tiers differ for %lld x %lld of\n%s",
                       (long long)rows, (long long)columns, x->text);
    tidy(x);
}

static void interpreter_agrees(setting *x, int64_t rows, int64_t columns)
{
    cr_session s = {.status = CR_OK};

    lay_out(x, rows, columns, true);
    run(x, CR_TIER_NATIVE);
    save_and_clear(x);
    OK(cr_session_run(&s, interpret, x));
    cr_test_compared();
    if (!outputs_same(x))
        cr_test_failed(__FILE__, __LINE__, "the interpreter differs for %lld x %lld of\n%s",
                       (long long)rows, (long long)columns, x->text);
    cr_session_drop(&s);
    tidy(x);
}

static void check_program(const char *text)
{
    static const int64_t sizes[][2] = {{1, 1},   {3, 5},     {7, 16},   {33, 31},  {2, 1025},
                                       {5, 300}, {1, 20000}, {2, 8192}, {2, 8193}, {300, 4}};
    setting x = {.text = text};
    cr_status st = cr_fused_new(&x.f, parse, (void *)text);

    if (st) {
        cr_test_failed(__FILE__, __LINE__, "%s for\n%s", cr_error_message(), text);
        return;
    }
    EQ(cr_jit_wait(cr_fused_kernel(x.f), 120), CR_JIT_READY);
    for (size_t i = 0; i < CR_LEN(sizes); i++)
        for (int special = 0; special < 2; special++)
            tiers_agree(&x, sizes[i][0], sizes[i][1], special);
    for (size_t i = 0; i < 5; i++)
        interpreter_agrees(&x, sizes[i][0], sizes[i][1]);
    cr_fused_drop(x.f);
}

TEST(tiers_and_the_interpreter_give_equal_bits)
{
    static const char *const texts[] = {
        "y[i<R, j<C] = x[i, j] * s + b[j]\n",
        "y[i<R, j<C] = where(x[i, j] > 0, exp(x[i, j]), tanh(x[i, j]) * 2)\n",
        "m[i<R] = maximum[j<C](x[i, j])\ne[i<R, j<C] = exp(x[i, j] - m[i])\n"
        "t[i<R] = add[j<C](e[i, j])\ny[i<R, j<C] = e[i, j] / t[i]\n",
        "m[i<R] = add[j<C](x[i, j]) / f32(#C)\n"
        "v[i<R] = add[j<C](square(x[i, j] - m[i])) / f32(#C)\nr[i<R] = rsqrt(v[i] + eps)\n"
        "mean[i<R] = m[i]\ny[i<R, j<C] = (x[i, j] - m[i]) * r[i] * w[j] + b[j]\n",
        "m[i<R] = minimum[j<C](x[i, j] * x[i, j])\na[i<R] = m[i] + 1\n"
        "o[i<R] = add[j<C](where(x[i, j] < 0, 1, 0)) * a[i]\n",
        "input x: f32[R, C]\nparam seed: i64 @0\nparam offset: i64 @1\n"
        "y[i<R, j<C] = where(random(seed, offset, i64(#i*C + j)) < 0.5, x[i, j], 0)\n",
        "input d: f64[R, C]\ninput k: i64[R, C]\n"
        "y[i<R, j<C] = where(d[i, j] > 0, x[i, j], f32(k[i, j]) * 2)\n"
        "z[i<R, j<C] = exp(d[i, j]) + f64(x[i, j] * 2)\n",
        "input d: f64[R, C]\nt[i<R] = add[j<C](d[i, j])\nn[i<R] = add[j<C](i64(x[i, j] > 0))\n"
        "y[i<R, j<C] = f32(f64(x[i, j]) / (t[i] + f64(n[i])))\n",
        "any[i<R] = or[j<C](x[i, j] > 7)\nevery[i<R] = and[j<C](x[i, j] < 7)\n",
    };

    use_cache();
    for (size_t i = 0; i < CR_LEN(texts); i++)
        check_program(texts[i]);
    remove_cache();
}

/* --- schedules --- */

/* The outputs start `shift` bytes after an aligned address. */
static void run_schedule(setting *x, cr_schedule s, int shift)
{
    cr_fused_call call;
    void *ptr[MOST];
    int64_t size[3] = {x->rows, x->columns, 0};

    for (int k = 0; k < x->operands; k++) {
        bool out = x->operand[k]->role == CR_BUFFER_OUTPUT;
        ptr[k] = out ? x->memory[k] + (64 - ((uintptr_t)x->memory[k] & 63)) % 64 + shift
                     : x->memory[k];
    }
    OK(cr_fused_begin_schedule(&call, x->f, s));
    OK(cr_fused_part(&call, ptr, x->stride, size, x->param));
    for (int k = 0; k < x->operands && x->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        memmove(x->memory[k], ptr[k], (size_t)x->bytes[k]);
}

static void schedules_agree(setting *x, int64_t rows, int64_t columns)
{
    lay_out(x, rows, columns, true);
    for (int k = 0; k < x->operands && x->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        x->memory[k] = realloc(x->memory[k], (size_t)x->bytes[k] + 192);
    run(x, CR_TIER_TILES);
    for (int s = 0; s < CR_SCHEDULES; s++)
        for (int shift = 0; shift < 16 && cr_fused_has_schedule(x->f, (cr_schedule)s);
             shift += 8) {
            save_and_clear(x);
            run_schedule(x, (cr_schedule)s, shift);
            cr_test_compared();
            if (!outputs_same(x))
                cr_test_failed(__FILE__, __LINE__, "%s differs for %lld x %lld of\n%s",
                               cr_schedule_names[s], (long long)rows, (long long)columns,
                               x->text);
        }
    tidy(x);
}

/* The number of schedules whose code differs from that of PLAIN. */
static int check_schedules(const char *text)
{
    setting x = {.text = text};
    int n = 0;

    OK(cr_fused_new(&x.f, parse, (void *)text));
    OK(cr_fused_add_schedules(x.f));
    for (int s = 0; s < CR_SCHEDULES; s++)
        OK(cr_fused_ask(x.f, (cr_schedule)s, CR_JIT_SPARE));
    EQ(cr_jit_wait_all(120), 0);
    for (int s = 0; s < CR_SCHEDULES; s++) {
        bool has = cr_fused_has_schedule(x.f, (cr_schedule)s);
        n += has;
        EQ(cr_fused_state(x.f, (cr_schedule)s), has ? CR_JIT_READY : CR_JIT_WAITING);
    }
    schedules_agree(&x, 1, 20000);
    schedules_agree(&x, 7, 16);
    schedules_agree(&x, 33, 333);
    cr_fused_drop(x.f);
    return n;
}

TEST(schedules_change_no_bit)
{
    use_cache();
    EQ(check_schedules("y[i<R, j<C] = x[i, j] * s + b[j]\nz[i<R, j<C] = x[i, j] - b[j]\n"), 4);
    EQ(check_schedules("y[i<R, j<C] = exp(x[i, j]) + tanh(x[i, j]) * 2\n"),
       3); /* costly, so PLAIN is narrow already */
    EQ(check_schedules("m[i<R] = maximum[j<C](x[i, j])\ne[i<R, j<C] = exp(x[i, j] - m[i])\n"
                       "t[i<R] = add[j<C](e[i, j])\ny[i<R, j<C] = e[i, j] / t[i]\n"),
       4);
    EQ(check_schedules("y[i<R, j<C] = x[i, j] > b[j]\n"), 4);
    remove_cache();
}

TEST(programs_equal_the_interpreter_in_bits)
{
    static const char *const texts[] = {
        "y[i<R, j<C] = (x[i, j] + z[i, j]) * (x[i, j] - b[j]) / (s + z[i, j])\n",
        ("m[i<R] = maximum[j<C](x[i, j])\nt[i<R] = add[j<C](x[i, j] - m[i])\n"
         "y[i<R, j<C] = sqrt(abs(x[i, j])) * t[i] + m[i]\n"),
        "p[i<R] = mul[j<C](x[i, j])\nq[i<R] = minimum[j<C](x[i, j])\n",
        "y[i<R, j<C] = fma(x[i, j], z[i, j], maximum(x[i, j], b[j]))\n",
        "y[i<R, j<C] = floor(x[i, j]) + round(z[i, j]) - copysign(1, x[i, j])\n",
    };

    use_cache();
    for (size_t i = 0; i < CR_LEN(texts); i++)
        check_program(texts[i]);
    remove_cache();
}

/* Programs with scans have no tiles. */
static void check_scan(const char *text)
{
    static const int64_t sizes[][2] = {{1, 1},   {3, 5},    {16, 17},  {2, 256},
                                       {3, 257}, {1, 1300}, {1300, 1}, {273, 140}};
    setting x = {.text = text};
    cr_status st = cr_fused_new(&x.f, parse, (void *)text);

    if (st) {
        cr_test_failed(__FILE__, __LINE__, "%s for\n%s", cr_error_message(), text);
        return;
    }
    CHECK(!cr_fused_has_tiles(x.f));
    EQ(cr_jit_wait(cr_fused_kernel(x.f), 120), CR_JIT_READY);
    for (size_t i = 0; i < CR_LEN(sizes); i++)
        interpreter_agrees(&x, sizes[i][0], sizes[i][1]);
    cr_fused_drop(x.f);
}

TEST(scans_equal_the_interpreter_in_bits)
{
    static const char *const texts[] = {
        "y[i<R, j<C] = scan add[j<C](x[i, j])\n",
        "y[i<R, j<C] = scan_back add[j<C](x[i, j])\n",
        "y[i<R, j<C] = scan add[i<R](x[i, j])\n",
        "y[i<R, j<C] = scan_back add[i<R](x[i, j])\n",
        "input x: f64[R, C]\ny[i<R, j<C] = scan mul[j<C](x[i, j])\n"
        "z[i<R, j<C] = scan add[j<C](x[i, j])\n",
        "input x: f64[R, C]\ny[i<R, j<C] = scan mul[i<R](x[i, j])\n",
        "input x: i64[R, C]\ny[i<R, j<C] = scan mul[j<C](x[i, j])\n"
        "z[i<R, j<C] = scan add[j<C](x[i, j] + y[i, j])\n",
        "input x: i64[R, C]\ny[i<R, j<C] = scan mul[i<R](x[i, j])\n",
        "input x: c64[R, C]\ny[i<R, j<C] = scan add[j<C](x[i, j])\n"
        "z[i<R, j<C] = scan mul[j<C](x[i, j])\n",
        "input x: c64[R, C]\ny[i<R, j<C] = scan_back mul[i<R](x[i, j])\n",
        "input x: c128[R, C]\ny[i<R, j<C] = scan mul[j<C](x[i, j])\n",
        "v[i<R, j<C] = scan above[j<C](x[i, j])\n"
        "k[i<R, j<C] = index(scan above[j<C](x[i, j]))\n",
        "v[i<R, j<C] = scan_back below[i<R](x[i, j])\n"
        "k[i<R, j<C] = index(scan_back below[i<R](x[i, j]))\n",
        "input x: u8[R, C]\nv[i<R, j<C] = scan below[i<R](x[i, j])\n"
        "k[i<R, j<C] = index(scan below[i<R](x[i, j]))\n",
        "input x: f64[R, C]\nv[i<R, j<C] = scan_back above[j<C](x[i, j])\n"
        "k[i<R, j<C] = index(scan_back above[j<C](x[i, j]))\n",
        "input x: i32[R, C]\nk[i<R, j<C] = index(scan above[i<R](x[i, j]))\n",
        "v[i<R, j<C] = scan above[i<R](x[i, j] > 0)\n"
        "k[i<R, j<C] = index(scan above[i<R](x[i, j] > 0))\n",
        /* beside pointwise values, reductions of earlier sweeps and other scans */
        "a[i<R, j<C] = scan add[j<C](exp(x[i, j] * s))\n"
        "y[i<R, j<C] = scan mul[j<C](a[i, j] + z[i, j]) - x[i, j] * b[j]\n"
        "t[i<R, j<C] = a[i, j]\n",
        "m[i<R] = add[j<C](x[i, j])\nv[i<R] = m[i] * 2\n"
        "y[i<R, j<C] = scan_back add[j<C](exp(x[i, j] - m[i])) / (x[i, j] + 9)\n"
        "z[i<R, j<C] = x[i, j] * m[i]\n",
        "y[i<R, j<C] = scan add[i<R](scan mul[i<R](x[i, j] * z[i, j]) + b[j])\n",
        "k[i<R, j<C] = index(scan above[j<C](x[i, j] * z[i, j])) * 2\n"
        "y[i<R, j<C] = scan above[j<C](x[i, j] * z[i, j]) + scan add[j<C](z[i, j])\n",
    };

    use_cache();
    for (size_t i = 0; i < CR_LEN(texts); i++)
        check_scan(texts[i]);
    remove_cache();
}

/* --- random programs --- */

static uint64_t dice = 12345;

static int roll(int n)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice >> 33) % (unsigned)n);
}

/* A random expression over earlier definitions: full arrays a0.., rows r0.. */
static void random_expr(cr_text *out, int depth, int full, int rows)
{
    static const char *const pair[] = {"add", "sub", "mul", "maximum", "minimum"};
    static const char *const one[] = {"neg", "abs", "square", "sqrt", "floor"};

    switch (depth ? roll(9) : roll(4)) {
    case 0: cr_text_put(out, "x[i, j]"); return;
    case 1:
        cr_text_put(out, full ? "" : "b[j]");
        if (full)
            cr_text_printf(out, "a%d[i, j]", roll(full));
        return;
    case 2:
        cr_text_put(out, rows ? "" : "z[i, j]");
        if (rows)
            cr_text_printf(out, "r%d[i]", roll(rows));
        return;
    case 3: cr_text_printf(out, "f32(%d)", roll(7) - 3); return;
    case 4:
    case 5:
    case 6:
        cr_text_printf(out, "%s(", pair[roll(5)]);
        random_expr(out, depth - 1, full, rows);
        cr_text_put(out, ", ");
        random_expr(out, depth - 1, full, rows);
        break;
    case 7:
        cr_text_printf(out, "%s(", one[roll(5)]);
        random_expr(out, depth - 1, full, rows);
        break;
    default:
        cr_text_put(out, "where(x[i, j] < ");
        random_expr(out, 0, full, rows);
        cr_text_put(out, ", ");
        random_expr(out, depth - 1, full, rows);
        cr_text_put(out, ", ");
        random_expr(out, depth - 1, full, rows);
        break;
    }
    cr_text_char(out, ')');
}

static void random_program(cr_text *out)
{
    static const char *const folds[] = {"add", "maximum", "minimum"};
    int full = 0, rows = 0;

    cr_text_put(out, "input x: f32[R, C]\ninput z: f32[R, C]\ninput b: f32[C]\n");
    for (int i = 0, n = 2 + roll(5); i < n; i++) {
        if (roll(3)) {
            cr_text_printf(out, "a%d[i<R, j<C] = ", full);
            random_expr(out, 3, full, rows);
            full++;
        } else {
            cr_text_printf(out, "r%d[i<R] = %s[j<C](", rows, folds[roll(3)]);
            random_expr(out, 2, full, rows);
            cr_text_put(out, ")");
            rows++;
        }
        cr_text_put(out, "\n");
    }
    cr_text_put(out, "y[i<R, j<C] = x[i, j] + ");
    random_expr(out, 2, full, rows);
    cr_text_put(out, "\n");
}

TEST(random_programs_equal_the_interpreter_in_bits)
{
    use_cache();
    for (int i = 0; i < 12; i++) {
        cr_text text = {0};
        random_program(&text);
        check_program(cr_text_str(&text));
        cr_text_drop(&text);
    }
    remove_cache();
}

/* An output that is changed after the kernel ran is found. */
TEST(the_oracle_finds_a_wrong_element)
{
    float x[12], y[12], m[3];
    void *ptr[3] = {m, y, x};
    int64_t stride[6] = {4, 0, 16, 4, 16, 4};
    const char *text = "m[i<R] = add[j<C](x[i, j])\nn[i<R] = m[i] * 2\n"
                       "y[i<R, j<C] = exp(x[i, j] - m[i])\n";
    cr_fused *f = NULL;

    for (int i = 0; i < 12; i++)
        x[i] = (float)i * 0.125f;
    use_cache();
    setenv("CR_ORACLE", "1", 1);
    OK(cr_fused_new(&f, parse, (void *)text));
    OK(cr_fused_run(f, ptr, stride, 3, 4, NULL));
    unsetenv("CR_ORACLE");
    OK(cr_oracle_check(text, ptr, stride, 3, 4, NULL));
    y[7] = nextafterf(y[7], 1);
    FAILS(CR_RUNTIME, cr_oracle_check(text, ptr, stride, 3, 4, NULL));
    CHECK(strstr(cr_error_message(), "element 7 of 'y'") != NULL);
    cr_fused_drop(f);
    remove_cache();
}

TEST(threads_and_ranges_change_no_bit)
{
    setting x = {.text = "m[i<R] = add[j<C](exp(x[i, j]))\ny[i<R, j<C] = x[i, j] / m[i]\n"};
    int before = cr_threads();

    use_cache();
    OK(cr_fused_new(&x.f, parse, (void *)x.text));
    cr_jit_wait(cr_fused_kernel(x.f), 120);
    lay_out(&x, 500, 200, false);
    OK(cr_set_threads(1));
    run(&x, CR_TIER_NATIVE);
    for (int threads = 1; threads <= 3; threads++)
        for (int tier = CR_TIER_TILES; tier <= CR_TIER_NATIVE; tier++) {
            save_and_clear(&x);
            OK(cr_set_threads(threads));
            run(&x, (cr_tier)tier);
            CHECK(outputs_same(&x));
        }
    OK(cr_set_threads(before));
    tidy(&x);
    cr_fused_drop(x.f);
    remove_cache();
}
