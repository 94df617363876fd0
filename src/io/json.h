/* json.h - JSON texts as trees of values.
 *
 * The reader is strict, but for the numbers NaN and Infinity, which Python writes.  Texts are
 * nested at most 64 deep. */
#ifndef CR_IO_JSON_H
#define CR_IO_JSON_H

#include "base/memory.h"

typedef enum {
    CR_JSON_NULL,
    CR_JSON_FALSE,
    CR_JSON_TRUE,
    CR_JSON_INT,   /* i; d has it, too */
    CR_JSON_FLOAT, /* d */
    CR_JSON_TEXT,  /* text: `count` bytes, and a NUL */
    CR_JSON_LIST,  /* item */
    CR_JSON_OBJECT /* item: each has its key */
} cr_json_kind;

typedef struct cr_json cr_json;
struct cr_json {
    cr_json_kind kind;
    size_t count;
    int64_t i;
    double d;
    const char *text, *key;
    cr_json *next; /* the item behind this one */
    cr_json *item; /* the first item */
};

/* The value of a text, in the arena.  CR_VALUE with the place where the text is wrong. */
CR_MUST cr_status cr_json_parse(const cr_json **out, cr_arena *arena, const char *text,
                                size_t len);
/* The value of an object's key; NULL: there is none, or `v` is NULL or no object. */
const cr_json *cr_json_get(const cr_json *v, const char *key);
/* The text of a value; NULL: it is none. */
const char *cr_json_text(const cr_json *v);

#endif
