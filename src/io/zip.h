/* zip.h - archives of stored records, as torch.save lays them out.
 *
 * The reader checks the directory as a whole before it says what is in it: every record lies
 * inside the file, none overlaps another, none is compressed.  Names are those below the one
 * folder that an archive has ("archive/data/0" is "data/0").  Refusals are CR_RUNTIME in
 * torch's words.  The writer aligns data to 64 bytes. */
#ifndef CR_IO_ZIP_H
#define CR_IO_ZIP_H

#include "base/text.h"
#include "io/source.h"

enum { CR_ZIP_ALIGNMENT = 64 };

typedef struct {
    const char *name;
    uint64_t at, size; /* the record's bytes in the source */
    uint32_t crc;
} cr_zip_entry;

typedef struct cr_zip cr_zip;

/* Counts `source`.  The caller owns *out. */
CR_MUST cr_status cr_zip_open(cr_zip **out, cr_source *source);
void cr_zip_drop(cr_zip *z);
/* Whether the bytes begin as an archive does. */
bool cr_zip_begins(const cr_source *source);
/* Borrowed from `z`; NULL when there is none. */
const cr_zip_entry *cr_zip_find(const cr_zip *z, const char *name);
/* The same; a record that is missing is a failure. */
CR_MUST cr_status cr_zip_need(const cr_zip_entry **out, const cr_zip *z, const char *name);
/* Reads a whole record into `to` and compares its checksum (one of 0 means: not computed). */
CR_MUST cr_status cr_zip_read(const cr_zip *z, const cr_zip_entry *e, void *to);

/* Where a writer's bytes go. */
typedef cr_status (*cr_zip_put)(void *to, const void *bytes, size_t len);

typedef struct {
    cr_zip_put put;
    void *to;
    const char *folder;
    bool unchecked;    /* checksums are not computed: 0 stands for them */
    uint64_t at;       /* bytes written */
    uint64_t count;    /* records */
    uint64_t digest[2]; /* of names, of checksums */
    cr_text directory; /* grows with each record */
} cr_zip_writer;

/* Records go below `folder`, which is borrowed until the end. */
void cr_zip_begin(cr_zip_writer *w, const char *folder, cr_zip_put put, void *to);
CR_MUST cr_status cr_zip_add(cr_zip_writer *w, const char *name, const void *bytes, size_t len);
/* Adds the version and the archive's number, then the directory. */
CR_MUST cr_status cr_zip_end(cr_zip_writer *w);
void cr_zip_writer_drop(cr_zip_writer *w);

#endif
