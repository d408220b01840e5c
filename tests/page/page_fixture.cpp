#include "tests/page/page_fixture.h"

#include "base/json.h"

namespace windlass::page {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m['role'] == 'assistant' %}A:{{ m['content'] }}{{ eos_token }}"
    "{% elif m['role'] == 'system' %}S:{{ m['content'] }}\n{% else %}U:{{ m['content'] }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A:{% endif %}";

// As a field of the form takes it: a list has one value a line.
std::string field_text(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return value.dump();
    std::vector<std::string> lines;
    for (const Json& one : value) lines.push_back(field_text(one));
    return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

PageTest::PageTest() {
    cli::write_bytes(sandbox_.model() + "/chat_template.jinja", kTemplate);
    sandbox_.rows(
        "chats.jsonl",
        {R"({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "I am Winch."}]})",
         R"({"messages": [{"role": "user", "content": "bye"}, {"role": "assistant", "content": "See you"}]})"});
}

void PageTest::TearDown() {
    if (HasFailure() && page_)
        std::fprintf(stderr, "console: %s\n", fmt::format("{}", fmt::join(page_->console(), "\n")).c_str());
    page_.reset();
}

void PageTest::open() {
    ui_ = std::make_unique<Ui>(sandbox_);
    page_ = std::make_unique<Tab>(Browser::shared());
    page_->open(ui_->address());
    page_->wait_until("document.querySelector('#main h1')");
}

void PageTest::go(const std::string& view, const std::string& is_there) {
    page_->open(ui_->origin() + "/" + view);
    page_->wait_until(fmt::format("document.querySelector({})?.checkVisibility()", quoted(is_there)));
}

void PageTest::go_to_run(const std::string& folder) {
    const Json listed = ui_->get_json("/api/runs");
    for (const Json& run : listed.at("runs"))
        if (run.at("folder") == folder) return go("#/run/" + run.at("run_id").get<std::string>(), "[data-name=step]");
    throw std::runtime_error("there is no run in " + folder);
}

Json PageTest::settings(const std::string& output_dir, int64_t steps) {
    return {{"model", "llama_tiny"},
            {"train_data", Json::array({"chats.jsonl"})},
            {"output_dir", output_dir},
            {"max_steps", steps},
            {"max_length", 64},
            {"learning_rate", 0.005},
            {"per_device_train_batch_size", 2},
            {"threads", 1}};
}

cli::Command PageTest::train(const Json& settings) const {
    std::vector<std::string> words = {"train"};
    for (const auto& [key, value] : settings.items())
        words.push_back(fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
    cli::Command command = sandbox_.windlass(words);
    // Names of files count from the root, as the server's do.
    command.words.insert(command.words.begin(), {"/usr/bin/env", "-C", sandbox_.path()});
    return command;
}

void PageTest::type_settings(const Json& settings) {
    for (const auto& [key, value] : settings.items()) {
        const std::string field = "#field-" + key;
        const std::string is_seen = fmt::format("document.querySelector({})?.checkVisibility()", quoted(field));
        if (page_->evaluate(is_seen) != true) page_->type("#search-settings", key);
        page_->type(field, field_text(value));
    }
}

std::string PageTest::named(const std::string& name) {
    return page_->text(fmt::format("document.querySelector('[data-name={}]')?.innerText ?? ''", quoted(name)));
}

void PageTest::expect_quiet() const {
    EXPECT_EQ(page_->console(), std::vector<std::string>());
    for (const std::string& address : page_->requests())
        EXPECT_TRUE(address.starts_with(ui_->origin() + "/") || address.starts_with("data:")) << address;
}

}  // namespace windlass::page
