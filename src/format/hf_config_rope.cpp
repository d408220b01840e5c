#include "format/hf_config_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr double kThetaMin = 1.0, kThetaMax = 1e15;
constexpr double kFactorMin = 1.0, kFactorMax = 1e6;
constexpr int64_t kLengthMax = int64_t{1} << 40;
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kPositions = "max_position_embeddings";
constexpr const char* kTheta = "rope_theta";
constexpr const char* kShare = "partial_rotary_factor";
constexpr std::string_view kOlder = "rope_scaling";
constexpr std::string_view kNewer = "rope_parameters";

// An object that describes a rope, and what counts outside of it.
struct Section {
    const HfConfig& keys;
    const HfConfig& file;  // what holds rope_scaling or rope_parameters
    const RopeRules& rules;
    const RopeBase& base;
    std::string_view name;               // of the object
    bool is_of_layers;                   // a layer type's: of the file, transformers reads the base alone
    std::optional<double> theta, share;  // of the file

    bool is_older() const { return name == kOlder; }
    bool is_phi() const { return rules.dialect == RopeDialect::phi; }
};

template <typename... Args>
UserError rope_error(const HfConfig& at, fmt::format_string<Args...> format, Args&&... args) {
    return UserError(ExitCode::model, at.where(), "{}", fmt::format(format, std::forward<Args>(args)...));
}

// A key that is null is not absent to transformers: it takes the null for the value and fails, or for false.
void refuse_null(const HfConfig& at, const char* key) {
    if (at.mentions(key) && !at.has(key))
        throw rope_error(at, "\"{}\" is null", key).hint(fmt::format("\"{}\" with a value, or no such key", key));
}

double required_factor(const HfConfig& at, const char* key, double min, const char* kind) {
    const std::optional<double> value = at.find_number(key, min, kFactorMax);
    if (!value)
        throw rope_error(at, "\"{}\" is missing: rope type \"{}\" needs it", key, kind)
            .hint(fmt::format("\"{}\" in this object, as the model was trained", key));
    return *value;
}

// ---- one object ----

std::string kind_name(const Section& in) {
    refuse_null(in.keys, "rope_type");
    refuse_null(in.keys, "type");
    const std::optional<std::string> newer = in.keys.find_text("rope_type"), older = in.keys.find_text("type");
    if (newer && older && *newer != *older)
        throw rope_error(in.keys, "\"rope_type\" is \"{}\", but \"type\", which means the same, is \"{}\"",
                         excerpt(*newer), excerpt(*older))
            .hint("\"rope_type\" alone");
    return newer ? *newer : older.value_or("default");
}

RopeKind rope_kind(const Section& in) {
    const std::string name = kind_name(in);
    if (name == "default") return RopeKind::default_;
    if (in.is_phi() && name == "su" && !in.is_older())  // transformers 5 takes it for longrope, and then misses a key
        throw rope_error(in.keys, "rope type \"su\" is an older name of longrope").hint("\"rope_type\": \"longrope\"");
    if (name == "longrope" || (in.is_phi() && (name == "su" || name == "yarn"))) return RopeKind::longrope;
    if (!in.is_phi()) {
        if (name == "linear") return RopeKind::linear;
        if (name == "llama3") return RopeKind::llama3;
        if (name == "yarn") return RopeKind::yarn;
    }
    throw rope_error(in.keys, "rope type \"{}\" is not implemented{}", excerpt(name), in.is_phi() ? " for Phi" : "")
        .hint(in.is_phi() ? "a model with rope type default or longrope"
                          : "a model with rope type default, linear, llama3, yarn or longrope");
}

// transformers 5 takes the object's base, transformers 4 the file's.
double read_theta(const Section& in) {
    refuse_null(in.keys, kTheta);
    const double outside = in.theta.value_or(in.base.theta);
    const double theta = in.keys.find_number(kTheta, kThetaMin, kThetaMax).value_or(outside);
    if (theta != outside && (in.theta || in.is_older()))
        throw rope_error(in.file, "\"{}\" contradicts \"{}\": the base is {} in the one, {} in the other", in.name,
                         in.base.key, theta,
                         in.theta ? fmt::format("{}", outside) : fmt::format("absent ({})", outside))
            .hint(in.is_older() ? fmt::format("\"{}\" next to \"{}\", not in it", kTheta, in.name)
                                : fmt::format("\"{}\" in \"{}\" alone", kTheta, in.name));
    return theta;
}

void check_share(const HfConfig& at, double share, RopeDialect dialect) {
    if (share != 1.0 && dialect == RopeDialect::common)
        throw rope_error(at, "\"{}\" is {}: only 1 is implemented", kShare, share)
            .hint("a model whose heads turn whole, or one of type phi3");
}

// The share of a head's channels that turn.
double read_share(const Section& in) {
    refuse_null(in.keys, kShare);
    const std::optional<double> own = in.keys.find_number(kShare, 0.0, 1.0);
    if (own && in.share && *own != *in.share)
        throw rope_error(in.file, "\"{}\" contradicts \"{}\": {} in the one, {} in the other", in.name, kShare, *own,
                         *in.share)
            .hint(fmt::format("\"{}\" at one of the two places", kShare));
    check_share(in.keys, own.value_or(1.0), in.rules.dialect);
    return own ? *own : in.share.value_or(1.0);
}

// ---- the length before the model was stretched ----

struct Lengths {
    std::optional<int64_t> own, of_file;  // in the object, and next to it
    int64_t positions = 0;                // that the model has now
};

// As transformers 5 takes it: for a layer type of the object alone, else of the file first.
int64_t length_of_5(const Section& in, const Lengths& lengths) {
    if (in.is_of_layers) return lengths.own.value_or(lengths.positions);
    return lengths.of_file ? *lengths.of_file : lengths.own.value_or(lengths.positions);
}

// As transformers 4.57 takes it.
int64_t length_of_4(const Lengths& lengths, RopeKind kind) {
    return (kind == RopeKind::longrope ? lengths.of_file : lengths.own).value_or(lengths.positions);
}

UserError length_error(const Section& in, const Lengths& lengths) {
    const auto shown = [](std::optional<int64_t> length) { return length ? fmt::format("{}", *length) : "absent"; };
    const bool is_part = in.is_of_layers && !in.is_older();
    return rope_error(in.file, "\"{}\" is {} in \"{}\" and {} outside{}: {}", kOriginal, shown(lengths.own), in.name,
                      shown(lengths.of_file), in.is_phi() && !in.file.has(kOriginal) ? " by default" : "",
                      in.is_older() ? "versions of transformers differ in which they read"
                      : is_part     ? "transformers reads only that of the part"
                                    : "transformers reads only that outside")
        .hint(is_part ? fmt::format("\"{}\" in \"{}\" alone", kOriginal, in.name)
                      : fmt::format("\"{}\" with one value in \"{}\" and next to it", kOriginal, in.name));
}

Lengths find_lengths(const Section& in) {
    constexpr int64_t kPhiLength = 4096;  // where a file of Phi's does not say
    refuse_null(in.keys, kOriginal);
    if (!in.is_of_layers) refuse_null(in.file, kOriginal);
    Lengths lengths{.own = in.keys.find_integer(kOriginal, 2, kLengthMax),
                    .of_file = in.file.find_integer(kOriginal, 2, kLengthMax)};
    if (in.is_phi() && !lengths.of_file) lengths.of_file = kPhiLength;
    lengths.positions = in.file.find_integer(kPositions, 1, kLengthMax).value_or(0);
    return lengths;
}

// Of every kind of rope that has it.
int64_t read_original_length(const Section& in, RopeKind kind) {
    const Lengths lengths = find_lengths(in);
    if (!lengths.own && !lengths.of_file && (kind == RopeKind::llama3 || lengths.positions < 2))
        throw rope_error(in.keys, "\"{}\" is missing", kOriginal)
            .hint(fmt::format("\"{}\" in this object, with the length before the model was stretched", kOriginal));
    const int64_t length = length_of_5(in, lengths);
    const bool is_known_to_4 = in.is_older() && !in.is_phi() && (kind != RopeKind::llama3 || lengths.own);
    if ((lengths.own && *lengths.own != length) || (lengths.of_file && *lengths.of_file != length) ||
        (is_known_to_4 && length_of_4(lengths, kind) != length))
        throw length_error(in, lengths);
    return length;
}

// ---- kinds ----

void read_llama3(RopeSpec& rope, const Section& in) {
    rope.factor = required_factor(in.keys, "factor", kFactorMin, "llama3");
    rope.low_freq_factor = required_factor(in.keys, "low_freq_factor", 1e-3, "llama3");
    rope.high_freq_factor = required_factor(in.keys, "high_freq_factor", 1e-3, "llama3");
    rope.original_length = read_original_length(in, rope.kind);
    if (rope.high_freq_factor <= rope.low_freq_factor)
        throw rope_error(in.keys, "\"high_freq_factor\" {} is not above \"low_freq_factor\" {}", rope.high_freq_factor,
                         rope.low_freq_factor)
            .hint("the two factors of the published model");
}

// transformers 5 looks for it next to the parts of layer types, so that one in a part has no effect.
bool read_truncate(const Section& in) {
    refuse_null(in.keys, "truncate");
    const bool truncate = in.keys.flag("truncate", true);
    if (!truncate && in.is_of_layers)
        throw rope_error(in.keys, "\"truncate\" is false: transformers does not read it for a type of layer")
            .hint("no \"truncate\", if the model was trained with transformers 5");
    return truncate;
}

// Peng et al. 2023, "YaRN", equation 22, with DeepSeek's two factors of the logarithm.
void read_yarn(RopeSpec& rope, const Section& in) {
    rope.factor = required_factor(in.keys, "factor", kFactorMin, "yarn");
    rope.original_length = read_original_length(in, rope.kind);
    const auto bounded = [&](const char* key, double fallback) {
        const double value = in.keys.find_number(key, 0.0, kFactorMax).value_or(0.0);
        return value == 0.0 ? fallback : value;  // transformers takes 0 as no value
    };
    rope.beta_fast = bounded("beta_fast", 32.0);
    rope.beta_slow = bounded("beta_slow", 1.0);
    rope.truncate = read_truncate(in);
    const double of_turned = bounded("mscale", 0.0), of_all = bounded("mscale_all_dim", 0.0);
    const auto grown = [&](double share) {
        return rope.factor <= 1.0 ? 1.0 : 0.1 * share * std::log(rope.factor) + 1.0;
    };
    const double inferred = of_turned != 0.0 && of_all != 0.0 ? grown(of_turned) / grown(of_all) : grown(1.0);
    rope.scale = in.keys.find_number("attention_factor", 1e-6, kFactorMax).value_or(inferred);
    if (rope.theta <= 1.0)
        throw rope_error(in.keys, "\"{}\" is {}: yarn needs more than 1", kTheta, rope.theta)
            .hint(fmt::format("the \"{}\" of the published model", kTheta));
}

std::vector<double> read_factors(const HfConfig& at, const char* key) {
    const std::optional<std::vector<double>> factors = at.find_numbers(key, 1e-6, kFactorMax);
    if (!factors)
        throw rope_error(at, "\"{}\" is missing: longrope needs a list of numbers", key)
            .hint(fmt::format("the list \"{}\" of the published model", key));
    return *factors;
}

// Ding et al. 2024, "LongRoPE"; the scale is that of Phi-3's code: it goes by how far the model was stretched.
void read_longrope(RopeSpec& rope, const Section& in) {
    rope.short_factors = read_factors(in.keys, "short_factor");
    rope.long_factors = read_factors(in.keys, "long_factor");
    rope.original_length = read_original_length(in, rope.kind);
    const auto positions = static_cast<double>(in.file.integer(kPositions, 1, kLengthMax));
    const auto original = static_cast<double>(rope.original_length);
    const std::optional<double> factor = in.keys.find_number("factor", 1e-6, kFactorMax);
    const std::optional<double> scale = in.keys.find_number("attention_factor", 1e-6, kFactorMax);
    const double stretched = factor.value_or(positions / original);
    // transformers 4.57 takes this ratio even where there is a factor.
    if (in.is_older() && !scale && stretched != positions / original && in.file.has(kOriginal))
        throw rope_error(in.keys, "\"factor\" is {}, but \"{}\" / \"{}\" is {}: versions of transformers differ",
                         stretched, kPositions, kOriginal, positions / original)
            .hint("no \"factor\", or \"attention_factor\" in addition");
    const double inferred = stretched <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(stretched) / std::log(original));
    rope.scale = scale.value_or(inferred);
}

RopeSpec read_section(const Section& in) {
    RopeSpec rope{.kind = rope_kind(in), .theta = read_theta(in), .rotary_share = read_share(in)};
    if (rope.kind == RopeKind::linear) rope.factor = required_factor(in.keys, "factor", kFactorMin, "linear");
    if (rope.kind == RopeKind::llama3) read_llama3(rope, in);
    if (rope.kind == RopeKind::yarn) read_yarn(rope, in);
    if (rope.kind == RopeKind::longrope) read_longrope(rope, in);
    return rope;
}

// ---- which objects there may be ----

// transformers takes a key for a layer type only where the family has such layers; else it passes it, or fails.
void refuse_parts(const HfConfig& object, std::string_view name, std::string_view has) {
    std::vector<std::string> parts = object.section_keys();
    for (const char* layer_type : {"full_attention", "sliding_attention"})
        if (object.mentions(layer_type) && std::ranges::find(parts, layer_type) == parts.end())
            parts.emplace_back(layer_type);
    if (parts.empty()) return;
    constexpr size_t kShown = 4;
    parts.resize(std::min(parts.size(), kShown));
    throw rope_error(object, "\"{}\" has parts for layer types ({}): {}", name,
                     excerpt(fmt::format("{}", fmt::join(parts, ", "))), has)
        .hint(fmt::format("the keys of one part in \"{}\" itself", name));
}

// rope_parameters of a family that has a rope for each type of layer: parts, and next to them nothing that counts.
void check_parts(const HfConfig& object, const RopeRules& rules) {
    const auto has_base = [&](const std::string& name) {
        return std::ranges::find(rules.bases, name, &RopeBase::layer_type) != rules.bases.end();
    };
    const std::string names = fmt::format("\"{}\" and \"{}\"", rules.bases[0].layer_type, rules.bases[1].layer_type);
    for (const std::string& part : object.section_keys())
        if (!has_base(part))
            throw rope_error(object, "\"{}\" is no type of layer of this family: it has {}", excerpt(part), names)
                .hint(fmt::format("parts {}", names));
    const auto outside = [&](const char* key) {
        return rope_error(object, "\"{}\" is outside of the parts {}: transformers reads only these", key, names)
            .hint(fmt::format("\"{}\" in the part that it is about", key));
    };
    for (const char* key : {"rope_type", "type"})
        if (object.find_text(key).value_or("default") != "default") throw outside(key);
    for (const char* key :
         {kTheta, kShare, kOriginal, "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow",
          "mscale", "mscale_all_dim", "attention_factor", "truncate", "short_factor", "long_factor"})
        if (object.has(key)) throw outside(key);
}

// transformers 4 needs "rope_type" for these families, 5 reads "type" as no scaling.
void require_rope_type(const HfConfig& older) {
    if (older.has("type") && !older.has("rope_type"))
        throw rope_error(older, "\"type\" without \"rope_type\": versions of transformers ignore it or fail")
            .hint("\"rope_type\" in place of \"type\"");
}

// One layer's rope of a file; `plain` is what a file without objects means.
class RopeReader {
  public:
    RopeReader(const HfConfig& config, const RopeRules& rules, const RopeBase& base)
        : config_(config), rules_(rules), base_(base), is_of_layers_(rules.bases.size() > 1) {
        refuse_null(config, base.key);
        if (rules.dialect == RopeDialect::phi)
            for (const char* key : {kShare, kOriginal}) refuse_null(config, key);
        theta_ = config.find_number(base.key, kThetaMin, kThetaMax);
        share_ = config.find_number(kShare, 0.0, 1.0);
        check_share(config, share_.value_or(1.0), rules.dialect);
        (void)config.find_integer(kOriginal, 1, kLengthMax);  // says nothing where the rope is not stretched
    }

    RopeSpec read() const {
        const std::optional<RopeSpec> older = read_older(), newer = read_newer();
        if (older && newer && *older != *newer) throw contradiction();
        if (older || newer) return older ? *older : *newer;
        return plain();
    }

  private:
    UserError contradiction() const {
        return rope_error(config_, "\"{}\" contradicts \"{}\"", kNewer, kOlder)
            .hint(fmt::format("one of the two, \"{}\" if transformers 5 wrote the file", kNewer));
    }

    RopeSpec plain() const {
        return {
            .kind = RopeKind::default_, .theta = theta_.value_or(base_.theta), .rotary_share = share_.value_or(1.0)};
    }

    RopeSpec of(const HfConfig& keys, std::string_view name) const {
        return read_section({.keys = keys,
                             .file = config_,
                             .rules = rules_,
                             .base = base_,
                             .name = name,
                             .is_of_layers = is_of_layers_,
                             .theta = theta_,
                             .share = share_});
    }

    // rope_scaling; of a family with a rope for each type of layer, that of the first type.
    std::optional<RopeSpec> read_older() const {
        if (!config_.has(kOlder.data())) return std::nullopt;
        const HfConfig older = config_.section(kOlder);
        refuse_parts(older, kOlder, "transformers 4 has none");
        if (is_of_layers_) require_rope_type(older);
        if (base_.layer_type != rules_.bases[0].layer_type) return std::nullopt;
        return of(older, kOlder);
    }

    std::optional<RopeSpec> read_newer() const {
        if (!config_.has(kNewer.data())) return std::nullopt;
        const HfConfig newer = config_.section(kNewer);
        if (!is_of_layers_) {
            refuse_parts(newer, kNewer, "this family has one rope");
            return of(newer, kNewer);
        }
        check_parts(newer, rules_);
        if (config_.has(kOlder.data()) && !newer.has(rules_.bases[0].layer_type.data())) throw contradiction();
        return newer.has(base_.layer_type.data()) ? of(newer.section(base_.layer_type), base_.layer_type) : plain();
    }

    const HfConfig& config_;
    const RopeRules& rules_;
    const RopeBase& base_;
    const bool is_of_layers_;
    std::optional<double> theta_, share_;
};

}  // namespace

RopeSpec read_rope(const HfConfig& config, const RopeRules& rules, size_t base) {
    return RopeReader(config, rules, rules.bases[base]).read();
}

}  // namespace windlass
