#include "data/module_names.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/printable.h"

namespace windlass {

bool is_module_name(std::string_view text) {
    return std::ranges::all_of(
        text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; });
}

// Complaints of expressions are made for tokenizers': what remains is the reason, after the last colon.
template <typename Call>
void WholeNames::named(Call call) const {
    try {
        call();
    } catch (const UserError& error) {
        const std::string_view what = error.what();
        const std::string_view reason = what.substr(std::min(what.rfind(": "), what.size() - 2) + 2);
        throw UserError(code_, where_, "\"{}\" is not a regular expression for names of modules: {}", excerpt(text_),
                        excerpt(reason))
            .hint("names of modules, such as q_proj");
    }
}

WholeNames::WholeNames(std::string text, ExitCode code, std::string where, std::string_view before)
    : text_(std::move(text)), code_(code), where_(std::move(where)) {
    // By itself first: what closes the group that is put around it would be an expression, but another one.
    named([&] { Pattern::regex(text_, where_); });
    named([&] { whole_ = Pattern::regex(fmt::format("\\A{}(?:{})\\z", before, text_), where_); });
}

bool WholeNames::fit(const std::string& module) const {
    bool fits = false;
    named([&] { fits = !whole_.find_all(module).empty(); });
    return fits;
}

FitsModule fits_module(ExitCode code, const std::string& where) {
    return [known = std::make_shared<std::map<std::string, WholeNames>>(), code, where](
               const std::string& pattern, bool is_whole, const std::string& module) {
        // A dot is any character in an expression.
        if (is_module_name(pattern) && pattern.find('.') == std::string::npos) return is_named_by(module, {pattern});
        const char* const before = is_whole ? "" : "(?:.*\\.)?";
        const auto found = known->try_emplace(before + pattern, pattern, code, where, before).first;
        return found->second.fit(module);
    };
}

}  // namespace windlass
