/* A stand-in for NVRTC: CUDA C++ becomes a shared object in which threads are fibers (simt.h).
 *
 *   FAKE_CUDA_CLANG   the compiler (clang-14)
 *   FAKE_CUDA_SIMT    the folder of simt.h
 *   FAKE_CUDA_REFUSES a text that contains this is not compiled */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <unistd.h>

#define API extern "C" __attribute__((visibility("default"))) int

enum { OK = 0, FAILED = 6 };

struct program {
    std::string text, log, image;
};

static std::string whole(const std::string &path)
{
    std::ifstream f(path, std::ios::binary);
    std::stringstream text;
    text << f.rdbuf();
    return text.str();
}

static std::string variable(const char *name, const char *preset)
{
    const char *text = getenv(name);
    return text ? text : preset;
}

/* A builtin of other compilers that preprocessed text calls and does not define for NVRTC (vec.cuh), or "". */
static std::string missing_builtin(const std::string &text)
{
    const std::string prefix = "__builtin_", letters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
        std::string id = text.substr(at, text.find_first_not_of(letters, at) - at);
        if (text.find("inline float " + id + "(") == std::string::npos &&
            text.find("inline double " + id + "(") == std::string::npos)
            return id;
    }
    return "";
}

/* A macro that other compilers define by themselves, such as __FLT_MAX__, and NVRTC does not, or "".
 * text: preprocessed without them. */
static std::string missing_macro(const std::string &text)
{
    const std::string capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", letters = capitals + "0123456789_";
    for (size_t at = text.find("__"); at != std::string::npos; at = text.find("__", at + 1)) {
        size_t end = text.find_first_not_of(letters, at);
        std::string id = text.substr(at, end - at);
        if (id.size() > 4 && capitals.find(id[2]) != std::string::npos && id.substr(id.size() - 2) == "__")
            return id;
    }
    return "";
}

static void remove_folder(const std::string &folder) { system(("rm -r " + folder).c_str()); }

/* A number of simt.h, so that kernels that were compiled with another one are not used again. */
static int revision()
{
    static const unsigned n =
        std::hash<std::string>()(whole(variable("FAKE_CUDA_SIMT", "tests/cuda") + "/simt.h"));
    return n & 0x7fffffff;
}

API nvrtcVersion(int *major, int *minor) { return *major = 0, *minor = revision(), OK; }

API nvrtcCreateProgram(void **out, const char *text, const char *, int, const char *const *,
                       const char *const *)
{
    program *p = new program;
    p->text = text;
    return *out = p, OK;
}

API nvrtcDestroyProgram(void **p)
{
    delete (program *)*p;
    return *p = nullptr, OK;
}

API nvrtcCompileProgram(void *handle, int, const char *const *)
{
    program *p = (program *)handle;
    const char *refused = getenv("FAKE_CUDA_REFUSES");
    if (refused && p->text.find(refused) != std::string::npos)
        return p->log = "refused", FAILED;
    char folder[] = "/tmp/fake_cuda_XXXXXX";
    if (!mkdtemp(folder))
        return FAILED;
    std::string base = std::string(folder) + "/k";
    std::ofstream(base + ".cpp") << "#include \"simt.h\"\n" << p->text;
    std::ofstream(base + ".cu") << p->text;
    std::string compiler = variable("FAKE_CUDA_CLANG", "clang-14");
    std::string preprocess = compiler + " -x c++ -undef -E -P -w -D__CUDACC_RTC__ " + base + ".cu -o " + base + ".i 2>/dev/null";
    std::string device = system(preprocess.c_str()) ? "" : whole(base + ".i");
    std::string missing = missing_builtin(device);
    if (missing.empty())
        missing = missing_macro(device);
    if (!missing.empty())
        return remove_folder(folder), p->log = "identifier \"" + missing + "\" is undefined", FAILED;
    /* Compiling takes longer than running: optimization would take most of the time. */
    std::string command = compiler +
                          " -x c++ -std=c++17 -O0 -w -mfma -fPIC -shared -fno-exceptions -ffp-contract=off -I" +
                          variable("FAKE_CUDA_SIMT", "tests/cuda") + " " + base + ".cpp -o " + base +
                          ".so -lm 2>" + base + ".log";
    int status = system(command.c_str());
    p->log = whole(base + ".log");
    std::string object = status ? "" : whole(base + ".so");
    remove_folder(folder);
    uint64_t n = object.size();
    p->image = std::string("FAKECUDA") + std::string((const char *)&n, sizeof n) + object;
    return status ? FAILED : OK;
}

API nvrtcGetProgramLogSize(void *p, size_t *size) { return *size = ((program *)p)->log.size() + 1, OK; }
API nvrtcGetProgramLog(void *p, char *text) { return strcpy(text, ((program *)p)->log.c_str()), OK; }
API nvrtcGetCUBINSize(void *p, size_t *size) { return *size = ((program *)p)->image.size(), OK; }
API nvrtcGetCUBIN(void *p, char *bytes)
{
    memcpy(bytes, ((program *)p)->image.data(), ((program *)p)->image.size());
    return OK;
}
