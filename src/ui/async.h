// async.h: coroutines of Boost.Asio on one thread. Whatever waits (a socket, a pipe, a timer) is a Task; nothing in
// this floor blocks the thread, so nothing needs a lock.
//
// Include it in place of Asio's headers: version 1.74 uses std::exchange without its header.
#pragma once

#include <utility>  // must come first

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace windlass {

namespace asio = boost::asio;

template <typename T = void>
using Task = asio::awaitable<T>;

// co_await operation(arguments, or_error(code)): a failure is in `code` and throws nothing.
inline auto or_error(boost::system::error_code& code) {
    return asio::redirect_error(asio::use_awaitable, code);
}

inline Task<> pause(std::chrono::milliseconds time) {
    asio::steady_timer timer(co_await asio::this_coro::executor, time);
    boost::system::error_code ignored;
    co_await timer.async_wait(or_error(ignored));
}

}  // namespace windlass
