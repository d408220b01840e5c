// identity.h: which run this is: everything that its bits depend on. How far it is says RunProgress (run_state.h).
//
// Run states hold the whole of it, the header of a trajectory log a part (trajectory_settings.h): one serialiser, and
// one comparison that says what a resumed run may differ in.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "config/config_keys.h"
#include "method/trained_model.h"
#include "schedule/numerics.h"
#include "state/lr_schedule.h"

namespace windlass {

// What the products' library, the model's code and the C library contribute (coefficients.h).
struct Coefficients {
    std::string products;  // product_path()
    std::string library;   // product_library(); empty on a device, whose products name it
    std::string rope;      // checksum of the frequencies of positions
    std::string libm;      // checksum of what pow, cos, exp and log return
};

struct Identity {
    std::string run_id;   // run_identity.h; not compared here
    std::string part_id;  // run_parts.h; not compared here
    uint64_t seed = 0;
    std::string method;
    std::string data_fingerprint;
    std::string eval_fingerprint;  // of runs whose evaluations decide which step is the best, else empty
    std::map<std::string, std::string> model_config;  // keys of config.json (hf_config_values.h)
    std::string base_checksum;              // base_checksum.h; of runs that keep some of their base, else empty
    std::vector<std::string> param_groups;  // param_group_text.h
    std::string weight_storage = "as_file";
    std::string merge_updates = "each_step";
    int directions = 1;                           // of a step of a forward-only method
    std::vector<int> scale_exponents;             // by parameter, where weights are kept in 8 bits; else empty
    std::map<std::string, std::string> settings;  // keys of the configuration that nothing else here says
    Coefficients coefficients;
    Numerics numerics;
    LrSchedule schedule;
    // Where the run continued with other kernels: "until step 120: avx2, avx2, oneDNN 2.6.3". Not compared.
    std::vector<std::string> kernels_before;
};

Json numerics_json(const Numerics& numerics);

// The part that a log says too: parameter groups, how weights are kept, when updates are merged, and settings.
void write_logged_identity(const Identity& identity, Json& json);
// Throws as read_identity does.
Identity read_logged_identity(const Json& json);

// Puts its members into an object.
void write_identity(const Identity& identity, Json& json);
// Throws nlohmann's exceptions and std::bad_optional_access for what is no identity.
Identity read_identity(const Json& json);

// The same as a text in one line. Throws UserError(storage) naming `where` for a text that is no identity.
std::string identity_text(const Identity& identity);
Identity parse_identity(std::string_view text, std::string_view where);

// What becomes of a run of this method under another value of a key.
OnResume rule_of(const ConfigKey& key, bool probes);
// Identity::settings of a run of this configuration.
std::map<std::string, std::string> recorded_settings(const Config& config, bool probes);

struct Difference {
    std::string name, was, is;
    OnResume rule = OnResume::refused;  // or by_name, or warned
    std::string allowed_as = {};        // by_name: what allow_changed_settings calls it
    std::string text() const;           // "seed was 42, is 1"
};
// Of settings it compares those that both have, and of evaluation rows and config.json nothing where one has none: a
// log says a part (logged_identity).
std::vector<Difference> differences(const Identity& was, const Identity& is);

// Refuses to continue `was` as `is`: UserError(usage) names every difference that is neither followed
// (OnResume::warned) nor among `allowed`. Returns those that are, "weight_decay was 0.1, is 0", for a warning.
std::vector<std::string> require_same_run(const Identity& was, const Identity& is, std::span<const std::string> allowed,
                                          std::string_view where);

// What the run's weight_storage makes of a model that is kept as_file: 8 bits with the run's scales, 4 bits, or
// nothing. UserError(storage, where) where the scales are not this model's.
void keep_in_few_bits(const Identity& identity, std::string_view where, TrainedModel& model);

// Refuses another base for what the run does not train: UserError(model) naming the folder and both checksums.
void require_same_base(const Identity& was, const Identity& is, std::string_view folder);

// Identity::kernels_before of a run that was `was` until `step` and continues as `is`.
std::vector<std::string> kernels_before(const Identity& was, const Identity& is, int64_t step);
// What the new identity of a run takes from the one that it had until `step`: that, and the evaluation rows that its
// best step was found with, even if it compares no steps now.
void take_from_before(const Identity& was, int64_t step, Identity& is);

}  // namespace windlass
