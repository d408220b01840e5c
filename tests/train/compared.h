// compared.h: methods and settings compared to the end, and the tables that `plan` prints of them line by line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "session/advice.h"
#include "session/cheaper.h"

namespace windlass {

inline std::vector<MethodAdvice> compare_methods(const Session& session) {
    std::vector<MethodAdvice> methods = methods_to_compare(session);
    const auto plan = [&](int64_t index, const ShouldStop& should_stop) {
        plan_method(session, should_stop, methods[static_cast<size_t>(index)]);
    };
    plan_in_order(std::ssize(methods), plan, {});
    return methods;
}

inline std::string advice_text(const std::vector<MethodAdvice>& methods, const RunCosts& costs) {
    const size_t width = name_width(methods);
    std::string text = methods_head(width);
    for (const MethodAdvice& each : methods) text += method_line(each, width);
    return text + advice_line(methods, costs);
}

inline std::vector<Cheaper> find_cheaper(const Session& session, const std::vector<MethodAdvice>& methods) {
    std::vector<Cheaper> found = cheaper_methods(session, methods);
    CheaperSearch(session).run({}, [&](Cheaper&& each) { found.push_back(std::move(each)); });
    return found;
}

inline std::string cheaper_text(const std::vector<Cheaper>& found) {
    if (found.empty()) return std::string(kNothingCheaper);
    std::string text = cheaper_head();
    for (const Cheaper& each : found) text += cheaper_lines(each);
    return text;
}

}  // namespace windlass
