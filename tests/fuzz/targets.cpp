#include "tests/fuzz/targets.h"

#include <algorithm>
#include <array>

// A string that the preprocessor joins with a target's own words.
#define WINDLASS_JSON                                                                                  \
    "{} [] [[]] null true false 0 -1 1 0.5 1e308 1e400 1e-320 65536 2147483647 2147483648 4294967296 " \
    "4611686018427387904 "                                                                             \
    "9223372036854775807 18446744073709551615 \"\" \"\\u0000\" \"\\ud800\" , : "

namespace windlass {
namespace {

constexpr std::array kFuzzTargets = {
    FuzzTarget{"adapter", fuzz_adapter,
               WINDLASS_JSON
               "\"LORA\" \"IA3\" \"r\" \"lora_alpha\" \"target_modules\" \"modules_to_save\" \"rank_pattern\" "
               "\"alpha_pattern\" \"use_dora\" \"use_rslora\" \"bias\" \"all\" \"layers_to_transform\" "
               "\"trainable_token_indices\" \"fan_in_fan_out\" \"feedforward_modules\" \"data_offsets\" \"shape\" "
               "\"F32\" \"BF16\" \".*proj\" \"q_proj\" \"embed_tokens\" \"lm_head\""},
    FuzzTarget{"chats", fuzz_chats,
               WINDLASS_JSON
               "\"messages\" \"role\" \"content\" \"assistant\" \"user\" \"system\" \"tool_calls\" \"function\" "
               "\"arguments\" \"tools\" \"chosen\" \"rejected\" \"prompt\" \"completion\" \"conversations\" \"from\" "
               "\"value\" \"train\" \"weight\" \"history\" \"instruction\" {%generation%} {{m.content}}"},
    FuzzTarget{"compressed", fuzz_compressed},
    FuzzTarget{
        "configuration", fuzz_configuration,
        "- -- --- : , [ ] { } & * ! !!binary !!float | > ~ null true false 1e400 -1 0 .inf .nan 9223372036854775808 "
        "8GiB "
        "90% 1e30GiB auto <<: &a *a \" ' # match: learning_rate: param_groups: freeze: train_data: seed: max_steps:"},
    FuzzTarget{"export_request", fuzz_export_request,
               WINDLASS_JSON
               "\"to\" \"overwrite\" \"dtype\" \"type\" \"form\" \"max_shard_bytes\" \"reply\" \"q8_0\" \"bf16\" "
               "\"gguf\" \"export-reply-1\""},
    FuzzTarget{
        "expression", fuzz_expression,
        "( ) [ ] { } | * + ? *? ++ {1,65535} (?: (?i) (?= (?! (?<= (?<! (?> \\p{L} \\p{N} \\P{Lu} \\s \\S \\d \\w \\b "
        "\\A "
        "\\z \\Z \\G \\K \\R \\X \\h \\x{10ffff} \\u0041 \\1 (?1) (?R) [[:alpha:]] [^\\r\\n] [a-z&&[^b]] = =1e400 "
        "train=true weight_decay= learning_rate_scale= ^ $ ."},
    FuzzTarget{
        "foreign", fuzz_foreign,
        "- : , [ ] { } & * ! | > ~ null true false 1e400 -1 <<: &a *a \" ' stage: finetuning_type: lora sft dpo "
        "dataset: "
        "base_model: datasets: adapter: qlora sequence_len: micro_batch_size: cutoff_len: lora_target: deepspeed: "
        "lora_target_modules: warmup_steps: per_device_train_batch_size: model_name_or_path:"},
    FuzzTarget{"machine", fuzz_machine,
               "GB/s GiB TFLOP/s us : # -1 0 1e308 1e400 nan inf 9223372036854775808 0x10 , device: memory: cores: "
               "link: disk:"},
    FuzzTarget{"manifest", fuzz_manifest,
               WINDLASS_JSON
               "\"format\" \"windlass-checkpoint\" \"version\" \"1.0\" \"2.0\" \"step\" \"files\" \"name\" "
               "\"bytes\" \"xxh3\" \"run_state\" \"../x\" \"a/b\""},
    FuzzTarget{
        "model_config", fuzz_model_config,
        WINDLASS_JSON
        "\"llama\" \"qwen2\" \"qwen3\" \"mistral\" \"gemma2\" \"gemma3\" \"gemma3_text\" \"gpt2\" \"granite\" "
        "\"olmo2\" \"opt\" \"phi3\" \"smollm3\" \"text_config\" \"rope_scaling\" \"rope_parameters\" \"rope_type\" "
        "\"yarn\" \"longrope\" \"llama3\" \"linear\" \"layer_types\" \"sliding_window\" \"num_hidden_layers\" "
        "\"head_dim\" \"vocab_size\" \"quantization_config\" \"auto_map\" \"no_rope_layers\""},
    FuzzTarget{"preset", fuzz_preset,
               WINDLASS_JSON
               "\"name\" \"paper\" \"keys\" \"method\" \"policy\" \"learning_rate\" \"param_groups\" \"match\" "
               "\"state_format\" \"auto\" \"update_time\" \"8GiB\" \"90%\""},
    FuzzTarget{"references", fuzz_references, WINDLASS_JSON "\"version\" \"of\" \"train\" \"eval\" \"checksum\""},
    FuzzTarget{"rows", fuzz_rows,
               WINDLASS_JSON
               "\"text\" \"prompt\" \"completion\" \"instruction\" \"input\" \"output\" \"input_ids\" \"labels\" "
               "\"chosen\" \"rejected\" , \" \"\" ' \t \r \r\r --- rows.csv rows.tsv rows.json rows.txt"},
    FuzzTarget{"run_state", fuzz_run_state, WINDLASS_JSON},
    FuzzTarget{"safetensors", fuzz_safetensors,
               WINDLASS_JSON
               "\"dtype\" \"shape\" \"data_offsets\" \"F32\" \"BF16\" \"F16\" \"F8_E4M3\" \"I64\" \"BOOL\" \"F4\" "
               "\"__metadata__\" \"weight_map\" \"model-00001-of-00002.safetensors\" \"_orig_mod.\" \"metadata\""},
    FuzzTarget{"store", fuzz_store,
               WINDLASS_JSON
               "\"params\" \"chunk_elements\" \"versions\" \"weight_bytes\" \"sections\" \"run_state_bytes_max\" "
               "\"meta\" 256 4096 4194304"},
    FuzzTarget{"task", fuzz_task,
               WINDLASS_JSON
               "\"name\" \"about\" \"prompt\" \"candidates\" \"label\" \"completion\" \"answers\" \"metric\" "
               "\"words\" \"separator\" {sentence} {a|b} {a.b} {x:strip:lower} {{ }} {candidate} {label}"},
    FuzzTarget{
        "template", fuzz_template,
        "{{ }} {% %} {%- -%} {# #} ( ) [ ] { } ' \" \\ | . , : ~ + - * ** / // % == != < <= in not is and or if else "
        "elif endif for endfor set endset macro endmacro raw endraw break continue generation endgeneration none true "
        "loop.index loop.changed( loop.previtem namespace( range( dict( strftime_now( raise_exception( messages tools "
        "|tojson |list |join |map |selectattr |trim |length |items |dictsort |int |string |safe |first |last |reverse "
        "|replace |indent |unique |sort |groupby |batch .split .strip .items .get( .startswith( [::-1] 999999999 1e308 "
        "-1 "
        "\xC3\x9F \xF0\x9F\x9A\x80 \\u0130 recursive loop("},
    FuzzTarget{"token_cache", fuzz_token_cache},
    FuzzTarget{
        "tokenizer", fuzz_tokenizer,
        WINDLASS_JSON
        "\"type\" \"BPE\" \"Unigram\" \"WordPiece\" \"ByteLevel\" \"Metaspace\" \"Split\" \"Sequence\" "
        "\"Replace\" \"Prepend\" \"NFC\" \"NFKC\" \"NFD\" \"Lowercase\" \"Strip\" \"Digits\" \"Regex\" \"String\" "
        "\"vocab\" \"merges\" \"added_tokens\" \"content\" \"id\" \"special\" \"normalized\" \"single_word\" "
        "\"lstrip\" \"byte_fallback\" \"ignore_merges\" \"TemplateProcessing\" \"behavior\" \"Isolated\" "
        "\"invert\" \"pattern\" \"unk_token\" \"fuse_unk\" \"Fuse\" \"ByteFallback\""},
    FuzzTarget{"trajectory", fuzz_trajectory,
               WINDLASS_JSON
               "\"method\" \"noise\" \"low_rank\" \"gaussian\" \"directions\" \"first_step\" \"origin\" \"settings\" "
               "\"base\" \"storage\" \"f8\" \"window\" \"rank\" \"kept\""},
    FuzzTarget{"vocab_merges", fuzz_vocab_merges,
               WINDLASS_JSON
               "#version: merges.txt vocab.json tokenizer_config.json special_tokens_map.json added_tokens.json "
               "\"add_bos_token\" \"unk_token\" \"GPT2Tokenizer\""},
};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() {
    return kFuzzTargets;
}

const FuzzTarget* find_fuzz_target(std::string_view name) {
    const auto found = std::ranges::find(kFuzzTargets, name, &FuzzTarget::name);
    return found == kFuzzTargets.end() ? nullptr : &*found;
}

}  // namespace windlass
