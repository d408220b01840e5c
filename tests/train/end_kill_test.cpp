// A run that dies at any moment of its end, behind its last step: the next command ends it, with the same bytes and
// nothing left over. Not at random moments: at each call that changes a folder, in turn.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "tests/train/best_fixture.h"
#include "tests/train/passing_files.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

// Dead from the call on that changes a folder behind `lives` others.
class DyingFiles final : public PassingFiles {
  public:
    explicit DyingFiles(int64_t lives) : lives_(lives) {}

    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        if (options.mode == OpenMode::create) change("open", path);
        return PassingFiles::open(path, options);
    }
    void make_folders(const std::string& path) override {
        change("mkdir", path);
        PassingFiles::make_folders(path);
    }
    void rename(const std::string& from, const std::string& to) override {
        change("rename", from);
        PassingFiles::rename(from, to);
    }
    void remove_file(const std::string& path) override {
        change("unlink", path);
        PassingFiles::remove_file(path);
    }
    void remove_tree(const std::string& path) override {
        change("unlink", path);
        PassingFiles::remove_tree(path);
    }

  private:
    void change(const char* call, const std::string& path) {
        if (lives_-- <= 0) throw MachineError(call, path, EIO);
    }

    int64_t lives_;
};

// Lives until a folder is begun that is called so.
class EndlessFiles final : public PassingFiles {
  public:
    explicit EndlessFiles(std::string name) : name_(std::move(name)) {}
    void make_folders(const std::string& path) override {
        if (path.find(name_) != std::string::npos) throw MachineError("mkdir", path, EIO);
        PassingFiles::make_folders(path);
    }

  private:
    std::string name_;
};

struct Ends {
    const char* name;
    Settings changes;
    const char* weights;
};

void PrintTo(const Ends& ends, std::ostream* out) {
    *out << ends.name;
}

class EndKillTest : public BestTest, public testing::WithParamInterface<Ends> {
  protected:
    Settings settings(const char* steps, const char* how) const {
        Settings settings = {{"max_steps", steps}, {"save_steps", "2"}, {"gradient_checkpointing", "false"}};
        settings.merge(Settings(GetParam().changes));
        if (settings.contains("eval_steps")) settings["eval_data"] = at("eval.jsonl");
        if (how != nullptr) settings[how] = "auto";
        return settings;
    }
    void restore() const {
        for (const char* name : {"run", "ssd"}) {
            fs::remove_all(at(name));
            fs::copy(at(std::string("kept/") + name), at(name), fs::copy_options::recursive);
        }
    }
    // Of what it holds, but for TensorBoard's, of which each command writes its own, and locks, which are empty.
    std::vector<std::string> names(const std::string& folder) const {
        std::vector<std::string> found;
        for (const auto& entry : fs::recursive_directory_iterator(at(folder))) {
            const std::string name = entry.path().lexically_relative(at(folder));
            if (!name.starts_with("events.") && !name.ends_with(".lock")) found.push_back(name);
        }
        std::ranges::sort(found);
        return found;
    }
};

TEST_P(EndKillTest, TheNextCommandEndsTheRun) {
    run("whole", settings("2", nullptr));
    run("whole", settings("4", "resume"));
    const std::vector<std::string> left = names("ssd");
    run("run", settings("2", nullptr));     // so that there is a final/ to be replaced
    EndlessFiles endless("/checkpoint-4");  // all that is left of the run then is its end
    EXPECT_THROW(train(endless, config("run", settings("4", "resume"))), MachineError);
    fs::create_directory(at("kept"));
    for (const char* name : {"run", "ssd"})
        fs::copy(at(name), at(std::string("kept/") + name), fs::copy_options::recursive);
    int64_t deaths = 0;
    for (bool dies = true; dies; ++deaths) {
        restore();
        DyingFiles dying(deaths);
        try {
            train(dying, config("run", settings("4", "resume")));
            dies = false;
        } catch (const MachineError&) {
            ASSERT_NO_THROW(run("run", settings("4", "resume"))) << "dead at change " << deaths;
        }
        EXPECT_TRUE(bytes(std::string("run") + GetParam().weights) == bytes(std::string("whole") + GetParam().weights))
            << "dead at change " << deaths;
        EXPECT_EQ(history("run"), history("whole")) << "dead at change " << deaths;
        EXPECT_EQ(final_step("run"), final_step("whole"));
        ASSERT_EQ(names("run"), names("whole")) << "dead at change " << deaths;
        ASSERT_EQ(names("ssd"), left) << "dead at change " << deaths;
    }
    EXPECT_GT(deaths, 20);
}

// The working store has the step, so nothing is lost; it may only go when a checkpoint is whole.
TEST_F(BestTest, ADamagedCheckpointOfTheLastStepIsWrittenAgain) {
    const Settings settings = {{"policy", "three_tier"}, {"max_steps", "4"}, {"save_steps", "2"}};
    run("whole", settings);
    EndlessFiles endless("/final");
    EXPECT_THROW(train(endless, config("run", settings)), MachineError);
    ASSERT_TRUE(has("run/checkpoint-4/manifest.json"));
    write("run/checkpoint-4/model/model.safetensors", "damaged");
    Settings again = settings;
    again["resume"] = "auto";
    run("run", again);
    constexpr const char* kModel = "/checkpoint-4/model/model.safetensors";
    EXPECT_TRUE(bytes(std::string("run") + kModel) == bytes(std::string("whole") + kModel));
    EXPECT_TRUE(fs::is_empty(at("ssd")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EndKillTest,
                         testing::Values(Ends{"on_disk", {{"policy", "three_tier"}}, kWeights},
                                         Ends{"adapter", {{"adapter", "lora"}, {"lora_r", "4"}}, kAdapterWeights},
                                         Ends{"log", {{"method", "zeroth_order"}, {"policy", "three_tier"}}, kWeights},
                                         Ends{"best_step",
                                              {{"policy", "three_tier"},
                                               {"eval_steps", "2"},
                                               {"load_best_model_at_end", "true"},
                                               {"learning_rate", "1"}},
                                              kWeights}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace windlass
