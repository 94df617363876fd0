/* Loading compiled models: the archive, the seal, the shared object, the weights. */
#include "object/object.h"
#include "base/isa.h"
#include "base/memory.h"
#include "base/workers.h"
#include "io/zip.h"
#include "object/library.h"
#include "object/model.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOLDER "data/aotinductor/model/model."

static const char *const record_names[] = {[CR_OBJECT_CODE] = FOLDER "so",
                                           [CR_OBJECT_WEIGHTS] = FOLDER "weights",
                                           [CR_OBJECT_SPEC] = FOLDER "spec"};

/* --- the archive --- */

static cr_status damaged(const char *path, const char *what)
{
    return cr_fail(CR_RUNTIME, "%s is not a compiled model: %s", path, what);
}

static cr_status find_record(cr_object_record *out, const cr_zip *zip, cr_source *source,
                             const char *name, const char *path)
{
    const cr_zip_entry *e = cr_zip_find(zip, name);

    if (!e || e->deflated)
        return damaged(path,
                       e ? "its records are deflated" : "it has no code for this package");
    out->bytes = cr_source_bytes(source, e->at);
    out->n = e->size;
    return CR_OK;
}

static cr_status check_isa(const char *path, const char *name)
{
    for (int k = 0; k < CR_ISA_COUNT; k++)
        if (!strcmp(name, cr_isa_name((cr_isa)k)))
            return (cr_isa)k <= cr_isa_best()
                       ? CR_OK
                       : cr_fail(CR_RUNTIME,
                                 "%s is compiled for processors with %s, "
                                 "which this one lacks",
                                 path, name);
    return cr_fail(CR_RUNTIME, "%s is compiled for unknown processors (%s)", path, name);
}

static cr_status check_records(cr_aot *m, const cr_zip *zip, const char *path)
{
    cr_object_record seal;

    CR_TRY(find_record(&seal, zip, m->file, FOLDER "seal", path));
    if (seal.n != CR_OBJECT_SEAL_BYTES || !cr_object_seal_holds(seal.bytes))
        return damaged(path, "its seal is damaged");
    CR_TRY(check_isa(path, cr_object_seal_isa(seal.bytes)));
    for (int k = 0; k < CR_OBJECT_RECORDS; k++) {
        CR_TRY(find_record(&m->record[k], zip, m->file, record_names[k], path));
        if (!cr_object_seal_fits(seal.bytes, k, &m->record[k]))
            return cr_fail(CR_RUNTIME,
                           "%s is damaged: the record %s has other contents than "
                           "were written",
                           path, record_names[k]);
    }
    return CR_OK;
}

static cr_status open_archive(cr_aot *m, const char *path)
{
    cr_zip *zip = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_status st;

    if (fd < 0)
        return cr_fail(CR_IO, "%s: %s", path, strerror(errno));
    CR_GO(cr_source_map(&m->file, fd));
    CR_GO(cr_zip_open(&zip, m->file));
    CR_GO(check_records(m, zip, path));
done:
    cr_zip_drop(zip);
    close(fd);
    return st;
}

/* --- the shared object --- */

/* A file in memory, or a removed file where there are none. */
static int new_file(void)
{
    char path[] = "/tmp/cresset-aot-XXXXXX";
    int fd = memfd_create("cresset-aot", MFD_CLOEXEC);

    if (fd >= 0)
        return fd;
    fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static cr_status load_code(cr_aot *m, const char *path)
{
    /* dlopen takes libraries of one name for one library.  So the file stays open, and the
     * jit's kernels have other names. */
    static const char folder[] = "/proc/self/./fd";
    char name[64];

    m->fd = new_file();
    if (m->fd < 0)
        return cr_fail(CR_IO, "%s cannot be loaded: %s", path, strerror(errno));
    CR_TRY(cr_write_open_file(m->fd, m->record[CR_OBJECT_CODE].bytes,
                              m->record[CR_OBJECT_CODE].n, path));
    snprintf(name, sizeof name, "%s/%d", folder, m->fd);
    m->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!m->library)
        return cr_fail(CR_RUNTIME, "%s cannot be loaded: %s", path, dlerror());
    m->model = dlsym(m->library, "cresset_aot_model");
    if (!m->model || m->model->version < 1 || m->model->version > CR_OBJECT_VERSION)
        return cr_fail(CR_RUNTIME, "%s was compiled by another version of this library", path);
    return m->model->version >= 2 && m->model->libraries
               ? cr_object_library(m->model->libraries, path)
               : CR_OK;
}

/* --- states --- */

static cr_status start_states(cr_aot *m)
{
    m->state = cr_alloc_zero(((size_t)m->model->states + 1) * sizeof *m->state);
    if (!m->state)
        return CR_MEMORY;
    for (int k = 0; k < m->model->states; k++) {
        m->state[k] = cr_alloc_zero((size_t)m->model->state[k] + 1);
        if (!m->state[k])
            return CR_MEMORY;
    }
    if (m->model->start)
        m->model->start(m->weights, m->state);
    return CR_OK;
}

/* --- sizes of inputs and outputs --- */

static int64_t bound(const int64_t *size, int64_t n)
{
    int64_t out;

    if (n == INT64_MAX)
        return size[1] || size[2] ? INT64_MAX : size[0];
    return cr_object_size(&out, size, n) ? out : INT64_MAX;
}

static cr_status describe(cr_aot *m, cr_aot_array *out, const cr_object_array *of)
{
    int64_t *size = cr_arena_get(&m->arena, (2 * (size_t)of->ndim + 1) * sizeof *size);

    if (!size)
        return CR_MEMORY;
    for (int d = 0; d < of->ndim; d++) {
        size[d] = bound(of->size + 3 * d, m->model->least);
        size[of->ndim + d] = bound(of->size + 3 * d, m->model->most);
    }
    *out = (cr_aot_array){of->name, of->dtype, of->item_bytes, of->ndim, size, size + of->ndim};
    return CR_OK;
}

static cr_status describe_all(cr_aot *m)
{
    int inputs = m->model->inputs, outputs = m->model->outputs;

    m->array = cr_arena_get(&m->arena, (size_t)(inputs + outputs + 1) * sizeof *m->array);
    if (!m->array)
        return CR_MEMORY;
    for (int k = 0; k < inputs; k++)
        CR_TRY(describe(m, &m->array[k], &m->model->input[k]));
    for (int k = 0; k < outputs; k++)
        CR_TRY(describe(m, &m->array[inputs + k], &m->model->output[k]));
    return CR_OK;
}

/* --- models --- */

static cr_status load(cr_aot *m, const char *path)
{
    CR_TRY(open_archive(m, path));
    CR_TRY(load_code(m, path));
    m->weights = m->record[CR_OBJECT_WEIGHTS].bytes;
    if ((size_t)m->model->weights != m->record[CR_OBJECT_WEIGHTS].n)
        return damaged(path, "its weights have another size");
    CR_TRY(start_states(m));
    return describe_all(m);
}

int cr_aot_load(cr_aot **out, const char *path, int threads)
{
    cr_aot *m;
    cr_status st;

    if (!out || !path)
        return cr_fail(CR_TYPE, "cr_aot_load(): '%s' must not be NULL", out ? "path" : "out");
    *out = NULL;
    m = cr_alloc_zero(sizeof *m);
    if (!m)
        return CR_MEMORY;
    pthread_mutex_init(&m->lock, NULL);
    m->fd = -1;
    m->threads = threads > CR_MOST_PARTS ? CR_MOST_PARTS : threads;
    st = load(m, path);
    if (st)
        cr_aot_free(m);
    else
        *out = m;
    return st;
}

void cr_aot_free(cr_aot *m)
{
    if (!m)
        return;
    for (int k = 0; m->state && k < m->model->states; k++)
        cr_free(m->state[k]);
    cr_free(m->state);
    free(m->work);
    free(m->own_weights);
    cr_arena_drop(&m->arena);
    if (m->library)
        dlclose(m->library);
    if (m->fd >= 0)
        close(m->fd);
    cr_source_drop(m->file);
    pthread_mutex_destroy(&m->lock);
    cr_free(m);
}

int cr_aot_inputs(const cr_aot *m) { return m->model->inputs; }
int cr_aot_outputs(const cr_aot *m) { return m->model->outputs; }

const cr_aot_array *cr_aot_input(const cr_aot *m, int k)
{
    return k < 0 || k >= m->model->inputs ? NULL : &m->array[k];
}

const cr_aot_array *cr_aot_output(const cr_aot *m, int k)
{
    return k < 0 || k >= m->model->outputs ? NULL : &m->array[m->model->inputs + k];
}

const char *cr_aot_spec(const cr_aot *m, size_t *n)
{
    *n = m->record[CR_OBJECT_SPEC].n;
    return m->record[CR_OBJECT_SPEC].bytes;
}

const void *cr_aot_weights(const cr_aot *m, size_t *n)
{
    *n = m->record[CR_OBJECT_WEIGHTS].n;
    return m->weights;
}

cr_status cr_aot_set_weights(cr_aot *m, const void *bytes, size_t n)
{
    void *own = aligned_alloc(64, (n + 64) / 64 * 64);

    if (n != m->record[CR_OBJECT_WEIGHTS].n || !own) {
        free(own);
        return n == m->record[CR_OBJECT_WEIGHTS].n
                   ? cr_fail(CR_MEMORY, "no memory for %zu bytes of weights", n)
                   : cr_fail(CR_VALUE, "the model has %zu bytes of weights, not %zu",
                             m->record[CR_OBJECT_WEIGHTS].n, n);
    }
    memcpy(own, bytes, n);
    pthread_mutex_lock(&m->lock);
    free(m->own_weights);
    m->weights = m->own_weights = own;
    pthread_mutex_unlock(&m->lock);
    return CR_OK;
}
