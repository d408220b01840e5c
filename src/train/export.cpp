#include "train/export.h"

#include <bit>

#include "base/error.h"
#include "base/math.h"
#include "format/manifest.h"
#include "format/store.h"
#include "model/families.h"
#include "model/save.h"
#include "run/working_store.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/session.h"

namespace windlass {
namespace {

struct Source {
    std::string store;  // file
    std::string base;   // model folder with the names, dtypes and side files
};

Source of_checkpoint(const std::string& path) {
    return {fmt::format("{}/{}", path, kStateFile), fmt::format("{}/{}", path, kModelFolder)};
}

Source of_run(FileSystem& files, const std::string& run, const std::string& step) {
    const std::string yaml = fmt::format("{}/run.yaml", run);
    if (!files.exists(yaml)) {
        throw UserError(ExitCode::usage, run, "is neither a run (it has no run.yaml) nor a checkpoint")
            .hint("windlass export RUN[:STEP] --to DIR");
    }
    Config config = make_config({.file = read_config_file(files, yaml)}, ConfigUse::train).config;
    config.output_dir = run;
    config.resume = step.empty() ? "auto" : step;
    const StartPoint start = find_start(files, config);
    if (start.from == StartPoint::From::working_store) return {start.path, config.model};
    return of_checkpoint(start.path);
}

Source find_source(FileSystem& files, const std::string& source) {
    if (files.exists(fmt::format("{}/{}", source, kManifestName))) return of_checkpoint(source);
    const size_t colon = source.rfind(':');
    if (colon != std::string::npos && !files.exists(source))
        return of_run(files, source.substr(0, colon), source.substr(colon + 1));
    return of_run(files, source, "");
}

// fp32 masters out of a store, one chunk in memory at a time.
class StoreMasters {
  public:
    StoreMasters(Store& store, const ModelSpec& model) : store_(store) {
        std::map<std::string_view, int64_t> index;
        const std::vector<StoreParam>& params = store.layout().params;
        for (size_t i = 0; i < params.size(); ++i) index[params[i].name] = static_cast<int64_t>(i);
        for (const ParamSpec& param : model.params) {
            const auto found = index.find(param.name);
            if (found == index.end() || params[static_cast<size_t>(found->second)].numel != param.numel())
                throw UserError(ExitCode::storage, store.file().path(), "holds no {} of {} elements", param.name,
                                param.numel());
            store_param_.push_back(found->second);
        }
        if (store.layout().weight_bytes != 2 || store.layout().sections.empty() ||
            store.layout().sections[0].bytes != 2)
            throw UserError(ExitCode::storage, store.file().path(), "does not hold split masters");
    }

    void read(int param, int64_t first, std::span<float> out) {
        const int64_t elements = store_.layout().chunk_elements;
        for (int64_t done = 0; done < std::ssize(out);) {
            const int64_t element = first + done;
            fetch(store_.first_chunk(store_param_[static_cast<size_t>(param)]) + element / elements);
            const int64_t begin = element % elements;
            const int64_t count = std::min(std::ssize(out) - done, elements - begin);
            join(begin, out.subspan(static_cast<size_t>(done), static_cast<size_t>(count)));
            done += count;
        }
    }

  private:
    void fetch(int64_t chunk) {
        if (chunk == chunk_) return;
        if (const auto damage = store_.verify_chunk(chunk, scratch_))
            throw UserError(ExitCode::storage, store_.file().path(), "is damaged: {}", damage->text());
        const int version = store_.current_version(chunk);
        const int64_t bytes = round_up(store_.chunk(chunk).count * 2, StoreMap::kAlignment);
        for (HugeBuffer* buffer : {&hi_, &lo_}) {
            if (buffer->size() < bytes) *buffer = HugeBuffer(bytes, false);
        }
        store_.file().read_at(hi_.span().first(static_cast<size_t>(bytes)),
                              store_.weight_extent(chunk, version).offset);
        store_.file().read_at(lo_.span().first(static_cast<size_t>(bytes)),
                              store_.state_extent(chunk, version).offset + store_.section_offset(chunk, 0));
        chunk_ = chunk;
    }
    void join(int64_t begin, std::span<float> out) const {
        const auto* hi = reinterpret_cast<const uint16_t*>(hi_.data()) + begin;
        const auto* lo = reinterpret_cast<const int16_t*>(lo_.data()) + begin;
        for (size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<float>(join_master({hi[i], lo[i]}));
    }

    Store& store_;
    std::vector<int64_t> store_param_;  // by parameter of the model
    HugeBuffer scratch_, hi_, lo_;
    int64_t chunk_ = -1;
};

}  // namespace

ExportResult export_model(FileSystem& files, const ExportOptions& options) {
    const Source source = find_source(files, options.source);
    Store store = Store::open(files, source.store, OpenMode::read);
    const ModelFolder base = ModelFolder::open(files, source.base);
    HfConfig config = base.config();
    const ModelSpec model = build_model(config, base.tensors());
    StoreMasters masters(store, model);
    save_model(files, source.base, options.target, model,
               {.dtype = options.dtype, .shard_bytes_max = options.shard_bytes_max, .overwrite = options.overwrite},
               [&](int param, int64_t first, std::span<float> out) { masters.read(param, first, out); });
    return {source.store, store.committed_step(), ModelFolder::open(files, options.target).total_bytes()};
}

}  // namespace windlass
