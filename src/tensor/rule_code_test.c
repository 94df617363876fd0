/* Rules as C (tools/opgen_rules.c) beside their evaluation, for random arguments. */
#include "base/test.h"
#include "tensor/decide.h"
#include "tensor/internal.h"
#include "tensor/tensor.h"

enum { CALLS = 300, LONGEST = 4 };

static uint64_t state;

static int drawn(int n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

/* Arguments of one call, and what they refer to. */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_MAX_ARGS];
    int64_t ints[CR_MAX_ARGS][LONGEST + 1];
} drawn_call;

static void draw_ints(int64_t *to, int n, int least, int most)
{
    for (int i = 0; i < n; i++)
        to[i] = least + drawn(most - least + 1);
}

/* Often of the first tensor's sizes and dtype, which most entries ask for. */
static cr_value draw_tensor(drawn_call *c, int i)
{
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_I64, CR_I32, CR_BOOL, CR_C64, CR_F16};
    cr_view *v = &c->view[i];

    *v = (cr_view){.size = c->ints[i], .stride = c->ints[i], .device = CR_META_DEVICE};
    v->ndim = (uint8_t)drawn(LONGEST + 1);
    v->dtype = (uint8_t)dtypes[drawn(CR_LEN(dtypes))];
    draw_ints(c->ints[i], v->ndim, drawn(8) ? 1 : 0, 3);
    if (i && c->arg[0].tag == CR_VIEW && drawn(2)) {
        v->dtype = c->view[0].dtype;
        if (drawn(2)) {
            v->ndim = c->view[0].ndim;
            memcpy(c->ints[i], c->ints[0], sizeof c->ints[i]);
        }
    }
    return (cr_value){.tag = CR_VIEW, .view = v};
}

static cr_value draw_text(void)
{
    static const char *const texts[] = {"none",  "mean", "L",  "left",
                                        "right", "gels", "ij", "?"};
    const char *s = texts[drawn(CR_LEN(texts))];

    return (cr_value){.tag = CR_STRING, .len = (uint32_t)strlen(s), .s = s};
}

static cr_value draw_value(drawn_call *c, const cr_param *p, int i)
{
    static const cr_dtype dtypes[] = {CR_F32, CR_I64, CR_BOOL, CR_C64};

    if (p->optional && !drawn(3))
        return cr_of_none();
    if (p->has_default && !drawn(3))
        return p->preset;
    switch ((cr_type)p->type) {
    case CR_T_TENSOR:
        return p->number && !drawn(3) ? cr_of_number(cr_scalar_int(drawn(4) - 1))
                                      : draw_tensor(c, i);
    case CR_T_SCALAR:
        return cr_of_number(drawn(2) ? cr_scalar_int(drawn(6) - 2)
                                     : cr_scalar_float(drawn(6) * 0.5 - 1));
    case CR_T_INT: return cr_of_int(drawn(8) - 3);
    case CR_T_FLOAT: return cr_of_float(drawn(6) * 0.5 - 1);
    case CR_T_BOOL: return cr_of_bool(drawn(2));
    case CR_T_STRING: return draw_text();
    case CR_T_DTYPE: return cr_of_dtype(dtypes[drawn(CR_LEN(dtypes))]);
    case CR_T_INTS:
        draw_ints(c->ints[i], LONGEST, -1, 4);
        return cr_of_ints(c->ints[i], (size_t)(p->fixed && drawn(2) ? p->fixed % (LONGEST + 1)
                                                                    : drawn(LONGEST + 1)));
    default: return p->has_default ? p->preset : cr_of_none();
    }
}

static void draw_call(drawn_call *c, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        c->arg[i] = draw_value(c, &op->param[i], i);
}

/* The first check that holds, by the trees alone. */
static cr_status evaluate_checks(const cr_op *op, cr_frame *f)
{
    for (int i = 0; i < op->check_count; i++) {
        cr_value v;
        CR_TRY(cr_frame_eval(f, op->checks[i].when, &v));
        if (v.i)
            return cr_raise_check(&op->checks[i], f);
    }
    return CR_OK;
}

/* How many calls the checks let through, and for how many of them the C decides that. */
typedef struct {
    int passed, decided;
} tally;

static void compare_sizes(const cr_op *op, const drawn_call *c, cr_frame *f)
{
    cr_shape compiled[CR_MAX_RESULTS], one;

    if (!op->sizes.compiled || !op->sizes.compiled(c->arg, compiled))
        return;
    for (int k = 0; k < op->result_count; k++) {
        OK(cr_rule_shape(&one, op->sizes.rule[op->sizes.rule[k] ? k : 0], f));
        EQ(compiled[k].ndim, one.ndim);
        CHECK(!memcmp(compiled[k].size, one.size, (size_t)one.ndim * sizeof *one.size));
    }
}

static void compare_call(const cr_op *op, tally *t)
{
    drawn_call c = {0};
    cr_frame f;
    bool passes;

    draw_call(&c, op);
    passes = !op->passes || op->passes(c.arg);
    cr_frame_init(&f, op, c.arg);
    cr_status st = evaluate_checks(op, &f);
    CHECK(!passes || !st);
    t->passed += !st;
    t->decided += !st && passes;
    if (!st)
        compare_sizes(op, &c, &f);
    cr_frame_drop(&f);
}

/* For random arguments lets may have no value; then the C has none either. */
static void compare_let(const cr_op *op, int i, int *decided)
{
    cr_value compiled, evaluated;
    cr_decisions log = {0};
    drawn_call c = {0};
    cr_frame f, g;

    draw_call(&c, op);
    cr_frame_init(&f, op, c.arg);
    cr_frame_init(&g, op, c.arg);
    if (op->let_code[i](&f, c.arg, &compiled)) {
        cr_decisions *was =
            cr_decisions_into(&log); /* trees alone, for lets that it names, too */
        OK(cr_frame_eval(&g, op->lets[i].rule, &evaluated));
        cr_decisions_into(was);
        EQ(compiled.tag, evaluated.tag);
        EQ(compiled.len, evaluated.tag >= CR_INTS ? evaluated.len : 0);
        if (evaluated.tag == CR_INTS)
            CHECK(!memcmp(compiled.ints, evaluated.ints, compiled.len * sizeof *compiled.ints));
        else
            CHECK(evaluated.tag == CR_NONE || compiled.i == evaluated.i);
        ++*decided;
    }
    cr_decisions_drop(&log);
    cr_frame_drop(&f);
    cr_frame_drop(&g);
}

TEST(lets_as_c_agree_with_their_evaluation)
{
    int lets = 0, seen = 0;

    OK(cr_tensor_start());
    for (int i = 0; i < cr_ops_table_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        for (int k = 0; op->let_code && k < op->let_count; k++) {
            int decided = 0;
            for (int n = 0; op->let_code[k] && n < CALLS; n++)
                compare_let(op, k, &decided);
            lets += op->let_code[k] != NULL;
            seen += decided > 0;
        }
    }
    CHECK(lets > 200);
    CHECK(seen > lets / 10 * 9);
}

/* An entry is silent only where no warning has a text. */
static void compare_warnings(const cr_op *op)
{
    drawn_call c = {0};

    draw_call(&c, op);
    for (int i = 0; op->silent && op->silent(c.arg) && i < op->warning_count; i++) {
        cr_text text = {0};
        OK(cr_op_print_warning(&text, op, i, c.arg));
        EQ(text.len, 0);
        cr_text_drop(&text);
    }
}

TEST(conditions_of_warnings_as_c_agree_with_their_evaluation)
{
    int entries = 0;

    OK(cr_tensor_start());
    for (int i = 0; i < cr_ops_table_count(); i++) {
        entries += cr_ops_at(i)->silent != NULL;
        for (int k = 0; cr_ops_at(i)->silent && k < CALLS; k++)
            compare_warnings(cr_ops_at(i));
    }
    CHECK(entries > 20);
}

TEST(rules_as_c_agree_with_their_evaluation)
{
    tally all = {0};
    int entries = 0;

    OK(cr_tensor_start());
    for (int i = 0; i < cr_ops_table_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        if (op->check_count ? !op->passes : !op->sizes.compiled)
            continue;
        entries++;
        for (int k = 0; k < CALLS; k++)
            compare_call(op, &all);
    }
    CHECK(entries > 100);
    CHECK(all.decided > all.passed / 10 * 9);
}
