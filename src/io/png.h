/* png.h - writes images as PNG files. */
#ifndef CR_IO_PNG_H
#define CR_IO_PNG_H

#include "base/error.h"

/* Writes 8 bits a channel.  Rows start at the top; channels are interleaved: 1 gray, 3 RGB, 4
 * RGBA.  `row_bytes` is the distance between rows.  Fails with CR_VALUE for sizes that PNG
 * cannot hold, and with CR_IO. */
CR_API CR_MUST cr_status cr_png_write(const char *path, int64_t width, int64_t height,
                                      int channels, const uint8_t *pixels, int64_t row_bytes);

#endif
