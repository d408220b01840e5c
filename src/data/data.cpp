#include "data/data.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/rng.h"
#include "config/choices.h"
#include "data/chats.h"
#include "data/task_answers.h"
#include "data/token_folder.h"
#include "format/checksum.h"

namespace windlass {
namespace {

// What rows are drawn for, apart from val_split, which is draw 0.
constexpr uint32_t kDrawTraining = 1;

void shuffle(std::vector<uint32_t>& indices, Random random) {
    for (size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random.below(i)]);
}

std::vector<uint32_t> all_indices(int64_t count) {
    WINDLASS_CHECK(std::in_range<uint32_t>(count), "{} rows", count);
    std::vector<uint32_t> indices(at(count));
    std::iota(indices.begin(), indices.end(), 0u);
    return indices;
}

uint64_t seed_of(const Config& config) {
    return static_cast<uint64_t>(config.seed);
}

// Which rows of the training files are learned from, and which are held out (val_split).
struct RowChoice {
    std::vector<uint32_t> train, held_out;
};

RowChoice choose_rows(int64_t count, const Config& config) {
    RowChoice choice{.held_out = validation_indices(count, config.val_split, seed_of(config))};
    const std::vector<uint32_t> all = all_indices(count);
    std::set_difference(all.begin(), all.end(), choice.held_out.begin(), choice.held_out.end(),
                        std::back_inserter(choice.train));
    choice.train = chosen_indices(std::move(choice.train), config.train_samples, seed_of(config), kDrawTraining);
    choice.held_out = chosen_indices(std::move(choice.held_out), config.eval_samples, seed_of(config), kDrawEvaluation);
    return choice;
}

bool has_pairs(const Config& config) {
    return compares_pairs(objective_of(config));
}

// Pairs train answers; what else train_on_prompt asks for of them is their loss's (StepBatch::set_pairs).
bool trains_prompts(const Config& config) {
    return config.train_on_prompt && !has_pairs(config);
}

TrainTurns trained_turns(const Config& config) {
    if (has_pairs(config)) return TrainTurns::assistant;
    return config.train_on_prompt ? TrainTurns::all : train_turns_of(config);
}

// The two rows of a pair, the preferred answer first.
std::vector<RowSamples> pair_of(const TokenCache& cache, int64_t pair) {
    std::vector<RowSamples> rows(2);
    for (int64_t side = 0; side < 2; ++side) rows[at(side)].push_back(cache.read(2 * pair + side));
    return rows;
}

bool compares_candidates(Objective objective) {
    return objective == Objective::choice_loss || objective == Objective::accuracy;
}

}  // namespace

std::vector<uint32_t> chosen_indices(std::vector<uint32_t> indices, std::optional<int64_t> wanted, uint64_t seed,
                                     uint32_t draw) {
    if (!wanted || *wanted >= std::ssize(indices)) return indices;
    shuffle(indices, Random(seed, RandomStream::split, draw));
    indices.resize(at(*wanted));
    std::sort(indices.begin(), indices.end());
    return indices;
}

std::vector<uint32_t> choose_eval_rows(int64_t count, const Config& config) {
    return chosen_indices(all_indices(count), config.eval_samples, seed_of(config), kDrawEvaluation);
}

std::vector<uint32_t> shuffled_indices(int64_t count, uint64_t seed, int64_t epoch) {
    WINDLASS_CHECK(std::in_range<uint32_t>(count) && std::in_range<uint32_t>(epoch), "{} samples, epoch {}", count,
                   epoch);
    std::vector<uint32_t> indices(at(count));
    std::iota(indices.begin(), indices.end(), 0u);
    shuffle(indices, Random(seed, RandomStream::shuffle, static_cast<uint32_t>(epoch)));
    return indices;
}

std::vector<uint32_t> validation_indices(int64_t count, double val_split, uint64_t seed) {
    if (val_split <= 0) return {};
    const double wanted = val_split < 1 ? std::ceil(val_split * static_cast<double>(count)) : val_split;
    if (wanted >= static_cast<double>(count))
        throw UserError(ExitCode::data, "val_split", "{} rows are requested for evaluation, but there are {}", wanted,
                        count)
            .hint("a smaller val_split");
    std::vector<uint32_t> indices(at(count));
    std::iota(indices.begin(), indices.end(), 0u);
    shuffle(indices, Random(seed, RandomStream::split));
    indices.resize(at(static_cast<int64_t>(wanted)));
    std::sort(indices.begin(), indices.end());
    return indices;
}

RowOrder::RowOrder(std::vector<uint32_t> members, std::vector<uint32_t> lengths, int64_t packed_length, uint64_t seed)
    : members_(std::move(members)), lengths_(std::move(lengths)), packed_length_(packed_length), seed_(seed) {
    WINDLASS_CHECK(!members_.empty(), "a run has rows");
}

const std::vector<PackedRow>& RowOrder::order(int64_t epoch) const {
    if (epoch == epoch_) return rows_;
    std::vector<uint32_t> samples = shuffled_indices(std::ssize(members_), seed_, epoch);
    for (uint32_t& sample : samples) sample = members_[sample];
    rows_ = packed_length_ > 0 ? pack_samples(lengths_, samples, packed_length_) : rows_without_packing(samples);
    epoch_ = epoch;
    return rows_;
}

int64_t RowOrder::rows_in(int64_t epoch) const {
    return packed_length_ > 0 ? std::ssize(order(epoch)) : std::ssize(members_);
}

std::vector<PackedRow> RowOrder::take(DataPosition& position, int64_t count) const {
    std::vector<PackedRow> taken;
    while (std::ssize(taken) < count) {
        const std::vector<PackedRow>& rows = order(position.epoch);
        if (position.row >= std::ssize(rows))
            throw UserError(ExitCode::usage, "train_data", "the run resumes at row {} of a pass of {} rows",
                            position.row + 1, rows.size())
                .hint("the rows, packing and val_split that it began with (run.yaml), or a new output_dir");
        const int64_t here = std::min(count - std::ssize(taken), std::ssize(rows) - position.row);
        taken.insert(taken.end(), rows.begin() + position.row, rows.begin() + position.row + here);
        position.row += here;
        if (position.row == std::ssize(rows)) position = {position.epoch + 1, 0};
    }
    return taken;
}

DataPosition RowOrder::position_after(int64_t count) const {
    DataPosition position;
    if (packed_length_ == 0) {
        const int64_t rows = std::ssize(members_);
        return {count / rows, count % rows};
    }
    for (; count >= rows_in(position.epoch); ++position.epoch) count -= rows_in(position.epoch);
    position.row = count;
    return position;
}

int64_t RowOrder::rows_in_passes(double epochs) const {
    const auto whole = static_cast<int64_t>(std::floor(epochs));
    int64_t rows = 0;
    for (int64_t epoch = 0; epoch < whole; ++epoch) rows += rows_in(epoch);
    const double part = epochs - std::floor(epochs);
    return part > 0 ? rows + static_cast<int64_t>(std::ceil(part * static_cast<double>(rows_in(whole)))) : rows;
}

double RowOrder::passes(const DataPosition& position) const {
    return static_cast<double>(position.epoch) +
           static_cast<double>(position.row) / static_cast<double>(rows_in(position.epoch));
}

RowsOptions rows_options(const Config& config) {
    const std::optional<Truncation> truncation = truncation_of(config);
    return {.max_length = config.max_length,
            .truncation = truncation.value_or(Truncation::drop),
            .text_truncation = truncation ? std::nullopt : std::optional(Truncation::split),
            .train_on_prompt = trains_prompts(config),
            .add_eos = config.add_eos,
            .skip_malformed = config.skip_malformed,
            .document_separator = config.document_separator,
            .fields = {.text = config.text_field,
                       .prompt = config.prompt_field,
                       .completion = config.completion_field,
                       .instruction = config.instruction_field,
                       .input = config.input_field,
                       .output = config.output_field,
                       .messages = config.messages_field},
            .chat_template = config.chat_template,
            .train_turns = trained_turns(config),
            .pairs = has_pairs(config)};
}

RunData::RunData(RowOrder order, const Config& config)
    : order_(std::move(order)),
      objective_(objective_of(config)),
      train_samples_(config.train_samples),
      packing_(config.packing) {}

RunData RunData::open(FileSystem& files, const Config& config, const Tokenizer& tokenizer) {
    RunData data = config.task.empty() ? open_cached(files, config, tokenizer) : open_task(files, config, tokenizer);
    data.check_objective();
    data.epoch_rows_ = data.order_.rows_in(0);
    return data;
}

RunData RunData::open_cached(FileSystem& files, const Config& config, const Tokenizer& tokenizer) {
    RowsOptions options = rows_options(config);
    const bool pairs = options.pairs;
    std::vector<std::string> paths = config.train_data;
    paths.insert(paths.end(), config.eval_data.begin(), config.eval_data.end());
    const std::optional<ChatFormat> chats = open_chats_of(files, config, tokenizer, paths);
    if (chats) options.chats = &*chats;
    std::string date = chats && chats->prints_date() ? chats->date() : "";
    const bool is_models = is_open(config.chat_template) && adapters_template(files, config).empty();
    std::string own_template = chats && !is_models ? chats->text() : "";
    TokenCache train = open_token_cache(files, config.cache_dir, config.train_data, options, tokenizer);
    RowChoice choice = choose_rows(pairs ? train.size() / 2 : train.size(), config);
    const std::vector<uint32_t> lengths(train.lengths().begin(), train.lengths().end());
    RunData data(RowOrder(std::move(choice.train), lengths, config.packing ? config.max_length : 0, seed_of(config)),
                 config);
    if (pairs) data.rows_per_example_ = 2;
    data.has_chats_ = chats.has_value();
    if (chats) data.template_ids_ = chats->special_ids();
    if (chats)
        data.text_end_ = chats->answer_end();
    else if (config.add_eos)
        data.text_end_ = tokenizer.eos();
    data.train_ = std::move(train);
    data.template_date_ = std::move(date);
    data.chat_template_ = std::move(own_template);
    data.eval_rows_ = std::move(choice.held_out);
    if (config.eval_data.empty()) return data;
    data.eval_ = open_token_cache(files, config.cache_dir, config.eval_data, options, tokenizer);
    data.eval_rows_ = choose_eval_rows(pairs ? data.eval_->size() / 2 : data.eval_->size(), config);
    return data;
}

RunData RunData::open_task(FileSystem& files, const Config& config, const Tokenizer& tokenizer) {
    const TaskSpec task = find_task(files, config.task);
    const TaskOptions options{
        .max_length = config.max_length, .add_eos = config.add_eos, .skip_malformed = config.skip_malformed};
    const RowChoice choice = choose_rows(count_task_rows(files, config.train_data), config);
    TaskSet train = read_task_set(files, task, config.train_data, choice.train, options, tokenizer);
    if (const Objective objective = objective_of(config); writes_answers(objective)) {
        require_written_answers(task, objective);
        make_room_for_answers(train, config.max_length, tokenizer);
    }
    RowOrder order(all_indices(std::ssize(train.rows)), train.right_lengths(), config.packing ? config.max_length : 0,
                   seed_of(config));
    RunData data(std::move(order), config);
    if (compares_candidates(data.objective_)) data.rows_per_example_ = train.candidates_max();
    data.task_ = std::move(train);
    if (!config.eval_data.empty()) {
        const std::vector<uint32_t> rows = choose_eval_rows(count_task_rows(files, config.eval_data), config);
        data.eval_task_ = read_task_set(files, task, config.eval_data, rows, options, tokenizer);
    } else if (!choice.held_out.empty()) {
        data.eval_task_ = read_task_set(files, task, config.train_data, choice.held_out, options, tokenizer);
    }
    return data;
}

void RunData::check_objective() const {
    if (compares_candidates(objective_) && (!task_ || !task_->task.has_candidates()))
        throw UserError(ExitCode::usage, "objective", "{} compares candidates, and the rows have none",
                        name_of(objective_))
            .hint("a task with candidates, or exact_match");
    if (objective_ == Objective::exact_match && task_ && task_->task.has_candidates())
        throw UserError(ExitCode::usage, "objective", "exact_match is for rows with one answer; {} has candidates",
                        task_->task.name)
            .hint("accuracy or choice_loss");
}

int64_t RunData::eval_count() const {
    return eval_task_ ? std::ssize(eval_task_->rows) : std::ssize(eval_rows_);
}

std::vector<RowSamples> RunData::read_pairs(int64_t first, int64_t count) const {
    std::vector<RowSamples> rows;
    for (int64_t pair = first; pair < std::min(first + count, pair_count()); ++pair)
        for (RowSamples& side : pair_of(*train_, pair)) rows.push_back(std::move(side));
    return rows;
}

Sample RunData::sample_of(uint32_t row) const {
    if (!task_) return train_->read(row);
    const ChoiceRow& choice = task_->rows[row];
    return choice.candidates[at(choice.right)];
}

std::vector<RowSamples> RunData::read_training(std::span<const PackedRow> rows) const {
    std::vector<RowSamples> result;
    for (const PackedRow& row : rows) {
        if (has_pairs()) {
            for (RowSamples& side : pair_of(*train_, row.samples.front())) result.push_back(std::move(side));
            continue;
        }
        if (rows_per_example_ == 1) {
            RowSamples& samples = result.emplace_back();
            for (const uint32_t sample : row.samples) samples.push_back(sample_of(sample));
            continue;
        }
        for (const Sample& candidate : task_->rows[row.samples.front()].candidates) result.push_back({candidate});
        result.resize(static_cast<size_t>(div_up(std::ssize(result), rows_per_example_) * rows_per_example_));
    }
    return result;
}

std::optional<ObjectiveRows> RunData::objective(std::span<const PackedRow> rows, const Tokenizer& tokenizer,
                                                int64_t id_count) const {
    if (objective_ == Objective::loss || has_pairs()) return std::nullopt;
    ObjectiveRows made{.kind = objective_, .by_mean = !task_ || task_->task.score == CandidateScore::mean};
    std::vector<int64_t> written;
    for (const PackedRow& row : rows) {
        ObjectiveExample example{.first_row = std::ssize(made.examples) * rows_per_example_};
        if (compares_candidates(objective_)) {
            const ChoiceRow& choice = task_->rows[row.samples.front()];
            example.row_count = std::ssize(choice.candidates);
            example.right = choice.right;
        }
        made.examples.push_back(example);
        if (writes_answers(objective_)) written.push_back(row.samples.front());
    }
    if (writes_answers(objective_)) made.answers = f1_rules(*task_, std::move(written), tokenizer, id_count);
    return made;
}

std::vector<RowSamples> RunData::read_eval(int64_t first, int64_t count) const {
    std::vector<RowSamples> result;
    for (int64_t i = first; i < std::min(first + count, eval_count()); ++i) {
        if (has_pairs())
            for (RowSamples& side : pair_of(eval_source(), eval_rows_[at(i)])) result.push_back(std::move(side));
        else
            result.push_back({eval_source().read(eval_rows_[at(i)])});
    }
    return result;
}

std::vector<uint32_t> RunData::sequence_lengths(int64_t max_length) const {
    if (packing_) return {static_cast<uint32_t>(max_length)};
    std::vector<uint32_t> lengths, evaluated;
    if (task_) {
        lengths = rows_per_example_ > 1 ? task_->all_lengths() : task_->right_lengths();
        if (eval_task_) evaluated = eval_task_->all_lengths();
    } else {
        lengths.assign(train_->lengths().begin(), train_->lengths().end());
        if (eval_) evaluated.assign(eval_->lengths().begin(), eval_->lengths().end());
    }
    if (!evaluated.empty()) lengths.push_back(*std::max_element(evaluated.begin(), evaluated.end()));
    return lengths;
}

std::string RunData::eval_fingerprint() const {
    if (eval_task_) return fmt::format("task-{:016x}", eval_task_->sum());
    if (!train_) return "";
    const std::string& path = eval_source().path();
    const auto rows = std::as_bytes(std::span(eval_rows_));
    return fmt::format("{}, {:016x}", path.substr(path.rfind('/') + 1), xxh3_64(rows));
}

std::string RunData::fingerprint() const {
    std::string made;
    if (task_) {
        made = fmt::format("task-{:016x}", task_->sum());
    } else {
        const std::string& path = train_->path();
        made = path.substr(path.rfind('/') + 1);
        if (train_samples_) made += fmt::format(", {} of them", *train_samples_);
    }
    return objective_ == Objective::loss ? made : fmt::format("{}, {}", made, name_of(objective_));
}

}  // namespace windlass
