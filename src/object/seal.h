/* seal.h - sizes and sums of the records of a compiled model.
 *
 * A sum of 64 bits shows any change within 8 adjacent bytes.  A seal finds damage; it is no
 * signature. */
#ifndef CR_OBJECT_SEAL_H
#define CR_OBJECT_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const void *bytes;
    size_t n;
} cr_object_record;
enum { CR_OBJECT_CODE, CR_OBJECT_WEIGHTS, CR_OBJECT_SPEC, CR_OBJECT_RECORDS };

enum { CR_OBJECT_SEAL_BYTES = 32 + 16 * CR_OBJECT_RECORDS };
/* Writes the seal; isa: the name of the code's instruction set (base/isa.h), of at most 15
 * letters. */
void cr_object_seal(unsigned char *out, const cr_object_record *record, const char *isa);
bool cr_object_seal_holds(const unsigned char *seal);
/* The name; NUL-terminated in a seal that holds. */
const char *cr_object_seal_isa(const unsigned char *seal);
/* True if record k has the size and the sum that the seal says. */
bool cr_object_seal_fits(const unsigned char *seal, int k, const cr_object_record *r);

#endif
