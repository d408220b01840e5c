// needs_browser.h: what a test does where there is no browser.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/page/browser.h"

// At the top of a test or of SetUp: skips it where no browser is installed, and fails it in CI, which installs one.
#define WINDLASS_NEEDS_BROWSER()                                                                         \
    if (!windlass::page::browser_program().empty()) {                                                    \
    } else if (std::getenv("CI") != nullptr)                                                             \
        GTEST_FAIL() << "chromium-headless-shell is not installed. Try: tools/install-packages --tests"; \
    else                                                                                                 \
        GTEST_SKIP() << "chromium-headless-shell is not installed. Try: tools/install-packages --tests"
