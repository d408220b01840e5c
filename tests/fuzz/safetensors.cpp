// A model folder: config.json, the index, and the headers and numbers of its shards.
#include "format/safetensors.h"
#include "format/model_folder.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_safetensors(std::string_view input) {
    constexpr int64_t kReadMax = 1 << 16;
    InputFiles folder(input, "model.safetensors.header");
    folder.put_default("config.json", kSmallConfig);
    const ModelFolder model = ModelFolder::open(folder.files(), folder.folder());
    std::vector<std::byte> bytes;
    for (const TensorPlace& tensor : model.tensors()) {
        bytes.resize(static_cast<size_t>(std::min(tensor.bytes, kReadMax)));
        model.read(tensor, tensor.bytes - std::ssize(bytes), bytes);
    }
    use(model.find("model.norm.weight"));
}

}  // namespace windlass
