// gguf_decoder.cpp: names and keys are those of llama.cpp's src/llama-arch.cpp and gguf-py's constants.
#include "model/families/gguf_decoder.h"

#include <algorithm>
#include <charconv>

namespace windlass {
namespace {

using Change = GgufChange;

constexpr GgufName kMatrices[] = {
    {"input_layernorm.weight", "attn_norm.weight"},    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},      {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"}, {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},       {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};
constexpr GgufName kNeighbours[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", Change::neighbours},
    {"self_attn.k_proj.weight", "attn_k.weight", Change::neighbours, true},
};
constexpr GgufName kQkvBiases[] = {
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
};
constexpr GgufName kLlamaBiases[] = {
    {"self_attn.q_proj.bias", "attn_q.bias", Change::neighbours},
    {"self_attn.k_proj.bias", "attn_k.bias", Change::neighbours, true},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"mlp.gate_proj.bias", "ffn_gate.bias"},
    {"mlp.up_proj.bias", "ffn_up.bias"},
    {"mlp.down_proj.bias", "ffn_down.bias"},
};
constexpr GgufName kQkNorms[] = {
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
};
// The norm in front of the other half of a layer has another name where there are norms after the halves.
constexpr GgufName kNormsBehind[] = {
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};
constexpr GgufName kFused[] = {
    {"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {"mlp.gate_up_proj.weight", "ffn_up.weight"},
};
constexpr GgufName kModel[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
};
constexpr GgufName kHead = {"lm_head.weight", "output.weight"};

// "layers.7.mlp.up_proj.weight" -> 7 and "mlp.up_proj.weight"; layer -1 where it is of none.
struct OfLayer {
    int layer = -1;
    std::string_view name;
};
OfLayer split_layer(std::string_view name, std::string_view layers) {
    if (!name.starts_with(layers)) return {-1, name};
    const std::string_view rest = name.substr(layers.size());
    OfLayer of;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), of.layer);
    of.name = rest.substr(std::min<size_t>(static_cast<size_t>(end - rest.data()) + 1, rest.size()));
    return of;
}

// Tables later in the list win: they say what is other than in those before.
const GgufName* find_name(GgufNames names, std::string_view from) {
    const GgufName* found = nullptr;
    for (const GgufName& name : names)
        if (name.from == from) found = &name;
    return found;
}

}  // namespace

const GgufNames kGgufMatrices = kMatrices;
const GgufNames kGgufNeighbours = kNeighbours;
const GgufNames kGgufQkvBiases = kQkvBiases;
const GgufNames kGgufLlamaBiases = kLlamaBiases;
const GgufNames kGgufQkNorms = kQkNorms;
const GgufNames kGgufNormsBehind = kNormsBehind;
const GgufNames kGgufFused = kFused;

std::vector<GgufSource> gguf_tensors(const ModelSpec& model, const GgufTables& tables, int64_t heads,
                                     int64_t key_heads) {
    std::vector<GgufSource> sources;
    for (size_t i = 0; i < model.params.size(); ++i) {
        const ParamSpec& param = model.params[i];
        if (param.added) continue;
        std::string_view bare = param.name;
        if (bare.starts_with(model.file_prefix)) bare.remove_prefix(model.file_prefix.size());
        const OfLayer of = split_layer(bare, tables.layers);
        const GgufName* found = find_name(of.layer < 0 ? tables.model : tables.layer, of.name);
        // A tied table is the embedding there, whatever the files call it.
        if (bare.ends_with(kHead.from)) found = param.tied_name.empty() ? &kHead : &tables.model.front();
        if (found == nullptr)
            throw UserError(ExitCode::model, param.name, "llama.cpp has no place for this tensor in a model of type {}",
                            model.family);
        GgufSource source{.param = static_cast<int>(i), .change = found->change, .keeps_f32 = found->keeps_f32};
        source.heads = found->is_of_keys ? key_heads : heads;
        source.name = of.layer < 0 ? std::string(found->to) : fmt::format("blk.{}.{}", of.layer, found->to);
        sources.push_back(std::move(source));
    }
    return sources;
}

GgufModel gguf_decoder(std::string architecture, const DecoderSpec& spec, const HfConfig& config,
                       const ModelSpec& model, std::initializer_list<GgufNames> layer_names, const GgufRope& rope) {
    std::vector<GgufName> layer;
    for (const GgufNames names : layer_names) layer.insert(layer.end(), names.begin(), names.end());
    const LayerSpec& first = spec.layers.front();
    GgufModel out{.architecture = std::move(architecture),
                  .tensors = gguf_tensors(model, {.layer = layer, .model = kModel}, first.heads, first.key_heads)};
    for (GgufSource& source : out.tensors)
        if (spec.unit_offset && source.name.ends_with("_norm.weight")) source.change = Change::plus_one;
    const auto add = [&](const char* key, int64_t value) {
        out.fields.push_back({fmt::format("{}.{}", out.architecture, key), static_cast<uint32_t>(value)});
    };
    add("vocab_size", spec.vocab);
    add("context_length", spec.context_length);
    add("embedding_length", spec.hidden);
    add("block_count", std::ssize(spec.layers));
    add("feed_forward_length", first.inner);
    add("attention.head_count", first.heads);
    add("attention.head_count_kv", first.key_heads);
    add("attention.key_length", first.head_size);
    add("attention.value_length", first.head_size);
    add_gguf_number("attention.layer_norm_rms_epsilon", spec.norm_eps, out);
    add_gguf_rope(spec, rope, config.where(), out);
    return out;
}

void add_gguf_number(const char* key, double value, GgufModel& out) {
    out.fields.push_back({fmt::format("{}.{}", out.architecture, key), static_cast<float>(value)});
}

void add_gguf_windows(const DecoderSpec& spec, int64_t step, std::string_view where, GgufModel& out) {
    int64_t window = 0;
    for (const LayerSpec& layer : spec.layers) window = std::max(window, layer.window);
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        const bool slides = (static_cast<int64_t>(i) + 1) % step != 0;
        if (spec.layers[i].window == (slides ? window : 0) && window > 0) continue;
        refuse_gguf(
            where, fmt::format("layer {} has {}: in llama.cpp, layers of this family slide by one window, but for "
                               "each whose number, from 1, is a multiple of {}",
                               i + 1,
                               spec.layers[i].window == 0 ? "no window"
                                                          : fmt::format("a window of {} tokens", spec.layers[i].window),
                               step));
    }
    out.fields.push_back({fmt::format("{}.attention.sliding_window", out.architecture), static_cast<uint32_t>(window)});
}

void require_whole_heads(const DecoderSpec& spec, std::string_view where) {
    const LayerSpec& first = spec.layers.front();
    if (first.heads * first.head_size == spec.hidden) return;
    refuse_gguf(
        where,
        fmt::format("{} heads of {} channels are not the {} of \"hidden_size\", as llama.cpp has it in models of this "
                    "type",
                    first.heads, first.head_size, spec.hidden));
}

void note_windows(const DecoderSpec& spec, GgufModel& out) {
    const auto layer = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    if (layer == spec.layers.end()) return;
    out.notes.push_back(
        fmt::format("llama.cpp reads models of this kind without their window of {} tokens: longer texts are answered "
                    "otherwise there",
                    layer->window));
}

}  // namespace windlass
