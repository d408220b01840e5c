// portable.cpp: what the program of packages that brings its libraries needs and Debian has not as a static archive
// (install.cmake).
#include <fmt/format-inl.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

// The compiled part of fmt, as its own sources have it.
FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template FMT_API locale_ref::locale_ref(const std::locale&);
template FMT_API std::locale locale_ref::get<std::locale>() const;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref);
template FMT_API char decimal_point_impl(locale_ref);
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE

// libstdc++.a asks for it for std::random_device, and glibc has it from 2.36 on; without that, 2.34 would do.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
    return number;
}
