// save_with_card.h: model folders and adapters with a README.md of their own, which the Hub shows as the model's card.
#pragma once

#include <string>

#include "model/adapters/peft.h"
#include "model/save.h"

namespace windlass {

// Written as README.md in place of the base's. Empty: a model's folder has the base's, an adapter's has none.
struct CardText {
    std::string text;
};

// As without a card. A file for llama.cpp has none.
void save_model(FileSystem& files, const std::string& base_folder, const std::string& target, const ModelSpec& model,
                const SaveOptions& options, const ReadMasters& masters, const CardText& card);
void save_peft(FileSystem& files, const std::string& target, const ModelSpec& model, const PeftOptions& options,
               const ReadMasters& masters, const CardText& card);

}  // namespace windlass
