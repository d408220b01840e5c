// module_names.h: names of modules as adapters' files and configurations write them: names, ends of names, or regular
// expressions, as Python's re has them.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "model/adapters/peft.h"
#include "tokenizer/pattern.h"

namespace windlass {

// Letters, digits, "_", "." and "-": a name, and no expression.
bool is_module_name(std::string_view text);

// An expression for whole names of modules, as Python's re.fullmatch takes it: with where it was written, and what
// kind of mistake a wrong one is.
class WholeNames {
  public:
    // before: an expression for what may be in front of the text's part of a name. UserError(code, where) for what is
    // no expression.
    WholeNames(std::string text, ExitCode code, std::string where, std::string_view before = "");
    bool fit(const std::string& module) const;

  private:
    template <typename Call>
    void named(Call call) const;

    std::string text_;
    ExitCode code_;
    std::string where_;
    Pattern whole_ = Pattern::literal("");
};

// Whether expressions, as peft has them, fit modules: a whole name, or its end from a dot on. UserError(code, where)
// for what is no expression.
FitsModule fits_module(ExitCode code, const std::string& where);

}  // namespace windlass
