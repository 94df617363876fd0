/* The records of the table as words of C (cr_ops_image), so that start-up reads no text.
 *
 * All records are in one block of the table's arena.  A word of it is a link if its value is an
 * address of that block, of the texts of free clauses, of a constant of the reader, or of a
 * string of the program.  Nothing else of a record has such a value: numbers and packed members
 * are smaller than the addresses of a program that is built with -pie, or have their highest
 * bits set, and letters have other values than an address's highest byte.
 *
 * Of equal pieces of the block, trees of rules or lists of parameters, the image has one, as
 * only records are written after start-up.  Pieces that no record reaches, and pieces without
 * links, need no memory that is written. */
#include "base/map.h"
#include "opgen.h"
#include <string.h>

/* The table has about 3 MB. */
enum { IMAGE_BYTES = 32 << 20, WORDS_A_LINE = 12 };

/* The bounds of this program; the linker defines them. */
extern const char __executable_start, end;

typedef struct {
    size_t at, count; /* words of the block */
    size_t as;        /* the first piece with equal words */
    size_t to;        /* its place in the image, in words */
    bool record, linked, visited, placed;
} piece;

typedef struct {
    uint64_t *words, *links; /* bit i: word i is a link */
    size_t count;
} word_list;

typedef struct {
    const char *start;       /* of the block */
    uint64_t *words, *links; /* a copy of the block; bit i: word i is a link */
    size_t count, bytes;     /* of the block */
    piece *piece;
    size_t piece_count;
    cr_map equal;           /* words of a piece and which are links -> its number, plus 1 */
    word_list moved, fixed; /* the image: structs with addresses, and structs without */
    cr_text texts, strings; /* of free clauses, which records keep; of this program */
    cr_map known;           /* address of a string -> its place in `strings`, plus 1 */
    cr_status st;
} image;

static cr_arena_pieces pieces;

cr_status opgen_image_start(void)
{
    cr_ops_arena()->pieces = &pieces;
    return cr_arena_reserve(cr_ops_arena(), IMAGE_BYTES);
}

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

/* --- pieces --- */

static bool is_link(const uint64_t *links, size_t word)
{
    return links[word / 64] >> word % 64 & 1;
}

/* The piece that has the word of the block. */
static piece *piece_at(const image *m, size_t word)
{
    size_t low = 0, high = m->piece_count;

    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (m->piece[middle].at <= word)
            low = middle;
        else
            high = middle;
    }
    return &m->piece[low];
}

static piece *piece_of_record(const image *m, int i)
{
    return piece_at(m, (size_t)((const char *)cr_ops_at(i) - m->start) / sizeof *m->words);
}

static cr_status find_pieces(image *m)
{
    m->piece = cr_alloc_zero(pieces.len * sizeof *m->piece);
    CR_NEED(m->piece);
    for (size_t i = 0; i < pieces.len; i++) {
        size_t at = (size_t)((const char *)pieces.at[i] - m->start) / sizeof *m->words;
        if (at >= m->count)
            break;
        m->piece[i] = (piece){.at = at, .as = i};
        if (i)
            m->piece[i - 1].count = at - m->piece[i - 1].at;
        m->piece_count = i + 1;
    }
    m->piece[m->piece_count - 1].count = m->count - m->piece[m->piece_count - 1].at;
    for (int i = 0; i < cr_ops_count(); i++)
        piece_of_record(m, i)->record = true;
    return CR_OK;
}

/* The piece that the word links to, or NULL. */
static piece *linked_piece(const image *m, size_t word)
{
    return is_link(m->links, word) && (m->words[word] & 3) == CR_OPS_WORDS
               ? piece_at(m, m->words[word] >> 5)
               : NULL;
}

/* Sets p->as. */
static cr_status find_equal(image *m, piece *p)
{
    cr_text key = {0};
    void *known;

    cr_text_put_n(&key, (const char *)&m->words[p->at], p->count * sizeof *m->words);
    for (size_t i = 0; i < p->count; i++)
        cr_text_char(&key, is_link(m->links, p->at + i) ? '1' : '0');
    known = cr_map_get(&m->equal, cr_text_str(&key), key.len);
    if (known)
        p->as = (size_t)known - 1;
    else
        m->st = m->st ? m->st
                      : cr_map_set(&m->equal, cr_text_str(&key), key.len, (void *)(p->as + 1));
    m->st = m->st ? m->st : cr_text_status(&key);
    cr_text_drop(&key);
    return m->st;
}

/* Links of the piece lead to the first one of equal pieces; then of this piece too.  Pieces
 * other than records are trees. */
static cr_status share_piece(image *m, piece *p)
{
    p->visited = true;
    for (size_t i = p->at; i < p->at + p->count; i++) {
        piece *to = linked_piece(m, i);
        p->linked |= is_link(m->links, i);
        if (!to || to->record)
            continue;
        if (!to->visited)
            CR_TRY(share_piece(m, to));
        m->words[i] += link_to(CR_OPS_WORDS, m->piece[to->as].at * sizeof *m->words) -
                       link_to(CR_OPS_WORDS, to->at * sizeof *m->words);
    }
    return p->record ? CR_OK : find_equal(m, p);
}

static void place_piece(image *m, piece *p)
{
    word_list *list = p->linked ? &m->moved : &m->fixed;

    p->placed = true;
    p->to = list->count;
    list->count += p->count;
    for (size_t i = p->at; i < p->at + p->count; i++) {
        piece *to = linked_piece(m, i);
        if (to && !to->record && !to->placed)
            place_piece(m, to);
    }
}

static void put_piece(const image *m, const piece *p)
{
    const word_list *list = p->linked ? &m->moved : &m->fixed;

    for (size_t i = 0; i < p->count; i++) {
        const piece *to = linked_piece(m, p->at + i);
        uint64_t word = m->words[p->at + i];
        if (to)
            word = link_to(to->linked ? CR_OPS_WORDS : CR_OPS_FIXED,
                           (word >> 2) + (to->to - to->at) * sizeof word);
        list->words[p->to + i] = word;
        if (is_link(m->links, p->at + i))
            list->links[(p->to + i) / 64] |= (uint64_t)1 << (p->to + i) % 64;
    }
}

static cr_status new_list(word_list *list)
{
    list->words = cr_alloc_zero(list->count * sizeof *list->words);
    list->links = cr_alloc_zero((list->count / 64 + 1) * sizeof *list->links);
    return list->words && list->links ? CR_OK : CR_MEMORY;
}

static cr_status share_pieces(image *m)
{
    CR_TRY(find_pieces(m));
    for (int i = 0; i < cr_ops_count(); i++)
        CR_TRY(share_piece(m, piece_of_record(m, i)));
    for (int i = 0; i < cr_ops_count(); i++)
        place_piece(m, piece_of_record(m, i));
    CR_TRY(new_list(&m->moved));
    CR_TRY(new_list(&m->fixed));
    for (size_t i = 0; i < m->piece_count; i++)
        if (m->piece[i].placed)
            put_piece(m, &m->piece[i]);
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
                       piece_of_record(m, i)->to * sizeof *m->words);
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
    put_words(out, "_Alignas(64) static uint64_t words[]", m->moved.words, m->moved.count);
    put_words(out, "static const uint64_t links[]", m->moved.links, m->moved.count / 64 + 1);
    put_words(out, "static const uint64_t fixed[]", m->fixed.words, m->fixed.count);
    put_records(out, m);
    put_texts(out, m);
    cr_text_printf(
        out,
        "\nconst cr_ops_image cr_table_image = {words, fixed, links, %zu, all.texts, "
        "ops, %d, %d};\n",
        m->moved.count, cr_ops_count(), cr_ops_table_count());
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
    CR_GO(share_pieces(&m));
    put_image(&out, &m);
    st = opgen_save(folder, "ops_image.c", &out);
done:
    cr_text_drop(&out);
    cr_text_drop(&m.strings);
    cr_map_drop(&m.known);
    cr_map_drop(&m.equal);
    cr_free(m.piece);
    cr_free(m.moved.words);
    cr_free(m.moved.links);
    cr_free(m.fixed.words);
    cr_free(m.fixed.links);
    cr_free(m.words);
    cr_free(m.links);
    return st;
}
