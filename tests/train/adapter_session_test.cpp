// Sessions with an adapter: what may be kept in few bits, and what else is planned in their place.
#include <gmock/gmock.h>

#include "base/error.h"
#include "session/advice.h"
#include "tests/train/compared.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class AdapterSession : public TrainTest {
  protected:
    Session prepare(const Settings& changes) {
        Settings settings = {{"adapter", "lora"}, {"lora_r", "4"}, {"ram", "1GiB"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return prepare_session(files_, config("adapted", settings), {});
    }
    std::string refusal(const Settings& changes) {
        try {
            prepare(changes);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
};

TEST_F(AdapterSession, KeepsTheBaseInFourBits) {
    const Session session = prepare({{"adapter", "qlora"}});
    EXPECT_TRUE(is_kept_in_4_bits(session.model));
    for (const Param param : session.model.all_params()) {
        EXPECT_EQ(param.trains(), param.spec.added.has_value()) << param.spec.name;
        EXPECT_FALSE(param.spec.added && param.storage.dtype == DType::nf4) << param.spec.name;
    }
}

TEST_F(AdapterSession, RefusesFourBitsOfWhatIsTrained) {
    EXPECT_THAT(
        refusal({{"adapter", "none"}, {"lora_r", "16"}, {"weight_storage", "nf4"}}),
        HasSubstr("weight_storage: nf4 is for weights that are not split masters, but method adamw trains every "
                  "matrix as one. Try: "));
    EXPECT_THAT(refusal({{"adapter", "none"}, {"lora_r", "16"}, {"weight_storage", "nf4"}, {"method", "zeroth_order"}}),
                HasSubstr("weight_storage: nf4 keeps matrices of layers as they were loaded, but model.layers.0."));
}

TEST_F(AdapterSession, ProjectsAsWideAsBytesAllow) {
    const auto width = [&](Settings changes) {
        changes.insert({{"adapter", "lsp"}, {"lora_r", "16"}});
        return prepare(changes).model.adapter->rank;
    };
    const Session usual = prepare({{"adapter", "lsp"}, {"lora_r", "16"}});
    EXPECT_EQ(usual.model.adapter->rank, usual.model.hidden / 2);
    EXPECT_EQ(usual.model.adapter->nonzeros, 8);
    const int64_t state = 12 * trained_count(prepare({{"adapter", "lsp"}, {"lora_r", "16"}, {"lsp_d", "16"}}).model);
    const std::string exact = fmt::format("{}B", state), more = "1GiB";
    EXPECT_EQ(width({{"lsp_host_bytes", exact}}), 16);
    EXPECT_EQ(
        width({{"lsp_host_bytes", more}, {"lsp_link_bytes", fmt::format("{}B", state / 12 * 6)}, {"dtype", "bf16"}}),
        16);
    EXPECT_GT(width({{"lsp_host_bytes", more}}), 16);
    EXPECT_EQ(width({{"lsp_host_bytes", exact}, {"lsp_d", "24"}}), 24) << "what is set wins";
    EXPECT_THAT(refusal({{"adapter", "lsp"}, {"lora_r", "16"}, {"lsp_host_bytes", fmt::format("{}B", state - 1)}}),
                HasSubstr("allow no projector: the narrowest, of 16 columns, take"));
}

TEST_F(AdapterSession, RefusesProjectorsThatFitNoLayer) {
    const auto refused = [&](Settings changes) {
        changes.insert({{"adapter", "lsp"}, {"lora_r", "16"}});
        return refusal(changes);
    };
    EXPECT_THAT(refused({{"lsp_d", "60000"}}),
                HasSubstr("lsp_d: 60000 is above both sides of every layer. Try: lsp_d "));
    EXPECT_THAT(refused({{"lsp_d", "4"}}), HasSubstr("lsp_r: 8 numbers a row do not fit 4 columns. Try: "));
    EXPECT_THAT(refused({{"lora_target_modules", "[embed_tokens]"}}),
                HasSubstr("\"embed_tokens\" is the name of no linear layer of this model. Try: "));
}

TEST_F(AdapterSession, RefusesSettingsThatFitNoLayer) {
    EXPECT_THAT(refusal({{"lora_target_modules", "[norm]"}}),
                HasSubstr("lora_target_modules: \"norm\" is the name of no layer of this model. Try: "));
    EXPECT_THAT(refusal({{"freeze", "[\"*norm*\"]"}}), HasSubstr("which alone are trained"));
}

// Other methods are planned for the same adapter, in the same groups: as a session of their own has it.
TEST_F(AdapterSession, IsComparedWithOtherWaysToTrainIt) {
    const Session session = prepare({{"freeze", "[\"*lora_A*\"]"}});
    const std::vector<MethodAdvice> methods = compare_methods(session);
    std::vector<std::string> names;
    for (const MethodAdvice& each : methods) {
        names.push_back(each.name);
        if (each.adapter != session.config.adapter || each.weight_storage != session.config.weight_storage) continue;
        const Session own = prepare({{"freeze", "[\"*lora_A*\"]"}, {"method", each.method}});
        ASSERT_TRUE(each.planned.has_value()) << each.method;
        // What the process itself takes is measured anew each time.
        EXPECT_EQ(each.planned->memory_bytes - session.request.budgets.process,
                  own.planned.memory_bytes - own.request.budgets.process)
            << each.method;
    }
    EXPECT_THAT(names, testing::ElementsAre("adamw, lora", "adamw", "adamw, qlora", "adalomo", "lomo", "adamw, lsp",
                                            "forward_gradient, lora", "zeroth_order, lora"));
}

}  // namespace
}  // namespace windlass
