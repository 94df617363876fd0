/* Mutates TorchScript archives, sources and texts of graphs, and runs those that are accepted:
 *
 *     script_fuzz [SECONDS] [SEED] [FOLDER] [COUNT]
 *
 * FOLDER has archives, tests/data/script unless given; COUNT ends the run after so many
 * archives, sources and texts.  An archive has one record mutated and its checksums repaired;
 * some have a pickle that was made up (script_pickles.h), another byte order, version or name,
 * or bytes of the finished file changed.  Those that are refused are read as checkpoints. A
 * source is the code of an archive's class, one of the functions below, or some of the
 * statements below, as an archive's file.  An accepted program is printed, called with few
 * steps, frozen, saved and read again.  A text is the graph of an archive's method; a pass runs
 * on one that is accepted, and a graph's own text must be accepted again.  Run it under asan
 * and ubsan.  Prints the seed. */
#include "autograd/autograd.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "script/archive.h"
#include "script/execute.h"
#include "script/freeze.h"
#include "script/passes.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A mutated size may ask for more memory than there is: NULL, as from malloc. */
CR_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

#include "script_pickles.h"

/* --- seeds --- */

typedef struct {
    char *name, *bytes;
    size_t len;
} record;
typedef struct {
    CR_VEC(record) records;
} archive;

static CR_VEC(archive) archives;
static CR_VEC(char *) graphs; /* texts of the graphs of their methods */

static const char *const functions[] = {
    "  def f(self: __torch__.M,\n    x: Tensor,\n    n: int) -> Tensor:\n    y = x\n"
    "    for i in range(n):\n      if torch.gt(i, 3):\n        y = torch.add(y, x, alpha=1)\n"
    "      else:\n        y = torch.mul(y, 2)\n    return y\n",
    "  def f(self: __torch__.M,\n    l: List[int],\n    d: Dict[str, int]) -> Tuple[int, "
    "str]:\n"
    "    a = annotate(List[int], [])\n    for k in d:\n      _0 = torch.append(a, d[k])\n"
    "    s = torch.format(\"{} {}\", torch.len(a), l[0])\n    return (torch.len(l), s)\n",
    "  def f(self: __torch__.M,\n    x: Optional[Tensor]) -> Tensor:\n    if torch.__is__(x, "
    "None):\n"
    "      y = torch.zeros([2, 3])\n    else:\n      y = unchecked_cast(Tensor, x)\n"
    "    return torch.select(y, 0, 0)\n",
    "  def f(self: __torch__.M,\n    x: Union[int, str, List[int]]) -> int:\n"
    "    if isinstance(x, int):\n      y = unchecked_cast(int, x)\n    else:\n      y = 2\n"
    "    _0 = uninitialized(int)\n    i = 0\n    while torch.lt(i, y):\n      i = torch.add(i, "
    "1)\n"
    "    return i\n",
    "  def f(self: __torch__.M,\n    s: str) -> str:\n    a, b, = s[1:], torch.upper(s)\n"
    "    ops.prim.Print(a, b, sep=\"\")\n    if torch.eq(a, b):\n"
    "      ops.prim.RaiseException(\"no\", \"builtins.ValueError\")\n    return a[::-1]\n"};

/* Statements of Python in the body of a method, of which TorchScript lacks some. */
static const char *const statements[] = {
    "if a < b <= c != d and not e:\n      x: int = 3\n    elif a not in b or b is not c:\n"
    "      pass\n    else:\n      del a, b[0]\n",
    "l = [i * j for i, j in zip(a, b) if i if j for k in i]\n",
    "d = {k: v for k, v in a.items()}\n    e = {**d, 'a': 1, \"b\": (1, 2, *c)}\n",
    "s = {i for i in x}\n    t = {1, *s, 3}\n    u = ()\n    v = (1,)\n",
    "g = sum(i async for i in x)\n    h = lambda a, *b, c=1, **d: a if b else c\n",
    "s = f\"a{x!r:>{n}}{{}}{y + 1:.3f}{z=}\" 'b' \"c\\n\"\n    t = rb'\\n' b'\\x41'\n",
    "s = \"\"\"three\n    lines\"\"\" r'raw\\' u'\\u00e9\\N{DASH}'\n",
    "y = x[1:, ::2, ..., None, a:b:c, :-1].T(z, k=1, *a, **b)\n",
    "a, *b = c = d, e\n    a += 1; b @= c; d //= 2; e **= f; g <<= 1; h >>= 2\n",
    "try:\n      x = 1\n    except (A, B) as e:\n      raise X(1) from e\n    except:\n"
    "      raise\n    else:\n      pass\n    finally:\n      y = 2\n",
    "with a as b, c(d) as (e, f):\n      pass\n    with (\n      a as b,\n      c,\n    ):\n"
    "      pass\n    with (a, b):\n      pass\n",
    "while a := f(b):\n      break\n    else:\n      continue\n",
    "for i, (j, k) in a, b:\n      continue\n    else:\n      assert a, 'b'\n",
    "import a.b.c as d, e\n    from ..a import (b as c, d,)\n    from . import *\n",
    "match x, y:\n      case [1, *_] if a:\n        pass\n      case {'a': b, **c} | D(e=1):\n"
    "        pass\n    match = 1\n    type = 2\n    type A[T] = List[T]\n",
    "async def g[T](a: int = 1, /, b=2, *, c: str, **d: T) -> None:\n"
    "      async with a as b:\n        await c\n      async for i in x:\n        yield i\n"
    "      x = yield from y\n      return (yield)\n",
    "def g(a, b):\n      # type: (int, List[int]) -> str\n      c = []  # type: List[int]\n"
    "      global d\n      nonlocal e, f\n      return c\n",
    "def g(a,  # type: int\n          b=2,  # type: Optional[int]\n          ):\n"
    "      # type: (...) -> Tensor\n      return a\n",
    "@a.b(1)\n    @c\n    class N[T](A, metaclass=B):\n      x: int = 1\n      y: 'str'\n"
    "      def f(self): ...\n",
    "x = 0xFF + 0o17 + 0b11 + 1_000 + 1e-3 + .5 + 2j + ~a ** -b // +c % d @ e\n",
    "x = (a if b else c, (yield), (d := 1), not e, a[b][c].d, await f)\n    x = \\\n      1\n",
    "s = '\\u00e9\\u20ac\\U0001F600\\x7\\101\\8\\\n\\N{A' f'{a, b!r}{c:{d}}{e,}'\n    t = 'é' "
    "+ \"\\u12\"\n"};

static const char *const words[] = {"Tensor",
                                    "int",
                                    "float",
                                    "str",
                                    "List",
                                    "Dict",
                                    "Optional",
                                    "Tuple",
                                    "None",
                                    "self",
                                    "torch",
                                    "add",
                                    "return",
                                    "if",
                                    "else:",
                                    "for",
                                    "while",
                                    "in",
                                    "range",
                                    "def",
                                    "class",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    ":",
                                    ",",
                                    ".",
                                    "=",
                                    "->",
                                    "\n",
                                    "    ",
                                    "1",
                                    "0",
                                    "-1",
                                    "2.5",
                                    "1e9",
                                    "\"a\"",
                                    "'",
                                    "\"",
                                    "\\",
                                    "f\"{",
                                    "}\"",
                                    "annotate",
                                    "unchecked_cast",
                                    "uninitialized",
                                    "ops.prim.NumToTensor",
                                    "ops.aten",
                                    "CONSTANTS.c0",
                                    "__torch__.M",
                                    "not",
                                    "and",
                                    "or",
                                    "is",
                                    "lambda",
                                    "*",
                                    "**",
                                    "@",
                                    "break",
                                    "continue",
                                    "pass",
                                    "with",
                                    "as",
                                    "raise",
                                    "assert",
                                    "del",
                                    "global",
                                    "yield",
                                    "await",
                                    "# type: (int) -> int",
                                    "Union[int, str]",
                                    "Future[int]",
                                    "fork",
                                    "wait",
                                    "NamedTuple",
                                    "Enum",
                                    "0x",
                                    "1_0",
                                    "1j",
                                    "\t",
                                    "\xff",
                                    "é",
                                    "isinstance(x, int)",
                                    "x",
                                    "n",
                                    "i",
                                    "y",
                                    "_0",
                                    "training",
                                    "__parameters__ = []"};

static void need(cr_status st, const char *what)
{
    if (st) {
        fprintf(stderr, "%s: %s\n", what, cr_error_message());
        exit(1);
    }
}

/* The texts of the methods of an object's class and of the objects that it has. */
static void read_graphs(const cr_iobject *o)
{
    const cr_sclass *c = o->type->cls;

    for (size_t i = 0; i < c->method_count; i++) {
        cr_text text = {0};
        if (c->method[i]->graph)
            cr_sgraph_print(&text, c->method[i]->graph, false);
        need(cr_vec_reserve(&graphs, 1), c->name);
        if (text.len && text.len < 8000)
            cr_vec_put(&graphs, cr_strdup(text.at));
        cr_text_drop(&text);
    }
    for (size_t i = 0; i < o->len; i++)
        if (o->slot[i].kind == CR_IV_OBJECT)
            read_graphs(o->slot[i].object);
}

static void read_module(cr_source *s, const char *path)
{
    cr_ivalue v = cr_iv_none();

    need(cr_sarchive_read(&v, s, NULL), path);
    if (v.kind == CR_IV_OBJECT) {
        read_graphs(v.object);
        cr_iobject_clear(v.object);
    }
    cr_ivalue_drop(v);
}

static void read_archive(const char *path)
{
    archive a = {0};
    cr_source *s = NULL;
    cr_zip *z = NULL;
    const cr_zip_entry *e;

    need(cr_source_open(&s, path), path);
    need(cr_zip_open(&z, s), path);
    for (size_t i = 0; (e = cr_zip_at(z, i)); i++) {
        if (!strcmp(e->name, "version") || strchr(e->name, '.') == e->name)
            continue;
        record r = {.name = cr_strdup(e->name)};
        need(cr_zip_text(&r.bytes, &r.len, z, e->name), e->name);
        need(cr_vec_reserve(&a.records, 1), path);
        cr_vec_put(&a.records, r);
    }
    read_module(s, path);
    cr_zip_drop(z);
    cr_source_drop(s);
    need(cr_vec_reserve(&archives, 1), path);
    cr_vec_put(&archives, a);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_seeds(const char *folder)
{
    char *names[64], path[4096];
    size_t n = 0;
    DIR *d = opendir(folder);

    for (struct dirent *e; d && n < CR_LEN(names) && (e = readdir(d));)
        if (strlen(e->d_name) > 3 && !strcmp(e->d_name + strlen(e->d_name) - 3, ".pt"))
            names[n++] = cr_strdup(e->d_name);
    if (d)
        closedir(d);
    if (n)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        read_archive(path);
        cr_free(names[i]);
    }
    if (!n) {
        printf("%s has no archives\n", folder);
        exit(1);
    }
}

/* --- mutations --- */

static void replace(cr_text *t, size_t at, size_t cut, const char *put, size_t len)
{
    cr_text made = {0};

    cut = cut < t->len - at ? cut : t->len - at;
    cr_text_put_n(&made, t->at, at);
    cr_text_put_n(&made, put, len);
    cr_text_put_n(&made, t->at + at + cut, t->len - at - cut);
    cr_text_drop(t);
    *t = made;
}

/* One construct inside of itself, a few or many times. */
static void mutate_depth(cr_text *t, size_t at)
{
    static const char *const nests[] = {
        "(",    "[",     "-",        "not ", "f(",           "x[",
        "{1: ", "x.",    "lambda: ", "f'{",  "x if y else ", "a + ",
        "(*",   "List[", "x**",      "a or "};
    const char *nest = nests[draw(CR_LEN(nests))];
    cr_text many = {0};

    for (uint32_t n = draw(2) ? draw(20) : draw(3000); n; n--)
        cr_text_put(&many, nest);
    replace(t, at, 0, many.at ? many.at : "", many.len);
    cr_text_drop(&many);
}

static void mutate_text(cr_text *t)
{
    size_t at = draw((uint32_t)t->len + 1), from = draw((uint32_t)t->len + 1);
    const char *word = words[draw(CR_LEN(words))];
    char part[96];

    while (draw(4) && at < t->len && t->at[at] != ' ' && t->at[at] != '(')
        at++;
    if (!draw(200)) {
        mutate_depth(t, at);
        return;
    }
    switch (draw(5)) {
    case 0: replace(t, at, draw(12), "", 0); return;
    case 1:
    case 2: replace(t, at, draw(2) ? draw(10) : 0, word, strlen(word)); return;
    case 3: {
        size_t n = draw(sizeof part);
        n = n < t->len - from ? n : t->len - from;
        memcpy(part, t->at + from, n);
        replace(t, at, 0, part, n);
        return;
    }
    default: replace(t, at, 1, &(char){(char)draw(128)}, 1);
    }
}

static void mutate_bytes(cr_text *t)
{
    size_t at = draw((uint32_t)t->len + 1), from = draw((uint32_t)t->len + 1);
    char part[64];
    size_t n = draw(sizeof part);

    n = n < t->len - from ? n : t->len - from;
    memcpy(part, t->at + from, n);
    switch (draw(5)) {
    case 0: replace(t, at, draw(8), "", 0); return;
    case 1: replace(t, at, draw(2) ? n : 0, part, n); return;
    case 2: replace(t, at, 1, &(char){(char)draw(256)}, 1); return;
    case 3: replace(t, at, 1, &(char){"(.tRbsuahjq\x85\x86\x87K]}"[draw(17)]}, 1); return;
    default: replace(t, at, t->len, "", 0); return;
    }
}

static void copy_of(cr_text *out, const char *at, size_t len) { cr_text_put_n(out, at, len); }

/* --- use of accepted programs --- */

static unsigned long sum, read_count, compiled, ran;

static cr_status append(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

/* A value of a simple type; None for others. */
static cr_ivalue argument_of(const cr_stype *t)
{
    const int64_t size[] = {2, 3};
    cr_tensor *x = NULL;
    cr_ivalue v = cr_iv_none();

    switch ((cr_stype_kind)t->kind) {
    case CR_STYPE_TENSOR:
        return cr_tensor_new(&x, CR_F32, CR_HOST, 2, size) ? cr_iv_none() : cr_iv_tensor(x);
    case CR_STYPE_INT: return cr_iv_int(draw(4));
    case CR_STYPE_FLOAT: return cr_iv_float(0.5);
    case CR_STYPE_BOOL: return cr_iv_bool(draw(2));
    case CR_STYPE_STR: return cr_istring_new(&v, "abc", 3) ? cr_iv_none() : v;
    case CR_STYPE_LIST: return cr_ilist_new(&v, t, 1) ? cr_iv_none() : v;
    case CR_STYPE_DICT: return cr_idict_new(&v, t) ? cr_iv_none() : v;
    default: return v;
    }
}

static void call_method(const cr_ivalue *self, cr_sfunction *f)
{
    cr_ivalue args[8], result = cr_iv_none();
    int n = f->schema.param_count;
    cr_srun how = {.most_steps = 300};
    cr_text text = {0};

    if (!n || n > (int)CR_LEN(args) || !f->graph)
        return;
    args[0] = cr_ivalue_keep(*self);
    for (int i = 1; i < n; i++)
        args[i] = argument_of(f->schema.param[i].type);
    if (!cr_sfunction_run(&result, f, args, n, &how)) {
        ran++;
        sum += (unsigned long)cr_ivalue_print(&text, &result);
    }
    cr_text_drop(&text);
    cr_ivalue_drop(result);
    cr_ivalues_drop(args, (size_t)n);
}

static void print_method(const cr_sfunction *f)
{
    cr_text text = {0};

    if (f->graph)
        cr_sgraph_print(&text, f->graph, true);
    sum += text.len;
    cr_text_drop(&text);
    if (f->graph)
        sum += (unsigned long)cr_sarchive_method_text(&text, f);
    cr_text_drop(&text);
}

static void use_object(const cr_ivalue *v, bool again)
{
    const cr_sclass *cls = v->object->type->cls;
    cr_text bytes = {0};
    cr_ivalue frozen = cr_iv_none();

    for (size_t i = 0; i < cls->method_count; i++) {
        print_method(cls->method[i]);
        if (draw(2))
            call_method(v, cls->method[i]);
    }
    if (again && cls->is_module && !cr_sobject_freeze(&frozen, v, NULL, 0, false)) {
        use_object(&frozen, false);
        cr_iobject_clear(frozen.object);
        cr_ivalue_drop(frozen);
    }
    if (again)
        sum += (unsigned long)cr_sarchive_write(v, "a", NULL, 0, append, &bytes);
    sum += bytes.len;
    cr_text_drop(&bytes);
}

/* --- archives --- */

static unsigned long opened;

static cr_status allow(void *who, const char *module, const char *name, bool *allowed)
{
    (void)who;
    (void)module;
    (void)name;
    *allowed = true;
    return CR_OK;
}

/* Reads the storages of the archive as those of a checkpoint. */
static void try_checkpoint(cr_source *source)
{
    cr_checkpoint_options options = {
        .rules = {.weights_only = draw(2), .ask = allow}, .share = draw(2), .swapped = draw(2)};
    cr_checkpoint *c = NULL;

    if (cr_checkpoint_open(&c, source, &options))
        return;
    const cr_pickle *p = cr_checkpoint_pickle(c);
    opened++;
    for (size_t i = 0; i < p->storages.len; i++) {
        cr_storage *root = NULL, *storage = NULL;
        int64_t root_at = p->storages.at[i].root;
        if (root_at >= 0 && cr_checkpoint_storage(&root, c, (size_t)root_at, NULL))
            continue;
        if (!cr_checkpoint_storage(&storage, c, i, root))
            cr_storage_drop(storage);
        if (root)
            cr_storage_drop(root);
    }
    cr_checkpoint_drop(c);
}

/* Bytes of the finished file, with checksums as they were: most often those of its
 * directory. */
static void mutate_file(cr_text *bytes)
{
    bool anywhere = !draw(4);

    if (!draw(20)) {
        replace(bytes, 0, 8, draw(2) ? "\0\0\0\0PTMF" : "\x80\2\x8a\x0a\x6c\xfc\x9c\x46", 8);
        return;
    }
    for (uint32_t n = 1 + draw(3); n && bytes->len; n--) {
        size_t tail = bytes->len < 600 || anywhere ? bytes->len : 600;
        static const char far[4] = "\xff\xff\xff\xff";
        size_t at = bytes->len - 1 - draw((uint32_t)tail);
        if (!draw(4))
            replace(bytes, at, 4, far, 4);
        else
            replace(bytes, at, draw(3) ? 1 : draw(40), &(char){(char)draw(256)}, draw(8) != 0);
    }
}

/* The record's name, or another one: the same twice, one that means a format, an extra file. */
static const char *name_of(const archive *a, const record *r)
{
    static const char *const names[] = {"model.json",   "extra/a",       "byteorder",
                                        "data.pkl",     "constants.pkl", ".data/version",
                                        "bytecode.pkl", "a/../data.pkl", "extra/../../a"};

    if (draw(400))
        return r->name;
    return draw(2) ? names[draw(CR_LEN(names))]
                   : a->records.at[draw((uint32_t)a->records.len)].name;
}

static void mutate_record(cr_text *made, const char *name)
{
    bool code = strstr(name, ".py") != NULL, pickle = strstr(name, ".pkl") && !code;

    if (pickle && draw(3)) {
        mutate_pickle(made, !draw(3));
        return;
    }
    for (uint32_t m = 1 + draw(3); m && made->len; m--)
        (code ? mutate_text : mutate_bytes)(made);
}

/* An archive with one record changed, and its checksums as they are then. */
static void make_archive(cr_text *bytes, const archive *a)
{
    static const char *const versions[] = {
        "1\n", "2",    "3\n", "4",    "5", "6", "7",  "8\n",
        "9",   "10\n", "10",  "11\n", "x", "",  "-1", "99999999999999999999"};
    bool only_data = !draw(8); /* a checkpoint has no constants.pkl */
    size_t chosen = draw((uint32_t)a->records.len);
    cr_zip_writer w;

    cr_zip_begin(&w, "a", append, bytes);
    w.version = versions[draw(draw(4) ? 11 : CR_LEN(versions))];
    w.unchecked = !draw(20);
    for (size_t i = 0; i < a->records.len; i++) {
        const record *r = &a->records.at[i];
        cr_text made = {0};
        if (only_data && strncmp(r->name, "data", 4))
            continue;
        copy_of(&made, r->bytes, r->len);
        if (!strcmp(r->name, "data.pkl"))
            pickle_find_classes(r->bytes, r->len);
        if (i == chosen || (only_data && !draw(4)))
            mutate_record(&made, r->name);
        need(cr_zip_add(&w, name_of(a, r), made.at ? made.at : "", made.len), r->name);
        cr_text_drop(&made);
    }
    if (!draw(8))
        need(cr_zip_add(&w, "byteorder", draw(3) ? "big" : "bag", 3), "byteorder");
    need(cr_zip_end(&w), "end");
    cr_zip_writer_drop(&w);
}

/* The layout before archives: pickles, and behind them the storages that they name. */
static void make_old(cr_text *t)
{
    static const char head[] =
        "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}.";

    cr_text_put_n(t, head, sizeof head - 1);
    cr_text_put(t, "\x80\2(");
    for (uint32_t n = 1 + draw(3); n; n--)
        draw(3) ? pickle_tensor(t) : pickle_value(t, 2);
    cr_text_put(t, draw(8) ? "t." : ".");
    cr_text_put(t, "\x80\2](");
    for (uint32_t n = draw(3); n < 3; n++)
        pickle_text(t, n == 2 ? "1" : "0");
    cr_text_put(t, "e.");
    for (uint32_t n = draw(4); n < 3; n++) {
        cr_text_put_n(t, draw(8) ? "\4\0\0\0\0\0\0\0" : "\5\0\0\0\0\0\0\xff", 8);
        cr_text_put_n(t, "0123456789abcdef", 16);
    }
    if (!draw(4))
        mutate_bytes(t);
}

static void try_archive(void)
{
    const archive *a = &archives.at[draw((uint32_t)archives.len)];
    cr_text bytes = {0};
    cr_source *s = NULL;
    cr_ivalue v = cr_iv_none();
    cr_sextras extras = {0};

    if (draw(12))
        make_archive(&bytes, a);
    else
        make_old(&bytes);
    if (!draw(4))
        mutate_file(&bytes);
    need(cr_source_memory(&s, bytes.at, bytes.len, NULL, NULL), "source");
    if (!cr_sarchive_read(&v, s, draw(2) ? &extras : NULL)) {
        read_count++;
        if (v.kind == CR_IV_OBJECT) {
            use_object(&v, true);
            cr_iobject_clear(v.object);
        }
        cr_ivalue_drop(v);
    } else {
        try_checkpoint(s);
    }
    cr_sextras_drop(&extras);
    cr_source_drop(s);
    cr_text_drop(&bytes);
}

/* --- sources --- */

static cr_status read_source(void *context, const char *qualifier, const char **text,
                             size_t *len)
{
    const cr_text *source = context;

    *text = strcmp(qualifier, "__torch__") ? NULL : source->at;
    *len = source->len;
    return CR_OK;
}

static void make_source(cr_text *out)
{
    const archive *a = &archives.at[draw((uint32_t)archives.len)];
    const record *r = &a->records.at[draw((uint32_t)a->records.len)];

    if (draw(2) && strstr(r->name, ".py") && !strstr(r->name, "debug")) {
        cr_text_put_n(out, r->bytes, r->len);
        return;
    }
    cr_text_put(out, "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
                     "  training : bool\n");
    if (draw(3)) {
        cr_text_put(out, functions[draw(CR_LEN(functions))]);
        return;
    }
    cr_text_put(out, "  def f(self, x: Tensor, n: int):\n");
    for (uint32_t i = 1 + draw(3); i; i--)
        cr_text_printf(out, "    %s", statements[draw(CR_LEN(statements))]);
    cr_text_put(out, "    return x\n");
}

static void use_class(cr_sunit *u, cr_sclass *cls)
{
    cr_ivalue v;

    if (cr_iobject_new(&v, cls->type, u, cls->attribute_count))
        return;
    for (size_t i = 0; i < cls->attribute_count; i++)
        cr_ivalue_set(&v.object->slot[i], argument_of(cls->attribute[i].type));
    use_object(&v, false);
    cr_iobject_clear(v.object);
    cr_ivalue_drop(v);
}

typedef struct {
    const cr_text *source;
    cr_text out;
} tree;

static void parse_tree(cr_session *s, void *context)
{
    tree *t = context;
    cr_ssource source = {.text = cr_text_str(t->source), .len = t->source->len, .python = true};

    cr_sast_print(&t->out, cr_sast_parse(s, cr_session_copy(s, &source, sizeof source)));
}

/* The tree of the text as a function of Python, whose marks end elsewhere. */
static void try_tree(const cr_text *source)
{
    cr_session s = {0};
    tree t = {.source = source};

    sum += (unsigned long)cr_session_run(&s, parse_tree, &t) + t.out.len;
    cr_text_drop(&t.out);
    cr_session_drop(&s);
}

static void try_source(void)
{
    static const cr_sconstant two = {.type = CR_STYPE_OF(FLOAT), .d = {2}};
    cr_text source = {0};
    cr_sunit *u = cr_sunit_new();
    cr_sclass *cls = NULL;

    make_source(&source);
    for (uint32_t m = draw(4); m; m--)
        mutate_text(&source);
    cr_text_put(&source, "");
    const char *head = source.len ? strstr(cr_text_str(&source), "class ") : NULL;
    char name[128] = "__torch__.M";
    if (head)
        snprintf(name, sizeof name, "__torch__.%.*s", (int)strcspn(head + 6, "(:\n ") % 100,
                 head + 6);
    cr_sarchive a = {read_source, &source, &two, 1, (int)draw(11)};
    if (u && !cr_sunit_import(u, &a, name, &cls)) {
        compiled++;
        use_class(u, cls);
    }
    cr_sunit_release(u);
    if (!draw(4))
        try_tree(&source);
    cr_text_drop(&source);
}

/* --- texts of graphs --- */

static const char *const graph_words[] = {"prim::If(",
                                          "prim::Loop(",
                                          "prim::Constant[value=1]()",
                                          "prim::Constant[value=[1, 2]]()",
                                          "prim::Constant[value=\"a\"]()",
                                          "prim::Constant[value=<Tensor 2, 3>]()",
                                          "prim::ListConstruct(",
                                          "prim::DictConstruct(",
                                          "prim::TupleConstruct(",
                                          "prim::TupleIndex(",
                                          "prim::TupleSlice[beg=0, end=1](",
                                          "prim::TupleUnpack(",
                                          "prim::GetAttr[name=\"a\"](",
                                          "prim::SetAttr[name=\"a\"](",
                                          "prim::CallMethod[name=\"f\"](",
                                          "prim::isinstance[types=[int, str[]]](",
                                          "prim::unchecked_cast(",
                                          "prim::Uninitialized()",
                                          "aten::add(",
                                          "aten::append(",
                                          "aten::__getitem__(",
                                          "aten::batch_norm(",
                                          "aten::conv2d(",
                                          "aten::dropout(",
                                          "block0():\n",
                                          "block1(%a : int):\n",
                                          "-> (",
                                          "return (",
                                          "graph(",
                                          " : Tensor = ",
                                          " : int = ",
                                          " : int[] = ",
                                          " : (int, Tensor) = ",
                                          " : Dict(str, int)",
                                          " : Union(int, str)",
                                          "Future(int)",
                                          "__torch__.M",
                                          "?",
                                          "[]",
                                          "%1",
                                          "%2",
                                          "%5",
                                          "%self",
                                          ", ",
                                          "(",
                                          ")",
                                          "-9223372036854775808",
                                          "1e308",
                                          "\n"};

/* One word of the text in place of another: most often values, so that the graph stays one. */
static void mutate_graph(cr_text *t)
{
    size_t at = draw((uint32_t)t->len + 1), from = draw((uint32_t)t->len + 1);
    static const char *const starts = "%: (=\n";
    char start = starts[draw(6)], part[48];

    if (!draw(4)) {
        mutate_text(t);
        return;
    }
    while (at < t->len && t->at[at] != start)
        at++;
    while (from < t->len && t->at[from] != start)
        from++;
    size_t cut = at < t->len ? 1 + strcspn(t->at + at + 1, " ,)\n") : 0;
    size_t n = from < t->len ? 1 + strcspn(t->at + from + 1, " ,)\n") : 0;
    n = n < sizeof part ? n : sizeof part;
    memcpy(part, t->at + from, n);
    if (draw(3)) {
        replace(t, at, cut, part, n);
    } else {
        const char *word = graph_words[draw(CR_LEN(graph_words))];
        replace(t, at, draw(2) ? cut : 0, word, strlen(word));
    }
}

static unsigned long parsed;

static void try_graph(void)
{
    static const char *const passes[] = {
        "pool",  "dead",     "fold",   "common", "numbers", "wrapped", "peephole",
        "lists", "tidy",     "unroll", "norms",  "prepare", "freeze",  "optimize",
        "",      "dropouts", "terms",  "layers", "known",   "detached"};
    const char *seed = graphs.at[draw((uint32_t)graphs.len)];
    cr_text text = {0}, made = {0}, again = {0};

    cr_text_put(&text, seed);
    for (uint32_t m = draw(4); m && text.len; m--)
        mutate_graph(&text);
    const char *pass = draw(3) ? passes[draw(CR_LEN(passes))] : "";
    if (!cr_sgraph_print_after(&made, cr_text_str(&text), pass)) {
        parsed++;
        if (!*pass)
            need(cr_sgraph_print_after(&again, cr_text_str(&made), ""), cr_text_str(&made));
    }
    sum += made.len;
    cr_text_drop(&text);
    cr_text_drop(&made);
    cr_text_drop(&again);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    time_t end = time(NULL) + (time_t)seconds;
    unsigned long most = argc > 4 ? strtoul(argv[4], NULL, 10) : 0, tried = 0;

    state = argc > 2 && *argv[2] != '0' ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)state);
    fflush(stdout);
    FILE *report = fdopen(dup(1), "w");
    need(cr_tensor_start(), "start");
    need(cr_autograd_start(), "start");
    read_seeds(argc > 3 ? argv[3] : "tests/data/script");
    if (!report || !freopen("/dev/null", "w", stdout)) /* programs print */
        return 1;
    do {
        try_archive();
        try_source();
        if (graphs.len)
            try_graph();
        tried++;
    } while (most ? tried < most : time(NULL) < end);
    fprintf(report,
            "%lu archives and %lu sources, %lu and %lu accepted, %lu calls, sum %lu\n"
            "%lu texts of graphs, %lu accepted; %lu archives read as checkpoints\n",
            tried, tried, read_count, compiled, ran, sum, tried, parsed, opened);
    return 0;
}
