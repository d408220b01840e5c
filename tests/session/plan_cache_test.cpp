// Kept plans: what was searched once is not searched again, and what is wrong in the cache is never believed.
#include "session/plan_cache.h"

#include <gmock/gmock.h>

#include <functional>
#include <regex>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "format/checksum.h"
#include "session/variation.h"
#include "tests/fault_files.h"
#include "tests/sanitizer.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

constexpr int kPlanted = 777'001;  // evaluations that no search of these models has

class PlanCacheTest : public TrainTest {
  protected:
    Session prepare(const Settings& changes = {}, ConfigUse use = ConfigUse::plan) {
        Settings settings = {{"policy", "three_tier"}, {"ram", "8GiB"}, {"max_length", "32"}};
        // Else room on the drive follows what is free there.
        if (!changes.contains("policy")) settings.insert({{"ssd_dir", at("ssd")}, {"ssd_space", "1GiB"}});
        for (const auto& [key, value] : changes) settings[key] = value;
        return prepare_session(files_, config("kept", settings), std::nullopt, use, kept_);
    }
    std::string folder() const { return at("cache") + "/windlass/plans"; }
    std::vector<std::string> entries() const {
        return files_.exists(folder()) ? files_.list(folder()) : std::vector<std::string>();
    }
    static std::string with_sum(const std::string& body) {
        return fmt::format("windlass plan 1 {:016x}\n{}", xxh3_64(bytes_of(body)), body);
    }
    Json read(const std::string& name) const {
        const std::string text = read_text(files_, folder() + "/" + name, kMiB);
        return parse_json(text.substr(text.find('\n') + 1), name, ExitCode::storage);
    }
    static SearchQuestion question_of(const Session& session) {
        return {session.model,      session.recipe,  session.method_options,
                session.numerics(), session.machine, session.request};
    }
    void put(const std::string& name, const std::string& text) const {
        write_text_atomic(files_, folder() + "/" + name, text);
    }
    // All entries say that their searches evaluated this many choices.
    void plant() const {
        for (const std::string& name : entries()) {
            if (read_text(files_, folder() + "/" + name, kMiB) == "old") continue;
            Json json = read(name);
            if (json.contains("policy")) json["evaluations"] = kPlanted;
            put(name, with_sum(json.dump() + "\n"));
        }
    }

    KeptPlans kept_ = KeptPlans::used;
};

void expect_same(const Planned& one, const Planned& other) {
    EXPECT_EQ(one.choice, other.choice);
    EXPECT_EQ(one.plan.policy, other.plan.policy);
    EXPECT_EQ(one.plan.blocks, other.plan.blocks);
    EXPECT_EQ(one.mean_seconds, other.mean_seconds);
    EXPECT_EQ(one.disk_bytes, other.disk_bytes);
    EXPECT_EQ(one.device_bytes, other.device_bytes);
    EXPECT_EQ(one.binding.improvement, other.binding.improvement);
    EXPECT_EQ(one.schedules.schedules.size(), other.schedules.schedules.size());
}

TEST_F(PlanCacheTest, WhatWasPlannedIsNotSearchedAgain) {
    const Session first = prepare();
    ASSERT_EQ(entries().size(), 1u);
    expect_same(prepare().planned, first.planned);
    EXPECT_EQ(prepare().planned.evaluations, first.planned.evaluations);  // who asks twice reads the same twice
    plant();
    const Session second = prepare();
    EXPECT_EQ(second.planned.evaluations, kPlanted);
    expect_same(second.planned, first.planned);
    EXPECT_EQ(prepare({}, ConfigUse::train).planned.evaluations, kPlanted);
    EXPECT_EQ(prepare({{"learning_rate", "1e-3"}, {"seed", "7"}}).planned.evaluations, kPlanted);
}

TEST_F(PlanCacheTest, AnotherQuestionHasAnotherAnswer) {
    prepare();
    plant();
    const std::vector<Settings> others = {{{"max_length", "24"}},
                                          {{"per_device_train_batch_size", "1"}},
                                          {{"method", "lomo"}},
                                          {{"state_format", "int8"}},
                                          {{"dtype", "bf16"}},
                                          {{"ram", "7GiB"}},
                                          {{"policy", "in_memory"}},
                                          {{"gradient_checkpointing", "true"}},
                                          {{"gradient_format", "bf16"}},
                                          {{"adapter", "lora"}},
                                          {{"gradient_accumulation_steps", "3"}},
                                          {{"update_time", "after_backward"}},
                                          {{"threads", "1"}}};
    const size_t stride = is_second_run() ? 4 : 1;
    for (size_t i = 0; i < others.size(); i += stride)
        EXPECT_NE(prepare(others[i]).planned.evaluations, kPlanted) << others[i].begin()->first;
    EXPECT_EQ(prepare().planned.evaluations, kPlanted);
}

// The micro-batch that the planner chooses, and those that it does not take, are kept too: 8 rows, and 4, which are so
// much slower that neither 2 nor 1 is tried.
TEST_F(PlanCacheTest, KeepsWhichRowsAreNotFaster) {
    const Settings open = {{"per_device_train_batch_size", "auto"}};
    const Session first = prepare(open);
    const size_t count = entries().size();
    EXPECT_EQ(count, 2u);
    plant();
    const Session second = prepare(open);
    EXPECT_EQ(second.planned.evaluations, kPlanted);
    EXPECT_EQ(second.numerics().micro_batch_size, first.numerics().micro_batch_size);
    EXPECT_EQ(entries().size(), count);
}

TEST_F(PlanCacheTest, IgnoresWhatIsDamagedStaleOrHostile) {
    const Session first = prepare();
    const std::string name = entries().at(0);
    const Json good = read(name);
    plant();
    const std::string whole = read_text(files_, folder() + "/" + name, kMiB);
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
    std::vector<std::string> bad = {
        "", "\n", "x", whole.substr(0, whole.size() / 2), flipped, whole + std::string(17 * 1024, ' ')};
    // A body that would be believed, under another sum, and of another version.
    bad.push_back(fmt::format("windlass plan 1 {:016x}\n{}", 7, whole.substr(whole.find('\n') + 1)));
    bad.push_back(std::regex_replace(whole, std::regex("plan 1 "), "plan 2 "));
    const auto add = [&](const std::string& key, const Json& value) {
        Json json = good;
        json["evaluations"] = kPlanted;
        json[key] = value;
        bad.push_back(with_sum(json.dump() + "\n"));
    };
    prepare({{"max_length", "24"}});
    for (const std::string& other : entries())  // whole, and of another question
        if (other != name) bad.push_back(read_text(files_, folder() + "/" + other, kMiB));
    add("seconds", good["seconds"].get<double>() * 0.5);
    add("policy", "in_memory");
    add("policy", 3);
    add("choice", Json::array());
    add("choice", "all");
    for (const Json& value : {Json(-1), Json(1'000'000), Json(1e300), Json("1"), Json()}) {
        Json choice = good["choice"];
        choice[3] = value;
        add("choice", choice);
    }
    for (const char* key : {"ram", "process", "disk", "seconds", "evaluations"}) add(key, "much");
    add("evaluations", 1e300);
    for (const char* text : {"{}\n", "[]\n", "null\n", "{", "7\n"}) bad.push_back(with_sum(text));
    const size_t stride = is_second_run() ? 5 : 1;
    for (size_t i = 0; i < bad.size(); i += stride) {
        const std::string& text = bad[i];
        put(name, text);
        const Session again = prepare();
        EXPECT_EQ(again.planned.evaluations, first.planned.evaluations) << text.substr(0, 400);
        expect_same(again.planned, first.planned);
        EXPECT_EQ(read(name)["choice"], good["choice"]) << "is replaced";
    }
}

// A larger budget may have a faster plan; a smaller one has none that is faster than what fits it.
TEST_F(PlanCacheTest, HoldsForBudgetsThatItFits) {
    const Session session = prepare();
    PlanRequest request = session.request;
    PlanCache cache = session.plan_cache;
    cache.given = {};
    request.budgets.ram = request.budgets.disk = 7 * kGiB;
    const auto evaluations = [&] {
        const PlanOutcome outcome = find_plan(cache, {session.model, session.recipe, session.method_options,
                                                      session.numerics(), session.machine, request});
        return std::get<Planned>(outcome).evaluations;
    };
    evaluations();
    plant();
    EXPECT_EQ(evaluations(), kPlanted);
    for (int64_t Budgets::*const budget : {&Budgets::ram, &Budgets::disk}) {
        const Budgets before = request.budgets;
        const int64_t bytes = before.*budget;
        request.budgets.*budget = bytes + bytes / 50;
        EXPECT_EQ(evaluations(), kPlanted);
        request.budgets.*budget = bytes - bytes / 50;
        EXPECT_EQ(evaluations(), kPlanted);
        request.budgets.*budget = bytes + bytes / 10;
        EXPECT_NE(evaluations(), kPlanted);
        request.budgets = before;
        evaluations();
        plant();
    }
}

// Its words name sizes that nothing could check later.
TEST_F(PlanCacheTest, ARefusalIsNotKeptAndNotBelieved) {
    const auto refusal = [&](const std::string& ram) -> std::string {
        try {
            prepare({{"ram", ram}});
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::no_fit);
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(refusal("1MiB"), testing::HasSubstr("allowed are 1.00 MiB"));
    EXPECT_TRUE(entries().empty());
    EXPECT_EQ(refusal("8GiB"), "");
    const std::string name = entries().at(0);
    Json json = read(name);
    for (const char* key : {"policy", "choice", "seconds"}) json.erase(key);
    for (const bool has_words : {false, true}) {
        if (has_words) json["needs"] = json["allowed"] = "much", json["ways_out"] = {"nothing"};
        put(name, with_sum(json.dump() + "\n"));
        EXPECT_EQ(refusal("8GiB"), "");
        EXPECT_TRUE(read(name).contains("policy")) << "is replaced";
    }
}

TEST_F(PlanCacheTest, ChangesOfASessionAreKeptToo) {
    const Session session = prepare();
    Variation variation = variation_of(session);
    variation.state_format = StateFormat::int8;
    const std::optional<Planned> first = plan_variation(session, variation);
    plant();
    const std::optional<Planned> second = plan_variation(session, variation);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(second->evaluations, kPlanted);
    EXPECT_EQ(second->mean_seconds, first->mean_seconds);
    EXPECT_NE(prepare({{"state_format", "int8"}}).planned.evaluations, kPlanted) << "a comparison is a first look only";
}

TEST_F(PlanCacheTest, AnotherBuildSearchesAgain) {
    prepare();
    plant();
    const Session session = prepare();
    PlanCache cache = session.plan_cache;
    const auto evaluations = [&] { return std::get<Planned>(find_plan(cache, question_of(session))).evaluations; };
    EXPECT_EQ(evaluations(), kPlanted);
    cache.build = "another";
    EXPECT_NE(evaluations(), kPlanted);
    cache.build = "";
    EXPECT_NE(evaluations(), kPlanted);
    EXPECT_EQ(entries().size(), 2u) << "without a build id nothing is kept";
}

TEST_F(PlanCacheTest, ASearchThatIsStoppedIsNotKept) {
    const Session session = prepare();
    Variation variation = variation_of(session);
    variation.state_format = StateFormat::int8;
    int asked = 0;
    EXPECT_THROW(plan_variation(session, variation, [&] { return ++asked > 3; }), PlanStopped);
    EXPECT_EQ(entries().size(), 1u);
}

TEST_F(PlanCacheTest, KeepsNothingWhereNothingShallOrCanBeKept) {
    kept_ = KeptPlans::ignored;
    prepare();
    EXPECT_TRUE(entries().empty());
    EXPECT_EQ(plan_cache_of(files_, config("kept"), "").folder, "") << "there is no home folder";
    kept_ = KeptPlans::used;
    write("cache/windlass/plans", "a file where the folder should be");
    EXPECT_GT(prepare().planned.evaluations, 0);
}

// A folder that is full, read only or broken costs a search, and nothing is left in it.
TEST_F(PlanCacheTest, NoFailureOfItsFilesIsAnError) {
    const Session session = prepare();
    FaultFiles files(at("fault"));
    PlanCache cache = session.plan_cache;
    cache.files = &files;
    cache.folder = at("fault") + "/plans";
    const auto ask = [&] { return std::get<Planned>(find_plan(cache, question_of(session))).evaluations; };
    const auto left = [&] { return files.exists(cache.folder) ? files.list(cache.folder).size() : 0; };
    for (const FaultCall call : {FaultCall::make_folders, FaultCall::open, FaultCall::write, FaultCall::rename}) {
        files.fail({.call = call, .error_number = EACCES, .times = FaultRule::kForever, .bytes_first = 10});
        EXPECT_EQ(ask(), session.planned.evaluations);
        files.clear_rules();
        EXPECT_EQ(left(), 0u) << static_cast<int>(call);
    }
    files.set_capacity(20);
    EXPECT_EQ(ask(), session.planned.evaluations);
    EXPECT_EQ(left(), 0u);
    files.set_capacity(FaultFiles::kCapacityDefault);
    EXPECT_EQ(ask(), session.planned.evaluations);
    EXPECT_EQ(left(), 1u);
    files.fail({.times = FaultRule::kForever});
    EXPECT_EQ(ask(), session.planned.evaluations);
}

// Another writer does all of its work after this one has opened its file.
class TwoWriters : public PassingFiles {
  public:
    explicit TwoWriters(std::function<void()> other) : other_(std::move(other)) {}
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        std::unique_ptr<File> file = PassingFiles::open(path, options);
        if (const auto other = std::exchange(other_, nullptr)) other();
        return file;
    }

  private:
    std::function<void()> other_;
};

TEST_F(PlanCacheTest, IsWholeAfterTwoWritersAtOnce) {
    kept_ = KeptPlans::ignored;
    const Session session = prepare();
    PlanCache cache = plan_cache_of(files_, session.config, at("cache/windlass"));
    PlanRequest request = session.request, other_request = session.request;
    request.budgets.process = 7, other_request.budgets.process = 7'000'000;  // entries of different lengths
    const auto ask = [&](const PlanRequest& asked) {
        SearchQuestion question{session.model,      session.recipe,  session.method_options,
                                session.numerics(), session.machine, asked};
        return std::get<Planned>(find_plan(cache, question)).evaluations;
    };
    TwoWriters files([&] {
        cache.files = &files_;
        ask(other_request);
    });
    cache.files = &files;
    ask(request);
    ASSERT_EQ(entries().size(), 1u);
    const std::string text = read_text(files_, folder() + "/" + entries()[0], kMiB);
    EXPECT_EQ(text, with_sum(text.substr(text.find('\n') + 1)));
    plant();
    EXPECT_EQ(ask(request), kPlanted);
}

TEST_F(PlanCacheTest, IsBounded) {
    files_.make_folders(folder());
    for (int i = 0; i < 1100; ++i) write(fmt::format("cache/windlass/plans/{:016x}.plan", i), "old");
    const Session session = prepare();
    EXPECT_LE(entries().size(), 1024u);
    plant();
    EXPECT_EQ(prepare().planned.evaluations, kPlanted) << "the newest stays";
}

}  // namespace
}  // namespace windlass
