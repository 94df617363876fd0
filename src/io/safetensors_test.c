#include "base/test.h"
#include "base/text.h"
#include "io/png.h"
#include "io/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* Parses a file of `header` and `data` bytes of data. */
static cr_status parse(cr_safetensors **out, const char *header, size_t data)
{
    char bytes[4096] = {0};
    size_t n = strlen(header);

    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, n);
    return cr_safetensors_parse(out, bytes, 8 + n + data);
}

static void refused(const char *header, size_t data)
{
    cr_safetensors *s = NULL;

    cr_test_compared();
    if (parse(&s, header, data) != CR_VALUE)
        cr_test_failed(__FILE__, __LINE__, "accepted: %s", header);
    CHECK(!strncmp(cr_error_message(), "Error while deserializing header: ", 34));
    EQ(s, NULL);
}

TEST(entries_are_in_the_order_of_their_data)
{
    cr_safetensors *s = NULL;

    OK(parse(&s,
             "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
             "\"a\":{\"shape\":[2,2], \"dtype\":\"I16\",\"data_offsets\":[0,8]}}  ",
             16));
    EQ(cr_safetensors_count(s), 2);
    EQ_STR(cr_safetensors_at(s, 0)->name, "a");
    EQ(cr_safetensors_at(s, 0)->dtype, CR_I16);
    EQ(cr_safetensors_at(s, 0)->size[1], 2);
    EQ(cr_safetensors_find(s, "b"), 1);
    EQ(cr_safetensors_find(s, "c"), -1);
    cr_safetensors_drop(s);
}

TEST(scalars_empty_tensors_and_empty_files_are_valid)
{
    cr_safetensors *s = NULL;

    OK(parse(&s, "{}", 0));
    EQ(cr_safetensors_count(s), 0);
    cr_safetensors_drop(s);
    OK(parse(&s,
             "{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
             "\"e\":{\"dtype\":\"F64\",\"shape\":[0,9],\"data_offsets\":[8,8]}}",
             8));
    EQ(cr_safetensors_count(s), 2);
    cr_safetensors_drop(s);
}

TEST(metadata_and_escapes_are_read)
{
    cr_safetensors *s = NULL;
    const char *key, *value;

    OK(parse(&s,
             "{\"__metadata__\":{\"format\":\"pt\",\"q\":\"\\u00e9\\n\\ud83d\\ude00\\\"\"}}",
             0));
    CHECK(cr_safetensors_metadata(s, 1, &key, &value));
    EQ_STR(value, "\xc3\xa9\n\xf0\x9f\x98\x80\"");
    CHECK(!cr_safetensors_metadata(s, 2, &key, &value));
    cr_safetensors_drop(s);
}

TEST(malformed_headers_are_refused)
{
    refused("", 0);
    refused("[]", 0);
    refused(" {}", 0);
    refused("{} x", 0);
    refused("{,}", 0);
    refused("{\"a\"}", 0);
    refused("{\"a\":{}}", 0);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\\", 0);
}

TEST(data_that_tensors_do_not_fill_exactly_is_refused)
{
    refused("{}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,0]}}", 0);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
            3);
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
            2);
}

TEST(sizes_that_overflow_are_refused)
{
    refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[9223372036854775807,9223372036854775807],"
            "\"data_offsets\":[0,8]}}",
            8);
    refused(
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]}}",
        8);
    refused(
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}",
        8);
    refused(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}}",
        1);
}

TEST(a_header_longer_than_the_file_is_refused)
{
    cr_safetensors *s = NULL;
    char bytes[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};

    FAILS(CR_VALUE, cr_safetensors_parse(&s, bytes, 4));
    FAILS(CR_VALUE, cr_safetensors_parse(&s, bytes, 10));
    bytes[7] = (char)0xff;
    FAILS(CR_VALUE, cr_safetensors_parse(&s, bytes, 16));
    EQ(s, NULL);
}

static void make_path(char *out, size_t n, const char *name)
{
    snprintf(out, n, "/tmp/cresset-test-%ld-%s", (long)getpid(), name);
}

TEST(written_tensors_are_read_back)
{
    char path[128];
    int64_t size[2] = {2, 3}, stride[2] = {1, 2};
    cr_tensor *a = NULL, *b = NULL, *back = NULL;
    cr_safetensors *s = NULL;
    const char *names[2] = {"plain", "turned"}, *metadata[] = {"format", "pt", NULL};
    const char *key, *value;

    make_path(path, sizeof path, "round.safetensors");
    OK(cr_tensor_start());
    OK(cr_tensor_new(&a, CR_F32, CR_HOST, 2, size));
    OK(cr_tensor_new_strided(&b, CR_I64, CR_HOST, 2, size, stride));
    for (int i = 0; i < 6; i++) {
        ((float *)(void *)a->address)[i] = (float)i;
        ((int64_t *)(void *)b->address)[i] = i;
    }
    OK(cr_safetensors_write(path, names, (cr_tensor *[]){a, b}, 2, metadata));
    OK(cr_safetensors_open(&s, path));
    CHECK(cr_safetensors_metadata(s, 0, &key, &value));
    EQ_STR(value, "pt");
    EQ_STR(cr_safetensors_at(s, 0)->name, "turned");
    OK(cr_safetensors_tensor(&back, s, 0));
    cr_safetensors_drop(s); /* the tensor keeps the mapping */
    EQ(((int64_t *)(void *)back->address)[1], 2);
    ((int64_t *)(void *)back->address)[1] = 7; /* private */
    cr_drop(back);
    cr_drop(a);
    cr_drop(b);
    unlink(path);
}

TEST(writing_two_tensors_of_one_name_fails)
{
    char path[128];
    cr_tensor *a = NULL;
    const char *names[2] = {"x", "x"};

    make_path(path, sizeof path, "twice.safetensors");
    OK(cr_tensor_new(&a, CR_F32, CR_HOST, 0, NULL));
    FAILS(CR_VALUE, cr_safetensors_write(path, names, (cr_tensor *[]){a, a}, 2, NULL));
    CHECK(access(path, F_OK) != 0);
    cr_drop(a);
}

TEST(a_png_begins_with_its_signature_and_size)
{
    uint8_t pixels[2 * 3 * 3] = {255, 0, 0, 0, 255, 0, 0, 0, 255};
    char path[128], *bytes = NULL;
    size_t len;

    make_path(path, sizeof path, "image.png");
    OK(cr_png_write(path, 3, 2, 3, pixels, 9));
    OK(cr_read_file(&bytes, &len, path));
    CHECK(!memcmp(bytes, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\2\x08\x02", 26));
    CHECK(!memcmp(bytes + len - 8, "IEND\xae\x42\x60\x82", 8));
    FAILS(CR_VALUE, cr_png_write(path, 3, 2, 2, pixels, 6));
    FAILS(CR_VALUE, cr_png_write(path, 0, 2, 3, pixels, 0));
    cr_free(bytes);
    unlink(path);
}
