// Rows of single tokens (peft, TrainableTokensConfig; LoraConfig.trainable_token_indices).
#include "model/adapters/tokens.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/math.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/kinds.h"
#include "model/adapters/whole.h"
#include "op/ops.h"

namespace windlass {

// Next to an adapter of another kind, peft has a wrapper around them.
std::string rows_part(const AdapterSettings& settings) {
    return fmt::format("{}trainable_tokens_delta", settings.kind == kTokens.name ? "" : "token_adapter.");
}

namespace tokens_adapter {

constexpr int64_t kReadBlock = 64;

std::vector<AdapterPart> parts(const LinearLayer& layer, const AdapterSettings& settings) {
    const int64_t vocab = layer.is_table ? layer.in_cols : layer.out_cols;
    const int64_t width = layer.is_table ? layer.out_cols : layer.in_cols;
    const Shape rows{settings.rank, width};
    return {{.name = rows_part(settings), .shape = rows, .peft_shape = rows},
            {.name = "one_hot",
             .shape = {vocab, settings.rank},
             .first = {FirstValues::one_hot},
             .trains = false,
             .dtype = DType::bf16}};
}

std::string value_name(const AdapterPlace& place, const char* part) {
    return fmt::format("{}.{}", place.layer.role, part);
}

// Of the table each row of P; of the head what each trained row adds to its own logit.
int write_narrow(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& /*settings*/) {
    if (place.layer.is_table)
        return program.apply(kEmbedding, value_name(place, "one_hot"), {}, {place.parts[1]}, EmbeddingAttrs{});
    return program.apply(kLinear, value_name(place, "rows"), {place.in}, {place.parts[0]}, LinearAttrs{});
}

int write(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) {
    const int narrow = write_narrow(program, place, settings);
    const int weight = place.layer.is_table ? place.parts[0] : place.parts[1];
    const int added = program.apply(kLinear, value_name(place, "tokens"), {narrow}, {weight},
                                    LinearAttrs{.in_out = place.layer.is_table});
    return program.apply(kAdd, value_name(place, "with_tokens"), {place.out, added});
}

// The table and the head are stored [vocabulary, width]; the first part has the rows themselves (fuse.cpp).
void fuse(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts,
          const FuseRun& run) {
    if (run.is_bias) return;
    const int64_t width = layer.is_table ? layer.out_cols : layer.in_cols;
    for (int64_t i = 0; i < std::ssize(run.numbers); ++i) {
        const int64_t row = (run.first + i) / width, col = (run.first + i) % width;
        for (int64_t k = 0; k < settings.rank; ++k) {
            if (parts[1][at(row * settings.rank + k)] != 0) run.numbers[at(i)] = parts[0][at(k * width + col)];
        }
    }
}

// target_modules says which tables; all have the same tokens.
void write_config(const AdapterSettings& settings, Json& config) {
    if (!settings.tokens.empty()) config["token_indices"] = settings.tokens.begin()->second;
    config["init_weights"] = true;
    config.erase("modules_to_save");
    config.erase("fan_in_fan_out");
}

AdapterSettings read_config(const Json& /*config*/, std::string_view /*where*/) {
    return {.kind = std::string(kTokens.name)};
}

}  // namespace tokens_adapter

constinit const AdapterKind kTokens = {
    .name = "trainable_tokens",
    .peft_type = "TRAINABLE_TOKENS",
    .parts = tokens_adapter::parts,
    .write = tokens_adapter::write,
    .write_narrow = tokens_adapter::write_narrow,
    .fuse = tokens_adapter::fuse,
    .write_config = tokens_adapter::write_config,
    .read_config = tokens_adapter::read_config,
    .fields = "token_indices init_weights",
    .is_of_tokens = true,
};

namespace {

// Of a model's two ends: the table of tokens, and the head.
struct EndsOfModel {
    std::string table, head;  // layers
    bool is_tied = false;
};

EndsOfModel ends_of(const ModelSpec& model) {
    EndsOfModel ends{.head = layer_name(model, kHeadLayer)};
    for (const int layer : adaptable_layers(model, kTokens)) {
        if (layer == kHeadLayer) continue;
        ends.table = layer_name(model, layer);
        ends.is_tied = weight_of_layer(model, layer) == weight_of_layer(model, kHeadLayer);
    }
    return ends;
}

void require_tokens(const ModelSpec& model, const std::vector<int64_t>& tokens, ExitCode code,
                    const std::string& where) {
    std::set<int64_t> seen;
    const auto problem = [&](std::string what) {
        UserError error(code, where, "{}", what);
        error.hint(fmt::format("ids of the tokenizer, from 0 to {}, each once", model.vocab - 1));
        return error;
    };
    if (tokens.empty()) throw problem("names a table and none of its tokens");
    for (const int64_t token : tokens) {
        if (token < 0 || token >= model.vocab)
            throw problem(fmt::format("{} is no token: the model has {}", token, model.vocab));
        if (!seen.insert(token).second) throw problem(fmt::format("the token {} is there twice", token));
    }
}

}  // namespace

std::map<std::string, std::vector<int64_t>, std::less<>> tokens_by_layer(const ModelSpec& model,
                                                                         std::span<const ModuleTokens> said,
                                                                         ExitCode code, const std::string& where) {
    const EndsOfModel ends = ends_of(model);
    std::map<std::string, std::vector<int64_t>, std::less<>> tokens;
    for (const ModuleTokens& each : said) {
        require_tokens(model, each.tokens, code, where);
        bool is_there = false;
        for (const std::string& layer : {ends.table, ends.head}) {
            const bool is_meant =
                each.module.empty() ? layer == ends.table : module_name(model, layer).ends_with(each.module);
            if (is_meant) tokens[layer] = each.tokens;
            is_there |= is_meant;
        }
        if (!is_there)
            throw UserError(code, where, "\"{}\" is neither the table of tokens nor the head", each.module)
                .hint(fmt::format("{} or {}", module_name(model, ends.table), module_name(model, ends.head)));
    }
    if (!ends.is_tied || !tokens.contains(ends.head)) return tokens;
    if (!tokens.contains(ends.table) || tokens[ends.table] != tokens[ends.head])
        throw UserError(code, where, "{} is one end of a tied table: with tokens of its own there would be two tables",
                        module_name(model, ends.head))
            .hint(code == ExitCode::usage
                      ? fmt::format("the tokens of {}, which are those of both ends", module_name(model, ends.table))
                      : "an adapter whose tokens are those of both ends");
    tokens.erase(ends.head);
    return tokens;
}

std::string shared_tokens(const ModelSpec& model, const AdapterSettings& settings) {
    if (settings.tokens.empty()) return "";
    const EndsOfModel ends = ends_of(model);
    return ends.is_tied && settings.tokens.contains(ends.table) ? ends.table : "";
}

void one_hot(const std::vector<int64_t>& tokens, int64_t first, std::span<float> out) {
    std::ranges::fill(out, 0.0f);
    const int64_t count = std::ssize(tokens);
    for (int64_t k = 0; k < count; ++k) {
        const int64_t element = tokens[at(k)] * count + k - first;
        if (element >= 0 && element < std::ssize(out)) out[at(element)] = 1;
    }
}

bool is_token_rows(const ModelSpec& model, const ParamSpec& param) {
    return param.added && model.adapter->tokens.contains(param.added->layer) && param.added->first.is_in_files();
}

std::vector<float> own_rows(const ModelSpec& model, const ParamSpec& rows, int64_t first, int64_t count,
                            const ReadMasters& table) {
    const std::vector<int64_t>& tokens = model.adapter->tokens.at(rows.added->layer);
    const int param = find_param(model, rows.added->layer + ".weight");
    const int64_t width = rows.shape[1], all = model.params[at(param)].numel();
    std::vector<float> own, piece;
    while (std::ssize(own) < count) {
        const int64_t place = first + std::ssize(own), col = place % width;
        const int64_t some = std::min(width - col, count - std::ssize(own));
        const int64_t element = tokens[at(place / width)] * width + col;
        const int64_t begin = round_down(element, tokens_adapter::kReadBlock);
        piece.resize(at(std::min(round_up(element + some, tokens_adapter::kReadBlock), all) - begin));
        table(param, begin, piece);
        const auto from = piece.begin() + (element - begin);
        own.insert(own.end(), from, from + some);
    }
    return own;
}

void add_own_rows(const ModelSpec& model, const ParamSpec& rows, int64_t first, std::span<float> numbers,
                  const ReadMasters& table) {
    const std::vector<float> own = own_rows(model, rows, first, std::ssize(numbers), table);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += own[i];
}

}  // namespace windlass
