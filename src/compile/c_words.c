/* The vocabulary of files in C99: the functions of emit/vec*.h for one lane, as texts.
 *
 * A file has the words that it uses and those that these use, in the order of file/words.inc. A
 * word is a text up to a blank line before a text at the margin; its name is the first one in
 * it that begins with cv_, or, of a macro, what is defined. */
#include "compile/c_text.h"
#include <string.h>

static const char all_words[] =
#include "c_words_text.inc"
    ;

typedef struct {
    const char *at, *name;
    size_t n, name_n;
} word;

static bool is_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

/* Where a text that begins at `at` ends: at the last character before its blank line. */
static const char *end_of(const char *at)
{
    const char *end = strstr(at, "\n\n");

    while (end && (end[2] == ' ' || end[2] == '\n'))
        end = strstr(end + 1, "\n\n");
    return end ? end + 1 : at + strlen(at);
}

/* The word after `w`, or the first one after the file's head; false: there is none. */
static bool next_word(word *w)
{
    static const char macro[] = "#define ";

    w->at = w->at ? w->at + w->n : end_of(all_words);
    while (*w->at == '\n')
        w->at++;
    w->n = (size_t)(end_of(w->at) - w->at);
    const char *define = strstr(w->at, macro), *call = strstr(w->at, "cv_");
    bool is_macro = define && call && define < call;
    w->name = is_macro ? define + sizeof macro - 1 : call;
    for (w->name_n = 0; w->name && is_name(w->name[w->name_n]);)
        w->name_n++;
    return *w->at;
}

/* Whether the text of a word has the name of another one, and not as a part of a longer one. */
static bool mentions(const word *w, const word *other)
{
    for (const char *at = w->at; at + other->name_n <= w->at + w->n; at++)
        if (!memcmp(at, other->name, other->name_n) && !is_name(at[other->name_n]) &&
            (at == w->at || !is_name(at[-1])))
            return true;
    return false;
}

static void need_parts(cr_c_words *w, const word *of)
{
    word other = {0};

    for (size_t k = 0; next_word(&other); k++)
        if (!w->needed[k] && mentions(of, &other)) {
            w->needed[k] = true;
            need_parts(w, &other);
        }
}

bool cr_c_need(cr_c_words *w, const char *name)
{
    size_t k = 0, n = strlen(name);
    word found = {0};

    while (next_word(&found) && (found.name_n != n || memcmp(found.name, name, n)))
        k++;
    if (!*found.at)
        return false;
    if (!w->needed[k]) {
        w->needed[k] = true;
        need_parts(w, &found);
    }
    return true;
}

void cr_c_print_words(cr_text *out, const cr_c_words *w)
{
    word next = {0};

    cr_text_put(out, "#if defined(__GNUC__)\n"
                     "#define CV_INLINE static inline __attribute__((always_inline))\n"
                     "#else\n#define CV_INLINE static inline\n#endif\n\n");
    for (size_t k = 0; next_word(&next); k++)
        if (w->needed[k]) {
            cr_text_put_n(out, next.at, next.n);
            cr_text_char(out, '\n');
        }
}
