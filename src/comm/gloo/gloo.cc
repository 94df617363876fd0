// Gloo's contexts and unbound buffers behind shim.h.
//
// Every function catches all exceptions.  A wait that times out makes Gloo close the context's
// pairs, so the caller must not use the context afterwards.
#include "comm/gloo/shim.h"
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace {
using ms = std::chrono::milliseconds;

void keep(char *error, const char *text) { std::snprintf(error, CR_SHIM_ERROR, "%s", text); }

template <class F> int guarded(char *error, F f)
{
    try {
        f();
        return 0;
    } catch (const std::exception &e) {
        keep(error, e.what());
    } catch (...) {
        keep(error, "unknown exception");
    }
    return 1;
}

class Store : public gloo::rendezvous::Store {
  public:
    explicit Store(const cr_shim_store &s) : s_(s) {}
    void set(const std::string &key, const std::vector<char> &data) override
    {
        if (s_.set(s_.user, key.c_str(), data.data(), data.size()))
            GLOO_THROW_IO_EXCEPTION("the store refused to set ", key);
    }
    std::vector<char> get(const std::string &key) override
    {
        std::vector<char> bytes(4096);
        for (;;) {
            long n = s_.get(s_.user, key.c_str(), bytes.data(), bytes.size());
            if (n < 0)
                GLOO_THROW_IO_EXCEPTION("the store has no ", key, " in time");
            bool fits = static_cast<size_t>(n) <= bytes.size();
            bytes.resize(static_cast<size_t>(n));
            if (fits)
                return bytes;
        }
    }
    void wait(const std::vector<std::string> &keys) override { wait(keys, ms(-1)); }
    void wait(const std::vector<std::string> &keys, const ms &limit) override
    {
        for (const std::string &key : keys)
            if (s_.wait(s_.user, key.c_str(), static_cast<long>(limit.count())))
                GLOO_THROW_IO_EXCEPTION("the store has no ", key, " in time");
    }

  private:
    cr_shim_store s_;
};

struct Context {
    std::shared_ptr<gloo::rendezvous::Context> c;
};

struct Transfer {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    bool send;
};

int open(void **out, int rank, int size, const char *host, const cr_shim_store *store,
         long timeout_ms, char *error)
{
    return guarded(error, [&] {
        gloo::transport::tcp::attr where(host);
        auto device = gloo::transport::tcp::CreateDevice(where);
        std::unique_ptr<Context> made(new Context);
        made->c = std::make_shared<gloo::rendezvous::Context>(rank, size);
        made->c->setTimeout(ms(timeout_ms));
        Store s(*store);
        made->c->connectFullMesh(s, device);
        *out = made.release();
    });
}

void shut(void *context)
{
    char unused[CR_SHIM_ERROR];
    guarded(unused, [&] { static_cast<Context *>(context)->c->closeConnections(); });
}

void close(void *context)
{
    char unused[CR_SHIM_ERROR];
    guarded(unused, [&] { delete static_cast<Context *>(context); });
}

Transfer *transfer(void *context, const void *at, size_t n, bool send)
{
    auto &c = static_cast<Context *>(context)->c;
    return new Transfer{c->createUnboundBuffer(const_cast<void *>(at), n), send};
}

int send(void *context, void **out, const void *at, size_t n, int to, uint64_t slot, char *error)
{
    return guarded(error, [&] {
        std::unique_ptr<Transfer> t(transfer(context, at, n, true));
        t->buffer->send(to, slot);
        *out = t.release();
    });
}

int receive(void *context, void **out, void *at, size_t n, int from, uint64_t slot, char *error)
{
    return guarded(error, [&] {
        std::unique_ptr<Transfer> t(transfer(context, at, n, false));
        auto &c = static_cast<Context *>(context)->c;
        std::vector<int> all;
        for (int i = 0; i < c->size; i++)
            if (i != c->rank)
                all.push_back(i);
        if (from >= 0)
            t->buffer->recv(from, slot);
        else
            t->buffer->recv(all, slot);
        *out = t.release();
    });
}

int wait(void *at, long timeout_ms, int *done, int *from, char *error)
{
    auto *t = static_cast<Transfer *>(at);
    ms limit(timeout_ms > 0 ? timeout_ms : 1);
    int rc = guarded(error, [&] {
        *done = t->send ? t->buffer->waitSend(from, limit) : t->buffer->waitRecv(from, limit);
        if (!*done)
            GLOO_THROW_IO_EXCEPTION("the transfer was ended");
    });
    if (rc && std::string(error).find("imed out") != std::string::npos)
        return *done = 0;
    return rc;
}

void drop(void *at)
{
    char unused[CR_SHIM_ERROR];
    guarded(unused, [&] { delete static_cast<Transfer *>(at); });
}
} // namespace

extern "C" __attribute__((visibility("default"))) const cr_shim cresset_gloo = {
    CR_SHIM_VERSION, open, shut, close, send, receive, wait, drop};
