// load.h, save: names in files <-> parameters, streamed: never the whole model in memory.
#pragma once

#include <cstdint>
#include <span>

#include "format/model_folder.h"
#include "model/spec.h"

namespace windlass {

// Reads elements [first, first + out.size()) of a parameter as fp32. Values must be finite: UserError(model) names
// file, tensor and index otherwise. Tied duplicates (a file with both embedding and head) are checked for equality
// by check_tied() once, not here.
void load_elements(const ModelFolder& folder, const ParamSpec& param, int64_t first, std::span<float> out);

// A file may hold a tied table under both names; they must be equal, bit for bit.
void check_tied(const ModelFolder& folder, const ModelSpec& model);

// Numbers of a type as fp32, and fp32 as numbers of a type: bf16 as the split's high half, f16 to the nearest.
void decode_numbers(DType dtype, std::span<const std::byte> bytes, std::span<float> out);
void encode_numbers(DType dtype, std::span<const float> values, std::span<std::byte> out);

// The bytes that a file holds for these fp32 masters, in param.file_dtype: bf16 takes the split's high half, f16 and
// f32 round the master (house rule). `out` holds masters.size() * dtype_bytes(file_dtype).
void encode_elements(const ParamSpec& param, std::span<const float> masters, std::span<std::byte> out);

}  // namespace windlass
