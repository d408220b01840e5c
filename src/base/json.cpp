#include "base/json.h"

#include <set>
#include <vector>

namespace windlass {
namespace {

constexpr int kDepthMax = 64;

template <typename AnyJson>
AnyJson parse_as(std::string_view text, std::string_view where, ExitCode code) {
    std::vector<std::set<std::string>> keys;  // the keys seen so far, one set per open object
    const auto watch = [&](int depth, typename AnyJson::parse_event_t event, AnyJson& parsed) {
        if (depth > kDepthMax) throw UserError(code, where, "JSON is nested deeper than {} levels", kDepthMax);
        switch (event) {
            case AnyJson::parse_event_t::object_start:
                keys.emplace_back();
                break;
            case AnyJson::parse_event_t::object_end:
                keys.pop_back();
                break;
            case AnyJson::parse_event_t::key:
                if (!keys.back().insert(parsed.template get<std::string>()).second)
                    throw UserError(code, where, "JSON has the key \"{}\" twice", parsed.template get<std::string>());
                break;
            default:
                break;
        }
        return true;
    };
    try {
        return AnyJson::parse(text, watch);
    } catch (const nlohmann::json::parse_error& error) {
        throw UserError(code, where, "not valid JSON at byte {}: {}", error.byte, error.what());
    } catch (const nlohmann::json::exception& error) {  // a number that no double holds
        throw UserError(code, where, "not valid JSON: {}", error.what());
    }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<Json>(text, where, code);
}

SortedJson parse_sorted_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<SortedJson>(text, where, code);
}

}  // namespace windlass
