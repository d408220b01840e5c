#include "config/user_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace windlass {
namespace {

class UserFolder : public testing::Test {
  protected:
    UserFolder() {
        for (const char* name : {"HOME", "XDG_CACHE_HOME"}) {
            const char* value = std::getenv(name);
            was_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
        }
    }
    ~UserFolder() override {
        for (const auto& [name, value] : was_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
    }

  private:
    std::vector<std::pair<const char*, std::optional<std::string>>> was_;
};

TEST_F(UserFolder, IsWhereTheEnvironmentSays) {
    ::setenv("HOME", "/users/x", 1);
    ::setenv("XDG_CACHE_HOME", "/caches", 1);
    EXPECT_EQ(user_cache_folder(), "/caches/windlass");
    ::setenv("XDG_CACHE_HOME", "relative", 1);
    EXPECT_EQ(user_cache_folder(), "/users/x/.cache/windlass");
}

// The folder in which the program was started may be anybody's: what lies in it is not believed.
TEST_F(UserFolder, IsNeverTheCurrentFolder) {
    ::unsetenv("HOME");
    ::unsetenv("XDG_CACHE_HOME");
    const passwd* const user = ::getpwuid(::getuid());
    const bool has_home = user != nullptr && user->pw_dir[0] == '/';
    EXPECT_EQ(user_cache_folder(), has_home ? std::string(user->pw_dir) + "/.cache/windlass" : "");
}

}  // namespace
}  // namespace windlass
