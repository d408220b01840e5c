#include "ui/guard.h"

#include <gtest/gtest.h>

namespace windlass {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

int status_of(HttpHead head, bool needs_token = true) {
    try {
        Guard(7877, kToken).check(head, needs_token);
        return 200;
    } catch (const HttpRefusal& refusal) {
        return refusal.status();
    }
}

HttpHead head_with_token() {
    return {.method = "GET",
            .path = "/api/runs",
            .host = "127.0.0.1:7877",
            .authorization = std::string("Bearer ") + kToken};
}

TEST(Guard, TakesTheTokenAtEitherNameOfTheMachine) {
    HttpHead head = head_with_token();
    EXPECT_EQ(status_of(head), 200);
    head.host = "localhost:7877";
    head.origin = "http://localhost:7877";
    head.fetch_site = "same-origin";
    EXPECT_EQ(status_of(head), 200);
}

TEST(Guard, RefusesOtherHosts) {
    for (const char* host : {"", "127.0.0.1", "127.0.0.1:7878", "evil.example:7877", "127.0.0.1:7877.evil.example"}) {
        HttpHead head = head_with_token();
        head.host = host;
        EXPECT_EQ(status_of(head), 421) << host;
        EXPECT_EQ(status_of(head, false), 421) << host << ", for the page's files too";
    }
}

TEST(Guard, RefusesPagesOfOtherOrigins) {
    for (const char* origin : {"http://evil.example", "null", "https://127.0.0.1:7877", "http://127.0.0.1:8888"}) {
        HttpHead head = head_with_token();
        head.origin = origin;
        EXPECT_EQ(status_of(head), 403) << origin;
    }
    for (const char* site : {"cross-site", "same-site", "anything"}) {
        HttpHead head = head_with_token();
        head.fetch_site = site;
        EXPECT_EQ(status_of(head), 403) << site;
        head.fetch_mode = "navigate";
        EXPECT_EQ(status_of(head), 403) << site << ", though it says that a user followed a link";
        EXPECT_EQ(status_of(head, false), 200) << "a link to the page itself may be followed";
    }
}

TEST(Guard, RefusesWithoutTheWholeToken) {
    const std::string token = kToken;
    for (const std::string& given :
         {std::string(), std::string("Bearer "), "Bearer " + token.substr(1), "Bearer " + token + "0",
          "bearer " + token, token, "Bearer " + std::string(32, '0')}) {
        HttpHead head = head_with_token();
        head.authorization = given;
        EXPECT_EQ(status_of(head), 401) << given;
        EXPECT_EQ(status_of(head, false), 200) << given;
    }
}

TEST(Guard, RefusesWhatAFormCanSend) {
    for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
        HttpHead head = head_with_token();
        head.content_type = type;
        EXPECT_THROW(Guard::check_content(head), HttpRefusal) << type;
    }
    HttpHead head = head_with_token();
    for (const char* type : {"application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;a"}) {
        head.content_type = type;
        EXPECT_NO_THROW(Guard::check_content(head)) << type;
    }
}

TEST(Guard, TokensDiffer) {
    EXPECT_EQ(make_token().size(), 32u);
    EXPECT_EQ(make_token().find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(make_token(), make_token());
}

}  // namespace
}  // namespace windlass
