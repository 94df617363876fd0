/* The records of the table as words of C (cr_ops_image), so that start-up reads no text.
 *
 * All records are in one block of the table's arena.  A word of it is a link if its value is an
 * address of that block, of the texts of free clauses, of a constant of the reader, or of a
 * string of the program.  Nothing else of a record has such a value: numbers and packed members
 * are smaller than the addresses of a program that is built with -pie, or have their highest
 * bits set, and letters have other values than an address's highest byte. */
#include "base/map.h"
#include "opgen.h"
#include <string.h>

/* The table has about 3 MB. */
enum { IMAGE_BYTES = 32 << 20, WORDS_A_LINE = 12 };

/* The bounds of this program; the linker defines them. */
extern const char __executable_start, end;

typedef struct {
    const char *start;       /* of the block */
    uint64_t *words, *links; /* a copy of the block; bit i: word i is a link */
    size_t count, bytes;     /* of the block */
    cr_text texts, strings;  /* of free clauses, which records keep; of this program */
    cr_map known;            /* address of a string -> its place in `strings`, plus 1 */
    cr_status st;
} image;

cr_status opgen_image_start(void) { return cr_arena_reserve(cr_ops_arena(), IMAGE_BYTES); }

/* --- texts of free clauses --- */

typedef void (*text_fn)(image *m, cr_clause_text *t);

static void each_text(image *m, text_fn fn)
{
    for (int i = 0; i < cr_ops_table_count(); i++) {
        cr_op_text *t = &cr_ops_at(i)->text;
        fn(m, &t->doc);
        fn(m, &t->ref);
        fn(m, &t->sample);
        fn(m, &t->example);
        fn(m, &t->sizes);
        fn(m, &t->axes);
    }
}

/* The address is a distance until all texts stay where they are. */
static void move_text(image *m, cr_clause_text *t)
{
    size_t distance = m->texts.len;

    cr_text_put_n(&m->texts, t->at, t->len);
    t->at = (const char *)distance;
}

static void place_text(image *m, cr_clause_text *t)
{
    t->at = cr_text_str(&m->texts) + (size_t)t->at;
}

static void move_texts(image *m)
{
    each_text(m, move_text);
    each_text(m, place_text);
    for (int i = cr_ops_table_count(); i < cr_ops_count(); i++)
        cr_ops_at(i)->text = cr_ops_at(i)->inplace_of->text;
}

/* --- defaults --- */

/* Clears what the default's kind does not use, which would differ from run to run. */
static void clean_preset(cr_value *v)
{
    cr_value old = *v;

    memset(v, 0, sizeof *v);
    v->tag = old.tag;
    v->len = old.len;
    if (old.tag != CR_NUMBER) {
        v->i = old.i;
        return;
    }
    v->number.category = old.number.category;
    v->number.large = old.number.large;
    v->number.i = old.number.i;
}

static void clean_presets(void)
{
    for (int i = 0; i < cr_ops_count(); i++)
        for (int p = 0; p < cr_ops_at(i)->param_count; p++)
            clean_preset(&cr_ops_at(i)->param[p].preset);
}

/* --- links --- */

static bool is_in(uint64_t word, const char *from, size_t bytes)
{
    return word - (uintptr_t)from < bytes;
}

static uint64_t link_to(cr_ops_part part, size_t distance)
{
    return (uint64_t)distance << 2 | part;
}

/* The string's place among the texts; each string is there once. */
static size_t place_of_string(image *m, const char *s)
{
    char *known = cr_map_get(&m->known, (const char *)&s, sizeof s);

    if (!known) {
        known = (char *)(m->texts.len + m->strings.len + 1);
        cr_text_put_n(&m->strings, s, strlen(s) + 1);
        m->st = m->st ? m->st : cr_map_set(&m->known, (const char *)&s, sizeof s, known);
    }
    return (size_t)known - 1;
}

static bool link_constant(uint64_t *word)
{
    for (size_t i = 0; i < CR_OPS_CONSTANT_COUNT; i++)
        if (*word == (uintptr_t)cr_ops_constants[i]) {
            *word = link_to(CR_OPS_CONSTANTS, i);
            return true;
        }
    return false;
}

static bool link_word(image *m, uint64_t *word)
{
    if (link_constant(word))
        return true;
    if (is_in(*word, m->start, m->bytes))
        *word = link_to(CR_OPS_WORDS, *word - (uintptr_t)m->start);
    else if (is_in(*word, cr_text_str(&m->texts), m->texts.len + 1))
        *word = link_to(CR_OPS_TEXTS, *word - (uintptr_t)cr_text_str(&m->texts));
    else if (is_in(*word, &__executable_start, (size_t)(&end - &__executable_start)))
        *word = link_to(CR_OPS_TEXTS, place_of_string(m, (const char *)(uintptr_t)*word));
    else
        return false;
    return true;
}

/* Of the heap or of a mapping.  Two masks or a string of six letters are other numbers. */
static bool is_address(uint64_t word)
{
    uint64_t high = word >> 40;

    return (high == 0x55 || high == 0x56 || high == 0x7e || high == 0x7f) &&
           (uint32_t)word >> 16;
}

static cr_status link_words(image *m)
{
    for (size_t i = 0; i < m->count && !m->st; i++) {
        uint64_t before = m->words[i];
        if (link_word(m, &m->words[i]))
            m->links[i / 64] |= (uint64_t)1 << i % 64;
        else if (is_address(before))
            return cr_fail(CR_VALUE, "the records have an address outside of them, at word %zu",
                           i);
    }
    return m->st;
}

static cr_status copy_block(image *m)
{
    cr_arena *a = cr_ops_arena();

    m->bytes = cr_arena_used(a);
    m->start = (const char *)cr_arena_get(a, 1) - m->bytes;
    m->count = m->bytes / sizeof *m->words;
    m->words = cr_alloc(m->bytes);
    m->links = cr_alloc_zero((m->count / 64 + 1) * sizeof *m->links);
    if (!m->words || !m->links)
        return CR_MEMORY;
    if (m->bytes >= IMAGE_BYTES)
        return cr_fail(CR_VALUE, "the records take more than one block");
    memcpy(m->words, m->start, m->bytes);
    return CR_OK;
}

/* --- the file --- */

static void put_words(cr_text *out, const char *declaration, const uint64_t *word, size_t n)
{
    cr_text_printf(out, "\n%s = {", declaration);
    for (size_t i = 0; i < n; i++) {
        cr_text_put(out, i % WORDS_A_LINE ? "" : "\n");
        cr_text_printf(out, word[i] < 10 ? "%llu," : "0x%llx,", (unsigned long long)word[i]);
    }
    cr_text_put(out, "};\n");
}

static void put_records(cr_text *out, const image *m)
{
    cr_text_put(out, "\nstatic const uint32_t ops[] = {");
    for (int i = 0; i < cr_ops_count(); i++)
        cr_text_printf(out, "%s%zu,", i % WORDS_A_LINE ? "" : "\n",
                       (size_t)((const char *)cr_ops_at(i) - m->start));
    cr_text_put(out, "};\n");
}

/* NUL characters end strings of C, so strings follow as numbers. */
static void put_texts(cr_text *out, const image *m)
{
    cr_text_put(out, "\nstatic const struct {\n    char texts[");
    cr_text_printf(out, "%zu], strings[%zu];\n} all = {\n", m->texts.len, m->strings.len);
    opgen_quote(out, m->texts.at, m->texts.len);
    cr_text_put(out, ",\n    {");
    for (size_t i = 0; i < m->strings.len; i++)
        cr_text_printf(out, "%d,", m->strings.at[i]);
    cr_text_put(out, "}};\n");
}

static void put_image(cr_text *out, const image *m)
{
    cr_text_put(out, "/* Generated by opgen: the operator table, read. */\n"
                     "#include \"jit/generated.h\"\n\n");
    cr_text_printf(out,
                   "_Static_assert(sizeof(cr_op) == %zu && sizeof(cr_rule) == %zu && "
                   "sizeof(cr_param) == %zu,\n               \"opgen has other structs\");\n",
                   sizeof(cr_op), sizeof(cr_rule), sizeof(cr_param));
    put_words(out, "_Alignas(64) static uint64_t words[]", m->words, m->count);
    put_words(out, "static const uint64_t links[]", m->links, m->count / 64 + 1);
    put_records(out, m);
    put_texts(out, m);
    cr_text_printf(out,
                   "\nconst cr_ops_image cr_table_image = {words, links, %zu, all.texts, ops, "
                   "%d, %d};\n",
                   m->count, cr_ops_count(), cr_ops_table_count());
}

cr_status opgen_image(const char *folder)
{
    image m = {0};
    cr_text out = {0};
    cr_status st;

    clean_presets();
    move_texts(&m);
    CR_GO(cr_text_status(&m.texts));
    CR_GO(copy_block(&m));
    CR_GO(link_words(&m));
    CR_GO(cr_text_status(&m.strings));
    put_image(&out, &m);
    st = opgen_save(folder, "ops_image.c", &out);
done:
    cr_text_drop(&out);
    cr_text_drop(&m.strings);
    cr_map_drop(&m.known);
    cr_free(m.words);
    cr_free(m.links);
    return st;
}
