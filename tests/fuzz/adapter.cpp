// Adapter folders in peft's layout, put next to a model.
#include "data/open_adapter.h"
#include "format/model_folder.h"
#include "format/safetensors.h"
#include "model/adapters/first_weights.h"
#include "model/families.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {
namespace {

// A folder with all of a model's weights, which are zeros.
InputFiles& base_files() {
    static const std::unique_ptr<InputFiles> folder = [] {
        auto made = std::make_unique<InputFiles>();
        made->put("config.json", kSmallConfig);
        HfConfig config = HfConfig::parse(kSmallConfig, "config.json");
        std::vector<TensorSpec> tensors;
        for (const ParamSpec& param : build_model(config, {}).params)
            tensors.push_back({param.name, param.file_dtype, param.shape});
        SafetensorsWriter writer(made->files(), made->path(kSingleName), tensors);
        for (const TensorSpec& tensor : tensors)
            writer.write(tensor.name, 0, std::vector<std::byte>(static_cast<size_t>(tensor.bytes())));
        writer.finish();
        return made;
    }();
    return *folder;
}

}  // namespace

void fuzz_adapter(std::string_view input) {
    InputFiles folder(input, kAdapterConfigName);
    const ModelFolder base = ModelFolder::open(base_files().files(), base_files().folder());
    HfConfig config = base.config();
    ModelSpec model = build_model(config, base.tensors());
    Config wanted;
    wanted.adapter = folder.folder();
    const std::optional<AdapterFolder> adapter = put_adapter(folder.files(), wanted, base, model);
    const ReadMasters first = first_weights(base, model, 0, &*adapter);
    for (size_t param = 0; param < model.params.size(); ++param) {
        if (!model.params[param].added) continue;
        std::vector<float> numbers(static_cast<size_t>(model.params[param].numel()));
        first(static_cast<int>(param), 0, numbers);
    }
}

}  // namespace windlass
