/* script_pickles.h - random pickles of archives, for script_fuzz: values of every instruction,
 * put together so that each finds the operands that it takes. */
#ifndef CR_FUZZ_SCRIPT_PICKLES_H
#define CR_FUZZ_SCRIPT_PICKLES_H

#include "base/text.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t draw(uint32_t n);

static void pickle_bytes(cr_text *t, int n)
{
    while (n--)
        cr_text_char(t, draw(3) ? 0 : (char)draw(256));
}

/* An instruction with a number of `width` bytes, most often `n`, and n bytes behind it. */
static void pickle_counted(cr_text *t, unsigned op, int width, uint32_t n)
{
    uint32_t stated = draw(40) ? n : draw(3) ? n + draw(9) : 0xffffffff;

    cr_text_char(t, (char)op);
    for (int i = 0; i < width; i++)
        cr_text_char(t, (char)(i < 4 ? stated >> 8 * i : 0));
    for (uint32_t i = 0; i < n; i++)
        cr_text_char(t, "abc.01\xe9"[draw(7)]);
}

static void pickle_text(cr_text *t, const char *text)
{
    cr_text_printf(t, "X%c", (int)strlen(text));
    cr_text_put_n(t, "\0\0\0", 3);
    cr_text_put(t, text);
}

/* Names that a pickle may ask for; those of the archive's classes come before them. */
static const char *const pickle_names[] = {"torch.jit._pickle\nrestore_type_tag",
                                           "torch.jit._pickle\nbuild_intlist",
                                           "torch.jit._pickle\nbuild_tensorlist",
                                           "torch.jit._pickle\nbuild_tensor_from_id",
                                           "torch._utils\n_rebuild_tensor_v2",
                                           "torch._utils\n_rebuild_parameter",
                                           "torch\ndevice",
                                           "builtins\ncomplex",
                                           "collections\nOrderedDict",
                                           "torch\nFloatStorage",
                                           "torch\nBFloat16Storage",
                                           "torch\nfloat32",
                                           "__torch__\nM",
                                           "__torch__.a.b\nC",
                                           "os\nsystem",
                                           "torch\nSize"};

static char pickle_classes[8][128]; /* names of the archive whose pickle is changed */
static uint32_t pickle_class_count;

/* Finds the names of classes in an archive's pickle. */
static void pickle_find_classes(const char *bytes, size_t len)
{
    pickle_class_count = 0;
    for (size_t i = 0; i + 11 < len && pickle_class_count < 8; i++) {
        if (memcmp(bytes + i, "c__torch__", 10))
            continue;
        const char *end = memchr(bytes + i, '\n', len - i);
        end = end ? memchr(end + 1, '\n', len - (size_t)(end + 1 - bytes)) : NULL;
        size_t n = end ? (size_t)(end - bytes) - i - 1 : sizeof pickle_classes[0];
        if (n < sizeof pickle_classes[0]) {
            memcpy(pickle_classes[pickle_class_count], bytes + i + 1, n);
            pickle_classes[pickle_class_count++][n] = 0;
        }
    }
}

static void pickle_name(cr_text *t, const char *name)
{
    const char *line = strchr(name, '\n');

    if (draw(6) || !line) {
        cr_text_printf(t, "c%s\n", name);
        return;
    }
    cr_text_printf(t, "\x8c%c%.*s\x8c%c%s\x93", (int)(line - name), (int)(line - name), name,
                   (int)strlen(line + 1), line + 1);
}

static const char *pickle_draw_name(void)
{
    if (pickle_class_count && draw(2))
        return pickle_classes[draw(pickle_class_count)];
    return pickle_names[draw(CR_LEN(pickle_names))];
}

static void pickle_number(cr_text *t)
{
    switch (draw(8)) {
    case 0: cr_text_put_n(t, "M\1\2", 3); return;
    case 1: cr_text_put_n(t, "J\xff\xff\xff\xff", 5); return;
    case 2: pickle_counted(t, 0x8A, 1, draw(10)); return;
    case 3: cr_text_printf(t, "I%d\n", (int)draw(9) - 4); return;
    case 4: cr_text_printf(t, "L%u0000000000L\n", draw(9)); return;
    case 5: cr_text_put(t, draw(2) ? "I01\n" : "I00\n"); return;
    default: cr_text_printf(t, "K%c", (int)(1 + draw(3)));
    }
}

static void pickle_simple(cr_text *t)
{
    switch (draw(20)) {
    case 0: cr_text_char(t, 'N'); return;
    case 1: cr_text_char(t, draw(2) ? (char)0x88 : (char)0x89); return;
    case 2: cr_text_char(t, 'G'), pickle_bytes(t, 8); return;
    case 3: cr_text_put(t, draw(3) ? "F1.5\n" : "Fx\n"); return;
    case 4: cr_text_put(t, draw(3) ? "S'a\\x41\\n'\n" : "Sa\n"); return;
    case 5: cr_text_put(t, draw(3) ? "Va\\u00e9\n" : "V\\u12\n"); return;
    case 6: pickle_counted(t, 'U', 1, draw(5)); return;
    case 7: pickle_counted(t, 'T', 4, draw(5)); return;
    case 8: pickle_counted(t, 0x8C, 1, draw(5)); return;
    case 9: pickle_counted(t, 0x8D, 8, draw(5)); return;
    case 10: pickle_counted(t, 0x8B, 4, draw(10)); return;
    case 11: pickle_counted(t, 'C', 1, draw(5)); return;
    case 12: pickle_counted(t, draw(2) ? 0x8E : 0x96, 8, draw(5)); return;
    case 13: pickle_counted(t, 'B', 4, draw(5)); return;
    case 14: pickle_text(t, draw(2) ? "cpu" : "List[int]"); return;
    case 15:
        cr_text_put(t, ")]}\x8f"); /* one of four; the others go */
        cr_text_put(t, draw(2) ? "000"
                               : "0\x86"
                                 "0");
        return;
    default: pickle_number(t);
    }
}

static void pickle_value(cr_text *t, int depth);

static void pickle_values(cr_text *t, uint32_t n, int depth)
{
    while (n--)
        pickle_value(t, depth);
}

/* The numbers of a tensor's sizes or strides. */
static void pickle_sizes(cr_text *t, uint32_t n)
{
    cr_text_char(t, '(');
    for (uint32_t i = 0; i < n; i++) {
        if (draw(12))
            cr_text_printf(t, "K%c", (int)(1 + draw(2)));
        else
            pickle_value(t, 0);
    }
    cr_text_char(t, 't');
}

/* The storage `key`, perhaps with a view of it, as the older layout has. */
static void pickle_storage(cr_text *t, uint32_t key)
{
    char name[16];

    snprintf(name, sizeof name, "%u", key);
    cr_text_char(t, '(');
    pickle_text(t, draw(30) ? "storage" : "module");
    pickle_name(t, draw(8) ? "torch\nFloatStorage" : pickle_draw_name());
    pickle_text(t, draw(30) ? name : "9");
    pickle_text(t, "cpu");
    cr_text_put(t, draw(12) ? "K\4" : draw(2) ? "K\5" : "\x8a\1\4");
    if (!draw(4)) {
        cr_text_char(t, '(');
        pickle_text(t, "v");
        cr_text_put_n(t, "K\1K\2t", 5);
    } else if (draw(2)) {
        cr_text_char(t, 'N');
    }
    cr_text_put(t, "tQ");
}

static void pickle_tensor(cr_text *t)
{
    uint32_t dims = draw(3);

    pickle_name(t, "torch._utils\n_rebuild_tensor_v2");
    cr_text_char(t, '(');
    if (draw(12))
        pickle_storage(t, draw(2));
    else
        pickle_value(t, 0);
    cr_text_put_n(t, "K\0", 2);
    pickle_sizes(t, dims);
    pickle_sizes(t, draw(12) ? dims : draw(4));
    cr_text_char(t, draw(2) ? (char)0x88 : (char)0x89);
    cr_text_put(t, "ccollections\nOrderedDict\n)RtR");
}

/* A call of a name with arguments that it may take. */
static void pickle_call(cr_text *t, int depth)
{
    const char *name = pickle_draw_name();

    pickle_name(t, name);
    if (strstr(name, "restore_type_tag")) {
        static const char *const types[] = {"List[int]",
                                            "Dict[str, int]",
                                            "Tuple[int, str]",
                                            "Optional[Tensor]",
                                            "__torch__.M",
                                            "List[",
                                            ""};
        cr_text_char(t, draw(2) ? ']' : '}');
        pickle_text(t, types[draw(CR_LEN(types))]);
        cr_text_put(t, "\x86R");
    } else if (strstr(name, "device") && draw(4)) {
        pickle_text(t, draw(3) ? "cpu" : "cuda:0");
        cr_text_put(t, "\x85R");
    } else if (strstr(name, "complex") && draw(4)) {
        for (int i = 0; i < 2; i++)
            cr_text_put_n(t, "G?\xf0\0\0\0\0\0\0", 9);
        cr_text_put(t, "\x86R");
    } else if (strstr(name, "build_") && draw(4)) {
        pickle_value(t, depth);
        cr_text_put(t, "\x85R");
    } else if (draw(2)) {
        cr_text_put(t, draw(3) ? ")\x81" : ")}\x92");
        if (draw(2))
            pickle_value(t, depth), cr_text_char(t, 'b');
    } else {
        cr_text_char(t, '(');
        pickle_values(t, draw(4), depth);
        cr_text_put(t, "tR");
    }
}

static void pickle_container(cr_text *t, int depth)
{
    uint32_t n = draw(3);

    switch (draw(12)) {
    case 0: pickle_values(t, 1, depth), cr_text_char(t, (char)0x85); return;
    case 1: pickle_values(t, 3, depth), cr_text_char(t, (char)0x87); return;
    case 2: cr_text_char(t, '('), pickle_values(t, n, depth), cr_text_char(t, 't'); return;
    case 3: cr_text_char(t, '('), pickle_values(t, n, depth), cr_text_char(t, 'l'); return;
    case 4: cr_text_put(t, "]("), pickle_values(t, n, depth), cr_text_char(t, 'e'); return;
    case 5: cr_text_char(t, ']'), pickle_value(t, depth), cr_text_char(t, 'a'); return;
    case 6: cr_text_put(t, "}("), pickle_values(t, 2 * n, depth), cr_text_char(t, 'u'); return;
    case 7: cr_text_char(t, '}'), pickle_values(t, 2, depth), cr_text_char(t, 's'); return;
    case 8:
        cr_text_char(t, '('), pickle_values(t, draw(5), depth), cr_text_char(t, 'd');
        return;
    case 9:
        cr_text_put(t, "\x8f("), pickle_values(t, n, depth), cr_text_char(t, (char)0x90);
        return;
    case 10:
        cr_text_char(t, '('), pickle_values(t, n, depth), cr_text_char(t, (char)0x91);
        return;
    default:
        cr_text_printf(t, "(i%s\n", pickle_draw_name());
        cr_text_put(t, draw(2) ? "" : "}b");
    }
}

/* Keeps the value on the stack and puts it into the memo, or takes another one from there. */
static void pickle_memo(cr_text *t, int depth)
{
    static const char *const ways[] = {"q\1h\1", "p1\ng1\n", "\x94h\1", "q\1h\7", "2", "0N"};
    size_t i = draw(CR_LEN(ways) + 2);

    pickle_value(t, depth);
    if (i < CR_LEN(ways))
        cr_text_put(t, ways[i]);
    else
        cr_text_put_n(t, i % 2 ? "r\1\0\0\0j\1\0\0\0" : "q\0(h\0001", i % 2 ? 10 : 6);
    if (i < 5 || i % 2)
        cr_text_char(t, (char)0x86);
}

static void pickle_value(cr_text *t, int depth)
{
    if (depth <= 0 || t->len > 3000) {
        pickle_simple(t);
        return;
    }
    switch (draw(7)) {
    case 0: pickle_simple(t); return;
    case 1: pickle_memo(t, depth - 1); return;
    case 2: pickle_tensor(t); return;
    case 3:
    case 4: pickle_call(t, depth - 1); return;
    case 5:
        if (!draw(30))
            cr_text_put(t, draw(2) ? "Pkey\n" : "K\1Q");
        if (!draw(8))
            cr_text_char(t, (char)0x95), pickle_bytes(t, 8);
        /* fall through */
    default: pickle_container(t, depth - 1);
    }
}

/* A whole pickle, or a value in place of a simple one of `t`. */
static void mutate_pickle(cr_text *t, bool whole)
{
    cr_text made = {0};
    size_t at = draw((uint32_t)t->len + 1), cut = 1;

    if (whole || t->len < 4) {
        cr_text_drop(t);
        cr_text_put(t, "\x80\2");
        pickle_value(t, 4);
        cr_text_char(t, '.');
        return;
    }
    for (size_t i = 0; i < t->len; i++, at = at + 1 < t->len ? at + 1 : 2)
        if (at < t->len && strchr("N)]}K\x88\x89", t->at[at]) && t->at[at])
            break;
    if (at >= t->len)
        return;
    cut += t->at[at] == 'K';
    cut = cut < t->len - at ? cut : t->len - at;
    cr_text_put_n(&made, t->at, at);
    pickle_value(&made, 2);
    cr_text_put_n(&made, t->at + at + cut, t->len - at - cut);
    cr_text_drop(t);
    *t = made;
}

#endif
