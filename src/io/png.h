/* png.h - writes images as PNG files. */
#ifndef CR_IO_PNG_H
#define CR_IO_PNG_H

#include "base/error.h"

/* 8 bits a channel, rows from the top, channels interleaved: 1 gray, 3 RGB, 4 RGBA.
 * `row_bytes` is the distance between rows.  CR_VALUE for sizes outside the format, CR_IO. */
CR_API CR_MUST cr_status cr_png_write(const char *path, int64_t width, int64_t height,
                                      int channels, const uint8_t *pixels, int64_t row_bytes);

#endif
