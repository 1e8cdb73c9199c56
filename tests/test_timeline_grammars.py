"""What annotations of frameworks say, framework by framework, and files of further rules."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from conftest import ROOT

from nsysconv.errors import UsageError
from nsysconv.timeline.grammars import Annotation, grammar

# Text -> framework, kind, phase, requests, tokens.
SAID = {
    # vLLM: tokens are the sums of query lengths (`sq`), 1 request of 512 and 8 of one token each.
    "execute_9_context_1(sq512sk512sqsq262144sqsk262144)_generation_8(sq8sk4096sqsq8sqsk4096)": (
        "vLLM", "step", "mixed", 1 + 8, 512 + 8),
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)": (
        "vLLM", "step", "decode", 32, 32),
    "execute_context_1(2048)_generation_0(0)": ("vLLM", "step", "prefill", 1, 2048),
    "execute_context_1(888_788544)_generation_0(0)": ("vLLM", "step", "prefill", 1, 888),
    # With speculation, 3 requests have 6 tokens.
    "execute_context_2(512)_generation_3(6)": ("vLLM", "step", "mixed", 2 + 3, 512 + 6),
    "execute_context_0(0)_generation_0(0)": ("vLLM", "step", "idle", 0, 0),
    "execute_new_2_cached_3": ("vLLM", "step", "mixed", 2 + 3, None),
    "execute_new_0_cached_3": ("vLLM", "step", "decode", 3, None),
    "gpu_model_runner: preprocess": ("vLLM", "phase", "preprocess", None, None),
    "gpu_model_runner: forward": ("vLLM", "phase", "forward", None, None),
    "step[EXTEND bs=3 toks=512]": ("SGLang", "step", "prefill", 3, 512),
    "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]": ("SGLang", "step", "prefill", 2, 12),
    "step[DECODE bs=32]": ("SGLang", "step", "decode", 32, 32),
    "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]": ("SGLang", "step", "decode", 2, 2),
    "step[MIXED bs=5 c=1 g=4 c_sq=9 c_sk=9 c_sqsq=81 c_sqsk=81 g_sq=4 g_sk=12 g_sqsq=4 g_sqsk=12]": (
        "SGLang", "step", "mixed", 1 + 4, 9 + 4),
    "step[MIXED bs=5]": ("SGLang", "step", "mixed", 5, None),
    "step[IDLE bs=0]": ("SGLang", "step", "idle", 0, None),
    "step[TARGET_VERIFY bs=4]": ("SGLang", "step", "target_verify", 4, None),
    "[Executor] _forward_step 12: 2 ctx reqs, 512 ctx tokens, 30 gen reqs": (
        "TensorRT-LLM", "step", "mixed", 2 + 30, 512 + 30),
    "[Executor] _forward_step 13: 0 ctx reqs, 0 ctx tokens, 30 gen reqs": (
        "TensorRT-LLM", "step", "decode", 30, 30),
    "[Executor] _forward_step 1: 2 ctx reqs, 30 gen reqs": (
        "TensorRT-LLM", "step", "mixed", 32, None),
    "prefill[bs=2 tok=16384 ctx=[8192, 8192]]": ("ATOM", "step", "prefill", 2, 16384),
    "decode[bs=117/128 tok=117 d=117]": ("ATOM", "step", "decode", 117, 117),
    "decode[bs=8 tok=24 d=8 spec=2]": ("ATOM", "step", "decode", 8, 24),
    "decode[bs=5/8 tok=516 p=1 d=4 tbo=1]": ("ATOM", "step", "mixed", 1 + 4, 516),
    "eager_decode[bs=4 tok=4 ctx=[7, 8, 9]...+1]": ("ATOM", "step", "decode", 4, 4),
    "decode[bs=4]": ("ATOM", "step", "decode", 4, 4),
    "dummy_eager_decode[bs=1]": ("ATOM", "step", "dummy", None, None),
    "forward-compute": ("Megatron", "phase", "forward", None, None),
    "megatron.core.pipeline_parallel.schedules.backward_step": (
        "Megatron", "phase", "backward", None, None),
    "backward-compute": ("Megatron", "phase", "backward", None, None),
    "forward-backward": ("Megatron", "phase", "forward-backward", None, None),
    "optimizer": ("Megatron", "phase", "optimizer", None, None),
    "optimizer-inner-step": ("Megatron", "phase", "optimizer", None, None),
    "batch-generator": ("Megatron", "phase", "data", None, None),
    "[pl][profile]run_training_batch": ("PyTorch Lightning", "step", "train", None, None),
    "[pl][profile][Strategy]DDPStrategy.training_step": (
        "PyTorch Lightning", "phase", "forward", None, None),
    "[pl][profile][Strategy]DeepSpeedStrategy.backward": (
        "PyTorch Lightning", "phase", "backward", None, None),
    "[pl][profile][LightningModule]Net.optimizer_step": (
        "PyTorch Lightning", "phase", "optimizer", None, None),
    "[pl][profile][_TrainingEpochLoop].train_dataloader_next": (
        "PyTorch Lightning", "phase", "data", None, None),
    "transformers.trainer.Trainer.compute_loss": (
        "Hugging Face Trainer", "phase", "forward", None, None),
    "Seq2SeqTrainer.training_step": ("Hugging Face Trainer", "phase", "forward-backward", None, None),
    "accelerate:Accelerator.backward": ("Hugging Face Trainer", "phase", "backward", None, None),
    "train 12": ("JAX", "step", "train", None, None),
    "train#step_num=12#": ("JAX", "step", "train", None, None),
    "train_step#_r=1,step_num=12#": ("JAX", "step", "train", None, None),
    "Profiled batch 12": ("Keras", "step", "train", None, None),
    "Profiled batch#step_num=12#": ("Keras", "step", "train", None, None),
    "train#epoch_num=0,step_num=12,batch_size=32,_r=1#": ("JAX", "step", "train", None, None),
    "Optimizer.step#Adam.step": ("PyTorch", "phase", "optimizer", None, None),
    "Optimizer.zero_grad#SGD.zero_grad": ("PyTorch", "phase", "zero_grad", None, None),
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": (
        "PyTorch", "phase", "data", None, None),
    "Forward pass": ("plain names", "phase", "forward", None, None),
    "optimizer_step": ("plain names", "phase", "optimizer", None, None),
    "prefill": ("plain names", "phase", "prefill", None, None),
    "decode_step_3": ("plain names", "phase", "decode", None, None),
}  # fmt: skip
LAYERS = {
    "{'Module': 'model.layers.3.mlp', 'TrainableParams': {'weight': [8]}, 'Inputs': [[2, 8]]}": (
        "model.layers.3.mlp", 3),
    "{'Module': 'model.norm', 'TrainableParams': {}}": ("model.norm", None),
    "[pl][module]torch.nn.modules.linear.Linear: model.out": ("model.out", None),
    "nn.Module: Linear_0": ("Linear_0", None),
}  # fmt: skip
OTHERS = (
    "", "train", "training", "train loop 3", "forward the mail", "decoder", "aten::forward", "step[]",
    "execute_context_1", "ProfilerStep#3", "optimizers", "{'mod': 'torch', 'op': 'relu'}",
)  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_steps_and_phases(text: str) -> None:
    said = grammar().read(text)
    assert (said.framework, said.kind, said.phase, said.requests, said.tokens) == SAID[text]
    assert said.is_step == (SAID[text][1] == "step")


@pytest.mark.parametrize("text", LAYERS)
def test_layers(text: str) -> None:
    said = grammar().read(text)
    assert (said.kind, said.layer, said.number) == ("layer", *LAYERS[text])


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_say_nothing(text: str) -> None:
    assert grammar().read(text) is None


def test_numbers_of_steps() -> None:
    for text in ("train 12", "[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 1 gen reqs"):
        said = grammar().read(text)
        assert said.number == 12


def test_what_no_program_counts_is_no_number() -> None:
    said = grammar().read(f"step[EXTEND bs=1 toks={'9' * 5000}]")
    assert (said.requests, said.tokens) == (1, None)


def test_every_own_rule_has_what_its_pattern_finds() -> None:
    """Each rule reads some text above, and the text holds what the rule wants of it."""
    for rule in grammar().rules:
        found = [text for text in (*SAID, *LAYERS) if rule.read(text)]
        assert found, rule.pattern.pattern
        assert all(rule.holds in text for text in found), rule.holds


# -- rules of users

RULE = '[[rule]]\nframework = "mine"\nis = "{}"\npattern = \'{}\'\n'

MINE = r"""
[[rule]]
framework = "mine"
is = "step"
pattern = '^batch (?P<number>\d+) of (?P<requests>\d+)$'
phase = "denoise"

[[rule]]
framework = "mine"
is = "step"
holds = 'bs='
pattern = 'step\[(?P<phase>\w+) bs='
phases = { DECODE = "sample" }
"""


def test_rules_of_a_file_go_before_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    mine = grammar(str(tmp_path / "mine.toml"))
    assert mine.read("batch 3 of 8") == Annotation("mine", "step", "denoise", requests=8, number=3)
    assert mine.read("step[DECODE bs=32]") == Annotation("mine", "step", "sample")
    assert mine.read("step[EXTEND bs=32]") == Annotation("mine", "step", "extend")
    assert mine.read("train 12") == grammar().read("train 12")
    assert mine.frameworks == ["mine", *grammar().frameworks]


@pytest.mark.parametrize(("is_", "pattern", "text"), [
    ("step", "a(?P<phase>)b", "ab"),
    ("step", "a(?P<phase>c)?b", "ab"),
    ("phase", "a(?P<phase>c?)b", "ab"),
    ("step", "a(?P<generation>.*)b", "a-3b"),
    ("step", "a(?P<context>.*)_(?P<generation>.*)b", "a3_xb"),
])  # fmt: skip
def test_a_text_that_leaves_the_phase_open_is_of_another_form(
    tmp_path: Path, is_: str, pattern: str, text: str
) -> None:
    (tmp_path / "mine.toml").write_text(RULE.format(is_, pattern))
    assert grammar(str(tmp_path / "mine.toml")).read(text) is None


@pytest.mark.parametrize(("text", "tokens"), [
    ("7", 7), ("many", None), ("-7", None), ("7.5", None), ("\u00b2", None), ("\u0667", 7),
    ("9" * 16, None),
])  # fmt: skip
def test_what_is_no_number_is_not_known(tmp_path: Path, text: str, tokens: int | None) -> None:
    (tmp_path / "mine.toml").write_text(RULE.format("step", "^n=(?P<tokens>.*)$") + 'phase = "sample"')
    said = grammar(str(tmp_path / "mine.toml")).read(f"n={text}")
    assert said == Annotation("mine", "step", "sample", tokens=tokens)


def test_a_file_that_begins_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE, encoding="utf-8-sig")
    assert grammar(str(tmp_path / "mine.toml")).frameworks[0] == "mine"


def test_the_rule_of_the_documentation(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "definitions" / "phases.md").read_text(encoding="utf-8")
    (rule,) = re.findall(r"^    \[\[rule\]\]\n(?:    .+\n)+", text, re.M)
    (tmp_path / "mine.toml").write_text(textwrap.dedent(rule))
    mine = grammar(str(tmp_path / "mine.toml"))
    assert mine.read("batch 3: 8 images") == Annotation("mine", "step", "denoise", 8, number=3)


@pytest.mark.parametrize(("text", "what"), [
    ("", "no rules in it"),
    ("[[rule]", "no TOML: "),
    ("rule = [3]", "rule 1: no table"),
    ('[[rule]]\nis = "step"', "rule 1: no framework"),
    ('[[rule]]\nframework = 3', "rule 1: framework is no text"),
    (RULE.format("epoch", "a"), "rule 1: `is` has to be one of step, phase, layer"),
    (RULE.format("step", "(a"), "rule 1, pattern: '(a' is not a regular expression: "),
    ('[[rule]]\nframework = "a"\nis = "step"', "rule 1, pattern: None is not a regular expression: "),
    (RULE.format("step", "a"), "rule 1: nothing says the phase of this step"),
    (RULE.format("layer", "a"), "rule 1: no layer in its pattern"),
    (RULE.format("step", "(?P<requests>.)(?P<batch>.)"), "rule 1: unknown group 'batch'"),
    (RULE.format("step", "a") + "fase = 'x'", "rule 1: unknown key 'fase'"),
    (RULE.format("step", "a") + "phases = 'x'", "rule 1: phases is no table of texts"),
    (RULE.format("step", "a") + "one_token_each = 1", "rule 1: one_token_each is neither true nor false"),
])  # fmt: skip
def test_files_that_are_no_grammar(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        grammar(str(path))
    assert caught.value.brief.startswith(f"{path}")
    assert what in caught.value.brief
    assert caught.value.hint


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="rules of annotations cannot be read"):
        grammar("/nowhere/mine.toml")
