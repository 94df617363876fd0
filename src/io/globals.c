/* Lookup of the global names that pickles use. */
#include "io/globals.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *module, *name;
    cr_global_use use;
} row;

#define CR_GLOBAL(NAME, module, name, use) [CR_GLOBAL_##NAME] = {module, name, CR_USE_##use},
static const row rows[] = {
#include "io/globals.def"
};
#undef CR_GLOBAL

/* torch's dtypes that this library does not have. */
static const char *const absent[] = {
    "float4_e2m1fn_x2", "qint8",         "quint8",          "qint32",
    "quint4x2",         "quint2x4",      "bits8",           "bits16",
    "bits1x8",          "bits2x4",       "bits4x2",         "QInt8Storage",
    "QUInt8Storage",    "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"};

/* The dtype whose legacy name plus `suffix` is `name`, as in "FloatStorage". */
static cr_dtype by_legacy(const char *name, const char *suffix)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++) {
        size_t n = strlen(cr_dtype_infos[t].legacy);
        if (!strncmp(name, cr_dtype_infos[t].legacy, n) && !strcmp(name + n, suffix))
            return (cr_dtype)t;
    }
    return CR_DTYPE_NONE;
}

/* Finds a name of module torch. */
static cr_global find_torch(const char *name)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (!strcmp(name, cr_dtype_infos[t].name))
            return (cr_global){CR_USE_DTYPE, CR_GLOBAL_OTHER, (cr_dtype)t, false};
    for (size_t i = 0; i < CR_LEN(absent); i++)
        if (!strcmp(name, absent[i]))
            return (cr_global){.use = CR_USE_ABSENT};
    return (cr_global){0};
}

static cr_global find_typed(const char *name)
{
    cr_dtype t = by_legacy(name, "Storage");

    if (t != CR_DTYPE_NONE)
        return (cr_global){CR_USE_STORAGE, CR_GLOBAL_OTHER, t, false};
    t = by_legacy(name, "Tensor");
    if (t != CR_DTYPE_NONE)
        return (cr_global){CR_USE_CLASS, CR_GLOBAL_OTHER, t, false};
    return (cr_global){0};
}

cr_global cr_global_find(const char *module, const char *name)
{
    for (size_t i = 1; i < CR_LEN(rows); i++)
        if (!strcmp(rows[i].name, name) && !strcmp(rows[i].module, module))
            return (cr_global){
                .use = rows[i].use, .id = (cr_global_id)i, .dtype = CR_DTYPE_NONE};
    if (!strcmp(name, "UntypedStorage") &&
        (!strcmp(module, "torch.storage") || !strcmp(module, "torch")))
        return (cr_global){CR_USE_STORAGE, CR_GLOBAL_OTHER, CR_U8, true};
    cr_global found = {0};
    if (!strcmp(module, "torch"))
        found = find_torch(name);
    if (!found.use && (!strcmp(module, "torch") || !strcmp(module, "torch.cuda")))
        found = find_typed(name);
    return found;
}

bool cr_global_at(int i, const char **module, const char **name)
{
    if (i < 0 || (size_t)i + 1 >= CR_LEN(rows))
        return false;
    *module = rows[i + 1].module;
    *name = rows[i + 1].name;
    return true;
}

/* --- renaming --- */
typedef struct {
    const char *module, *name, *new_module, *new_name;
} renamed;

static const renamed names[] = {
    {"__builtin__", "xrange", "builtins", "range"},
    {"__builtin__", "reduce", "functools", "reduce"},
    {"__builtin__", "intern", "sys", "intern"},
    {"__builtin__", "unichr", "builtins", "chr"},
    {"__builtin__", "unicode", "builtins", "str"},
    {"__builtin__", "long", "builtins", "int"},
    {"__builtin__", "basestring", "builtins", "str"},
    {"itertools", "izip", "builtins", "zip"},
    {"itertools", "imap", "builtins", "map"},
    {"itertools", "ifilter", "builtins", "filter"},
    {"itertools", "ifilterfalse", "itertools", "filterfalse"},
    {"itertools", "izip_longest", "itertools", "zip_longest"},
    {"UserDict", "IterableUserDict", "collections", "UserDict"},
    {"UserDict", "UserDict", "collections", "UserDict"},
    {"UserList", "UserList", "collections", "UserList"},
    {"UserString", "UserString", "collections", "UserString"},
    {"exceptions", "StandardError", "builtins", "Exception"},
};
static const char *const modules[][2] = {
    {"__builtin__", "builtins"},
    {"copy_reg", "copyreg"},
    {"Queue", "queue"},
    {"repr", "reprlib"},
    {"_abcoll", "collections.abc"},
    {"UserDict", "collections"},
    {"UserList", "collections"},
    {"UserString", "collections"},
    {"whichdb", "dbm"},
    {"StringIO", "io"},
    {"cStringIO", "io"},
    {"torch.tensor", "torch._tensor"},
};

void cr_global_rename(const char **module, const char **name, char *buffer, size_t buffer_len)
{
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (!strcmp(*module, names[i].module) && !strcmp(*name, names[i].name)) {
            *module = names[i].new_module;
            *name = names[i].new_name;
            return;
        }
    for (size_t i = 0; i < CR_LEN(modules); i++)
        if (!strcmp(*module, modules[i][0])) {
            *module = modules[i][1];
            return;
        }
    if (!strncmp(*module, "cresset", 7) && (!(*module)[7] || (*module)[7] == '.')) {
        snprintf(buffer, buffer_len, "torch%s", *module + 7);
        *module = buffer;
    }
}
