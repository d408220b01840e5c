// config.json of a model folder: its keys, its family, and the parameters and programs that follow.
#include "format/hf_config.h"
#include "model/families.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_model_config(std::string_view input) {
    HfConfig config = HfConfig::parse(std::string(input), "config.json");
    const ModelSpec model = build_model(config, {});
    use(model.params.size());
    use(config.dropouts());
}

}  // namespace windlass
