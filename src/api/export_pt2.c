/* Modules as exported programs of torch: archives of the schema 8.20 (script/exported.c reads
 * them).
 *
 * The recorded calls are the nodes of the graph, with torch's names of their overloads.
 * Parameters, buffers and constants are inputs before those of the program. */
#include "api/export_impl.h"
#include "autograd/autograd.h"
#include "io/output.h"
#include "io/safetensors.h"
#include "io/zip.h"
#include "nn/nn.h"
#include "num/dtype.h"
#include "ops/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CR_INSIDE
#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view
#include "cresset_export.h"

typedef struct {
    const cr_exported *e;
    cr_text model, weights, constants, nodes, values;
    char **name; /* by value id: its name in the file, or NULL */
    size_t value_count;
    cr_zip_writer zip;
    cr_output file;
} pt2_job;

/* --- JSON --- */

static void pt2_text(cr_text *out, const char *s)
{
    cr_text_char(out, '"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            cr_text_printf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            cr_text_printf(out, "\\u%04x", *s);
        else
            cr_text_char(out, *s);
    cr_text_char(out, '"');
}

static void pt2_float(cr_text *out, double d)
{
    char spelled[40];

    if (!isfinite(d)) {
        cr_text_put(out, d != d ? "\"NaN\"" : d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    snprintf(spelled, sizeof spelled, "%.17g", d);
    cr_text_put(out, spelled);
    cr_text_put(out, strpbrk(spelled, ".e") ? "" : ".0");
}

/* Numbers of a list; one number of a list of `fixed` numbers is that of all. */
static void pt2_ints(cr_text *out, const int64_t *at, int64_t n, int fixed)
{
    int64_t count = n == 1 && fixed > 1 ? fixed : n;

    cr_text_put(out, "{\"as_ints\": [");
    for (int64_t i = 0; i < count; i++)
        cr_text_printf(out, i ? ", %lld" : "%lld", (long long)at[i < n ? i : 0]);
    cr_text_put(out, "]}");
}

static void pt2_sizes(cr_text *out, const int64_t *at, int n)
{
    cr_text_char(out, '[');
    for (int i = 0; i < n; i++)
        cr_text_printf(out, i ? ", {\"as_int\": %lld}" : "{\"as_int\": %lld}",
                       (long long)at[i]);
    cr_text_char(out, ']');
}

/* The number of a dtype in the format; 0: it has none. */
static int pt2_dtype(cr_dtype t)
{
#define CR_EXPORTED_DTYPE(number, name) {number, name},
    static const struct {
        int number;
        const char *name;
    } known[] = {
#include "script/exported_schema.def"
    };

    for (size_t i = 0; i < CR_LEN(known); i++)
        if (!strcmp(known[i].name, cr_dtype_name(t)))
            return known[i].number;
    return 0;
}

static void pt2_meta(cr_text *out, cr_dtype t, int ndim, const int64_t *size,
                     const int64_t *stride, bool requires_grad)
{
    cr_text_printf(out, "{\"dtype\": %d, \"sizes\": ", pt2_dtype(t));
    pt2_sizes(out, size, ndim);
    cr_text_printf(out,
                   ", \"requires_grad\": %s, \"device\": {\"type\": \"cpu\", \"index\": null}, "
                   "\"strides\": ",
                   requires_grad ? "true" : "false");
    pt2_sizes(out, stride, ndim);
    cr_text_put(out, ", \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}");
}

/* A tensor whose elements stand in the file in row-major order. */
static void pt2_tensor_meta(cr_text *out, const cr_tensor *t, bool requires_grad)
{
    int64_t stride[CR_MAX_DIMS];

    cr_row_major_strides(stride, t->ndim, t->size);
    pt2_meta(out, (cr_dtype)t->dtype, t->ndim, t->size, stride, requires_grad);
}

/* --- names --- */

static cr_status pt2_set_name(pt2_job *j, const cr_gvalue *v, const char *prefix,
                              const char *name)
{
    cr_text text = {0};

    cr_text_printf(&text, "%s%s", prefix, name);
    CR_TRY(cr_text_status(&text));
    j->name[v->id] = cr_strdup(text.at);
    cr_text_drop(&text);
    return j->name[v->id] ? CR_OK : CR_MEMORY;
}

/* Whether Python has the name: torch.fx gives such nodes others. */
static bool pt2_is_reserved(const char *name)
{
    static const char reserved[] =
        "  abs aiter all and anext any as ascii assert async await bin bool break breakpoint "
        "bytearray bytes callable chr class classmethod compile complex continue def del "
        "delattr dict dir divmod elif else enumerate eval except exec filter finally float "
        "for format from frozenset getattr global globals hasattr hash help hex id if import "
        "in input int is isinstance issubclass iter lambda len list locals map max memoryview "
        "min next nonlocal not object oct open or ord pass pow print property raise range "
        "repr return reversed round set setattr slice sorted staticmethod str sum super try "
        "tuple type vars while with yield zip ";
    char word[32];

    return snprintf(word, sizeof word, " %s ", name) < (int)sizeof word &&
           strstr(reserved, word);
}

static const char *pt2_name(const pt2_job *j, const cr_gvalue *v)
{
    return j->name[v->id] ? j->name[v->id] : v->name;
}

static cr_status pt2_name_inputs(pt2_job *j)
{
    for (size_t i = 0; i < j->e->input.len; i++) {
        const cr_export_input *in = &j->e->input.at[i];
        CR_TRY(pt2_set_name(j, j->e->graph->input[i],
                            in->argument    ? "in_"
                            : in->parameter ? "p_"
                                            : "b_",
                            in->name));
    }
    return CR_OK;
}

static void pt2_as_tensor(cr_text *out, const char *name)
{
    cr_text_put(out, "{\"as_tensor\": {\"name\": ");
    pt2_text(out, name);
    cr_text_put(out, "}}");
}

/* --- arguments --- */

static void pt2_number(cr_text *out, cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_BOOL: cr_text_printf(out, "{\"as_bool\": %s}", s.i ? "true" : "false"); break;
    case CR_CAT_INT: cr_text_printf(out, "{\"as_int\": %lld}", (long long)s.i); break;
    case CR_CAT_FLOAT:
        cr_text_put(out, "{\"as_float\": ");
        pt2_float(out, s.d);
        cr_text_char(out, '}');
        break;
    default:
        cr_text_put(out, "{\"as_complex\": {\"real\": ");
        pt2_float(out, s.c.re);
        cr_text_put(out, ", \"imag\": ");
        pt2_float(out, s.c.im);
        cr_text_put(out, "}}");
    }
}

static void pt2_tensors(const pt2_job *j, cr_text *out, const cr_garg *a, bool optional)
{
    cr_text_put(out, optional ? "{\"as_optional_tensors\": [" : "{\"as_tensors\": [");
    for (uint32_t i = 0; i < a->len; i++) {
        cr_text_put(out, i ? ", " : "");
        if (a->list[i].tag == CR_NONE) {
            cr_text_put(out, "{\"as_none\": true}");
        } else if (optional) {
            pt2_as_tensor(out, pt2_name(j, a->list[i].value));
        } else {
            cr_text_put(out, "{\"name\": ");
            pt2_text(out, pt2_name(j, a->list[i].value));
            cr_text_char(out, '}');
        }
    }
    cr_text_put(out, "]}");
}

static void pt2_floats(cr_text *out, const cr_garg *a)
{
    cr_text_put(out, "{\"as_floats\": [");
    for (uint32_t i = 0; i < a->len; i++) {
        cr_text_put(out, i ? ", " : "");
        pt2_float(out, a->floats[i]);
    }
    cr_text_put(out, "]}");
}

static void pt2_truths(cr_text *out, const cr_garg *a)
{
    cr_text_put(out, "{\"as_bools\": [");
    for (uint32_t i = 0; i < a->len; i++)
        cr_text_printf(out, "%s%s", i ? ", " : "", a->ints[i] ? "true" : "false");
    cr_text_put(out, "]}");
}

static cr_status pt2_refuse(const cr_gnode *n, const char *what)
{
    return cr_fail(CR_VALUE,
                   "to_pt2: the program calls %s with %s, which has no form in the file",
                   n->op->name, what);
}

static cr_status pt2_argument(const pt2_job *j, cr_text *out, const cr_gnode *n, int i)
{
    static const int formats[] = {[CR_FORMAT_CONTIGUOUS] = 1,
                                  [CR_FORMAT_PRESERVE] = 4,
                                  [CR_FORMAT_CHANNELS_LAST] = 2,
                                  [CR_FORMAT_CHANNELS_LAST_3D] = 3};
    const cr_param *p = &n->op->param[i];
    const cr_garg *a = &n->arg[i];

    switch ((cr_tag)a->tag) {
    case CR_NONE: cr_text_put(out, "{\"as_none\": true}"); break;
    case CR_TENSOR: pt2_as_tensor(out, pt2_name(j, a->value)); break;
    case CR_TENSORS: pt2_tensors(j, out, a, p->item_optional); break;
    case CR_NUMBER: pt2_number(out, a->number); break;
    case CR_INT:
        if (p->type == CR_T_INTS)
            pt2_ints(out, &a->i, 1, p->fixed);
        else
            cr_text_printf(out, "{\"as_int\": %lld}", (long long)a->i);
        break;
    case CR_TRUTH: cr_text_printf(out, "{\"as_bool\": %s}", a->i ? "true" : "false"); break;
    case CR_FLOAT:
        cr_text_put(out, "{\"as_float\": ");
        pt2_float(out, a->d);
        cr_text_char(out, '}');
        break;
    case CR_STRING:
        cr_text_put(out, "{\"as_string\": ");
        pt2_text(out, a->s);
        cr_text_char(out, '}');
        break;
    case CR_INTS: pt2_ints(out, a->ints, a->len, p->fixed); break;
    case CR_FLOATS: pt2_floats(out, a); break;
    case CR_TRUTHS: pt2_truths(out, a); break;
    case CR_DTYPE_VAL:
        cr_text_printf(out, "{\"as_scalar_type\": %d}", pt2_dtype((cr_dtype)a->i));
        break;
    case CR_LAYOUT_VAL:
        if (a->i != CR_LAYOUT_STRIDED)
            return pt2_refuse(n, "another layout");
        cr_text_put(out, "{\"as_layout\": 7}");
        break;
    case CR_DEVICE_VAL:
        cr_text_put(out, "{\"as_device\": {\"type\": \"cpu\", \"index\": null}}");
        break;
    case CR_FORMAT_VAL:
        if (a->i < 0 || a->i >= (int64_t)CR_LEN(formats) || !formats[a->i])
            return pt2_refuse(n, "another memory format");
        cr_text_printf(out, "{\"as_memory_format\": %d}", formats[a->i]);
        break;
    case CR_GENERATOR: cr_text_put(out, "{\"as_none\": true}"); break;
    default: return pt2_refuse(n, "an argument of another kind");
    }
    return CR_OK;
}

static bool pt2_is_default(const cr_param *p, const cr_garg *a)
{
    const cr_value *v = &p->preset;

    if (!p->has_default || v->tag != a->tag)
        return false;
    switch ((cr_tag)a->tag) {
    case CR_NONE: return true;
    case CR_NUMBER: return cr_scalar_as_double(v->number) == cr_scalar_as_double(a->number);
    case CR_FLOAT: return v->d == a->d;
    case CR_STRING: return !strcmp(v->s, a->s);
    case CR_INTS:
    case CR_TRUTHS:
        return v->len == a->len && !memcmp(v->ints, a->ints, a->len * sizeof *a->ints);
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL:
    case CR_LAYOUT_VAL:
    case CR_FORMAT_VAL: return v->i == a->i;
    default: return false;
    }
}

/* --- calls --- */

/* Whether torch's overload takes the arguments of the node; `number`: also numbers in the place
 * of tensors. */
static bool pt2_fits(const cr_overload *o, const cr_gnode *n, bool number)
{
    for (int i = 0; i < n->op->param_count; i++) {
        const cr_param *p = &n->op->param[i];
        const cr_garg *a = &n->arg[i];
        uint32_t bit = 1u << i;
        if (o->absent & bit ? !pt2_is_default(p, a) : o->required & bit && a->tag == CR_NONE)
            return false;
        if (a->tag == CR_TENSOR && o->scalars & bit)
            return false;
        if (a->tag == CR_NUMBER && p->type == CR_T_TENSOR && !(o->scalars & bit) &&
            !(number && o->numbers & bit))
            return false;
    }
    return true;
}

static const cr_overload *pt2_overload(const cr_gnode *n)
{
    const cr_op_aten *aten = &n->op->aten;

    for (int number = 1; number >= 0; number--)
        for (int i = 0; i < aten->count; i++)
            if (pt2_fits(&aten->list[i], n, number))
                return &aten->list[i];
    return NULL;
}

static cr_status pt2_inputs(const pt2_job *j, cr_text *out, const cr_gnode *n,
                            const cr_overload *o)
{
    bool any = false, named = false;

    for (int i = 0; i < n->op->param_count; i++) {
        const cr_param *p = &n->op->param[i];
        if (o->absent >> i & 1)
            continue;
        bool keyword = p->keyword_only && !(o->positional >> i & 1);
        if (keyword && pt2_is_default(p, &n->arg[i]))
            continue;
        named = named || keyword;
        cr_text_put(out, any ? ", {\"name\": " : "{\"name\": ");
        pt2_text(out, p->name);
        cr_text_put(out, ", \"arg\": ");
        CR_TRY(pt2_argument(j, out, n, i));
        cr_text_printf(out, ", \"kind\": %d}", named ? 2 : 1);
        any = true;
    }
    return CR_OK;
}

static void pt2_value(pt2_job *j, const cr_gvalue *v)
{
    const cr_gtype *t = &v->type;
    int64_t stride[CR_MAX_DIMS];

    cr_row_major_strides(stride, t->ndim, t->size);
    cr_text_put(&j->values, j->values.len ? ", " : "");
    pt2_text(&j->values, pt2_name(j, v));
    cr_text_put(&j->values, ": ");
    pt2_meta(&j->values, (cr_dtype)t->dtype, t->ndim, t->size, t->stride ? t->stride : stride,
             t->requires_grad);
}

static void pt2_outputs(pt2_job *j, const cr_gnode *n)
{
    bool list = n->op->result_count == 1 && n->op->result[0].type == CR_T_TENSORS;
    cr_text *out = &j->nodes;

    cr_text_put(out, list ? "{\"as_tensors\": [" : "");
    for (int i = 0; i < n->result_count; i++) {
        cr_text_put(out, i ? ", " : "");
        if (list) {
            cr_text_put(out, "{\"name\": ");
            pt2_text(out, pt2_name(j, n->result[i]));
            cr_text_char(out, '}');
        } else {
            pt2_as_tensor(out, pt2_name(j, n->result[i]));
        }
        pt2_value(j, n->result[i]);
    }
    cr_text_put(out, list ? "]}" : "");
}

static cr_status pt2_name_results(pt2_job *j, const cr_gnode *n)
{
    for (int i = 0; i < n->result_count; i++)
        if (pt2_is_reserved(n->result[i]->name))
            CR_TRY(pt2_set_name(j, n->result[i], "call_", n->result[i]->name));
    return CR_OK;
}

static cr_status pt2_call(pt2_job *j, const cr_gnode *n)
{
    const cr_overload *o = pt2_overload(n);
    const char *space = n->op->name, *colon = strstr(space, "::");
    cr_text *out = &j->nodes;

    if (!o)
        return pt2_refuse(n, "such arguments");
    for (int i = 0; i < n->result_count; i++)
        if (!n->result[i]->type.known)
            return pt2_refuse(n, "results of unknown sizes");
    CR_TRY(pt2_name_results(j, n));
    cr_text_put(out, out->len ? ", " : "");
    if (colon)
        cr_text_printf(out, "{\"target\": \"torch.ops.%.*s.%s.%s\", \"inputs\": [",
                       (int)(colon - space), space, colon + 2, o->name);
    else
        cr_text_printf(out, "{\"target\": \"torch.ops.aten.%s.%s\", \"inputs\": [", space,
                       o->name);
    CR_TRY(pt2_inputs(j, out, n, o));
    cr_text_put(out, "], \"outputs\": [");
    pt2_outputs(j, n);
    cr_text_printf(out,
                   "], \"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": ");
    pt2_text(out, pt2_name(j, n->result[0]));
    cr_text_char(out, '}');
    return CR_OK;
}

static cr_status pt2_nodes(pt2_job *j)
{
    const cr_gblock *b = j->e->graph->body;
    char name[32];
    int constants = 0;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        if (n->kind == CR_GNODE_CONSTANT) {
            snprintf(name, sizeof name, "%d", constants++);
            CR_TRY(pt2_set_name(j, n->result[0], "c_lifted_tensor_", name));
        } else if (n->kind != CR_GNODE_CALL) {
            return cr_fail(CR_VALUE, "to_pt2: the program has branches");
        } else {
            CR_TRY(pt2_call(j, n));
        }
    }
    return CR_OK;
}

/* --- inputs --- */

enum { PT2_PARAMETERS, PT2_BUFFERS, PT2_CONSTANTS, PT2_ARGUMENTS, PT2_KINDS };

/* Calls `put` for each input in the order of torch's signature. */
typedef void (*pt2_put)(pt2_job *j, cr_text *out, int kind, const char *name,
                        const cr_export_input *in);

static void pt2_each_input(pt2_job *j, cr_text *out, pt2_put put)
{
    const cr_gblock *b = j->e->graph->body;
    bool any = false;

    for (int kind = 0; kind < PT2_KINDS; kind++) {
        for (size_t i = 0; kind == PT2_CONSTANTS && i < b->len; i++)
            if (b->at[i]->kind == CR_GNODE_CONSTANT) {
                cr_text_put(out, any ? ", " : "");
                put(j, out, kind, pt2_name(j, b->at[i]->result[0]), NULL);
                any = true;
            }
        for (size_t i = 0; i < j->e->input.len; i++) {
            const cr_export_input *in = &j->e->input.at[i];
            int own = in->argument    ? PT2_ARGUMENTS
                      : in->parameter ? PT2_PARAMETERS
                                      : PT2_BUFFERS;
            if (own != kind)
                continue;
            cr_text_put(out, any ? ", " : "");
            put(j, out, kind, pt2_name(j, j->e->graph->input[i]), in);
            any = true;
        }
    }
}

static void pt2_put_input(pt2_job *j, cr_text *out, int kind, const char *name,
                          const cr_export_input *in)
{
    (void)j;
    (void)kind;
    (void)in;
    pt2_as_tensor(out, name);
}

static void pt2_put_spec(pt2_job *j, cr_text *out, int kind, const char *name,
                         const cr_export_input *in)
{
    (void)j;
    if (kind == PT2_ARGUMENTS) {
        cr_text_put(out, "{\"user_input\": {\"arg\": ");
        pt2_as_tensor(out, name);
        cr_text_put(out, "}}");
        return;
    }
    cr_text_put(out, kind == PT2_PARAMETERS ? "{\"parameter\": {\"arg\": {\"name\": "
                     : kind == PT2_BUFFERS  ? "{\"buffer\": {\"arg\": {\"name\": "
                                            : "{\"tensor_constant\": {\"arg\": {\"name\": ");
    pt2_text(out, name);
    cr_text_put(out, kind == PT2_PARAMETERS ? "}, \"parameter_name\": "
                     : kind == PT2_BUFFERS  ? "}, \"buffer_name\": "
                                            : "}, \"tensor_constant_name\": ");
    pt2_text(out, in ? in->path : name + 2);
    cr_text_put(out, kind == PT2_BUFFERS ? ", \"persistent\": true}}" : "}}");
}

static void pt2_input_values(pt2_job *j)
{
    const cr_gblock *b = j->e->graph->body;

    for (size_t i = 0; i < j->e->input.len; i++) {
        const cr_export_input *in = &j->e->input.at[i];
        cr_text_put(&j->values, j->values.len ? ", " : "");
        pt2_text(&j->values, pt2_name(j, j->e->graph->input[i]));
        cr_text_put(&j->values, ": ");
        pt2_tensor_meta(&j->values, in->first, in->parameter);
    }
    for (size_t i = 0; i < b->len; i++)
        if (b->at[i]->kind == CR_GNODE_CONSTANT) {
            cr_text_put(&j->values, j->values.len ? ", " : "");
            pt2_text(&j->values, pt2_name(j, b->at[i]->result[0]));
            cr_text_put(&j->values, ": ");
            pt2_tensor_meta(&j->values, b->at[i]->constant, false);
        }
}

/* --- models/model.json --- */

static size_t pt2_argument_count(const pt2_job *j)
{
    size_t n = 0;

    for (size_t i = 0; i < j->e->input.len; i++)
        n += j->e->input.at[i].argument;
    return n;
}

/* How a call's arguments and results are put together, as torch.utils._pytree writes it. */
static void pt2_call_spec(const pt2_job *j, cr_text *out)
{
    static const char leaf[] =
        "{\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}";
    size_t n = pt2_argument_count(j);

    cr_text_put(out,
                "[{\"fqn\": \"\", \"signature\": {\"inputs\": [], \"outputs\": [], "
                "\"in_spec\": \"[1, {\\\"type\\\": \\\"builtins.tuple\\\", \\\"context\\\": "
                "\\\"null\\\", \\\"children_spec\\\": [{\\\"type\\\": "
                "\\\"builtins.tuple\\\", \\\"context\\\": \\\"null\\\", "
                "\\\"children_spec\\\": [");
    for (size_t i = 0; i < n; i++)
        cr_text_printf(out, "%s%s", i ? ", " : "", leaf);
    cr_text_printf(out,
                   "]}, {\\\"type\\\": \\\"builtins.dict\\\", \\\"context\\\": \\\"[]\\\", "
                   "\\\"children_spec\\\": []}]}]\", \"out_spec\": \"[1, %s]\", "
                   "\"forward_arg_names\": [",
                   leaf);
    for (size_t i = 0; i < n; i++)
        cr_text_printf(out, i ? ", \"in_%zu\"" : "\"in_%zu\"", i);
    cr_text_put(out, "]}}]");
}

static void pt2_model(pt2_job *j)
{
    const char *result = pt2_name(j, j->e->graph->body->output[0].value);
    cr_text *out = &j->model;

    cr_text_put(out, "{\"graph_module\": {\"graph\": {\"inputs\": [");
    pt2_each_input(j, out, pt2_put_input);
    cr_text_put(out, "], \"outputs\": [");
    pt2_as_tensor(out, result);
    cr_text_printf(out, "], \"nodes\": [%s], \"tensor_values\": {%s}, ",
                   j->nodes.len ? cr_text_str(&j->nodes) : "", cr_text_str(&j->values));
    cr_text_put(out,
                "\"sym_int_values\": {}, \"sym_bool_values\": {}, \"is_single_tensor_return\": "
                "false, \"custom_obj_values\": {}, \"sym_float_values\": {}}, \"signature\": "
                "{\"input_specs\": [");
    pt2_each_input(j, out, pt2_put_spec);
    cr_text_put(out, "], \"output_specs\": [{\"user_output\": {\"arg\": ");
    pt2_as_tensor(out, result);
    cr_text_put(out, "}}]}, \"module_call_graph\": ");
    pt2_call_spec(j, out);
    cr_text_put(out,
                ", \"metadata\": {}, \"treespec_namedtuple_fields\": {}}, \"opset_version\": "
                "{\"aten\": 10}, \"range_constraints\": {}, \"schema_version\": {\"major\": 8, "
                "\"minor\": 20}, \"verifiers\": [\"TRAINING\"], \"torch_version\": "
                "\"2.13.0+cpu\", \"guards_code\": []}");
}

/* --- records --- */

static cr_status pt2_write(void *to, const void *bytes, size_t n)
{
    return cr_output_put(to, bytes, n);
}

static cr_status pt2_record(pt2_job *j, const char *name, const cr_text *text)
{
    return cr_zip_add(&j->zip, name, text->len ? text->at : "", text->len);
}

/* A record of the elements of a tensor. */
static cr_status pt2_elements(cr_zip_writer *zip, const char *name, cr_tensor *t)
{
    cr_tensor *dense = NULL;
    cr_status st;

    CR_TRY(cr_contiguous(&dense, t));
    st = cr_zip_add(zip, name, dense->numel ? cr_tensor_data(dense) : "",
                    (size_t)dense->numel * cr_dtype_size((cr_dtype)dense->dtype));
    cr_drop(dense);
    return st;
}

/* Such a record, and its line of the table `config`. */
static cr_status pt2_tensor(pt2_job *j, cr_text *config, const char *folder, const char *prefix,
                            int number, const char *path, cr_tensor *t, bool parameter)
{
    char name[64];

    snprintf(name, sizeof name, "data/%s/%s_%d", folder, prefix, number);
    CR_TRY(pt2_elements(&j->zip, name, t));
    cr_text_put(config, number ? ", " : "{\"config\": {");
    pt2_text(config, path);
    cr_text_printf(config,
                   ": {\"path_name\": \"%s_%d\", \"is_param\": %s, \"use_pickle\": false, "
                   "\"tensor_meta\": ",
                   prefix, number, parameter ? "true" : "false");
    pt2_tensor_meta(config, t, parameter);
    cr_text_char(config, '}');
    return CR_OK;
}

static cr_status pt2_tensors_of(pt2_job *j)
{
    const cr_gblock *b = j->e->graph->body;
    int weights = 0, constants = 0;

    for (size_t i = 0; i < j->e->input.len; i++) {
        const cr_export_input *in = &j->e->input.at[i];
        if (!in->argument)
            CR_TRY(pt2_tensor(j, &j->weights, "weights", "weight", weights++, in->path,
                              in->first, in->parameter));
    }
    for (size_t i = 0; i < b->len; i++)
        if (b->at[i]->kind == CR_GNODE_CONSTANT)
            CR_TRY(pt2_tensor(j, &j->constants, "constants", "tensor", constants++,
                              pt2_name(j, b->at[i]->result[0]) + 2, b->at[i]->constant, false));
    cr_text_put(&j->weights, weights ? "}}" : "{\"config\": {}}");
    cr_text_put(&j->constants, constants ? "}}" : "{\"config\": {}}");
    CR_TRY(pt2_record(j, "data/weights/model_weights_config.json", &j->weights));
    return pt2_record(j, "data/constants/model_constants_config.json", &j->constants);
}

/* --- example inputs: torch.save(((tensor, ...), {})) --- */

static void pt2_pickle_int(cr_text *out, int64_t i)
{
    if (i >= INT32_MIN && i <= INT32_MAX) {
        int32_t word = (int32_t)i;
        cr_text_char(out, 'J');
        cr_text_put_n(out, (const char *)&word, sizeof word);
        return;
    }
    cr_text_put_n(out, "\x8a\x08", 2);
    cr_text_put_n(out, (const char *)&i, sizeof i);
}

static void pt2_pickle_text(cr_text *out, const char *s)
{
    uint32_t n = (uint32_t)strlen(s);

    cr_text_char(out, 'X');
    cr_text_put_n(out, (const char *)&n, sizeof n);
    cr_text_put(out, s);
}

static void pt2_pickle_ints(cr_text *out, const int64_t *at, int n)
{
    cr_text_char(out, '(');
    for (int i = 0; i < n; i++)
        pt2_pickle_int(out, at[i]);
    cr_text_char(out, 't');
}

static void pt2_pickle_tensor(cr_text *out, const cr_tensor *t, size_t number)
{
    char key[24];

    snprintf(key, sizeof key, "%zu", number);
    cr_text_put(out, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pt2_pickle_text(out, "storage");
    cr_text_printf(out, "ctorch\n%sStorage\n", cr_dtype_infos[t->dtype].legacy);
    pt2_pickle_text(out, key);
    pt2_pickle_text(out, "cpu");
    pt2_pickle_int(out, t->numel);
    cr_text_put(out, "tQ");
    pt2_pickle_int(out, 0);
    pt2_pickle_ints(out, t->size, t->ndim);
    pt2_pickle_ints(out, t->stride, t->ndim);
    cr_text_put(out, "\x89"
                     "ccollections\nOrderedDict\n)RtR");
}

static cr_status pt2_put_text(void *to, const void *bytes, size_t n)
{
    cr_text_put_n(to, bytes, n);
    return cr_text_status(to);
}

static cr_status pt2_example_records(const pt2_job *j, cr_zip_writer *zip, cr_text *pickle)
{
    char name[48];
    size_t number = 0;

    cr_text_put(pickle, "\x80\x02((");
    for (size_t i = 0; i < j->e->input.len; i++)
        if (j->e->input.at[i].argument)
            pt2_pickle_tensor(pickle, j->e->input.at[i].first, number++);
    cr_text_put(pickle, "t}t.");
    CR_TRY(cr_text_status(pickle));
    CR_TRY(cr_zip_add(zip, "data.pkl", pickle->at, pickle->len));
    CR_TRY(cr_zip_add(zip, "byteorder", "little", 6));
    number = 0;
    for (size_t i = 0; i < j->e->input.len; i++) {
        if (!j->e->input.at[i].argument)
            continue;
        snprintf(name, sizeof name, "data/%zu", number++);
        CR_TRY(pt2_elements(zip, name, j->e->input.at[i].first));
    }
    return cr_zip_end(zip);
}

static cr_status pt2_example(pt2_job *j)
{
    cr_text bytes = {0}, pickle = {0};
    cr_zip_writer zip;
    cr_status st;

    cr_zip_begin(&zip, "archive", pt2_put_text, &bytes);
    CR_GO(pt2_example_records(j, &zip, &pickle));
    st = pt2_record(j, "data/sample_inputs/model.pt", &bytes);
done:
    cr_zip_writer_drop(&zip);
    cr_text_drop(&bytes);
    cr_text_drop(&pickle);
    return st;
}

/* --- the file --- */

static cr_status pt2_records(pt2_job *j)
{
    CR_TRY(pt2_tensors_of(j));
    CR_TRY(pt2_record(j, "models/model.json", &j->model));
    CR_TRY(pt2_example(j));
    CR_TRY(cr_zip_add(&j->zip, "archive_format", "pt2", 3));
    CR_TRY(cr_zip_add(&j->zip, "archive_version", "0", 1));
    j->zip.version = "6\n";
    j->zip.versioned = true;
    CR_TRY(cr_zip_add(&j->zip, ".data/version", "6\n", 2));
    CR_TRY(cr_zip_add(&j->zip, "byteorder", "little", 6));
    return cr_zip_end(&j->zip);
}

/* The archive's folder: the file's name without the folder and the ending. */
static void pt2_folder(char *out, size_t room, const char *path)
{
    const char *name = strrchr(path, '/'), *dot;

    name = name ? name + 1 : path;
    dot = strrchr(name, '.');
    snprintf(out, room, "%.*s", (int)(dot && dot > name ? dot - name : (ptrdiff_t)strlen(name)),
             name);
}

static cr_status pt2_texts(pt2_job *j)
{
    CR_TRY(pt2_name_inputs(j));
    CR_TRY(pt2_nodes(j));
    pt2_input_values(j);
    CR_TRY(cr_text_status(&j->nodes));
    CR_TRY(cr_text_status(&j->values));
    pt2_model(j);
    return cr_text_status(&j->model);
}

static cr_status pt2_save(pt2_job *j, const char *path)
{
    char folder[256];
    cr_status st;

    pt2_folder(folder, sizeof folder, path);
    CR_TRY(cr_output_open(&j->file, path));
    cr_zip_begin(&j->zip, folder, pt2_write, &j->file);
    st = pt2_records(j);
    cr_zip_writer_drop(&j->zip);
    return cr_output_close(&j->file, st);
}

cr_status cr_export_to_pt2(const cr_exported *e, const char *path)
{
    pt2_job j = {.e = e};
    cr_status st;

    if (!e || !path)
        return cr_fail(CR_TYPE, "to_pt2: argument '%s' must not be NULL",
                       e ? "path" : "program");
    j.value_count = e->graph->values;
    j.name = cr_alloc_zero((j.value_count + 1) * sizeof *j.name);
    CR_NEED(j.name);
    st = pt2_texts(&j);
    st = st ? st : pt2_save(&j, path);
    for (size_t i = 0; i < j.value_count; i++)
        cr_free(j.name[i]);
    cr_free(j.name);
    cr_text_drop(&j.model);
    cr_text_drop(&j.weights);
    cr_text_drop(&j.constants);
    cr_text_drop(&j.nodes);
    cr_text_drop(&j.values);
    return st;
}
