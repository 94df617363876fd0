/* zip.h - archives of uncompressed records, in torch.save's layout.
 *
 * The reader checks the whole directory before it gives an entry: every record is inside the
 * file, and no record overlaps another.  A deflated record, which other programs write, is
 * unpacked into memory when it is first needed.  Names are relative to the archive's one folder
 * ("archive/data/0" is "data/0").  Failures are CR_RUNTIME in torch's words.  The writer aligns
 * data to 64 bytes. */
#ifndef CR_IO_ZIP_H
#define CR_IO_ZIP_H

#include "base/text.h"
#include "io/source.h"

enum { CR_ZIP_ALIGNMENT = 64 };

typedef struct {
    const char *name;
    uint64_t at, size;     /* position and size of the record in the source */
    uint64_t from, packed; /* the same in the archive */
    uint32_t crc;
    bool deflated, absent; /* absent: cr_zip_unpack has not put the bytes into the source yet */
} cr_zip_entry;

typedef struct cr_zip cr_zip;

/* The caller owns *out, which holds a reference on `source`. */
CR_MUST cr_status cr_zip_open(cr_zip **out, cr_source *source);
void cr_zip_drop(cr_zip *z);
/* The source of the records' bytes, borrowed: the archive's, or the memory they were unpacked
 * into. */
cr_source *cr_zip_source(const cr_zip *z);
/* True when the source starts with the signature of an archive. */
bool cr_zip_begins(const cr_source *source);
/* Makes the bytes of a record available in the source, at e->at. */
CR_MUST cr_status cr_zip_unpack(cr_zip *z, const cr_zip_entry *e);
/* The entry, borrowed from `z`; NULL when there is none. */
const cr_zip_entry *cr_zip_find(const cr_zip *z, const char *name);
/* As cr_zip_find, but a missing record is a failure. */
CR_MUST cr_status cr_zip_need(const cr_zip_entry **out, const cr_zip *z, const char *name);
/* Reads a whole record into `to` and compares its checksum.  Checksum 0 means not computed. */
CR_MUST cr_status cr_zip_read(const cr_zip *z, const cr_zip_entry *e, void *to);
/* The whole record `name` with a NUL behind it, owned by the caller. */
CR_MUST cr_status cr_zip_text(char **out, size_t *len, const cr_zip *z, const char *name);
/* Entry i in the order of the directory; NULL after the last one. */
const cr_zip_entry *cr_zip_at(const cr_zip *z, size_t i);

/* Writes bytes of an archive. */
typedef cr_status (*cr_zip_put)(void *to, const void *bytes, size_t len);

typedef struct {
    cr_zip_put put;
    void *to;
    const char *folder;
    const char *version; /* the version record; NULL: "3\n" */
    bool versioned;      /* a record .data/version was added, which replaces it */
    bool unchecked;      /* true: checksums are not computed and stored as 0 */
    uint64_t at;         /* bytes written */
    uint64_t count;      /* records */
    uint64_t digest[2];  /* of names, of checksums */
    cr_text directory;   /* directory entries of the records so far */
} cr_zip_writer;

/* Records go into `folder`, which is borrowed until cr_zip_end. */
void cr_zip_begin(cr_zip_writer *w, const char *folder, cr_zip_put put, void *to);
CR_MUST cr_status cr_zip_add(cr_zip_writer *w, const char *name, const void *bytes, size_t len);
/* Adds the version record unless there is one, the archive's id and the directory. */
CR_MUST cr_status cr_zip_end(cr_zip_writer *w);
void cr_zip_writer_drop(cr_zip_writer *w);

#endif
