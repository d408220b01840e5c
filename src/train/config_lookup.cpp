// Finding keys by what people write.
#include "base/error.h"
#include "train/config_keys.h"

namespace windlass {
namespace {

struct Advice {
    std::string_view key, text;
};
constexpr Advice kAdvice[] = {
    {"bf16", "dtype: bf16"},
    {"fp16", "dtype: bf16; fp16 with loss scaling is not implemented"},
    {"fp32", "dtype: f32"},
    {"optim", "method: adamw"},
    {"optimizer", "method: adamw"},
    {"deepspeed", "ssd_dir and ram: the placement follows from the budgets"},
    {"fsdp", "ssd_dir and ram: the placement follows from the budgets"},
    {"load_in_4bit", "nothing here: quantised bases are not implemented"},
    {"load_in_8bit", "nothing here: quantised bases are not implemented"},
    {"lora_r", "method: adamw; low-rank adapters are not implemented"},
    {"adapter", "method: adamw; low-rank adapters are not implemented"},
    {"chat_template", "prompt and completion fields: chat templates are not implemented"},
    {"gpu_memory", "ram: this release computes on the CPU"},
};

int edit_distance(std::string_view a, std::string_view b) {
    std::vector<int> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
    for (size_t i = 1; i <= a.size(); ++i) {
        int diagonal = row[0];
        row[0] = static_cast<int>(i);
        for (size_t j = 1; j <= b.size(); ++j) {
            const int above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
        }
    }
    return row.back();
}

std::string with_underscores(std::string_view name) {
    std::string result(name);
    std::replace(result.begin(), result.end(), '-', '_');
    return result;
}

}  // namespace

const ConfigKey* find_config_key(std::string_view name) {
    const std::string wanted = with_underscores(name);
    for (const ConfigKey& key : config_keys()) {
        if (key.name == wanted) return &key;
        if (std::find(key.aliases.begin(), key.aliases.end(), wanted) != key.aliases.end()) return &key;
    }
    return nullptr;
}

std::string_view nearest_config_key(std::string_view name) {
    const std::string wanted = with_underscores(name.substr(0, 64));
    std::string_view best;
    int best_distance = std::max<int>(2, static_cast<int>(wanted.size()) / 3) + 1;
    const auto consider = [&](std::string_view candidate) {
        const int distance = edit_distance(wanted, candidate);
        if (distance < best_distance) best = candidate, best_distance = distance;
    };
    for (const ConfigKey& key : config_keys()) consider(key.name);
    for (const ConfigKey& key : config_keys()) {
        for (const std::string_view alias : key.aliases) consider(alias);
    }
    return best;
}

std::string_view config_key_advice(std::string_view name) {
    const std::string wanted = with_underscores(name);
    for (const Advice& advice : kAdvice) {
        if (advice.key == wanted) return advice.text;
    }
    return "";
}

std::string config_flag(std::string_view name) {
    std::string flag = fmt::format("--{}", name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

}  // namespace windlass
