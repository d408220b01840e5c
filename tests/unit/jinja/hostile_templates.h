// hostile_templates.h: templates that would take all time or memory, or reach what a template must not.
#pragma once

#include <string>
#include <vector>

namespace windlass::fixtures {

struct HostileTemplate {
    std::string name, source;
};

// None of them can be rendered.
std::vector<HostileTemplate> hostile_templates();

}  // namespace windlass::fixtures
