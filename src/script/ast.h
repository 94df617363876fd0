/* ast.h - source texts, ranges in them, and the syntax tree.
 *
 * One parser reads Python functions and the code of archives.  It accepts all of Python's
 * syntax up to 3.13; what TorchScript lacks is refused where it is compiled.  Trees are in the
 * session that the parser was given. */
#ifndef CR_SCRIPT_AST_H
#define CR_SCRIPT_AST_H

#include "sym/session.h"

/* A text and where it came from.  `first_line` is the file's line of the first line; `indent`
 * blanks were removed from the start of each line. */
typedef struct {
    const char *name; /* the file, or NULL */
    const char *text; /* NUL-terminated */
    size_t len;
    int first_line, indent;
    bool python; /* a function of Python: marks end as torch's reader of Python ends them */
} cr_ssource;

/* Characters [start, end) of a source; `source` NULL: unknown. */
typedef struct {
    const cr_ssource *source;
    uint32_t start, end;
} cr_srange;

/* The place in a source that was looked up last, so that the next look-up need not count lines
 * from the start; {0} before the first. */
typedef struct {
    const cr_ssource *source;
    uint32_t at;
    int line;
} cr_splace;

/* Line and column of the range's start, from 1 and from 0. */
void cr_srange_place(cr_srange r, cr_splace *last, int *line, int *column);
/* Appends torch's mark: the file, three lines of context, and ~~~ <--- HERE. */
void cr_srange_mark(cr_text *out, cr_srange r);
/* The same of a place in a running function. */
void cr_srange_mark_in(cr_text *out, cr_srange r, const char *function);
/* A function or class of Python that is being compiled: session->place is the innermost. Errors
 * name those that made the compiler begin with it. */
typedef struct cr_scaller cr_scaller;
struct cr_scaller {
    const char *name;
    cr_srange at;    /* the statement or expression that is being compiled */
    cr_srange asked; /* the name whose meaning was asked for */
    cr_scaller *outer;
};

/* Appends, from `innermost` on: 'g' is being compiled since it was called from 'f', and
 * marks. */
void cr_scallers_put(cr_text *out, const cr_scaller *innermost);
/* Bails with torch's text "\nMESSAGE:\n" and the mark. */
CR_NORETURN void cr_srange_bail(cr_session *s, cr_status kind, cr_srange r, const char *fmt,
                                ...) CR_PRINTF(4, 5);

typedef enum {
#define CR_SAST(NAME, text) CR_SAST_##NAME,
#include "script/ast.def"
#undef CR_SAST
    CR_SAST_COUNT
} cr_sast_kind;

typedef struct cr_sast cr_sast;
struct cr_sast {
    uint8_t kind;      /* cr_sast_kind */
    uint16_t depth;    /* of the tree below */
    cr_srange range;   /* of marks */
    uint32_t text_end; /* where the text ends; marks of strings end before it */
    int count;
    cr_sast **at;     /* children; one may be NULL where the grammar has an optional part */
    const char *text; /* a name, an operator, a decoded string, or the text of a number */
    size_t len;       /* of text */
};

/* Parses the statements of a file: a node BODY. */
cr_sast *cr_sast_parse(cr_session *s, const cr_ssource *source);
/* Parses one expression. */
cr_sast *cr_sast_parse_expression(cr_session *s, const cr_ssource *source);
/* Prints the tree, (kind child child); for tests. */
void cr_sast_print(cr_text *out, const cr_sast *a);

#endif
