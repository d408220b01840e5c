#include "app/cli/verb_texts.h"

#include <algorithm>

#include "base/error.h"

namespace windlass {

const std::string_view kProgramSentence = "Fine-tunes Hugging Face language models that do not fit in memory.";

const std::string_view kProgramExamples =
    "  windlass inspect models/Qwen3-0.6B         what is in a model folder\n"
    "  windlass plan --model models/Qwen3-0.6B    does it fit, how fast will it be\n"
    "  windlass train --model models/Qwen3-0.6B --train-data rows.jsonl \\\n"
    "      --output-dir runs/first\n"
    "  windlass train run.yaml learning_rate=1e-5\n"
    "  windlass train runs/first/run.yaml --resume\n"
    "  windlass generate runs/first/final --prompt \"Once upon a time\"\n"
    "  windlass chat runs/first/final             talk with what was trained\n";

const std::string_view kExitCodes =
    "Exit codes: 0 ok, 1 internal, 2 usage or configuration, 3 does not fit, 4 data, 5 model or tokenizer, "
    "6 files and disks, 7 device or driver, 8 diverged, 130 and 143 stopped by a signal.";

namespace {

constexpr std::string_view kTakesConfig = "[run.yaml] [key=value ...] [--key value ...]";

constexpr VerbText kVerbTexts[] = {
    {.verb = "plan",
     .sentence = "Says whether a run fits, where data is placed, and how fast it is.",
     .usage = kTakesConfig,
     .examples = "  windlass plan run.yaml\n"
                 "  windlass plan --model M --max-length 1024 --ram 8GiB --ssd-dir /nvme\n"
                 "  windlass plan --model M --machine rtx4090-desktop\n"},
    {.verb = "train",
     .sentence = "Trains a model and writes a Hugging Face folder, OUTPUT_DIR/final.",
     .usage = kTakesConfig,
     .examples = "  windlass train run.yaml learning_rate=1e-5 --max-steps 100\n"
                 "  windlass train --model M --train-data rows.jsonl --output-dir runs/first\n"
                 "  windlass train runs/first/run.yaml --resume\n",
     .notes = "Ctrl-C, SIGTERM, SIGHUP or SIGUSR2 finishes the step and saves; Ctrl-C twice stops at once. SIGUSR1, or "
              "making the file OUTPUT_DIR/save, saves; the file OUTPUT_DIR/stop ends the run as Ctrl-C does."},
    {.verb = "status",
     .sentence = "Says how a run is doing: its step, loss, speed and end.",
     .usage = "RUN [flags]",
     .examples = "  windlass status runs/first\n"
                 "  windlass status runs/first --follow && windlass chat runs/first/final\n",
     .notes = "With --follow it prints a line when something changes, until the run ends, and then ends with its exit "
              "code. It reads the run's folder, and changes nothing."},
    {.verb = "runs",
     .sentence = "Lists the runs in a folder and below it.",
     .usage = "[FOLDER] [flags]",
     .examples = "  windlass runs\n"
                 "  windlass runs runs --json\n"},
    {.verb = "ui",
     .sentence = "Shows runs, plans and models on a page in the browser.",
     .usage = "[flags]",
     .more =
         "It prints the page's address, whose last part is a token: anyone who has it can start runs as you. Ctrl-C "
         "ends the page; runs continue.",
     .examples = "  windlass ui\n"
                 "  windlass ui --root ~/work --also /data/models\n",
     .notes = "The page reads and writes in the root's folder alone, in the folders that --also names, and in the "
              "Hugging Face cache. From another machine: ssh -L 7877:127.0.0.1:7877 HOST."},
    {.verb = "eval",
     .sentence = "Measures the loss of a model over rows, or its answers to a task.",
     .usage = "MODEL --data ROWS [run.yaml] [key=value ...]",
     .more = "With --task it counts right answers; with --choices, how often it prefers the right completion; with "
             "--objective dpo or orpo, how it judges pairs of answers.",
     .examples = "  windlass eval runs/first/final --data test.jsonl\n"
                 "  windlass eval M --task sst2 --data dev.tsv --eval-samples 1000\n"
                 "  windlass eval M --data sst2.jsonl --choices \" great| terrible\"\n"
                 "  windlass eval runs/dpo/final --data pairs.jsonl --objective dpo \\\n"
                 "      --reference M\n"},
    {.verb = "generate",
     .sentence = "Continues a text.",
     .usage = "MODEL --prompt TEXT [run.yaml] [key=value ...]",
     .examples = "  windlass generate runs/first/final --prompt \"Once upon a time\"\n"
                 "  windlass generate M --prompt - --temperature 0.8 --top-p 0.95 < prompt.txt\n"},
    {.verb = "chat",
     .sentence = "Answers messages from stdin, one a line.",
     .usage = "MODEL [run.yaml] [key=value ...]",
     .examples = "  windlass chat runs/first/final\n"
                 "  windlass chat M --system \"You are terse.\" --temperature 0.7 --ram 8GiB\n"
                 "  printf 'Who are you?\\n' | windlass chat M\n",
     .notes = "/system TEXT, /undo, /reset, /save FILE, /quit and /help are commands."},
    {.verb = "data",
     .sentence = "Shows the rows that a run trains on, and what is wrong with them.",
     .usage = "show|stats|check|keys [run.yaml] [key=value ...]",
     .examples = "  windlass data show run.yaml        samples, with what is trained in colour\n"
                 "  windlass data stats --model M --train-data rows.jsonl\n"
                 "                                     lengths, and what is left out\n"
                 "  windlass data check --model M --train-data rows.jsonl\n"
                 "                                     every row that cannot be read\n"
                 "  windlass data keys                 what each key of a row means\n"},
    {.verb = "export",
     .sentence = "Writes a model folder or a GGUF file from a run or a checkpoint.",
     .usage = "RUN[:STEP] --to FOLDER|NAME.gguf [flags]",
     .examples = "  windlass export runs/first --to models/tuned\n"
                 "  windlass export runs/first:200 --to models/tuned --dtype bf16\n"
                 "  windlass export runs/lora --merged --to models/tuned\n"
                 "  windlass export runs/first --to tuned.gguf --type q8_0\n"},
    {.verb = "replay",
     .sentence = "Rebuilds the weights of a step from the log of a forward-only run.",
     .usage = "MODEL LOG --to FOLDER|NAME.gguf [flags]",
     .examples = "  windlass replay models/opt-1.3b runs/first/trajectory.wlt --to models/tuned\n"
                 "  windlass replay models/opt-1.3b runs/first/trajectory.wlt --step 200 \\\n"
                 "      --to models/after-200\n"},
    {.verb = "inspect",
     .sentence = "Says what a model folder holds and whether Windlass can train it.",
     .usage = "MODEL [flags]",
     .examples = "  windlass inspect models/Qwen3-0.6B --tensors\n"},
    {.verb = "doctor",
     .sentence = "Examines the processor, memory, limits and disk of this machine.",
     .usage = "[flags]",
     .examples = "  windlass doctor --ssd /nvme\n"
                 "  windlass doctor --machine rtx4090-desktop\n"},
    {.verb = "config",
     .sentence = "Translates another trainer's file; prints the schema of run.yaml.",
     .usage = "from FILE|schema [flags]",
     .more = "from reads a file of LLaMA-Factory, axolotl or transformers; schema prints JSON Schema, by which editors "
             "complete and check run.yaml.",
     .examples = "  windlass config from llama3_lora_sft.yaml > run.yaml\n"
                 "  windlass plan run.yaml\n"
                 "  windlass config schema > windlass.schema.json\n",
     .notes = "What is not taken over is listed on stderr, each with its reason."},
    {.verb = "completion",
     .sentence = "Prints a script that completes commands in a shell.",
     .usage = "bash|zsh|fish [flags]",
     .examples = "  source <(windlass completion bash)        in ~/.bashrc\n"
                 "  source <(windlass completion zsh)         in ~/.zshrc, after compinit\n"
                 "  windlass completion fish > ~/.config/fish/completions/windlass.fish\n"},
    {.verb = "version", .sentence = "Prints the version, devices, kernels and libraries.", .usage = "[flags]"},
};

}  // namespace

std::span<const VerbText> verb_texts() {
    return kVerbTexts;
}

const VerbText& text_of_verb(std::string_view verb) {
    const auto* const found = std::ranges::find(kVerbTexts, verb, &VerbText::verb);
    WINDLASS_CHECK(found != std::end(kVerbTexts), "the verb {} has no text", verb);
    return *found;
}

}  // namespace windlass
