/* The interpreter lock around calls that run without it.
 *
 * A thread that waits for the lock sleeps, and is awake again some 50 us after the lock is
 * free. Threads that make short calls in a loop have the lock for a microsecond or two between
 * two calls, so a thread first looks for some microseconds whether the holder begins its next
 * call.
 *
 * `holder` is a hint: a thread that ended a call has the lock, or has released it elsewhere. */
#include "base/clock.h"
#include "py/bind/bind.h"
#include "tensor/tensor.h"

static const double look_seconds = 10e-6;

static _Atomic bool holder;

PyThreadState *cr_py_unlock(void)
{
    cr_calls_apart++;
    PyThreadState *saved = PyEval_SaveThread();
    /* after the lock is free: whoever sees the hint change gets the lock without a wait */
    atomic_store_explicit(&holder, false, memory_order_release);
    return saved;
}

static void look_for_lock(void)
{
    double end;

    if (CR_LIKELY(!atomic_load_explicit(&holder, memory_order_acquire)))
        return;
    end = cr_seconds() + look_seconds;
    while (atomic_load_explicit(&holder, memory_order_acquire) && cr_seconds() < end)
        ;
}

void cr_py_lock(PyThreadState *saved)
{
    look_for_lock();
    PyEval_RestoreThread(saved);
    atomic_store_explicit(&holder, true, memory_order_release);
    if (!--cr_calls_apart)
        cr_storages_drop_left();
}
