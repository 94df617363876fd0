/* lex.h - tokens of Python source, up to Python 3.13. */
#ifndef CR_SCRIPT_LEX_H
#define CR_SCRIPT_LEX_H

#include "script/ast.h"

typedef enum {
    STOKEN_END,
    STOKEN_NEWLINE,
    STOKEN_INDENT,
    STOKEN_DEDENT,
    STOKEN_NAME, /* keywords too */
    STOKEN_NUMBER,
    STOKEN_STRING, /* a literal with its prefix and quotes; f-strings as a whole */
    STOKEN_SIGN,
    STOKEN_TYPE_COMMENT /* # type: TEXT; the range is that of TEXT */
} cr_stoken_kind;

typedef struct {
    uint8_t kind; /* cr_stoken_kind */
    uint32_t start, end;
} cr_stoken;

typedef CR_VEC(cr_stoken) cr_stokens;

/* The tokens of source[start, end), the last of them END.  `inside`: an expression, in which
 * lines and indentation do not count. */
void cr_script_lex(cr_session *s, cr_stokens *out, const cr_ssource *source, uint32_t start,
                   uint32_t end, bool inside);

/* Decodes the body of a literal, text[0, len), unless it is raw; bails for a bad escape.  For
 * literals without a prefix b, \u and \N are UTF-8. */
char *cr_script_decode(cr_session *s, cr_srange range, const char *text, size_t len, bool raw,
                       size_t *out_len);

#endif
