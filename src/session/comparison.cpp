#include "session/comparison.h"

#include <utility>

#include "base/json.h"

namespace windlass {

Comparison compare(const Session& session, std::vector<MethodAdvice> methods, const ComparisonView& view,
                   const ComparisonLimit& limit) {
    Comparison comparison;
    CheaperSearch search(session);
    const int64_t first = std::ssize(methods), count = first + search.count();
    int64_t before = 0;
    SearchOrder order{.threads = limit.threads, .should_stop = limit.should_stop};
    order.wait = [&](int64_t done) {
        if (view.wait) view.wait(std::min(before + done, count), count);
    };
    order.take = [&](int64_t index, bool done) {
        MethodAdvice& each = methods[static_cast<size_t>(index)];
        if (!done) return comparison.not_reached.push_back(each.name);
        if (view.method) view.method(each);
        comparison.methods.push_back(std::move(each));
    };
    const auto plan = [&](int64_t index, const ShouldStop& should_stop) {
        plan_method(session, should_stop, methods[static_cast<size_t>(index)]);
    };
    plan_in_order(first, plan, order);
    before = first;
    const auto add = [&](Cheaper&& each) {
        if (view.cheaper) view.cheaper(each);
        comparison.cheaper.push_back(std::move(each));
    };
    for (Cheaper& each : cheaper_methods(session, comparison.methods)) add(std::move(each));
    search.run(order, add);
    for (const std::string& settings : search.not_reached()) comparison.not_reached.push_back(settings);
    return comparison;
}

Json comparison_json(const Session& session, const Comparison& comparison) {
    Json json = advice_json(comparison.methods, run_costs(session));
    json["cheaper"] = Json::array();
    for (const Cheaper& each : comparison.cheaper) json["cheaper"].push_back(cheaper_json(each));
    return json;
}

Json compared_json(const Comparison& comparison) {
    return {{"complete", comparison.not_reached.empty()}, {"not_reached", comparison.not_reached}};
}

}  // namespace windlass
