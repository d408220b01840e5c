// published_steps.h: how many steps along random directions learn what AdamW learns in one.
#pragma once

namespace windlass {

// Forward passes in which a method reaches what AdamW reaches in kAdamSteps steps. Fine-tuning OPT took Adam 625 steps
// of 8 rows and the two-point estimate 20,000 of 16 (Malladi et al., "Fine-Tuning Language Models with Just Forward
// Passes", NeurIPS 2023, tables 15 and 16). FZOO took a third of them on the average (Dang et al., "FZOO", 2025).
inline constexpr double kTwoSidedPasses = 2 * 20000, kFzooPasses = kTwoSidedPasses / 3;

// Steps of `passes_a_step` forward passes. More directions a step need as many passes in all (Malladi et al., app. A).
double steps_for_one_of_adam(double published_passes, int passes_a_step);

}  // namespace windlass
