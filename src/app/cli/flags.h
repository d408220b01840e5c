// flags.h: the flags of every verb, and where their values go.
#pragma once

#include <string>
#include <vector>

#include "app/cli/verbs.h"

namespace CLI {
class App;
}

namespace windlass {

struct Arguments {
    bool quiet = false;
    std::string json;  // as result_form_of understands it
    // Of a verb that the page started: the folders in which settings may name files, and whether it ends with
    // the page's process.
    std::vector<std::string> within;
    bool ends_with_parent = false;
    PlanArgs plan;
    TrainArgs train;
    StatusArgs status;
    RunsArgs runs;
    EvalArgs eval;
    GenerateArgs generate;
    ChatArgs chat;
    DataArgs data;
    std::string data_what;
    ExportArgs to_export;
    ReplayArgs replay;
    InspectArgs inspect;
    DoctorArgs doctor;
    ConfigArgs config;
    CompletionArgs completion;
    UiArgs ui;
    VersionArgs version;
};

// Verbs and their flags. What follows on the command line of a verb with configuration is left over, as words.
void add_verbs(CLI::App& app, Arguments& args);

// What people type who know other programs: with underscores in a verb's own flags as dashes. UserError(usage) for a
// flag that has another name here, with that, and for one that is nearly a verb's own.
std::vector<std::string> with_known_flags(const CLI::App& app, std::vector<std::string> words);

// Throws for a first word that is no verb, naming what it is called here, the nearest, or those that there are.
// `topics`: other names that `windlass help` takes.
void check_verb(const CLI::App& app, const std::string& word, const std::vector<std::string>& topics = {});

}  // namespace windlass
