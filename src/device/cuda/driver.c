/* Loading the CUDA libraries. */
#include "device/cuda/driver.h"
#include "base/env.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/object.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DRIVER_PATH = 1024, DRIVER_WHEELS = 8 };

static const char *const driver_names[] = {
#define CR_CUDA_CALL(name, symbol, arguments) #symbol,
#include "device/cuda/driver.def"
#undef CR_CUDA_CALL
};

static const char *const nvrtc_names[] = {
#define CR_NVRTC_CALL(name, symbol, arguments) #symbol,
#include "device/cuda/nvrtc.def"
#undef CR_NVRTC_CALL
};

static cr_cuda_driver driver;
static cr_nvrtc nvrtc;
static char wheels[DRIVER_WHEELS][DRIVER_PATH], error_text[256];
static int n_wheels;
static bool driver_found, driver_is_old, driver_works, nvrtc_works;
static int driver_version; /* 12040 is CUDA 12.4; 0 without a driver */
static int driver_refusal; /* what cuInit returned */

/* The oldest driver whose functions are called, and the first that loads the newest
 * libraries. */
enum { DRIVER_OLDEST = 12000, DRIVER_NEWEST = 13000, DRIVER_NO_DEVICE = 100 };

/* --- places --- */

void cr_cuda_look_in(const char *folder)
{
    if (n_wheels < DRIVER_WHEELS)
        snprintf(wheels[n_wheels++], DRIVER_PATH, "%s", folder);
}

/* Opens <folder>/<name>, or <folder>/<wheel>/lib/<name>. */
static void *driver_open_file(const char *folder, const char *wheel, const char *name, int how)
{
    char path[2 * DRIVER_PATH];

    snprintf(path, sizeof path, "%s%s%s%s/%s", folder, *wheel ? "/" : "", wheel,
             *wheel ? "/lib" : "", name);
    void *found = cr_object_open(path, how);
    if (found)
        cr_log_line("cuda", 1, "%s", path);
    return found;
}

/* Opens the libraries of the folder whose names begin with `first`. */
static void driver_open_first(const char *folder, const char *wheel, const char *first)
{
    char path[2 * DRIVER_PATH];

    snprintf(path, sizeof path, "%s%s%s%s", folder, *wheel ? "/" : "", wheel,
             *wheel ? "/lib" : "");
    DIR *files = opendir(path);
    for (const struct dirent *f; files && (f = readdir(files));)
        if (!strncmp(f->d_name, first, strlen(first)))
            driver_open_file(folder, wheel, f->d_name, RTLD_NOW | RTLD_GLOBAL);
    if (files)
        closedir(files);
}

static void *driver_open(const char *folder, const char *wheel, const cr_cuda_library *l)
{
    if (!*folder)
        return NULL;
    if (l->first)
        driver_open_first(folder, wheel, l->first);
    return driver_open_file(folder, wheel, l->name, RTLD_NOW | RTLD_LOCAL);
}

static void *driver_open_system(const cr_cuda_library *l)
{
    char folder[DRIVER_PATH];
    const char *home = cr_env(CR_ENV_CUDA_HOME);
    void *found = NULL;

    if (*home) {
        snprintf(folder, sizeof folder, "%s/lib64", home);
        found = driver_open(folder, "", l);
    }
    return found ? found : cr_object_open(l->name, RTLD_NOW | RTLD_LOCAL);
}

void *cr_cuda_open(const cr_cuda_library *list, int n)
{
    const char *folder = cr_env(CR_ENV_CR_CUDA);
    void *found = NULL;

    if (!strcmp(folder, "none"))
        return NULL;
    for (int i = 0; i < n && !found; i++) {
        bool newest = list[i].wheel && !strcmp(list[i].wheel, "cu13");
        if (newest && driver_version && driver_version < DRIVER_NEWEST)
            continue;
        found = driver_open(folder, "", &list[i]);
        for (int w = 0; w < n_wheels && !found && list[i].wheel; w++)
            found = driver_open(wheels[w], list[i].wheel, &list[i]);
        if (!found)
            found = driver_open_system(&list[i]);
    }
    return found;
}

bool cr_cuda_symbols(void *library, void *table, const char *const *name, int n)
{
    void **at = table;

    for (int i = 0; i < n; i++)
        if (!(at[i] = dlsym(library, name[i]))) {
            snprintf(error_text, sizeof error_text, "the library has no function %s", name[i]);
            return false;
        }
    return true;
}

/* --- the driver --- */

/* libcuda is in the loader's path; tests set CR_CUDA to the folder of a stand-in. */
static void driver_load(void)
{
    static const cr_cuda_library list[] = {{"libcuda.so.1", NULL, NULL}};
    void *library = cr_cuda_open(list, 1);
    int count = 0;

    if (!library) {
        snprintf(error_text, sizeof error_text, "libcuda.so.1 was not found");
        return;
    }
    static const char *const version[] = {"cuDriverGetVersion"};
    int (*ask)(int *) = NULL;
    if (cr_cuda_symbols(library, &ask, version, 1) && ask(&driver_version))
        driver_version = 0;
    driver_found = true;
    if (driver_version < DRIVER_OLDEST ||
        !cr_cuda_symbols(library, &driver, driver_names, (int)CR_LEN(driver_names))) {
        driver_is_old = true;
        snprintf(error_text, sizeof error_text, "the driver is too old");
        return;
    }
    driver_refusal = driver.init(0);
    if (driver_refusal) {
        snprintf(error_text, sizeof error_text, "cuInit returned %d", driver_refusal);
        return;
    }
    driver_works = !driver.device_count(&count) && count > 0;
    if (!driver_works)
        snprintf(error_text, sizeof error_text, "there is no device");
}

static void driver_load_once(void)
{
    driver_load();
    if (!driver_works)
        cr_log_line("cuda", 1, "no CUDA: %s", error_text);
}

const cr_cuda_driver *cr_cuda_load_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, driver_load_once);
    return driver_works ? &driver : NULL;
}

cr_status cr_cuda_driver_missing(void)
{
    const char *text = NULL;

    cr_cuda_load_driver();
    if (!driver_found)
        return cr_fail(CR_ASSERTION, "Torch not compiled with CUDA enabled");
    if (driver_is_old)
        return cr_fail(CR_RUNTIME,
                       "The NVIDIA driver on your system is too old (found version %d). Please "
                       "update your GPU driver by downloading and installing a new version "
                       "from the URL: http://www.nvidia.com/Download/index.aspx",
                       driver_version);
    if (driver_refusal && driver_refusal != DRIVER_NO_DEVICE) {
        if (driver.error_string(driver_refusal, &text) || !text)
            text = "unrecognized error code";
        return cr_fail(CR_RUNTIME, "Unexpected error from cuInit(). Error %d: %s",
                       driver_refusal, text);
    }
    return cr_fail(CR_RUNTIME, "No CUDA GPUs are available");
}

/* --- the compiler --- */

static void nvrtc_load(void)
{
    /* The builtins are loaded first, because NVRTC looks for them only in the loader's path. */
    static const cr_cuda_library list[] = {
        {"libnvrtc.so.13", "cu13", "libnvrtc-builtins.so.13."},
        {"libnvrtc.so.12", "cuda_nvrtc", "libnvrtc-builtins.so.12."},
        {"libnvrtc.so", NULL, NULL},
    };
    void *library = cr_cuda_open(list, (int)CR_LEN(list));

    nvrtc_works =
        library && cr_cuda_symbols(library, &nvrtc, nvrtc_names, (int)CR_LEN(nvrtc_names));
}

cr_status cr_cuda_load_nvrtc(const cr_nvrtc **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, nvrtc_load);
    *out = &nvrtc;
    return nvrtc_works
               ? CR_OK
               : cr_fail(CR_RUNTIME,
                         "libnvrtc.so was not found: CUDA kernels are compiled with it.  "
                         "Install nvidia-cuda-nvrtc, or set CUDA_HOME or CR_CUDA");
}
