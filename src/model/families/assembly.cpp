#include "model/families/assembly.h"
#include "base/printable.h"

#include <fmt/ranges.h>

namespace windlass {

WantedParam vocab_table(std::string name, int64_t vocab, int64_t cols) {
    return {std::move(name), {vocab, cols}};
}

WantedParam position_table(std::string name, int64_t positions, int64_t cols) {
    return {std::move(name), {positions, cols}};
}

Activation read_activation(const HfConfig& config, const char* key, const char* fallback) {
    const std::string name = config.find_text(key).value_or(fallback);
    if (name == "relu") return Activation::relu;
    if (name == "gelu") return Activation::gelu;
    if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
    throw UserError(ExitCode::model, config.where(), "\"{}\" is \"{}\", implemented are relu, gelu, gelu_new", key,
                    excerpt(name));
}

void require_divisible_heads(const HfConfig& config, int64_t hidden, int64_t heads) {
    if (hidden % heads != 0 || hidden / heads > kHeadSizeMax)
        throw UserError(ExitCode::model, config.where(), "hidden size {} in {} heads: expected equal heads of up to {}",
                        hidden, heads, kHeadSizeMax);
}

// ---- BlockWriter ----

int BlockWriter::weight(std::string role, WantedParam param) {
    params_.push_back(std::move(param));
    return program_.weight(std::move(role), params_.back().shape);
}

int BlockWriter::weight(const std::string& role, Shape shape) {
    return weight(role, {prefix_ + role, shape});
}

int BlockWriter::embedding(const std::string& module, WantedParam table, EmbeddingAttrs attrs) {
    return program_.apply(kEmbedding, module, {}, {weight(module + ".weight", std::move(table))}, attrs);
}

int BlockWriter::linear(const std::string& module, int in, LinearSize size) {
    const Shape shape = size.in_out ? Shape{size.in, size.out} : Shape{size.out, size.in};
    std::vector<int> weights{weight(module + ".weight", shape)};
    if (size.bias) weights.push_back(weight(module + ".bias", {size.out}));
    return program_.apply(kLinear, module, {in}, std::move(weights), LinearAttrs{.in_out = size.in_out});
}

int BlockWriter::rms_norm(const std::string& module, int in, int64_t size, RmsNormAttrs attrs) {
    const int scale = weight(module + ".weight", {size});
    return program_.apply(kRmsNorm, module, {in}, {scale}, attrs);
}

int BlockWriter::layer_norm(const std::string& module, int in, int64_t size, double eps) {
    const int scale = weight(module + ".weight", {size});
    const int shift = weight(module + ".bias", {size});
    return program_.apply(kLayerNorm, module, {in}, {scale, shift}, LayerNormAttrs{.eps = eps});
}

int BlockWriter::apply(const OpRecord& op, std::string value, std::vector<int> in, std::any attrs) {
    return program_.apply(op, std::move(value), std::move(in), {}, std::move(attrs));
}

int BlockWriter::activation(std::string value, int in, Activation kind) {
    if (kind == Activation::relu) return apply(kRelu, std::move(value), {in});
    using Kind = GeluAttrs::Kind;
    return apply(kGelu, std::move(value), {in}, GeluAttrs{kind == Activation::gelu ? Kind::exact : Kind::tanh});
}

int BlockWriter::scale(std::string value, int in, ScaleAttrs attrs) {
    return attrs.factor == 1 ? in : apply(kScale, std::move(value), {in}, attrs);
}

int BlockWriter::logits(int in, WantedParam table, CrossEntropyAttrs shape) {
    const int product =
        program_.apply(kLinear, "logits", {in}, {weight(std::string(kHeadRole), std::move(table))}, LinearAttrs{});
    if (shape.softcap > 0) {
        const int share = apply(kScale, "logits_share", {product}, ScaleAttrs{shape.scale / shape.softcap});
        return apply(kScale, "capped_logits", {apply(kTanh, "logits_tanh", {share})}, ScaleAttrs{shape.softcap});
    }
    return shape.scale == 1 ? product : apply(kScale, "scaled_logits", {product}, ScaleAttrs{shape.scale});
}

int BlockWriter::loss(int in, WantedParam table, CrossEntropyAttrs shape) {
    return program_.apply(kCrossEntropy, "loss", {in}, {weight(std::string(kHeadRole), std::move(table))}, shape);
}

// ---- ModelAssembly ----

ModelAssembly::ModelAssembly(std::string family, ModelSizes sizes, const HfConfig& config,
                             std::span<const TensorPlace> tensors)
    : config_(config), tensors_(tensors) {
    model_.family = std::move(family);
    model_.vocab = sizes.vocab;
    model_.hidden = sizes.hidden;
    model_.context_length = sizes.context_length;
}

const TensorPlace* ModelAssembly::find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(tensors_, name, {}, &TensorPlace::name);
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::string ModelAssembly::find_prefix(std::span<const std::string_view> prefixes, std::string_view name) {
    const auto holds = [&](std::string_view prefix) { return find(fmt::format("{}{}", prefix, name)) != nullptr; };
    const auto found = std::ranges::find_if(prefixes, holds);
    model_.tree_prefix = prefixes.front();
    model_.file_prefix = found == prefixes.end() ? prefixes.front() : *found;
    return model_.file_prefix;
}

std::string ModelAssembly::find_first(std::span<const std::string_view> names) const {
    const auto found = std::ranges::find_if(names, [&](std::string_view name) { return find(name) != nullptr; });
    return std::string(found == names.end() ? names.front() : *found);
}

TableNames ModelAssembly::name_tables(const std::string& embedding, const std::string& head, bool tied) {
    if (!tied) return {embedding, head};
    const bool has_embedding = find(embedding) != nullptr;
    const bool has_head = find(head) != nullptr;
    tied_to_[embedding] = head;
    tied_to_[head] = embedding;
    if (has_head && !has_embedding) return {head, head};
    if (has_head) alias_of_[embedding] = head;
    return {embedding, embedding};
}

int ModelAssembly::add_param(const WantedParam& wanted) {
    const auto [at, is_new] = param_of_.try_emplace(wanted.name, static_cast<int>(model_.params.size()));
    if (is_new) {
        model_.params.push_back({.name = wanted.name,
                                 .shape = wanted.shape,
                                 .alias = alias_of_[wanted.name],
                                 .tied_name = tied_to_[wanted.name]});
    }
    const ParamSpec& param = model_.params[static_cast<size_t>(at->second)];
    WINDLASS_CHECK(param.shape == wanted.shape, "{} is needed as {} and as {}", wanted.name, param.shape.to_string(),
                   wanted.shape.to_string());
    return at->second;
}

Block ModelAssembly::make_block(BlockWriter block, int output) {
    Block made{.name = std::move(block.name_)};
    Program program = block.program_.finish({output});
    std::vector<std::shared_ptr<const Program>>& alike = programs_[program.to_string()];
    const auto shared = std::ranges::find_if(alike, [&](const auto& each) { return *each == program; });
    made.program =
        shared != alike.end() ? *shared : alike.emplace_back(std::make_shared<const Program>(std::move(program)));
    for (const WantedParam& wanted : block.params_) made.params.push_back(add_param(wanted));
    return made;
}

void ModelAssembly::add_block(BlockWriter block, int output) {
    model_.blocks.push_back(make_block(std::move(block), output));
}

void ModelAssembly::add_head(const std::string& prefix, const WantedParam& table,
                             const std::function<int(BlockWriter&)>& body, CrossEntropyAttrs shape) {
    BlockWriter head("head", prefix);
    const int loss = head.loss(body(head), table, shape);
    add_block(std::move(head), loss);
    BlockWriter logits("logits", prefix);
    const int scores = logits.logits(body(logits), table, shape);
    model_.logits = make_block(std::move(logits), scores);
}

ModelSpec ModelAssembly::finish() {
    int64_t total = 0;
    for (const ParamSpec& param : model_.params) {
        total += param.numel();
        if (total > kParamsMax)
            throw UserError(ExitCode::model, config_.where(), "describes more than {} parameters", kParamsMax);
    }
    assign_homes();
    sort_params();
    bind_tensors();
    for (const std::string& dropout : config_.dropouts())
        model_.notes.push_back(fmt::format("{} in the configuration: dropout is not applied", dropout));
    return std::move(model_);
}

void ModelAssembly::assign_homes() {
    for (size_t b = model_.blocks.size(); b-- > 0;) {
        const bool is_layer = b > 0 && b + 1 < model_.blocks.size();
        for (const int id : model_.blocks[b].params) {
            ParamSpec& param = model_.params[static_cast<size_t>(id)];
            param.block = static_cast<int>(b);
            param.layer = is_layer ? param.block - 1 : -1;
        }
    }
}

void ModelAssembly::sort_params() {
    std::vector<ParamSpec> sorted;
    std::vector<int> place_of(model_.params.size());
    for (const auto& [name, id] : param_of_) {  // bytewise: the order of std::map<std::string, ...>
        place_of[static_cast<size_t>(id)] = static_cast<int>(sorted.size());
        sorted.push_back(std::move(model_.params[static_cast<size_t>(id)]));
    }
    model_.params = std::move(sorted);
    for (Block& block : model_.blocks) {
        for (int& id : block.params) id = place_of[static_cast<size_t>(id)];
    }
    for (int& id : model_.logits.params) id = place_of[static_cast<size_t>(id)];
}

bool ModelAssembly::is_ignored(std::string_view name) const {
    return std::ranges::any_of(ignored_, [&](const std::string& suffix) { return name.ends_with(suffix); }) ||
           std::ranges::any_of(ignored_prefixes_, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

namespace {

// What files of this configuration would hold.
DType config_dtype(const HfConfig& config) {
    const std::string name = config.find_text({"dtype", "torch_dtype"}).value_or("float32");
    if (name == "float32") return DType::f32;
    if (name == "bfloat16") return DType::bf16;
    if (name == "float16") return DType::f16;
    throw UserError(ExitCode::model, config.where(), "\"dtype\" is \"{}\", expected float32, bfloat16 or float16",
                    excerpt(name));
}

void check_tensor(const TensorPlace& tensor, Shape shape, std::string_view where) {
    if (tensor.shape != shape)
        throw UserError(ExitCode::model, where, "tensor {} is {}, the configuration expects {}", tensor.name,
                        tensor.shape.to_string(), shape.to_string());
    if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16 && tensor.dtype != DType::f16)
        throw UserError(ExitCode::model, where, "tensor {} holds {}, expected F32, BF16 or F16", tensor.name,
                        tensor.dtype_name);
}

// "tensor a.b is missing", or "tensors a.b, c.d and 5 more are missing"; at most a few names.
UserError names_error(std::string_view where, const std::vector<std::string>& names, std::string_view complaint) {
    constexpr size_t kNamesShown = 3;
    const size_t shown = std::min(names.size(), kNamesShown);
    std::string list = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
    if (names.size() > shown) list += fmt::format(" and {} more", names.size() - shown);
    return UserError(ExitCode::model, where, "{} {}: {}", names.size() == 1 ? "tensor" : "tensors", list, complaint);
}

}  // namespace

void ModelAssembly::bind_tensors() {
    const std::string& where = config_.where();
    if (tensors_.empty()) {
        const DType dtype = config_dtype(config_);
        for (ParamSpec& param : model_.params) param.file_dtype = dtype;
        return;
    }
    std::set<std::string_view> known;
    std::vector<std::string> missing, extra;
    for (ParamSpec& param : model_.params) {
        known.insert({param.name, param.alias});
        const TensorPlace* tensor = find(param.name);
        if (tensor == nullptr) {
            missing.push_back(fmt::format("{} {}", param.name, param.shape.to_string()));
            continue;
        }
        check_tensor(*tensor, param.shape, where);
        param.file_dtype = *tensor->dtype;
        if (!param.alias.empty()) check_tensor(*find(param.alias), param.shape, where);
    }
    for (const TensorPlace& tensor : tensors_) {
        if (!known.contains(tensor.name) && !is_ignored(tensor.name)) extra.push_back(tensor.name);
    }
    if (!missing.empty()) throw names_error(where, missing, "required by the configuration, missing in the folder");
    if (!extra.empty()) throw names_error(where, extra, "in the folder, but not part of the model");
}

}  // namespace windlass
