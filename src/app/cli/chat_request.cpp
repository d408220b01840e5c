#include "app/cli/chat_request.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"

namespace windlass {
namespace {

constexpr size_t kMessagesMax = 10'000;
constexpr size_t kStopsMax = 16;
constexpr double kTokensMax = 1 << 24, kSeedMax = 1LL << 53;
constexpr std::array<std::string_view, 3> kRoles = {"system", "user", "assistant"};

bool has_text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string();
}

void check_message(const Json& message, size_t index) {
    const std::string where = fmt::format("messages[{}]", index);
    if (!message.is_object() || !has_text(message, "role") || !has_text(message, "content"))
        throw UserError(ExitCode::usage, where, "\"role\" and \"content\" are not two texts");
    if (std::ranges::find(kRoles, message["role"].get_ref<const std::string&>()) == kRoles.end())
        throw UserError(ExitCode::usage, where, "the role is not one of: {}", fmt::join(kRoles, ", "));
}

// Nothing where it is absent or null.
std::optional<double> number_of(const Json& request, const char* key, double least, double most) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return std::nullopt;
    if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most))
        throw UserError(ExitCode::usage, key, "is no number from {} to {}", least, most);
    return found->get<double>();
}

std::vector<std::string> stops_of(const Json& stops) {
    std::vector<std::string> texts;
    if (!stops.is_array() || stops.size() > kStopsMax)
        throw UserError(ExitCode::usage, "stops", "is no list of at most {} texts", kStopsMax);
    for (const Json& stop : stops) {
        if (!stop.is_string() || stop.get_ref<const std::string&>().empty())
            throw UserError(ExitCode::usage, "stops", "one of them is no text");
        texts.push_back(stop.get<std::string>());
    }
    return texts;
}

}  // namespace

Json chat_messages_of(const Json& request) {
    const Json& messages = request["messages"];
    if (!messages.is_array() || messages.empty() || messages.size() > kMessagesMax)
        throw UserError(ExitCode::usage, "messages", "is no list of 1 to {} messages", kMessagesMax);
    for (size_t i = 0; i < messages.size(); ++i) check_message(messages[i], i);
    if (messages.back()["role"] != "user")
        throw UserError(ExitCode::usage, "messages", "the last one is not of the user");
    return messages;
}

ChatOptions chat_options_of(const Json& request, const ChatOptions& usual) {
    ChatOptions options = usual;
    GenerateOptions& generate = options.generate;
    if (const auto tokens = number_of(request, "max_new_tokens", 1, kTokensMax))
        generate.max_new_tokens = static_cast<int64_t>(*tokens);
    if (const auto temperature = number_of(request, "temperature", 0, 100))
        generate.sampling.temperature = *temperature;
    if (const auto share = number_of(request, "top_p", 0, 1)) generate.sampling.top_p = *share;
    if (const auto count = number_of(request, "top_k", 0, kTokensMax))
        generate.sampling.top_k = static_cast<int64_t>(*count);
    if (const auto seed = number_of(request, "seed", 0, kSeedMax)) generate.seed = static_cast<uint64_t>(*seed);
    if (const auto stops = request.find("stops"); stops != request.end() && !stops->is_null())
        options.stops = stops_of(*stops);
    return options;
}

}  // namespace windlass
