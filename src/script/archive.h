/* archive.h - TorchScript archives: modules in, modules out.
 *
 * An archive has the module's objects as a pickle (data.pkl), the classes as source text
 * (code/__torch__/...py), and the constants of that text (constants.pkl).  Reading checks the
 * pickle as a whole, compiles the classes that it names, and then makes the objects.  No code
 * runs while an archive is read, except methods `__setstate__` of its classes.  Formats 1 to 10
 * are read.  FlatBuffer files, archives with `model.json` and quantized tensors are refused by
 * name. */
#ifndef CR_SCRIPT_ARCHIVE_H
#define CR_SCRIPT_ARCHIVE_H

#include "io/source.h"
#include "script/unit.h"
#include "script/value.h"

/* A record `extra/NAME` of an archive. */
typedef struct {
    char *name, *bytes; /* NUL behind the bytes */
    size_t len;
} cr_sextra;
typedef CR_VEC(cr_sextra) cr_sextras;
void cr_sextras_drop(cr_sextras *e);

/* Reads an archive.  *out is its module, or the object that it holds; it owns its unit.
 * `extra`, which may be NULL, gets the records `extra/`. */
CR_MUST cr_status cr_sarchive_read(cr_ivalue *out, cr_source *source, cr_sextras *extra);

/* Writes a module as an archive whose records are in `folder`; `put(to, bytes, len)` gets its
 * bytes.  torch 2.13 reads it.  Fails for values that archives lack. */
CR_MUST cr_status cr_sarchive_write(const cr_ivalue *module, const char *folder,
                                    const cr_sextra *extra, size_t extras,
                                    cr_status (*put)(void *, const void *, size_t), void *to);

/* Appends the source text of a method, without the indent of its class. */
CR_MUST cr_status cr_sarchive_method_text(cr_text *out, const cr_sfunction *f);

/* True when the value is one of the type.  Lists, dicts and tuples that have no type get this
 * one, also their items. */
bool cr_ivalue_fit(cr_ivalue *v, const cr_stype *type);

#endif
