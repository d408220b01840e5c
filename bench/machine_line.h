// machine_line.h: where and when figures were taken, for the head of what a benchmark prints.
#pragma once

#include <ctime>
#include <fstream>
#include <string>

#include "device/cpu/isa.h"

namespace windlass {

// "Intel(R) Xeon(R) Processor, kernels avx512_bf16, 2026-11-23"
inline std::string machine_line() {
    std::ifstream file("/proc/cpuinfo");
    std::string name = "unknown processor";
    for (std::string line; std::getline(file, line);) {
        const size_t value = line.find(": ");
        if (!line.starts_with("model name") || value == std::string::npos) continue;
        name = line.substr(value + 2);
        break;
    }
    const std::time_t now = std::time(nullptr);
    char date[sizeof("2026-11-23")];
    std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
    return name + ", kernels " + std::string(isa_name(cpu_isa())) + ", " + date;
}

}  // namespace windlass
