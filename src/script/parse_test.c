#include "base/test.h"
#include "script/ast.h"

typedef struct {
    const char *text;
    cr_text out;
} parsed;

static void parse_it(cr_session *s, void *context)
{
    parsed *p = context;
    cr_ssource source = {"t.py", p->text, strlen(p->text), 1, 0, false};

    cr_sast_print(&p->out, cr_sast_parse(s, cr_session_copy(s, &source, sizeof source)));
}

/* The tree of `text`, or the error's message. */
static void is(const char *text, const char *want)
{
    cr_session s = {0};
    parsed p = {text, {0}};
    cr_status st = cr_session_run(&s, parse_it, &p);

    EQ_STR(st ? cr_error_message() : cr_text_str(&p.out), want);
    cr_text_drop(&p.out);
    cr_session_drop(&s);
}

TEST(operators_bind_as_in_python)
{
    is("-a**-b*c+d", "(body (expression (binary '+' (binary '*' (unary '-' (binary '**' a "
                     "(unary '-' b))) c) d)))");
    is("not a in b or c and d", "(body (expression (boolean 'or' (unary 'not' (binary 'in' a "
                                "b)) (boolean 'and' c d))))");
    is("a < b <= c", "(body (expression (chain (binary '<' a b) (binary '<=' b c))))");
    is("a if b else c if d else e", "(body (expression (condition b a (condition d c e))))");
    is("x @ y[1:, ::2, ...].T(z, k=1, *a, **b)",
       "(body (expression (binary '@' x (call (attribute 'T' (subscript y (slice (number '1') "
       "- -) (slice - - (number '2')) (... '...'))) z (keyword 'k' (number '1')) (star a) "
       "(starstar b)))))");
}

TEST(literals_are_decoded_and_joined)
{
    is("'a\\n' \"b\\x41\" r'\\n'", "(body (expression (string 'a\nbA\\n')))");
    is("f'a{x + 1!r:>{w}}{{}}b' 'c'",
       "(body (expression (fstring (string 'a') (field '!r:>{w}' (binary '+' x (number '1'))) "
       "(string '{}bc'))))");
    is("f\"{d[\"k\"]}\"",
       "(body (expression (fstring (field '' (subscript d (string 'k'))))))");
}

TEST(statements_nest_by_indentation)
{
    is("def f(a, *, b: int = 1, **k) -> T:  # note\n"
       "    if a:\n"
       "\n"
       "        x, y = 1, 2\n"
       "    elif b: pass\n"
       "    else:\n"
       "        x: int = 3\n"
       "    return x\n",
       "(body (def 'f' (params (param 'a' - -) (param '*' - -) (param 'b' int (number '1')) "
       "(param '**k' - -)) T (body (if a (body (assign (tuple (number '1') (number '2')) - "
       "(tuple x y))) (body (if b (body (pass 'pass')) (body (assign (number '3') int x))))) "
       "(return x))))");
    is("for i, j in a: b += i; c = [x for x in i if x]\n",
       "(body (for (tuple i j) a (body (augmented '+' b i) (assign (listcomp x (compfor x i "
       "x)) - c)) -))");
    is("match = 1\nmatch x:\n    case 1:\n        pass\ntype = 2\n",
       "(body (assign (number '1') - match) (match x) (assign (number '2') - type))");
}

TEST(type_comments_are_annotations)
{
    is("def f(self, a, b):\n    # type: (int, List[int]) -> str\n    c = [] # type: "
       "List[int]\n",
       "(body (def 'f' (params (param 'self' - -) (param 'a' int -) (param 'b' (subscript List "
       "int) -)) str (body (assign (list) (subscript List int) c))))");
}

TEST(errors_show_the_place)
{
    is("def f(x):\n    return x +\n",
       "\nexpected an expression but found 'newline' here:\n"
       "  File \"t.py\", line 2\ndef f(x):\n    return x +\n              ~ <--- HERE\n");
}

TEST(nesting_is_bounded)
{
    static char text[100001];

    memset(text, '(', sizeof text - 1);
    cr_session s = {0};
    parsed p = {text, {0}};
    FAILS(CR_RUNTIME, cr_session_run(&s, parse_it, &p));
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = i % 2 ? '+' : '1';
    FAILS(CR_RUNTIME, cr_session_run(&s, parse_it, &p));
    memset(text, '-', sizeof text - 1);
    FAILS(CR_RUNTIME, cr_session_run(&s, parse_it, &p));
    cr_session_drop(&s);
}
