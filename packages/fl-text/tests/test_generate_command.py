"""The commands generate, info and bench: what they print, and one line for what is wrong."""

from __future__ import annotations

import io
import json
import shutil

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import lora
from fl_text import Tokenizer
from fl_text.cli import main
from fl_text.cli.model_options import quantize
from fl_text.generation import beam_search, generate
from fl_text.language_model_folder import (
    LanguageModelFolder,
    build_network,
    load_language_model,
    save_language_model,
)
from fl_text.models import GPT2_HUGGING_FACE

SIZES = {
    "TransformerLanguageModel": dict(size=16, heads=2, layers=1, hidden=32),
    "LSTMLanguageModel": dict(size=16, layers=1),
    "GCNN": dict(size=16, blocks=[[[16, 4]], [[16, 4]]]),
    "GPT2": dict(steps=48, size=16, heads=2, layers=1),
    "Llama": dict(steps=48, size=16, heads=2, layers=1, hidden=32, window=6),
}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["to be or not to be, that is naïve €"] * 3, "char", 60)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tokenizer):
    """folders(kind, **more) -> a folder with a model whose texts vary."""
    root = tmp_path_factory.mktemp("models")

    def make(kind, **more):
        path = root / f"{kind}{len(list(root.iterdir()))}"
        settings = {"tokens": len(tokenizer), **SIZES[kind]}
        ft.seed(2)
        network = build_network(kind, settings)
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                parameter.tensor = parameter.tensor * 4.0
        model = LanguageModelFolder(
            network.eval(), tokenizer, 48, kind=kind, settings=settings, **more
        )
        save_language_model(path, model)
        return path

    return make


@pytest.fixture
def run(capsys):
    """run(*arguments) -> what is printed; the command must succeed."""

    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out

    return run


@pytest.fixture
def refuse(capsys):
    """refuse(*arguments) -> the one line on standard error; the status must be 1."""

    def refuse(*arguments):
        assert main([str(argument) for argument in arguments]) == 1
        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        return line

    return refuse


def lines_of(printed):
    return [json.loads(line) for line in printed.splitlines()]


# ---- generate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIZES)
def test_it_prints_what_generate_gives(kind, folders, run):
    folder = folders(kind)
    model = load_language_model(folder)
    (wanted,) = generate(model.network, ["to be"], model.tokenizer, max_new_tokens=12)
    command = ["generate", folder, "--prompt", "to be", "--max-new-tokens", 12]
    assert run(*command) == wanted.text + "\n"
    assert run(*command, "--no-stream", "--echo") == "to be" + wanted.text + "\n"


def test_the_prompt_may_come_from_standard_input(folders, run, monkeypatch):
    folder = folders("GPT2")
    wanted = run("generate", folder, "--prompt", "to\nbe", "--max-new-tokens", 5)
    monkeypatch.setattr("sys.stdin", io.StringIO("to\nbe\n"))
    assert run("generate", folder, "--max-new-tokens", 5) == wanted


def test_prompts_of_a_file_give_the_same_in_batches_of_any_size(folders, run, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("to be\nnot\nthat is\nor\n")
    command = ["generate", folders("Llama"), "--prompts", prompts, "--max-new-tokens", 8]
    command += ["--temperature", 1.2, "--top-k", 20, "--top-p", 0.95, "--seed", 5, "--json"]
    first, second = (lines_of(run(*command, "--batch-size", size)) for size in (1, 3))
    assert [one["prompt"] for one in first] == ["to be", "not", "that is", "or"]
    assert [one["number"] for one in first] == [0, 1, 2, 3]
    for one, other in zip(first, second, strict=True):
        assert one.pop("score") == pytest.approx(other.pop("score"), rel=1e-3)
        assert one == other
    assert len({tuple(one["tokens"]) for one in first}) == 4
    shown = run(*command[:-1]).splitlines()
    assert shown[0] == "==> to be <==" and first[0]["text"] in shown


def test_scores_are_log_probabilities_of_the_network(folders, run):
    folder = folders("GPT2")
    command = ["generate", folder, "--prompt", "to be", "--max-new-tokens", 6, "--json"]
    (found,) = lines_of(run(*command, "--temperature", 2.0, "--repetition-penalty", 1.5))
    model = load_language_model(folder)
    prompt = model.tokenizer.encode("to be")
    scores = model.network(ft.asarray([[*prompt, *found["tokens"]]]))[0]
    log_probs = ft.log_softmax(scores[len(prompt) - 1 : -1, : len(model.tokenizer)], -1)
    wanted = sum(log_probs[t, token].item() for t, token in enumerate(found["tokens"]))
    assert found["score"] == pytest.approx(wanted, rel=1e-4)


def test_beams(folders, run):
    folder = folders("LSTMLanguageModel")
    model = load_language_model(folder)
    command = ["generate", folder, "--prompt", "to", "--max-new-tokens", 5, "--beams", 3]
    found = lines_of(run(*command, "--best", 2, "--json"))
    (wanted,) = beam_search(
        model.network, ["to"], model.tokenizer, beams=3, best=2, max_new_tokens=5
    )
    assert [one["text"] for one in found] == [one.text for one in wanted]
    assert found[0]["score"] == pytest.approx(wanted[0].score, rel=1e-4)
    assert run(*command) == wanted[0].text + "\n"


def test_stop_strings_end_the_text(folders, run):
    command = ["generate", folders("GPT2"), "--prompt", "to", "--max-new-tokens", 12]
    whole = run(*command).rstrip("\n")
    stop = whole[3:5]
    assert run(*command, "--stop", stop) == whole[: whole.index(stop)] + "\n"


def test_texts_begin_as_in_training(folders, run, tokenizer):
    line, packed = folders("GPT2", sample="line"), folders("GPT2", eos=True)
    bare = folders("GPT2")
    for folder, first in ((line, tokenizer.bos_id), (packed, tokenizer.eos_id), (bare, None)):
        model = load_language_model(folder)
        prompt = [first] * (first is not None) + tokenizer.encode("be")
        (wanted,) = generate(model.network, [prompt], tokenizer, max_new_tokens=6)
        command = ["generate", folder, "--prompt", "be", "--max-new-tokens", 6]
        assert run(*command) == wanted.text + "\n"
    run("generate", line, "--prompt", "", "--max-new-tokens", 2)


def test_adapters_and_weights_of_8_bits(folders, run, tmp_path):
    folder = folders("Llama")
    model = load_language_model(folder)
    lora.apply_lora(model.network, rank=2, targets=["q_proj", "v_proj"])
    for place, adapter in enumerate(lora.adapters(model.network).values()):
        adapter.lora_B.tensor = ft.Generator(place).normal(adapter.lora_B.shape)
    lora.save_adapter(tmp_path / "adapter", model.network)
    (wanted,) = generate(model.network.eval(), ["to be"], model.tokenizer, max_new_tokens=10)
    command = ["generate", folder, "--prompt", "to be", "--max-new-tokens", 10]
    assert run(*command, "--lora", tmp_path / "adapter") == wanted.text + "\n" != run(*command)
    nn.quantization.quantize_weights(lora.remove_lora(lora.merge_lora(model.network)))
    (wanted,) = generate(model.network, ["to be"], model.tokenizer, max_new_tokens=10)
    assert run(*command, "--lora", tmp_path / "adapter", "--int8") == wanted.text + "\n"


def test_a_folder_of_hugging_face(folders, run, tmp_path, tokenizer):
    network = load_language_model(folders("GPT2")).network
    nn.save_weights(tmp_path / "model.safetensors", network, rename=GPT2_HUGGING_FACE)
    tokenizer.save(tmp_path / "tokenizer.json")
    sizes = dict(vocab_size=len(tokenizer), n_positions=48, n_embd=16, n_head=2, n_layer=1)
    config = {"model_type": "gpt2", **sizes, "eos_token_id": tokenizer.encode("e")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (wanted,) = generate(network, ["to b"], tokenizer, max_new_tokens=30, eos=tokenizer.encode("e"))
    assert run("generate", tmp_path, "--prompt", "to b", "--max-new-tokens", 30) == (
        wanted.text + "\n"
    )
    facts = json.loads(run("info", tmp_path, "--json"))
    assert facts["source"] == "Hugging Face" and facts["longest text"] == 48


# ---- what is refused -----------------------------------------------------------------------------


def test_prompts_without_tokens(folders, refuse, tmp_path):
    folder = folders("GPT2")
    assert "prompt 0 has no tokens" in refuse("generate", folder, "--prompt", "")
    (tmp_path / "prompts.txt").write_text("to\n\nbe\n")
    prompts = ["--prompts", tmp_path / "prompts.txt"]
    assert "prompt 1 has no tokens" in refuse("generate", folder, *prompts)
    (tmp_path / "prompts.txt").write_text("")
    assert "it has no lines" in refuse("generate", folder, *prompts)
    (tmp_path / "prompts.txt").write_bytes(b"to\n\xff\n")
    assert "prompts.txt: line 2" in refuse("generate", folder, *prompts)
    prompts[1] = tmp_path / "none.txt"
    assert "no such file" in refuse("generate", folder, *prompts)


def test_contexts_longer_than_the_network_has(folders, run, refuse):
    folder = folders("GPT2")
    model = load_language_model(folder)
    command = ["generate", folder, "--prompt", "to be", "--max-new-tokens", 60]
    assert "the network takes 48 tokens" in refuse(*command)
    for count, options in ((60, ["--sliding"]), (49 - len("to be"), [])):
        (wanted,) = generate(
            model.network, ["to be"], model.tokenizer, max_new_tokens=count, sliding=True
        )
        (found,) = lines_of(run(*(command if options else command[:4]), *options, "--json"))
        assert found["tokens"] == wanted.tokens


def test_a_tokenizer_of_another_vocabulary(folders, refuse):
    folder = folders("GPT2")
    Tokenizer.train(["abc"], "char", 20).save(folder / "tokenizer.json")
    assert "tokenizer.json: it has" in refuse("generate", folder, "--prompt", "a")


def test_weights_of_another_network(folders, refuse):
    folder, other = folders("GPT2"), folders("Llama")
    shutil.copy(other / "weights.safetensors", folder)
    assert "weights.safetensors" in refuse("generate", folder, "--prompt", "a")


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.json", "language_model.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "noise"])
def test_damaged_folders(name, damage, folders, refuse):
    folder = folders("GPT2")
    path = folder / name
    raw = path.read_bytes()
    changed = {"empty": b"", "cut": raw[: len(raw) // 2], "noise": bytes(range(256)) * 4}
    path.unlink() if damage == "missing" else path.write_bytes(changed[damage])
    for command in (["generate", folder, "--prompt", "a"], ["info", folder]):
        line = refuse(*command)
        assert line.startswith(f"fl-text {command[0]}: ") and str(folder) in line


def test_adapters_of_another_network(folders, refuse, tmp_path):
    model = load_language_model(folders("Llama"))
    lora.save_adapter(tmp_path / "adapter", lora.apply_lora(model.network, targets=["up_proj"]))
    command = ["generate", folders("GPT2"), "--prompt", "a", "--lora"]
    assert "is no adapter of this GPT2" in refuse(*command, tmp_path / "adapter")
    assert "none" in refuse(*command, tmp_path / "none")


@pytest.mark.parametrize(
    "options",
    [
        ["--stream", "--json"],
        ["--beams", 2, "--temperature", 1],
        ["--beams", 2, "--top-p", 0.5],
        ["--best", 2],
        ["--beams", 3, "--best", 2],
        ["--max-new-tokens", 0],
        ["--prompts", "x"],
    ],
)
def test_options_that_do_not_go_together(options, folders, capsys):
    with pytest.raises(SystemExit):
        main(list(map(str, ["generate", "folder", "--prompt", "a", *options])))
    assert "error: " in capsys.readouterr().err


def test_settings_out_of_range(folders, refuse):
    command = ["generate", folders("GPT2"), "--prompt", "a"]
    assert "temperature=-1.0" in refuse(*command, "--temperature", -1)
    assert "top_p=2.0" in refuse(*command, "--top-p", 2)


# ---- info and bench ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIZES)
def test_info_tells_sizes_and_memory(kind, folders, run, tokenizer):
    folder = folders(kind)
    facts = json.loads(run("info", folder, "--json"))
    network = load_language_model(folder).network
    count = nn.num_total_params(network)
    assert facts["network"] == kind and facts["parameters"] == count
    assert facts["memory"]["now"] == facts["memory"]["float32"] == 4 * count
    assert facts["tokenizer"] == f"Tokenizer, {len(tokenizer)} tokens"
    assert facts["bos token"] == tokenizer.bos_id and facts["context"] == 48
    assert facts["longest text"] == (48 if "steps" in SIZES[kind] else "any")
    fixed = kind in ("TransformerLanguageModel", "GPT2", "Llama")
    assert facts["steps of generation"] == ("one graph" if fixed else "without a graph")
    printed = run("info", folder).splitlines()
    assert printed[0] == f"network: {kind}" and f"parameters: {count:,}" in printed


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_info_tells_the_memory_of_8_bits(kind, folders, run):
    folder = folders(kind)
    wanted = json.loads(run("info", folder, "--json"))["memory"]["int8"]
    network = load_language_model(folder).network
    quantize(network)
    own = list(network.parameters()) + [buffer for _, buffer in network.named_buffers()]
    assert wanted == sum(one.size * one.dtype.itemsize for one in own)


@pytest.mark.parametrize("network", ["gpt2-tiny", "lstm"])
def test_bench_times_every_phase(network, run):
    options = ["--vocabulary", 50, "--tokens", 8, "--batch", 2, "--warm-up", 1, "--updates", 2]
    found = json.loads(run("bench", "--network", network, *options, "--generate", 4, "--json"))
    phases = [found[f"{name}, ms"] for name in "batch forward loss backward optimisation".split()]
    assert min(phases) > 0.0 and found["update, ms"] == pytest.approx(sum(phases))
    assert found["tokens a second"] == pytest.approx(1e3 * 16 / found["update, ms"])
    assert found["generated tokens a second"] > 0.0
    assert "update, ms: " in run("bench", "--network", network, *options)


def test_bench_refuses_more_tokens_than_a_network_takes(refuse):
    assert "gpt2-tiny takes 2048 tokens" in refuse("bench", "--network", "gpt2-tiny",
                                                   "--tokens", 4096)  # fmt: skip
