// print_logits: the logits of each token of some rows, as `windlass generate` computes them, for comparison with other
// frameworks (tools/reference/check_peft.py).
//
//   print_logits IDS OUT model=DIR [adapter=DIR] [dtype=f32] [key=value...]
//
// IDS and OUT are safetensors: `ids` I64 [B, T]; `ids` again, and `logits` F32 [B, T, V].
#include <cstdio>
#include <numeric>

#include "base/index.h"
#include "format/safetensors.h"
#include "infer/inference.h"
#include "schedule/lower.h"

namespace windlass {
namespace {

struct Rows {
    int64_t rows = 0, length = 0;
    std::vector<int64_t> ids;
};

Rows read_ids(const std::string& path) {
    const SafetensorsReader file = SafetensorsReader::open(real_files(), path);
    const auto tensor = std::ranges::find(file.entries(), "ids", &TensorEntry::name);
    if (tensor == file.entries().end() || tensor->dtype != DType::i64 || tensor->shape.rank() != 2)
        throw UserError(ExitCode::data, path, "has no tensor ids of I64 [B, T]");
    Rows read{tensor->shape[0], tensor->shape[1], std::vector<int64_t>(at(tensor->shape.numel()))};
    file.read(*tensor, 0, std::as_writable_bytes(std::span(read.ids)));
    return read;
}

// Token by token, as text is generated.
std::vector<float> logits_of(OpenModel& opened, const Config& config, const Rows& rows) {
    const ScheduleRequest one{.kind = ScheduleRequest::Kind::decode, .cache_capacity = rows.length};
    std::vector<float> logits;
    for (int64_t row = 0; row < rows.rows; ++row) {
        Inference inference(real_files(), opened, config, {.sequence_lengths = {1}, .schedules = {one}});
        const Schedule& schedule = inference.engine().setup().schedules.schedules.front();
        for (int64_t position = 0; position < rows.length; ++position) {
            const auto token = static_cast<int32_t>(rows.ids[at(row * rows.length + position)]);
            const auto place = static_cast<int32_t>(position);
            const int32_t start = 0, target = kIgnored;
            const Batch batch{.rows = 1,
                              .sequence_length = 1,
                              .tokens = &token,
                              .positions = &place,
                              .doc_start = &start,
                              .targets = &target,
                              .cached = position};
            const StepReport report = inference.engine().decode(schedule, {.micro = {batch}});
            logits.insert(logits.end(), report.logits.begin(), report.logits.end());
        }
    }
    return logits;
}

void run(const std::string& ids_path, const std::string& out_path, const std::vector<std::string>& words) {
    const Config config = make_config(read_config_sources(real_files(), words), ConfigUse::generate).config;
    OpenModel opened = open_model(real_files(), config);
    const Rows rows = read_ids(ids_path);
    const std::vector<float> logits = logits_of(opened, config, rows);
    SafetensorsWriter out(real_files(), out_path,
                          {{"ids", DType::i64, {rows.rows, rows.length}},
                           {"logits", DType::f32, {rows.rows, rows.length, opened.model.vocab}}});
    out.write("ids", 0, std::as_bytes(std::span(rows.ids)));
    out.write("logits", 0, std::as_bytes(std::span(logits)));
    out.finish();
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: print_logits IDS OUT model=DIR [adapter=DIR] [key=value...]\n");
        return 2;
    }
    try {
        windlass::run(argv[1], argv[2], {argv + 3, argv + argc});
    } catch (const windlass::Error& error) {
        std::fprintf(stderr, "print_logits: %s\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
