#include "model/families/gguf_rope.h"

#include <cmath>

namespace windlass {
namespace {

bool is_local(const LayerSpec& layer, const GgufRope& known) {
    return known.local && layer.window > 0;
}

// By what positions turn in the layers that are local, or in the others; null where none turns. All of them must agree.
const RopeTable* rope_of(const DecoderSpec& spec, const GgufRope& known, bool local, std::string_view where) {
    const RopeTable* found = nullptr;
    for (const LayerSpec& layer : spec.layers) {
        if (layer.rope == nullptr || is_local(layer, known) != local) continue;
        if (found != nullptr && layer.rope->source != found->source)
            refuse_gguf(where, "rope differs from layer to layer: llama.cpp has one for all layers of this model");
        found = layer.rope.get();
    }
    return found;
}

void check_still_layers(const DecoderSpec& spec, const GgufRope& known, std::string_view where) {
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        const bool stands_still = known.still_step > 0 && (static_cast<int64_t>(i) + 1) % known.still_step == 0;
        if (stands_still == (spec.layers[i].rope == nullptr)) continue;
        refuse_gguf(where, fmt::format("positions {} in layer {}: llama.cpp leaves them out of {}",
                                       stands_still ? "turn queries and keys" : "do not show", i + 1,
                                       known.still_step > 0
                                           ? fmt::format("layers whose number, from 1, is a multiple of {}, always",
                                                         known.still_step)
                                           : "no layer of this family"));
    }
}

// The factor by which each pair's wavelength is stretched.
std::vector<float> stretches(const RopeTable& rope, int64_t head_size) {
    const std::vector<double> before =
        rope_table({.kind = RopeKind::default_, .theta = rope.source.theta, .rotary_share = rope.source.rotary_share},
                   head_size)
            .frequencies;
    std::vector<float> factors;
    for (size_t i = 0; i < before.size(); ++i) factors.push_back(static_cast<float>(before[i] / rope.frequencies[i]));
    return factors;
}

std::vector<float> as_floats(const std::vector<double>& numbers) {
    return {numbers.begin(), numbers.end()};
}

class RopeFields {
  public:
    RopeFields(const GgufRope& known, std::string_view where, GgufModel& out)
        : known_(known), where_(where), out_(out) {}

    void add(const RopeTable& rope, int64_t head_size) {
        const RopeSpec& source = rope.source;
        field("dimension_count", static_cast<uint32_t>(2 * rope.frequencies.size()));
        field("freq_base", static_cast<float>(source.theta));
        if (source.kind == RopeKind::linear) {
            field("scaling.type", std::string("linear"));
            field("scaling.factor", static_cast<float>(source.factor));
        }
        if (source.kind == RopeKind::yarn) add_yarn(source);
        if (source.kind == RopeKind::longrope) add_longrope(source);
        if (source.kind == RopeKind::llama3) {
            require_factors("llama3");
            out_.tensors.push_back({.name = "rope_freqs.weight", .values = stretches(rope, head_size)});
        }
    }

    void add_local(const RopeTable& rope) {
        if (rope.source.kind != RopeKind::default_)
            refuse_gguf(where_, "rope of layers with a window is stretched: llama.cpp stretches that of the others");
        field("freq_base_swa", static_cast<float>(rope.source.theta));
    }

  private:
    void field(const char* key, GgufValue value) {
        out_.fields.push_back({fmt::format("{}.rope.{}", out_.architecture, key), std::move(value)});
    }

    void require_factors(const char* kind) {
        if (!known_.factors)
            refuse_gguf(where_, fmt::format("rope type \"{}\": llama.cpp does not know it in models of type {}", kind,
                                            out_.architecture));
    }

    // llama.cpp scales the turned channels by 1 + 0.1 ln(factor) itself; the file holds a factor of that.
    void add_yarn(const RopeSpec& source) {
        constexpr double kBetaFast = 32.0, kBetaSlow = 1.0;  // compiled into llama.cpp, as whole pairs are
        if (known_.local) refuse_gguf(where_, "rope type \"yarn\": llama.cpp would scale layers with a window too");
        if (source.beta_fast != kBetaFast || source.beta_slow != kBetaSlow || !source.truncate)
            refuse_gguf(where_,
                        fmt::format("yarn with \"beta_fast\" {}, \"beta_slow\" {} and \"truncate\" {}: llama.cpp reads "
                                    "none of them in models of type {}, and takes {}, {} and true",
                                    source.beta_fast, source.beta_slow, source.truncate, out_.architecture, kBetaFast,
                                    kBetaSlow));
        field("scaling.type", std::string("yarn"));
        field("scaling.factor", static_cast<float>(source.factor));
        field("scaling.original_context_length", static_cast<uint32_t>(source.original_length));
        const double own = 1.0 + 0.1 * std::log(source.factor);
        const auto beside = static_cast<float>(source.scale / own);
        if (beside != 1.0f) field("scaling.attn_factor", beside);
    }

    void add_longrope(const RopeSpec& source) {
        require_factors("longrope");
        field("scaling.type", std::string("longrope"));
        field("scaling.original_context_length", static_cast<uint32_t>(source.original_length));
        field("scaling.attn_factor", static_cast<float>(source.scale));
        out_.tensors.push_back({.name = "rope_factors_long.weight", .values = as_floats(source.long_factors)});
        out_.tensors.push_back({.name = "rope_factors_short.weight", .values = as_floats(source.short_factors)});
        out_.notes.push_back(
            fmt::format("llama.cpp takes the factors of long texts where its context is more than {} tokens, however "
                        "long the text is: start it with -c {} for texts up to that",
                        source.original_length, source.original_length));
    }

    const GgufRope& known_;
    std::string_view where_;
    GgufModel& out_;
};

}  // namespace

void add_gguf_rope(const DecoderSpec& spec, const GgufRope& known, std::string_view where, GgufModel& out) {
    check_still_layers(spec, known, where);
    RopeFields fields(known, where, out);
    const int64_t head_size = spec.layers.front().head_size;
    const RopeTable* const local = rope_of(spec, known, true, where);
    const RopeTable* const rope = rope_of(spec, known, false, where);
    if (rope != nullptr) fields.add(*rope, head_size);
    if (local != nullptr) fields.add_local(*local);
    if (rope == nullptr && local != nullptr) fields.add(*local, head_size);
}

}  // namespace windlass
