"""Which keys of config.json transformers reads, by model type: tests/golden/config_keys.json.

A key is read where it is an attribute of the type's configuration class or of what all of them inherit, where it is
another name of one (attribute_map), where code that runs in the forward pass takes it from a configuration:
config.NAME, getattr(config, "NAME"), or where the class takes it while it is made, without having a field for it:
kwargs.pop("NAME"), getattr(self, "NAME"). The code is only parsed; PyTorch is not needed.

    pip install transformers
    python tools/reference/config_keys.py
"""

import ast
import importlib
import inspect
import json
import pathlib

import transformers
from transformers import AutoConfig, PretrainedConfig

TYPES = ["gemma2", "gemma3", "gemma3_text", "gpt2", "granite", "llama", "mistral", "olmo2", "opt", "phi3", "qwen2",
         "qwen3", "smollm3"]
SHARED = ["modeling_rope_utils.py", "masking_utils.py", "cache_utils.py", "modeling_layers.py", "modeling_utils.py",
          "activations.py", "loss/loss_utils.py", "integrations/sdpa_attention.py",
          "integrations/eager_paged.py", "configuration_utils.py"]
CONFIG_NAMES = {"config", "text_config", "decoder_config"}
MAKERS = ("__post_init__", "convert_", "nested_", "standardize_")  # methods that read what a file holds
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "config_keys.json"


def is_config(node):
    """config, self.config, model.config, config.get_text_config(...)"""
    if isinstance(node, ast.Name):
        return node.id in CONFIG_NAMES
    if isinstance(node, ast.Attribute):
        return node.attr in CONFIG_NAMES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "get_text_config"
    return False


def names_read(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and is_config(node.value):
            names.add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            if is_config(node.args[0]) and isinstance(node.args[1], ast.Constant):
                names.add(node.args[1].value)
    return names


def is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def names_taken(path, classes=None):
    """What configuration classes of this file (these, or all) take of the keys for which they have no field."""
    names = set()
    tree = ast.parse(path.read_text())
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and "Config" in node.name
             and (classes is None or node.name in classes)]  # fmt: skip
    methods = [node for one in found for node in one.body
               if isinstance(node, ast.FunctionDef) and node.name.startswith(MAKERS)]  # fmt: skip
    for node in (node for method in methods for node in ast.walk(method)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, "kwargs"):
            if node.func.attr in ("get", "pop") and isinstance(node.args[0], ast.Constant):
                names.add(node.args[0].value)
        if isinstance(node, ast.Compare) and is_name(node.comparators[0], "kwargs"):
            names |= {node.left.value} if isinstance(node.left, ast.Constant) else set()
        if isinstance(node, ast.Call) and is_name(node.func, "getattr", "hasattr") and is_name(node.args[0], "self"):
            names |= {node.args[1].value} if isinstance(node.args[1], ast.Constant) else set()
    return names


def attributes(config):
    names = set(vars(config)) | set(config.attribute_map) | set(config.attribute_map.values())
    names |= {name for name in dir(config) if isinstance(inspect.getattr_static(config, name), property)}
    return names


def main():
    root = pathlib.Path(inspect.getfile(transformers)).parent
    methods = {name for name, value in inspect.getmembers(PretrainedConfig) if callable(value)}
    common = attributes(PretrainedConfig())
    for name in SHARED:
        common |= names_read(root / name)
    of_rope = names_taken(root / "modeling_rope_utils.py")
    common |= names_taken(root / "configuration_utils.py") - of_rope  # it hands these on
    lists = {}
    for kind in TYPES:
        cls = type(AutoConfig.for_model(kind))
        package = pathlib.Path(inspect.getfile(importlib.import_module(cls.__module__))).parent
        taken = names_taken(pathlib.Path(inspect.getfile(cls)), [cls.__name__])
        if hasattr(cls(), "rope_parameters"):  # without it, what the class inherits for rope is not run
            taken |= of_rope
        read = attributes(cls()) | names_read(package / f"modeling_{package.name}.py") | taken
        lists[kind] = read - common - methods
    common -= methods
    text = {"made_with": f"transformers {transformers.__version__}", "common": sorted(common)}
    text.update({kind: sorted(names) for kind, names in lists.items()})
    OUT.write_text(json.dumps(text, indent=1) + "\n")


main()
