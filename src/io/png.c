/* PNG: signature, IHDR, one IDAT of a zlib stream, IEND.
 *
 * A row is stored as differences from the row above (filter 2) when their sum of absolute
 * values is smaller than that of the row itself. */
#include "io/png.h"
#include "base/memory.h"
#include "io/output.h"
#include <limits.h>
#include <string.h>
#include <zlib.h>

static void put_be32(uint8_t *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> (24 - 8 * i));
}

static cr_status chunk(cr_output *o, const char *type, const uint8_t *bytes, size_t len)
{
    uint8_t head[8], tail[4];
    uLong crc;

    put_be32(head, (uint32_t)len);
    memcpy(head + 4, type, 4);
    crc = crc32(0, head + 4, 4);
    if (len)
        crc = crc32(crc, bytes, (uInt)len);
    put_be32(tail, (uint32_t)crc);
    CR_TRY(cr_output_put(o, head, sizeof head));
    CR_TRY(cr_output_put(o, bytes, len));
    return cr_output_put(o, tail, sizeof tail);
}

static uint64_t png_magnitude(const uint8_t *row, int64_t n)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += row[i] < 128 ? row[i] : 256u - row[i];
    return sum;
}

static void filter_row(uint8_t *out, const uint8_t *row, const uint8_t *above, int64_t n)
{
    out[0] = 2;
    for (int64_t i = 0; above && i < n; i++)
        out[1 + i] = (uint8_t)(row[i] - above[i]);
    if (above && png_magnitude(out + 1, n) < png_magnitude(row, n))
        return;
    out[0] = 0;
    memcpy(out + 1, row, (size_t)n);
}

/* Filters and compresses the image.  The caller owns *out. */
static cr_status compressed(uint8_t **out, size_t *len, int64_t height, int64_t row_size,
                            const uint8_t *pixels, int64_t row_bytes)
{
    size_t raw_len = (size_t)(height * (row_size + 1));
    uint8_t *raw = cr_alloc(raw_len), *packed = NULL;
    uLongf packed_len = compressBound((uLong)raw_len);
    cr_status st = CR_OK;

    if (!raw || !(packed = cr_alloc(packed_len))) {
        cr_free(raw);
        return CR_MEMORY;
    }
    for (int64_t y = 0; y < height; y++)
        filter_row(raw + y * (row_size + 1), pixels + y * row_bytes,
                   y ? pixels + (y - 1) * row_bytes : NULL, row_size);
    if (compress2(packed, &packed_len, raw, (uLong)raw_len, 6) != Z_OK)
        st = cr_fail(CR_MEMORY, "not enough memory to compress an image");
    cr_free(raw);
    if (st) {
        cr_free(packed);
        return st;
    }
    *out = packed;
    *len = packed_len;
    return CR_OK;
}

static cr_status put_image(cr_output *o, int64_t width, int64_t height, int channels,
                           const uint8_t *packed, size_t len)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    static const uint8_t color[5] = {[1] = 0, [3] = 2, [4] = 6};
    uint8_t ihdr[13] = {0};

    put_be32(ihdr, (uint32_t)width);
    put_be32(ihdr + 4, (uint32_t)height);
    ihdr[8] = 8;
    ihdr[9] = color[channels];
    CR_TRY(cr_output_put(o, signature, sizeof signature));
    CR_TRY(chunk(o, "IHDR", ihdr, sizeof ihdr));
    CR_TRY(chunk(o, "IDAT", packed, len));
    return chunk(o, "IEND", NULL, 0);
}

cr_status cr_png_write(const char *path, int64_t width, int64_t height, int channels,
                       const uint8_t *pixels, int64_t row_bytes)
{
    uint8_t *packed = NULL;
    size_t len = 0;
    cr_output o;
    cr_status st;

    if (!path || !pixels)
        return cr_fail(CR_TYPE, "a PNG image needs a path and pixels");
    if (channels != 1 && channels != 3 && channels != 4)
        return cr_fail(CR_VALUE, "a PNG image has 1, 3 or 4 channels, but got %d", channels);
    /* One IDAT chunk must be smaller than 2 GiB. */
    if (width < 1 || height < 1 || width > INT_MAX / 8 ||
        height > INT_MAX / (width * channels + 1))
        return cr_fail(CR_VALUE, "cannot write an image of %lld x %lld pixels",
                       (long long)width, (long long)height);
    CR_TRY(compressed(&packed, &len, height, width * channels, pixels, row_bytes));
    CR_GO(cr_output_open(&o, path));
    st = cr_output_close(&o, put_image(&o, width, height, channels, packed, len));
done:
    cr_free(packed);
    return st;
}
