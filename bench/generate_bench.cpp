// A model that writes, over what it could do: generate_bench MODEL [bf16|f32] [threads]
//
// Prompts of several lengths: tokens a second that are read in (prefill) beside those that evaluation scores, of the
// same tokens in rows of that length, which take turns. Then tokens a second that are written behind them, beside
// those that memory allows: a plain read of as many bytes as the weights of a token's products have, by as many
// threads; and where the time of a token goes. Printed are the best of all rounds and the middle half. What is written
// is set against the readings of its own round: a shared machine's memory is now fast, now slow.
#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

#include "base/file.h"
#include "base/rng.h"
#include "infer/generate.h"
#include "infer/inference.h"
#include "machine_line.h"
#include "measure.h"
#include "model_work.h"
#include "plain_read.h"
#include "step_profile.h"

namespace windlass {
namespace {

constexpr int64_t kPrompts[] = {16, 100, 256, 600};
constexpr int64_t kNewTokens = 32;
constexpr int kRounds = 15;
constexpr int kReadings = 5;  // of the weights, in a round

struct Spread {
    std::vector<double> seconds;

    void add(double taken) { seconds.push_back(taken); }
    double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
    // "310 (290 to 305)" of so many in each: the best, and the middle half.
    std::string rates(int64_t count) const {
        std::vector<double> sorted = seconds;
        std::sort(sorted.begin(), sorted.end());
        const auto rate = [&](double taken) { return static_cast<double>(count) / taken; };
        return fmt::format("{:7.1f} ({:.1f} to {:.1f})", rate(sorted[0]), rate(sorted[sorted.size() * 3 / 4]),
                           rate(sorted[sorted.size() / 4]));
    }
};

// A row of evaluation whose tokens are all targets.
struct Row {
    explicit Row(const std::vector<int32_t>& ids) : tokens(ids), positions(ids.size()), doc_start(ids.size(), 0) {
        std::iota(positions.begin(), positions.end(), 0);
        batch = {.rows = 1,
                 .sequence_length = std::ssize(tokens),
                 .tokens = tokens.data(),
                 .positions = positions.data(),
                 .doc_start = doc_start.data(),
                 .targets = tokens.data()};
    }
    std::vector<int32_t> tokens, positions, doc_start;
    Batch batch;
};

class Bench {
  public:
    Bench(const std::string& model, const std::string& dtype, int threads)
        : opened_(open_model(real_files(), {.model = model})),
          config_{.model = model, .dtype = dtype, .threads = threads} {}

    void run(int64_t length) {
        std::vector<ScheduleRequest> requests = decode_requests(length, length + kNewTokens);
        requests.push_back({.kind = ScheduleRequest::Kind::eval, .sequence_length = length});
        Inference inference(real_files(), opened_, config_, {.sequence_lengths = {length}, .schedules = requests},
                            &profile_);
        Engine& engine = inference.engine();
        const Schedule& eval = *engine.setup().schedules.find(fmt::format("eval/{}", length));
        const std::vector<int32_t> prompt = random_ids(length);
        const Row row(prompt);
        Spread scored, read_in;
        for (int round = 0; round < kRounds; ++round) {
            scored.add(seconds_of([&] { engine.evaluate(eval, {.micro = {row.batch}}); }));
            read_in.add(generate(engine, prompt, options(1), [](int32_t) { return true; }).prefill_seconds);
        }
        fmt::print("{:4} tokens: read in {} tokens/s, scored {} = {:.2f}\n", length, read_in.rates(length),
                   scored.rates(length), scored.best() / read_in.best());
        if (length == kPrompts[0]) write(engine, prompt);
    }

  private:
    std::vector<int32_t> random_ids(int64_t count) const {
        Random random(1, RandomStream::test);
        std::vector<int32_t> ids;
        for (int64_t i = 0; i < count; ++i)
            ids.push_back(static_cast<int32_t>(random.next() % static_cast<uint32_t>(opened_.model.vocab)));
        return ids;
    }
    GenerateOptions options(int64_t new_tokens) const {
        return {.max_new_tokens = new_tokens, .vocab = opened_.model.vocab};
    }
    // The first of the new tokens comes from the prompt's logits: it takes no pass.
    void write(Engine& engine, const std::vector<int32_t>& prompt) {
        const int64_t passes = kNewTokens - 1;
        const int64_t bytes = matmul_param_count(opened_.model) * dtype_bytes(engine.setup().numerics.compute);
        const HugeBuffer memory(bytes, true);
        Team team(engine.setup().plan.threads);
        Spread written, reading;
        std::vector<double> ratios;
        for (int round = 0; round < kRounds; ++round) {
            Spread near;
            for (int turn = 0; turn < kReadings; ++turn)
                near.add(seconds_of([&] { plain_read(memory.data(), bytes, team); }));
            reading.add(near.best());
            written.add(generate(engine, prompt, options(kNewTokens), [](int32_t) { return true; }).decode_seconds /
                        static_cast<double>(passes));
            ratios.push_back(std::min(1.0, near.best() / written.seconds.back()));
        }
        std::sort(ratios.begin(), ratios.end());
        fmt::print(
            "written {} tokens/s, their {:.0f} MB of weights read {} times a second = {:.2f}   {:.2f} to {:.2f}\n",
            written.rates(1), static_cast<double>(bytes) * 1e-6, reading.rates(1), ratios[kRounds / 2],
            ratios[kRounds / 4], ratios[kRounds * 3 / 4]);
        profile(engine, prompt);
    }
    // Where the time of a token goes, sampling aside.
    void profile(Engine& engine, const std::vector<int32_t>& prompt) {
        const Schedule& schedule = *engine.setup().schedules.find("decode/1");
        StepReport report;
        profile_.clear();
        const double seconds = seconds_of([&] {
            for (int64_t i = 0; i < kNewTokens; ++i) {
                Row token({prompt[0]});
                token.batch.cached = token.positions[0] = static_cast<int32_t>(std::ssize(prompt) + i);
                report = engine.decode(schedule, {.micro = {token.batch}});
            }
        });
        print_profile(profile_, schedule, report, kNewTokens, seconds / kNewTokens);
    }

    OpenModel opened_;
    OpProfile profile_;
    Config config_;
};

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    if (argc < 2) {
        fmt::print(stderr, "usage: generate_bench MODEL [bf16|f32] [threads]\n");
        return 2;
    }
    const std::string dtype = argc > 2 ? argv[2] : "bf16";
    const int threads = argc > 3 ? std::atoi(argv[3]) : 2;
    fmt::print("{}, {}, {} threads\n", machine_line(), dtype, threads);
    Bench bench(argv[1], dtype, threads);
    for (const int64_t length : kPrompts) bench.run(length);
}
