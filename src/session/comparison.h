// comparison.h: other methods and other settings, each planned within the same budgets and handed over when it is
// found.
//
// The order is fixed, the most useful first, whatever number of threads search: methods (advice.h), then settings
// (cheaper.h). It may be ended at any time; what is there then is kept, and what was not reached is named.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "session/advice.h"
#include "session/cheaper.h"

namespace windlass {

// All are called by the caller's thread.
struct ComparisonView {
    std::function<void(const MethodAdvice& method)> method;
    std::function<void(const Cheaper& cheaper)> cheaper;
    std::function<void(int64_t done, int64_t count)> wait;  // of searches; a few times a second
};

struct ComparisonLimit {
    ShouldStop should_stop;
    int threads = 0;  // 0: one for each processor
};

struct Comparison {
    std::vector<MethodAdvice> methods;  // that were planned
    std::vector<Cheaper> cheaper;
    std::vector<std::string> not_reached;  // "adamw, lsp", "state_format=int8": names and settings
};

Comparison compare(const Session& session, std::vector<MethodAdvice> methods, const ComparisonView& view,
                   const ComparisonLimit& limit);

// {"methods": ..., "advised": ..., "cheaper": ...}
Json comparison_json(const Session& session, const Comparison& comparison);
// {"complete": true, "not_reached": []}
Json compared_json(const Comparison& comparison);

}  // namespace windlass
