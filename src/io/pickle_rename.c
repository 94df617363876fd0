/* Replaces module names in pickles by torch's.
 *
 * GLOBAL and INST carry module names as lines.  STACK_GLOBAL takes them from two strings on the
 * stack.  These strings may be data as well, so they stay, and two new strings precede the
 * instruction.  FRAME instructions are left out, because their lengths would change; readers do
 * not need them. */
#include "base/map.h"
#include "io/pickle.h"
#include <string.h>

typedef struct {
    const unsigned char *at; /* NULL when the value is not a string */
    size_t len;
} string;

typedef struct {
    cr_text *out;
    const unsigned char *at, *end;
    string last[2]; /* the top of the stack and the value below it */
    CR_VEC(string) memo;
} renamer;

static cr_status cut_short(void) { return cr_fail(CR_UNPICKLING, "pickle data was truncated"); }

/* Bytes of an instruction's fixed arguments. */
static const uint8_t fixed[256] = {
    ['K'] = 1, ['h'] = 1, ['q'] = 1, [0x80] = 1, [0x82] = 1, ['M'] = 2, [0x83] = 2,
    ['J'] = 4, ['j'] = 4, ['r'] = 4, [0x84] = 4, ['G'] = 8,  [0x95] = 8};
/* Width of an instruction's length field; 0 without one. */
static const uint8_t length_bytes[256] = {
    ['U'] = 1, ['C'] = 1,  [0x8C] = 1, [0x8A] = 1, ['X'] = 4, ['T'] = 4,
    ['B'] = 4, [0x8B] = 4, [0x8D] = 8, [0x8E] = 8, [0x96] = 8};
/* Lines that follow it. */
static const uint8_t lines[256] = {['c'] = 2, ['i'] = 2, ['F'] = 1, ['I'] = 1, ['L'] = 1,
                                   ['S'] = 1, ['V'] = 1, ['g'] = 1, ['p'] = 1, ['P'] = 1};

/* *out: the position after the instruction at r->at. */
static cr_status renamer_find_end(const renamer *r, const unsigned char **out)
{
    unsigned op = *r->at, width = length_bytes[op];
    const unsigned char *p = r->at + 1;
    uint64_t n = fixed[op];

    if (width > (size_t)(r->end - p))
        return cut_short();
    for (unsigned i = 0; i < width; i++)
        n |= (uint64_t)*p++ << 8 * i;
    if (n > (uint64_t)(r->end - p))
        return cut_short();
    p += n;
    for (unsigned i = lines[op]; i > 0; i--) {
        p = p < r->end ? memchr(p, '\n', (size_t)(r->end - p)) : NULL;
        if (!p++)
            return cut_short();
    }
    *out = p;
    return CR_OK;
}

static bool ours(const unsigned char *module, size_t len)
{
    return len >= 7 && !memcmp(module, "cresset", 7) && (len == 7 || module[7] == '.');
}

static void put_module(cr_text *out, const unsigned char *module, size_t len)
{
    cr_text_put(out, "torch");
    cr_text_put_n(out, (const char *)module + 7, len - 7);
}

static void copy_global(renamer *r, const unsigned char *end)
{
    const unsigned char *module = r->at + 1,
                        *stop = memchr(module, '\n', (size_t)(end - module));

    cr_text_char(r->out, (char)*r->at);
    if (ours(module, (size_t)(stop - module)))
        put_module(r->out, module, (size_t)(stop - module));
    else
        cr_text_put_n(r->out, (const char *)module, (size_t)(stop - module));
    cr_text_put_n(r->out, (const char *)stop, (size_t)(end - stop));
}

static void put_counted(cr_text *out, size_t len)
{
    cr_text_char(out, 'X');
    for (int i = 0; i < 4; i++)
        cr_text_char(out, (char)(len >> 8 * i));
}

/* Removes the two strings from the stack and pushes the new ones. */
static void put_stack_global(renamer *r)
{
    string name = r->last[0], module = r->last[1];

    if (name.at && module.at && ours(module.at, module.len)) {
        cr_text_put(r->out, "00");
        put_counted(r->out, module.len - 2);
        put_module(r->out, module.at, module.len);
        put_counted(r->out, name.len);
        cr_text_put_n(r->out, (const char *)name.at, name.len);
    }
    cr_text_char(r->out, (char)0x93);
}

static void pushed(renamer *r, string s)
{
    r->last[1] = r->last[0];
    r->last[0] = s;
}

static cr_status put_memo(renamer *r)
{
    CR_TRY(cr_vec_reserve(&r->memo, 1));
    cr_vec_put(&r->memo, r->last[0]);
    return CR_OK;
}

static uint64_t renamer_argument(const unsigned char *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static cr_status renamer_note(renamer *r, const unsigned char *end)
{
    unsigned op = *r->at, width = length_bytes[op];
    const unsigned char *p = r->at + 1;
    string none = {0};

    if (op == 0x94)
        return put_memo(r);
    if (op == 'X' || op == 0x8C || op == 0x8D) {
        pushed(r, (string){p + width, (size_t)(end - p) - width});
    } else if (op == 'h' || op == 'j') {
        uint64_t i = renamer_argument(p, op == 'h' ? 1 : 4);
        pushed(r, i < r->memo.len ? r->memo.at[i] : none);
    } else if (op != 0x95) {
        pushed(r, none);
    }
    return CR_OK;
}

static cr_status rename_one(renamer *r)
{
    const unsigned char *end = r->at;

    CR_TRY(renamer_find_end(r, &end));
    if (*r->at == 'c' || *r->at == 'i')
        copy_global(r, end);
    else if (*r->at == 0x93)
        put_stack_global(r);
    else if (*r->at != 0x95)
        cr_text_put_n(r->out, (const char *)r->at, (size_t)(end - r->at));
    CR_TRY(renamer_note(r, end));
    r->at = end;
    return cr_text_status(r->out);
}

cr_status cr_pickle_rename(cr_text *out, const void *bytes, size_t len)
{
    renamer r = {.out = out, .at = bytes, .end = (const unsigned char *)bytes + len};
    cr_status st = CR_OK;
    bool more = true;

    while (!st && more) {
        if (r.at == r.end) {
            st = cut_short();
            break;
        }
        more = *r.at != '.';
        st = rename_one(&r);
    }
    cr_vec_drop(&r.memo);
    return st;
}
