// The list of adapters.
#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "model/adapters/kinds.h"

namespace windlass {

std::span<const AdapterKind* const> all_adapters() {
    static constexpr std::array kKinds = {&kLora, &kIa3, &kLsp, &kTokens};
    return kKinds;
}

const AdapterKind& find_adapter(std::string_view name) {
    std::vector<std::string_view> names;
    for (const AdapterKind* kind : all_adapters()) {
        if (kind->name == name) return *kind;
        names.push_back(kind->name);
    }
    throw UserError(ExitCode::usage, "adapter", "there is no adapter \"{}\"", name)
        .hint(fmt::format("one of {}", fmt::join(names, ", ")));
}

const AdapterKind& kind_of_layer(const AdapterSettings& settings, std::string_view layer) {
    return settings.tokens.contains(layer) ? kTokens : find_adapter(settings.kind);
}

}  // namespace windlass
