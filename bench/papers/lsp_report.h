// lsp_report.h: the tables that lsp prints.
#pragma once

namespace windlass {

// Steps by the order of updates; whether every aim is met.
bool print_orders();
// Memory and seconds of the paper's models, beside what it published.
bool print_published_steps();

}  // namespace windlass
