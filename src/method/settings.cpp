#include "method/settings.h"

#include <fmt/format.h>

#include "method/recipe.h"
#include "perturb/factors.h"

namespace windlass {
namespace {

using Problems = std::vector<Problem>;

void check_merge(const MethodOptions& o, Problems& problems) {
    if (o.merge == Merge::each_step) return;
    const auto refuse = [&](std::string_view why, std::string_view hint) {
        problems.push_back({fmt::format("merge_updates {}: {}", merge_name(o.merge), why), std::string(hint)});
    };
    if (o.noise != NoiseKind::low_rank)
        return refuse("only directions of factors have a sum that takes no memory", "noise: low_rank");
    if (o.moments != NoiseMoments::none) refuse("without stored weights there are no moments", "zo_optimizer: sgd");
    if (o.merge == Merge::never && (o.noise_window != 0 || !o.noise_keeps_left))
        refuse("both factors stay for the whole run", "noise_window: 0 and noise_kept: both");
    if (o.merge == Merge::per_window && (o.noise_window < 2 || o.noise_window > kMergeWindowMax))
        refuse(fmt::format("a window of noise_window steps, 2 to {}; it is {}", kMergeWindowMax, o.noise_window),
               "noise_window: 50");
}

void check_moments(const MethodOptions& o, Problems& problems) {
    if (o.moments == NoiseMoments::none) {
        if (o.replay_window != kReplayWindow)
            problems.push_back({"replay_window has no meaning with zo_optimizer sgd", "zo_optimizer momentum or adam"});
        return;
    }
    if (o.moments == NoiseMoments::both && o.epsilon <= 0)
        problems.push_back({"zo_optimizer adam divides by adam_epsilon where nothing was found", "adam_epsilon 1e-8"});
    if (o.noise == NoiseKind::low_rank && !is_room_for(int64_t{o.directions} * o.replay_window, o.noise_rank))
        problems.push_back({fmt::format("zo_optimizer {} over {} steps of {} directions has too many factors of rank "
                                        "{} at once",
                                        moments_name(o.moments), o.replay_window, o.directions, o.noise_rank),
                            "a smaller replay_window"});
}

void check_estimator(const MethodOptions& o, Problems& problems) {
    const int least = least_directions(o.estimator);
    if (o.directions < least)
        problems.push_back({fmt::format("zo_estimator {} takes the deviation of losses along {} directions or more, of "
                                        "which there are {}",
                                        estimator_name(o.estimator), least, o.directions),
                            "directions: 8"});
}

}  // namespace

Problems problems(std::string_view method, const MethodOptions& options) {
    Problems found;
    const Recipe plain = find_method(method).recipe({});
    check_estimator(options, found);
    check_moments(options, found);
    if (plain.probes()) check_merge(options, found);
    if (!plain.probes() && options.moments != NoiseMoments::none)
        found.push_back(
            {fmt::format("zo_optimizer is for methods without a backward pass, method is {}", method), "zeroth_order"});
    if (options.sparse_share < 1 && !(plain.probes() && plain.runs(PassKind::forward)))
        found.push_back({"sparse_share is a way of zeroth_order", "method: zeroth_order"});
    return found;
}

}  // namespace windlass
