// lsp.cpp: LSP: out + P S Q^T in, with sparse P and Q that are not trained (Chen et al., "Practical Offloading for
// Fine-Tuning LLM on Commodity GPU via Learned Sparse Projectors", AAAI 2025, arXiv 2406.10181). The gradient of S is
// P^T G Q, what the paper compresses a weight's gradient G to (its section 3.1), and a step of AdamW on S moves the
// layer by P D Q^T, its decompressed step.
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "format/checksum.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/kinds.h"
#include "op/ops.h"

namespace windlass {
namespace lsp_adapter {

constexpr int64_t kSeedMax = int64_t{1} << 62;
constexpr size_t kP = 0, kQ = 1, kS = 2;  // of the parts

// S is no wider than the layer.
int64_t width_of(int64_t side, const AdapterSettings& settings) {
    return std::min(settings.rank, side);
}

// Equal layers of all blocks share positions, as the paper's share projectors; other layers, and both sides of one,
// have their own. Seed 0: positions of seed 0.
SparseShape projector(const LinearLayer& layer, const AdapterSettings& settings, bool is_left) {
    const int64_t side = is_left ? layer.out_cols : layer.in_cols;
    SparseShape shape{.rows = side, .cols = width_of(side, settings), .nonzeros = settings.nonzeros};
    if (settings.seed == 0) return shape;
    const std::string name = fmt::format("{} {} {}", settings.seed, layer.role, is_left ? "P" : "Q");
    shape.seed = std::max<uint64_t>(1, xxh3_64(std::as_bytes(std::span(name))));
    return shape;
}

// Numbers of P and Q begin as the paper's for language models: one of +-1 / sqrt(r), so that P P^T is the identity in
// the mean; rounded to bf16, so that nothing that is computed with them rounds them again. S begins at zero.
std::vector<AdapterPart> parts(const LinearLayer& layer, const AdapterSettings& settings) {
    const auto sparse = [&](const char* name, int64_t side) {
        const Shape shape{side, settings.nonzeros};
        const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(settings.nonzeros)));
        return AdapterPart{.name = name,
                           .shape = shape,
                           .peft_shape = shape,
                           .first = {FirstValues::signs, 0, to_float(to_bf16(bound))},
                           .trains = false,
                           .dtype = DType::bf16};
    };
    const Shape s{width_of(layer.out_cols, settings), width_of(layer.in_cols, settings)};
    return {sparse("lsp_P", layer.out_cols),
            sparse("lsp_Q", layer.in_cols),
            {.name = "lsp_S", .shape = s, .peft_shape = s}};
}

// What backward keeps of the layer's input is what S reads of it.
int write(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) {
    const auto name = [&](const char* part) { return fmt::format("{}.{}", place.layer.role, part); };
    const auto sparse = [&](bool is_left, SparseAttrs::Direction direction) {
        return SparseAttrs{sparse_positions(projector(place.layer, settings, is_left)), direction};
    };
    const int u = program.apply(kSparse, name("lsp_Q"), {place.in}, {place.parts[kQ]},
                                sparse(false, SparseAttrs::Direction::project));
    const int v = program.apply(kLinear, name("lsp_S"), {u}, {place.parts[kS]}, LinearAttrs{});
    const int z =
        program.apply(kSparse, name("lsp_P"), {v}, {place.parts[kP]}, sparse(true, SparseAttrs::Direction::expand));
    return program.apply(kAdd, name("lsp"), {place.out, z});
}

// Of a W that is stored [in, out]: Q S^T P^T.
LayerProjection projection(const LinearLayer& layer, const AdapterSettings& settings) {
    const bool turned = layer.in_out;
    return {.left = turned ? kQ : kP,
            .right = turned ? kP : kQ,
            .inner = kS,
            .inner_is_turned = turned,
            .left_shape = projector(layer, settings, !turned),
            .right_shape = projector(layer, settings, turned)};
}

// A projector's numbers at their positions.
struct Projector {
    SparseShape shape;
    std::shared_ptr<const SparsePositions> positions;
    const std::vector<float>& values;

    template <typename Body>
    void for_row(int64_t row, Body body) const {  // body(column, number)
        for (int64_t k = 0; k < shape.nonzeros; ++k) {
            const size_t e = at(row * shape.nonzeros + k);
            body(int64_t{positions->by_row.source[e]}, double{values[e]});
        }
    }
};

// Row `row` of P S Q^T, or of its transpose, columns [begin, begin + out.size()), is added to `out`. `across`: the row
// of P S, or of Q S^T, that all of them read.
class FusedRows {
  public:
    FusedRows(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts)
        : is_turned_(layer.in_out),
          s_(parts[kS]),
          width_(width_of(layer.in_cols, settings)),
          left_(made(layer, settings, parts, !is_turned_)),
          right_(made(layer, settings, parts, is_turned_)) {}

    void add(int64_t row, int64_t begin, std::span<float> out) {
        across_.assign(at(right_.shape.cols), 0.0);
        left_.for_row(row, [&](int64_t from, double number) {
            for (int64_t to = 0; to < right_.shape.cols; ++to)
                across_[at(to)] += number * s_[at(is_turned_ ? to * width_ + from : from * width_ + to)];
        });
        for (int64_t i = 0; i < std::ssize(out); ++i) {
            double sum = 0;
            right_.for_row(begin + i, [&](int64_t from, double number) { sum += number * across_[at(from)]; });
            out[at(i)] = static_cast<float>(out[at(i)] + sum);
        }
    }

  private:
    static Projector made(const LinearLayer& layer, const AdapterSettings& settings,
                          std::span<const std::vector<float>> parts, bool is_left) {
        const SparseShape shape = projector(layer, settings, is_left);
        return {shape, sparse_positions(shape), parts[is_left ? kP : kQ]};
    }

    bool is_turned_;
    const std::vector<float>& s_;
    int64_t width_;  // of S's rows
    Projector left_, right_;
    std::vector<double> across_;
};

// W + P S Q^T, or of a W that is stored [in, out] its transpose; a row of it at a time.
void fuse(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts,
          const FuseRun& run) {
    if (run.is_bias) return;
    const int64_t cols = layer.in_out ? layer.out_cols : layer.in_cols;
    FusedRows rows(layer, settings, parts);
    for (int64_t done = 0; done < std::ssize(run.numbers);) {
        const int64_t element = run.first + done, row = element / cols, begin = element % cols;
        const int64_t count = std::min(cols - begin, std::ssize(run.numbers) - done);
        rows.add(row, begin, run.numbers.subspan(at(done), at(count)));
        done += count;
    }
}

// peft does not know this kind: no field of its files has these meanings.
void write_config(const AdapterSettings& settings, Json& config) {
    config["d"] = settings.rank;
    config["r"] = settings.nonzeros;
    config["seed"] = settings.seed;
}

AdapterSettings read_config(const Json& config, std::string_view where) {
    for (const char* const field : {"d", "r", "seed"}) {
        if (!config.contains(field))
            throw UserError(ExitCode::model, where, "has no \"{}\", by which the projectors' positions are found",
                            field)
                .hint("an adapter that Windlass has saved");
    }
    return {.kind = "lsp",
            .rank = integer_field(config, "d", 1, 1, kProjectorWidthMax, where),
            .nonzeros = integer_field(config, "r", 1, 1, kProjectorNumbersMax, where),
            .seed = static_cast<uint64_t>(integer_field(config, "seed", 0, 0, kSeedMax, where))};
}

static_assert(kProjectorNumbersMax <= kSparseNonzerosMax);

}  // namespace lsp_adapter

constinit const AdapterKind kLsp = {
    .name = "lsp",
    .peft_type = "LSP",
    .parts = lsp_adapter::parts,
    .write = lsp_adapter::write,
    .fuse = lsp_adapter::fuse,
    .write_config = lsp_adapter::write_config,
    .read_config = lsp_adapter::read_config,
    .projection = lsp_adapter::projection,
    .fields = "d r seed fan_in_fan_out",
    .rank_is_capped = true,
    .tunes_whole_model = true,
};

}  // namespace windlass
