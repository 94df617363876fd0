// Gloo's contexts and unbound buffers behind shim.h.
//
// Every function catches all exceptions.  A wait that times out makes Gloo close the context's
// pairs, so the caller must not use the context afterwards.
//
// Long messages are started by the thread of Gloo's device.  Starting writes to a socket under
// the pair's lock.  Where another thread holds that lock, or was put to sleep while it held it,
// the device's thread asks for events again and again, on a processor that the ranks need.
#include "comm/gloo/shim.h"
#include "base/thread.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

namespace
{
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

class Store : public gloo::rendezvous::Store
{
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

class Starter;

struct Transfer {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    bool send;
    int peer; // -1: receives from any of `ranks`
    uint64_t slot;
    std::vector<int> ranks;
    Starter *starter;   // where it may wait for its turn
    std::string failed; // why the device's thread could not start it
};

void start(Transfer *t)
{
    if (t->send)
        t->buffer->send(t->peer, t->slot);
    else if (t->peer >= 0)
        t->buffer->recv(t->peer, t->slot);
    else
        t->buffer->recv(t->ranks, t->slot);
}

// Starts transfers in the device's thread, in their order.
class Starter : public gloo::transport::tcp::Handler
{
  public:
    explicit Starter(std::shared_ptr<gloo::transport::tcp::Device> d)
        : device_(std::move(d)), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
    {
        if (event_ < 0)
            throw std::runtime_error("there is no descriptor for an event");
        device_->registerDescriptor(event_, EPOLLIN, this);
    }
    ~Starter() override
    {
        device_->unregisterDescriptor(event_, this);
        ::close(event_);
    }
    // False: the caller starts it.  A short message does not overtake others.
    bool take(Transfer *t)
    {
        std::lock_guard<std::mutex> hold(lock_);
        bool idle = queue_.empty() && !running_;
        uint64_t one = 1;
        if (idle && (t->buffer->size < LONG || ::write(event_, &one, sizeof one) < 0))
            return false;
        queue_.push_back(t);
        return true;
    }
    // Afterwards the device's thread does not use the transfer.
    void forget(Transfer *t)
    {
        std::unique_lock<std::mutex> hold(lock_);
        auto at = std::find(queue_.begin(), queue_.end(), t);
        if (at != queue_.end())
            queue_.erase(at);
        ended_.wait(hold, [&] { return running_ != t; });
    }
    void handleEvents(int) override
    {
        uint64_t events;
        while (::read(event_, &events, sizeof events) > 0) {
        }
        while (next()) {
            char error[CR_SHIM_ERROR];
            if (!guarded(error, [&] { start(running_); }))
                continue;
            running_->failed = error;
            running_->send ? running_->buffer->abortWaitSend()
                           : running_->buffer->abortWaitRecv();
        }
    }

  private:
    enum { LONG = 1 << 17 };
    bool next()
    {
        std::lock_guard<std::mutex> hold(lock_);
        running_ = queue_.empty() ? nullptr : queue_.front();
        if (running_)
            queue_.pop_front();
        ended_.notify_all();
        return running_;
    }
    std::shared_ptr<gloo::transport::tcp::Device> device_;
    int event_;
    std::mutex lock_;
    std::condition_variable ended_;
    std::deque<Transfer *> queue_;
    Transfer *running_ = nullptr;
};

struct Context {
    std::shared_ptr<gloo::rendezvous::Context> c;
    std::unique_ptr<Starter> starter;
};

// The thread of the device leaves signals to the threads of the program.
std::shared_ptr<gloo::transport::Device> make_device(const char *host)
{
    struct Blocked {
        Blocked() { cr_thread_block_signals(&before); }
        ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
        sigset_t before;
    } blocked;
    gloo::transport::tcp::attr where(host);
    return gloo::transport::tcp::CreateDevice(where);
}

int open(void **out, int rank, int size, const char *host, const cr_shim_store *store,
         long timeout_ms, char *error)
{
    return guarded(error, [&] {
        auto device = make_device(host);
        std::unique_ptr<Context> made(new Context);
        made->c = std::make_shared<gloo::rendezvous::Context>(rank, size);
        made->c->setTimeout(ms(timeout_ms));
        Store s(*store);
        made->c->connectFullMesh(s, device);
        made->starter.reset(
            new Starter(std::static_pointer_cast<gloo::transport::tcp::Device>(device)));
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

int transfer(void *context, void **out, void *at, size_t n, bool send, int peer, uint64_t slot,
             char *error)
{
    return guarded(error, [&] {
        auto *own = static_cast<Context *>(context);
        std::unique_ptr<Transfer> t(new Transfer{
            own->c->createUnboundBuffer(at, n), send, peer, slot, {}, own->starter.get(), {}});
        for (int i = 0; i < own->c->size && peer < 0; i++)
            if (i != own->c->rank)
                t->ranks.push_back(i);
        if (!t->starter->take(t.get()))
            start(t.get());
        *out = t.release();
    });
}

int send(void *context, void **out, const void *at, size_t n, int to, uint64_t slot,
         char *error)
{
    return transfer(context, out, const_cast<void *>(at), n, true, to, slot, error);
}

int receive(void *context, void **out, void *at, size_t n, int from, uint64_t slot, char *error)
{
    return transfer(context, out, at, n, false, from, slot, error);
}

int wait(void *at, long timeout_ms, int *done, int *from, char *error)
{
    auto *t = static_cast<Transfer *>(at);
    ms limit(timeout_ms > 0 ? timeout_ms : 1);
    int rc = guarded(error, [&] {
        *done = t->send ? t->buffer->waitSend(from, limit) : t->buffer->waitRecv(from, limit);
        if (!*done)
            throw std::runtime_error(t->failed.empty() ? "the transfer was ended" : t->failed);
    });
    if (rc && std::string(error).find("imed out") != std::string::npos)
        return *done = 0;
    return rc;
}

void drop(void *at)
{
    auto *t = static_cast<Transfer *>(at);
    char unused[CR_SHIM_ERROR];
    guarded(unused, [&] {
        t->starter->forget(t);
        delete t;
    });
}
} // namespace

extern "C" __attribute__((visibility("default")))
const cr_shim cresset_gloo = {CR_SHIM_VERSION, open, shut, close, send, receive, wait, drop};
