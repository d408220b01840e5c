// portable.cpp: for the portable program (install.cmake): the compiled part of fmt, which Debian has in no static
// archive, and a function that older glibcs lack.
#include <fmt/format-inl.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template FMT_API locale_ref::locale_ref(const std::locale&);
template FMT_API std::locale locale_ref::get<std::locale>() const;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref);
template FMT_API char decimal_point_impl(locale_ref);

}  // namespace detail
FMT_END_NAMESPACE

// std::random_device of libstdc++.a calls it, and glibc has it since 2.36. All else is in 2.34.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
    return number;
}
