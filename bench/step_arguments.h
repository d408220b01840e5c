// step_arguments.h: what step_bench is asked for; its own head says what each option is.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "device/device.h"
#include "method/recipe.h"
#include "run/engine.h"

namespace windlass {

struct Arguments {
    std::string shape = "gpt2-124m", model, policy = "in_memory", store = ".", device = "cpu", update = "auto";
    std::string method = "adamw", adapter, compare;
    int64_t rank = 16;  // of an adapter
    int64_t refresh_rows = 0;
    MethodOptions options;
    GradientFormat gradients = GradientFormat::f32;
    int64_t rows = 8, length = 512, ram = int64_t{1} << 50, device_memory = int64_t{1} << 50;
    Emulation emulation;
    std::vector<int> micros = {1};
    int micro = 1, steps = 3, threads = static_cast<int>(std::thread::hardware_concurrency());
    DType dtype = DType::bf16;
    bool recompute = false, table = false, seeded = false, small_probe = false, digest = false, profile = false;
    DeviceId id() const { return parse_device(device, "--device"); }
    std::optional<UpdateTime> update_time() const {
        if (update == "after_backward") return UpdateTime::after_backward;
        if (update == "in_backward") return UpdateTime::in_backward;
        return update == "next_forward" ? std::optional(UpdateTime::next_forward) : std::nullopt;
    }
    bool on_card() const { return id().kind == DeviceKind::cuda; }
    bool profiles() const { return profile || !on_card(); }
};

inline std::vector<int> numbers(const std::string& text) {
    std::vector<int> list;
    std::istringstream in(text);
    for (std::string one; std::getline(in, one, ',');) list.push_back(std::stoi(one));
    return list;
}

// Norms are taken, and every guess that nothing is clipped is right: how often it is wrong is a matter of data.
constexpr double kNormNeverReached = 1e30;

// What an option without a value sets; null: it is another one.
inline bool* flag_of(Arguments& a, const std::string& key) {
    return key == "--recompute"     ? &a.recompute
           : key == "--table"       ? &a.table
           : key == "--seeded"      ? &a.seeded
           : key == "--small-probe" ? &a.small_probe
           : key == "--digest"      ? &a.digest
           : key == "--profile"     ? &a.profile
                                    : nullptr;
}

// What is compared with each other: first all parameters, then what the last column compares others with.
inline std::vector<std::string> compared_names(const std::string& comparison) {
    if (comparison == "adapters") return {"everything", "lora", "qlora"};
    if (comparison == "small-states") return {"everything", "lsp/2", "lsp/4"};
    if (comparison == "methods") return {"adamw", "adalomo", "lomo"};
    throw UserError(ExitCode::usage, "--compare", "\"{}\" is none of adapters, small-states and methods", comparison);
}

// Whether this is an option of adapters.
inline bool sets_adapter(Arguments& a, const std::string& key, const std::string& value) {
    if (key == "--adapter")
        a.adapter = value == "none" ? "" : value;
    else if (key == "--rank")
        a.rank = std::stol(value);
    else if (key == "--compare")
        a.compare = value;
    else if (key == "--refresh")
        a.refresh_rows = std::stol(value);
    else
        return false;
    return true;
}

// What finds a norm by a second backward finds none.
inline void set_method(Arguments& a, const std::string& method) {
    a.method = method;
    a.options.max_grad_norm = find_method(method).recipe({}).uses_gradients_at_once() ? 0 : kNormNeverReached;
}

inline void set_compared(Arguments& a, const std::string& name) {
    if (a.compare != "methods") {
        a.adapter = name == "everything" ? "" : name;
        return;
    }
    set_method(a, name);
}

inline Arguments parse(int argc, char** argv) {
    Arguments a;
    bool rows_given = false;
    for (int i = 1; i < argc; ++i) {
        const std::string key = argv[i];
        bool* const flag = flag_of(a, key);
        const std::string value = flag == nullptr && i + 1 < argc ? argv[++i] : "";
        if (flag != nullptr)
            *flag = true;
        else if (sets_adapter(a, key, value))
            continue;
        else if (key == "--shape")
            a.shape = value;
        else if (key == "--model")
            a.model = value;
        else if (key == "--policy")
            a.policy = value;
        else if (key == "--store")
            a.store = value;
        else if (key == "--rows")
            a.rows = std::stol(value), rows_given = true;
        else if (key == "--length")
            a.length = std::stol(value);
        else if (key == "--ram")
            a.ram = parse_bytes(value, "--ram");
        else if (key == "--micro")
            a.micros = numbers(value), a.micro = a.micros[0], rows_given = true;
        else if (key == "--device")
            a.device = value;
        else if (key == "--device-memory")
            a.device_memory = parse_bytes(value, key);
        else if (key == "--link")
            a.emulation.link_bytes_per_s = static_cast<double>(parse_bytes(value, key));
        else if (key == "--disk")
            a.emulation.disk_bytes_per_s = static_cast<double>(parse_bytes(value, key));
        else if (key == "--update")
            a.update = value;
        else if (key == "--state")
            a.options.state_format = *state_format_from_name(value);
        else if (key == "--gradients")
            a.gradients = *gradient_format_from_name(value);
        else if (key == "--method")
            a.method = value;
        else if (key == "--directions")
            a.options.directions = std::stoi(value);
        else if (key == "--noise")
            a.options.noise = *noise_kind_from_name(value);
        else if (key == "--steps")
            a.steps = std::stoi(value);
        else if (key == "--threads")
            a.threads = std::stoi(value);
        else if (key == "--dtype")
            a.dtype = *dtype_from_name(value);
        else
            throw UserError(ExitCode::usage, key, "unknown option");
    }
    set_method(a, a.method);
    if (a.shape == "llama-1.1b" && !rows_given) a.rows = 2, a.micro = 4, a.micros = {4};
    return a;
}

}  // namespace windlass
