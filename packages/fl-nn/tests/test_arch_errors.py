"""Architecture files that are wrong: the message says where and what, and nothing else happens."""

from __future__ import annotations

import random
from typing import Annotated

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ArchError, ModuleError

#: A text, line and column of the error, and words of the message.
WRONG = [
    ("l 3 4", 1, 1, "did you mean L?"),
    ("R\n  TS 4", 2, 3, "unknown token 'TS'; did you mean"),
    ("R\nfrobnicate", 2, 1, "there are A AC ADAPTIVEE .* V WN$"),
    ("am.arch", 1, 1, "pathlib.Path"),
    ("L 3", 1, 4, r"outputs is missing; usage: L inputs outputs \[bias=1\]"),
    ("L 3 4  1 9", 1, 10, "takes no more arguments"),
    ("L 3 4 2", 1, 7, "bias must be 0 or 1, not '2'"),
    ("L 3 four", 1, 5, "outputs must be a whole number of at least 1, not 'four'"),
    ("L 3 4.0", 1, 5, "not '4.0'"),
    ("L 0 4", 1, 3, "at least 1, not '0'"),
    ("L 3 99999999999", 1, 5, "not '99999999999'"),
    ("L 3 9999999999", 1, 5, "too large: numbers go up to 1000000000"),
    ("L 3 0x10", 1, 5, "not '0x10'"),
    ("L 3 \u0663", 1, 5, "whole number"),
    ("L NFEAT 3", 1, 3, "pass n_features="),
    ("R R", 1, 3, "usage: R$"),
    ("DO nan", 1, 4, "a number from 0 to 1"),
    ("DO 1e400", 1, 4, "not '1e400'|too large"),
    ("DO 1.5", 1, 4, "not '1.5'"),
    ("GLU 4", 1, 5, "an axis from 0 to 3"),
    ("V 1 -2 3 4", 1, 5, "-1 .the rest."),
    ("V -1 -1 3 4", 1, 1, "at most one is -1"),
    ("RO 0 1 2 2", 1, 1, "each of the axes"),
    ("PD 0 1", 1, 7, "behind is missing"),
    ("PD 0 1 2 3", 1, 1, "a pair"),
    ("LN 3", 1, 1, "LN 0 1 2"),
    ("LN 1 1", 1, 1, "each once"),
    ("C 3 4 5 1 -2", 1, 11, "or -1 for 'same'"),
    ("TR 7 8 2 0 0", 1, 1, "does not divide into 2 heads"),
    ("CFR 8 8 2 0 4 0", 1, 1, "odd number"),
    ("TDS 2 3 4 0 0 3", 1, 1, "from 0 to kernel - 1"),
    ("ADAPTIVEE 8 5", 1, 13, "two or more rising"),
    ("ADAPTIVEE 8 5,x", 1, 13, "two or more rising"),
    ("ADAPTIVEE 8 5,5", 1, 13, "two or more rising"),
    ("PC float16", 1, 4, "f16, bf16, f32 or f64"),
    ("LSTM 3 4 1001", 1, 10, "from 1 to 1000"),
    ("WN 0", 1, 5, r"layer is missing; usage: WN axis LAYER \.\.\."),
    ("WN 0 L 3", 1, 9, "outputs is missing"),
    ("WN 3 L 3 4", 1, 1, "around L with axis 0"),
    ("WN 0 R", 1, 1, "around L with axis 0"),
    ("WN 0 RES 1 1 1", 1, 6, "on a line of its own"),
    ("SKIP 0 1", 1, 1, "belongs to a RES"),
    ("RES 1 0", 1, 8, "blocks is missing"),
    ("RES 2 1 1\nR", 1, 1, "2 layers and 1 shortcut announced, .* after 1 layer and 0 shortcuts"),
    ("RES 2 1 1\nR\nR\nR", 4, 1, "expected SKIP or SKIPL: the RES on line 1"),
    ("RES 1 1 1\nSKIP 0 2\nSKIP 0 1", 3, 1, "one too many"),
    ("RES 2 2 1\nR\nSKIP 0 3\nSKIP 0 3", 4, 1, "from 0 to 3 already"),
    ("RES 2 1 1\nR\nSKIP 0 4", 3, 8, r"up to 3 \(the output\); not from 0 to 4"),
    ("RES 2 1 1\nR\nSKIP 1 1", 3, 8, "to a later one"),
    ("RES 2 1 1\nR\nSKIPL 0 1 2\nR", 3, 1, "2 layers announced, but the file ends after 1"),
    ("RES 2 1 1\nR\nSKIPL 0 1 1\nL 3", 4, 4, "outputs is missing"),
    ("RES 1 0 1\n" * 17 + "R", 18, 1, "more than 16 deep"),
    ("WN 0 " * 18 + "R", 1, 86, "more than 16 deep"),
    ("R\nRES 1 0 100001\nR", 2, 1, "more than 100000 layers"),
    ("RES 1 0 999\n" * 2 + "R", 1, 1, "more than 100000 layers"),
    ("R\nL 999999999 999999999", 2, 1, "999999999000000000 numbers .* max_parameters"),
    ("RES 1 0 999\nL 9999 9999", 2, 1, "max_parameters"),
    ("LSTM 99999999 99999999", 1, 1, "max_parameters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "words"), WRONG)
def test_errors_say_where_and_what(text, line, column, words):
    with pytest.raises(ArchError) as found:
        nn.build_sequential(text)
    message, shown, caret = str(found.value).split("\n")
    assert (found.value.line, found.value.column) == (line, column)
    assert message.startswith(f"<text>:{line}:{column}: ")
    with pytest.raises(ArchError, match=words):
        raise ArchError(message)
    if len(text) < 80:
        assert shown == "    " + text.split("\n")[line - 1]
        assert caret == " " * (column + 3) + "^"


def test_errors_are_errors_of_values_too():
    assert issubclass(ArchError, ValueError) and issubclass(ArchError, ft.FlError)


def test_long_lines_are_cut_around_the_place():
    with pytest.raises(ArchError) as found:
        nn.build_sequential("\t" * 5000 + "L 3 four" + " " * 5000)
    message, shown, caret = str(found.value).split("\n")
    assert found.value.column == 5005 and max(map(len, (message, shown, caret))) < 120
    assert shown[caret.index("^") :].startswith("four")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ArchError, match="cannot be read") as found:
        nn.build_sequential(tmp_path / "none.arch")
    assert found.value.file == str(tmp_path / "none.arch")
    with pytest.raises(ArchError, match="cannot be read"):
        nn.build_sequential(tmp_path)
    path = tmp_path / "some.arch"
    path.write_bytes(b"R\nR \xff")
    with pytest.raises(ArchError, match=r"some.arch:2: byte 0xff is no UTF-8"):
        nn.build_sequential(path)
    path.write_bytes(b"R\nL 3 x")
    with pytest.raises(ArchError, match=r"some.arch:2:5: outputs"):
        nn.build_sequential(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ArchError, match="longer than 1048576"):
        nn.build_sequential(path)
    with pytest.raises(ArchError, match="longer than 1048576"):
        nn.build_sequential(" " * (2 << 20))


def test_what_names_stand_for_is_checked():
    for wrong in (0, -3, 2.0, True, "40"):
        with pytest.raises(ModuleError, match="NFEAT is"):
            nn.build_sequential("R", wrong)


def test_a_network_is_measured_before_it_is_made():
    state = ft.default_generator().state()
    text = "RES 1 1 3\nL 10 10\nSKIPL 0 2 1\nL 10 10 0"
    assert len(nn.build_sequential(text, max_parameters=3 * 210)) == 1
    after = ft.default_generator().state()
    assert after != state
    with pytest.raises(ArchError, match="has 630 numbers .* max_parameters=630"):
        nn.build_sequential(text, max_parameters=3 * 210 - 1)
    assert ft.default_generator().state() == after  # nothing was drawn


# ---- tokens of one's own -------------------------------------------------------------------------


def gate(axis: nn.arch.Axis, slope: float = 1.0, *sizes: nn.arch.Size) -> nn.Module:
    return nn.Transform(lambda x: x * slope + sum(sizes) + axis, "gate")


def named(word: Annotated[str, nn.arch.Kind("a or b", "ab".__contains__)], flag: bool = False):
    return nn.Identity()


def twice(layer: nn.Module):
    return nn.Sequential(layer, nn.ReLU())


def scaled(factor: float | None = None):
    return nn.Transform(lambda x: x * (factor or 1.0), "scaled")


def test_tokens_of_ones_own():
    tokens = {"GATE": gate, "R": nn.LeakyReLU, "NAME": named, "TWICE": twice, "SCALED": scaled}
    text = "GATE 1 2.5 3 4\nR 0.5\nNAME a 1\nTWICE L 3 3\nSCALED\nSCALED 0.5"
    model = nn.build_sequential(text, tokens=tokens)
    assert model[0](ft.asarray([2.0])).tolist() == [13.0] and model[1].slope == 0.5
    assert isinstance(model[3][0], nn.Linear)
    assert [model[i](ft.asarray([4.0])).tolist() for i in (4, 5)] == [[4.0], [2.0]]
    for text, words in [
        ("GATE", r"axis is missing; usage: GATE axis \[slope=1.0\] \[sizes ...\]"),
        ("GATE 1 1 2 x", "sizes must be a whole number of at least 1"),
        ("NAME c", "word must be a or b"),
        ("GATES 1", "did you mean GATE?"),
    ]:
        with pytest.raises(ArchError, match=words):
            nn.build_sequential(text, tokens=tokens)


def test_tokens_that_cannot_be():
    def strange(values: dict[str, int]) -> nn.Module:
        return nn.ReLU()

    def no_module(size: int) -> int:
        return size

    with pytest.raises(ModuleError, match="parameter values is annotated"):
        nn.build_sequential("X 1", tokens={"X": strange})
    with pytest.raises(ModuleError, match=r"parameter shape is annotated int \| "):
        nn.build_sequential("X 1", tokens={"X": nn.RMSNorm})
    with pytest.raises(ArchError, match="X made 3, which is not a Module"):
        nn.build_sequential("X 3", tokens={"X": no_module})


# ---- files that were damaged ---------------------------------------------------------------------

VALID = """SAUG 0 4 1 5 0.5 1
V -1 1 NFEAT 0
PD 0 1 2
WN 3 C NFEAT 8 3 2 -1
GLU 2
BN 4 2
LN 0 1 2
M 2 1 2 1
RES 3 1 2
AC 4 4 3 1 -1 0
PR 1 0.1
DO 0.1
SKIP 0 4 0.7071
RES 2 2 1
R
SKIPL 0 2 2 0.5
C 4 4 1 1
SH 1.5
ELU
SKIP 0 3
TDS 2 3 2 0.1 8 0 1
RO 2 0 3 1
TR 4 8 2 10 0.1 0.1 1 1
CFR 4 8 2 10 3 0.1 0.1
SINPOSEMB 4 2.0
LSTM 4 4 2 1 0.1
WN 0 L 8 NLABEL
ADAPTIVEE 8 10,20
PC f32
""".split("\n")
WORDS = """0 -1 1 2 3 999999999 99999999999999999999 1e9 1e400 nan inf -0 0x10 1_0 \u0663 NFEAT RES
    SKIP SKIPL WN V , 1,2 # __import__('os') {} %s f16 \x00 \ufeff \ud800""".split()


def damaged(rng: random.Random) -> str:
    lines = list(VALID) if rng.random() < 0.2 else rng.sample(VALID, rng.randint(1, 6))
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(lines))
        words, at = lines[i].split(" "), rng.randrange(len(lines[i]) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            lines[i] = " ".join(words)
        elif kind == 1:
            words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS))
            lines[i] = " ".join(words)
        elif kind == 2:
            lines[i] = lines[i][:at] + chr(rng.randrange(0x3000)) + lines[i][at + 1 :]
        elif kind == 3:
            lines[i] = lines[i][:at] + lines[i][at + rng.randint(1, 4) :]
        elif kind == 4:
            lines.insert(i, rng.choice(VALID))
        else:
            lines[i] = rng.choice(VALID)
    return "\n".join(lines)


def test_damaged_files_are_networks_or_arch_errors():
    assert len(nn.build_sequential("\n".join(VALID), 5, 7)) > 10
    rng, built = random.Random(0), 0
    for _ in range(1000):
        text = damaged(rng)
        try:
            model = nn.build_sequential(text, 5, rng.choice([None, 7]), max_parameters=50_000)
        except ArchError as error:
            assert str(error).startswith(f"<text>:{error.line}:{error.column}: "), text
        else:
            model.to_config()
            built += 1
    assert 50 < built < 950
