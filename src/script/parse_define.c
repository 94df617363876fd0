/* Functions and classes: decorators, type parameters, types in comments. */
#include "script/parse.h"
#include <string.h>

/* def f[T](...): the type parameters are skipped. */
void parse_type_params(parser *p)
{
    if (parse_is(p, "["))
        parse_list_display(p);
}

/* (int, str) -> Tensor behind a function's line: types of the parameters that have none, but
 * not of self; with one dim, `...` leaves them. */
static void parse_signature(parser *p, const cr_stoken *comment, cr_srange head,
                            cr_sast *params, cr_sast **result)
{
    const char *arrow = NULL, *text = parse_text(p, comment);
    cr_sast *types;
    int skip;

    for (size_t i = 0; i + 1 < parse_length(comment); i++)
        if (!strncmp(text + i, "->", 2))
            arrow = text + i;
    if (!arrow && !memchr(text, '(', parse_length(comment)))
        return;
    if (arrow)
        *result =
            parse_part(p, comment->start + (uint32_t)(arrow - text) + 2, comment->end, NULL);
    types = parse_part(p, comment->start,
                       arrow ? comment->start + (uint32_t)(arrow - text) : comment->end, NULL);
    if (types->kind != CR_SAST_TUPLE)
        types = PARSE_NODE(p, TUPLE, types->range.start, types);
    if (types->count == 1 && types->at[0]->kind == CR_SAST_ELLIPSIS)
        return;
    skip = params->count == types->count + 1;
    if (params->count != types->count + skip ||
        (skip && (!params->at[0]->text || strcmp(params->at[0]->text, "self"))))
        cr_srange_bail(p->session, CR_RUNTIME, head,
                       "Number of type annotations (%d) did not match the number of function "
                       "parameters (%d)",
                       types->count, params->count);
    for (int i = 0; i < types->count && i + skip < params->count; i++)
        if (params->at[i + skip]->count && !params->at[i + skip]->at[0])
            params->at[i + skip]->at[0] = types->at[i];
}

static cr_sast *parse_function(parser *p, uint32_t start, const parse_list *decorators)
{
    parse_list list = {0};
    const cr_stoken *comment;
    cr_sast *name, *params, *result = NULL, *body;

    parse_want(p, "def");
    name = parse_name(p);
    parse_type_params(p);
    parse_want(p, "(");
    params = parse_params(p, ")", true);
    parse_want(p, ")");
    if (parse_take(p, "->"))
        result = parse_test(p);
    body = parse_body_after(p, &comment);
    if (comment)
        parse_signature(p, comment, (cr_srange){p->source, start, params->range.end}, params,
                        &result);
    parse_add(p, &list, params);
    parse_add(p, &list, result);
    parse_add(p, &list, body);
    for (size_t i = 0; i < decorators->len; i++)
        parse_add(p, &list, decorators->at[i]);
    return parse_with_text(p, parse_node(p, CR_SAST_FUNCTION, start, &list), name->text,
                           name->len);
}

static cr_sast *parse_class(parser *p, uint32_t start, const parse_list *decorators)
{
    parse_list list = {0};
    cr_sast *name, *bases = NULL;

    parse_want(p, "class");
    name = parse_name(p);
    parse_type_params(p);
    if (parse_is(p, "("))
        bases = parse_call(p, name);
    parse_add(p, &list, parse_body(p));
    parse_add(p, &list, bases);
    for (size_t i = 0; i < decorators->len; i++)
        parse_add(p, &list, decorators->at[i]);
    return parse_with_text(p, parse_node(p, CR_SAST_CLASS, start, &list), name->text,
                           name->len);
}

cr_sast *parse_decorated(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list decorators = {0};

    while (parse_take(p, "@")) {
        parse_add(p, &decorators, parse_test(p));
        if (!parse_take_kind(p, STOKEN_NEWLINE))
            parse_expected(p, "newline");
        start = parse_token(p)->start;
    }
    parse_take(p, "async");
    if (parse_is(p, "class"))
        return parse_class(p, start, &decorators);
    return parse_function(p, start, &decorators);
}
