// guard.h: who may ask. The page is open to any client that has the token, which is in its address alone: not to other
// users of this machine, nor to other pages of the same browser.
#pragma once

#include <cstdint>
#include <string>

#include "ui/http.h"

namespace windlass {

// 128 bits of the kernel's random numbers, as 32 hexadecimal digits.
std::string make_token();

class Guard {
  public:
    Guard(uint16_t port, std::string token);
    // Throws HttpRefusal: 421 for another Host (DNS rebinding), 403 for a request that another origin's page makes,
    // 401 without the token where one is needed.
    void check(const HttpHead& head, bool needs_token) const;
    // Throws HttpRefusal (415) for a POST that a form could send.
    static void check_content(const HttpHead& head);

  private:
    const std::string address_, name_, token_;
};

}  // namespace windlass
