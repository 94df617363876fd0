#include "base/test.h"
#include "io/pickle.h"
#include <stdlib.h>

static const cr_pickle_rules weights = {.weights_only = true}, full = {0};

#define READ(out, text, rules) cr_pickle_read(out, text, sizeof text - 1, rules)

/* One letter for each kind of step. */
static const char *kinds(const cr_pickle *p)
{
    static const char letter[] = "NFTIldGuSbBt[{sfgp=RnnOaiiAb";
    static char out[128];

    for (size_t i = 0; i < p->steps.len; i++)
        out[i] = letter[p->steps.at[i].kind];
    out[p->steps.len] = 0;
    return out;
}

static void reads(const char *text, size_t len, const cr_pickle_rules *rules, const char *steps)
{
    cr_pickle *p = NULL;

    OK(cr_pickle_read(&p, text, len, rules));
    if (p)
        EQ_STR(kinds(p), steps);
    cr_pickle_drop(p);
}
#define READS(text, rules, steps) reads(text, sizeof text - 1, rules, steps)

TEST(a_pickle_becomes_steps_in_its_order)
{
    READS("\x80\x02N.", &weights, "N");
    READS("\x80\x02](K\1K\2e.", &weights, "[IIa");
    READS("\x80\x02}q\0X\1\0\0\0aq\1h\0s.", &weights, "{ui");
    READS("\x80\x02K\1K\2\x86\x85.", &weights, "IItt");
    READS("\x80\x02"
          "ccollections\nOrderedDict\n)R}b.",
          &weights, "gtR{b");
    READS("\x80\x04\x95\5\0\0\0\0\0\0\0\x8c\1a\x94"
          "C\1b\x86\x94.",
          &full, "ubt");
    READS("(lp0\nI1\naI01\na.", &full, "[daTa");
}

TEST(values_are_referred_to_by_step_number)
{
    cr_pickle *p = NULL;

    OK(READ(&p, "\x80\x02M\1\2J\xfe\xff\xff\xffG?\xf8\0\0\0\0\0\0\x87.", &weights));
    EQ(p->protocol, 2);
    EQ(p->used, 21);
    const cr_step *tuple = &p->steps.at[p->result];
    EQ(tuple->count, 3);
    EQ(p->steps.at[cr_step_operands(p, tuple)[0]].i, 513);
    EQ(p->steps.at[cr_step_operands(p, tuple)[1]].i, -2);
    NEAR(p->steps.at[cr_step_operands(p, tuple)[2]].d, 1.5, 0);
    cr_pickle_drop(p);
}

#define STORAGE(key, numel)                                                                    \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" key "X\3\0\0\0cpuK" numel "tQ"

TEST(a_key_is_one_storage_unless_it_is_empty)
{
    cr_pickle *p = NULL;

    OK(READ(&p, "\x80\x02" STORAGE("0", "\4") STORAGE("0", "\4") STORAGE("1", "\2") "\x87.",
            &weights));
    EQ(p->storages.len, 2);
    EQ(p->storages.at[0].bytes, 16);
    EQ_STR(p->storages.at[1].key, "1");
    EQ_STR(p->storages.at[1].location, "cpu");
    EQ(p->storages.at[1].dtype, CR_F32);
    cr_pickle_drop(p);
    p = NULL;
    OK(READ(&p, "\x80\x02" STORAGE("0", "\0") STORAGE("0", "\0") "\x86.", &weights));
    EQ(p->storages.len, 2);
    cr_pickle_drop(p);
}

static void fails(const char *text, size_t len, const cr_pickle_rules *rules, cr_status kind,
                  const char *message)
{
    cr_pickle *p = NULL;

    EQ(cr_pickle_read(&p, text, len, rules), kind);
    EQ(p, NULL);
    if (strncmp(cr_error_message(), message, strlen(message)))
        EQ_STR(cr_error_message(), message);
}
#define REFUSED(text, rules, kind, message) fails(text, sizeof text - 1, rules, kind, message)

TEST(pickles_that_torch_rejects_fail_in_its_words)
{
    REFUSED("", &weights, CR_END, "");
    REFUSED("\x80", &weights, CR_INDEX, "index out of range");
    REFUSED("M\1", &weights, CR_STRUCT, "unpack requires a buffer of 2 bytes");
    REFUSED("0.", &weights, CR_UNPICKLING, "Unsupported operand 48");
    REFUSED(".", &weights, CR_INDEX, "pop from empty list");
    REFUSED("h\7", &weights, CR_KEY, "7");
    REFUSED("cos\nsystem\n", &weights, CR_UNPICKLING,
            "Trying to load unsupported GLOBAL os.system whose module os is blocked.");
    REFUSED("cbuiltins\neval\n", &weights, CR_UNPICKLING,
            "Unsupported global: GLOBAL eval was not an allowed global by default. ");
    REFUSED("c__main__\nC\n", &full, CR_UNPICKLING,
            "GLOBAL __main__.C is not allowed: also with ");
    REFUSED("", &full, CR_END, "Ran out of input");
    REFUSED("M\1", &full, CR_UNPICKLING, "pickle data was truncated");
    REFUSED("\xff.", &full, CR_UNPICKLING, "invalid load key, '\\xff'.");
    REFUSED("t.", &full, CR_UNPICKLING, "could not find MARK");
}

/* Instructions do not take values below a mark or below the end of the stack. */
TEST(marks_bound_the_stack)
{
    REFUSED("K\1(\x85.", &weights, CR_INDEX, "list index out of range");
    REFUSED("]K\1(a.", &weights, CR_INDEX, "pop from empty list");
    REFUSED("](K\1s.", &weights, CR_INDEX, "pop from empty list");
    REFUSED("(e.", &weights, CR_INDEX, "list index out of range");
}

TEST(every_prefix_of_a_pickle_is_refused)
{
    static const char whole[] = "\x80\x02}q\0(X\1\0\0\0aq\1" STORAGE(
        "0", "\4") "X\1\0\0\0bccollections\nOrderedDict\nq\2)R}bu.";

    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char *cut = malloc(n + !n);
        cr_pickle *p = NULL;
        memcpy(cut, whole, n);
        CHECK(cr_pickle_read(&p, cut, n, n % 2 ? &weights : &full) != CR_OK);
        EQ(p, NULL);
        free(cut);
    }
}

static cr_status allow_x(void *who, const char *module, const char *name, bool *allowed)
{
    ++*(int *)who;
    *allowed = !strcmp(module, "m") && !strcmp(name, "x");
    return CR_OK;
}

TEST(names_outside_the_default_list_are_asked_for)
{
    int asked = 0;
    cr_pickle_rules rules = {.weights_only = true, .ask = allow_x, .who = &asked};

    READS("cm\nx\n.", &rules, "g");
    REFUSED("cm\ny\n.", &rules, CR_UNPICKLING, "Unsupported global: GLOBAL m.y was not");
    READS("ctorch\nSize\n.", &rules, "g");
    EQ(asked, 2);
    REFUSED("cos\nx\n.", &rules, CR_UNPICKLING, "Trying to load unsupported GLOBAL os.x");
    EQ(asked, 2);
}

TEST(module_names_of_this_package_become_torchs)
{
    cr_text out = {0};
    static const char two[] = "\x80\x02"
                              "ccresset._utils\nf\nccressets\nf\nX\7\0\0\0cresset.";
    static const char four[] =
        "\x80\x04\x95\1\0\0\0\0\0\0\0\x8c\7cresset\x94\x8c\1f\x94\x93\x94h\0.";

    OK(cr_pickle_rename(&out, two, sizeof two - 1));
    EQ_STR(out.at, "\x80\x02"
                   "ctorch._utils\nf\nccressets\nf\nX\7");
    CHECK(!memcmp(out.at + out.len - 8, "cresset.", 8));
    cr_text_drop(&out);
    OK(cr_pickle_rename(&out, four, sizeof four - 1));
    cr_pickle *p = NULL;
    int asked = 0;
    OK(cr_pickle_read(&p, out.at, out.len,
                      &(cr_pickle_rules){.ask = allow_x, .who = &asked, .listing = true}) ==
               CR_UNPICKLING
           ? CR_OK
           : CR_RUNTIME);
    CHECK(strstr(cr_error_message(), "GLOBAL torch.f "));
    cr_text_drop(&out);
    FAILS(CR_UNPICKLING, cr_pickle_rename(&out, two, 9));
    cr_text_drop(&out);
}
