"""Generation: what it gives, that rows do not depend on one another, and what it refuses. Against
transformers: tests/interop of the repository."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text import Dictionary, SpecialTokens, TextError, Tokenizer, WordEncoder
from fl_text.generation import (
    CompiledNetwork,
    TopK,
    TopP,
    beam_search,
    generate,
    stream,
)
from fl_text.models import GPT2

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]
SAMPLED = dict(max_new_tokens=12, temperature=1.0, seed=3)


@pytest.fixture(scope="module")
def network():
    """A network with weights so wide that texts vary."""
    ft.seed(0)
    model = GPT2(tokens=50, steps=40, size=24, heads=3, layers=2).eval()
    for parameter in model.parameters():
        parameter.tensor = parameter.tensor * 3.0
    return CompiledNetwork(model)


def highest(model, prompt, count, window=40):
    """Greedy generation, without caches."""
    tokens = list(prompt)
    for _ in range(count):
        scores = model(ft.asarray([tokens[-window:]]))[0, -1]
        tokens.append(int(ft.argmax(scores).item()))
    return tokens[len(prompt) :]


def tokens_of(results):
    return [one.tokens for one in results]


class Fixed(nn.Module):
    """After token t comes token t + 1, whatever was before."""

    def __init__(self, vocabulary, scale=20.0):
        self.vocabulary, self.scale = vocabulary, scale
        self.attend = nn.MultiHeadAttention(2, 1)
        self.eval()

    def forward(self, tokens, caches):
        self.attend(ft.zeros((*tokens.shape, 2)), causal=True, cache=caches[0])
        following = (tokens + 1) % self.vocabulary
        return self.scale * ft.one_hot(following, self.vocabulary).astype(ft.float32)

    def caches(self):
        return [nn.KVCache()]


# ---- greedy --------------------------------------------------------------------------------------


def test_greedy_takes_the_highest_score_in_rows_of_different_lengths(network):
    found = generate(network, PROMPTS, max_new_tokens=20)
    assert tokens_of(found) == [highest(network.network, row, 20) for row in PROMPTS]
    assert {one.finish for one in found} == {"length"} and {one.score for one in found} == {None}


def test_a_batch_gives_what_its_rows_give_alone(network):
    together = generate(network, PROMPTS, max_new_tokens=12)
    assert together == [generate(network, [row], max_new_tokens=12)[0] for row in PROMPTS]


def test_a_tensor_of_prompts_and_a_plain_network(network):
    rows = ft.asarray([[1, 2], [3, 4]])
    found = generate(network.network, rows, max_new_tokens=3)
    assert tokens_of(found) == tokens_of(generate(network, rows.tolist(), max_new_tokens=3))


def test_compiled_and_not_compiled_give_the_same(network):
    eager = CompiledNetwork(network.network, compiled=False)
    assert generate(eager, PROMPTS, max_new_tokens=8) == generate(
        network, PROMPTS, max_new_tokens=8
    )
    assert eager.explain() == "not compiled"


def test_one_graph_serves_the_steps_of_a_batch(network):
    run = CompiledNetwork(network.network)
    generate(run, PROMPTS, max_new_tokens=20)
    generate(run, PROMPTS[::-1], max_new_tokens=19)
    assert run.explain().count("captured") == 1 and "38 of 39 calls ran a graph" in run.explain()


def test_eos_ends_a_row_alone(network):
    plain = generate(network, PROMPTS, max_new_tokens=12)
    eos = plain[0].tokens[3]
    found = generate(network, PROMPTS, max_new_tokens=12, eos=eos)
    for before, after in zip(plain, found, strict=True):
        ended = before.tokens.index(eos) + 1 if eos in before.tokens else 12
        assert after.tokens == before.tokens[:ended]
    assert found[0].finish == "eos" and len(found[0].tokens) <= 4


# ---- sampling ------------------------------------------------------------------------------------


def test_a_draw_depends_on_seed_row_and_step_alone(network):
    together = generate(network, PROMPTS, **SAMPLED)
    assert together == generate(network, PROMPTS, **SAMPLED)
    assert together[:1] == generate(network, PROMPTS[:1], **SAMPLED)
    assert together != generate(network, PROMPTS, **{**SAMPLED, "seed": 4})
    twice = generate(network, [PROMPTS[0]] * 2, **SAMPLED)
    assert twice[0] == together[0] and twice[1] != twice[0]


def test_draws_have_the_probabilities_of_the_scores():
    count = 4000
    network = Fixed(4)
    network.scale = math.log(3.0)  # after token 0 come 0, 1, 2, 3 with 1, 3, 1, 1 of 6
    found = generate(network, [[0]] * count, max_new_tokens=1, temperature=1.0)
    counts = [sum(one.tokens == [token] for one in found) / count for token in range(4)]
    assert counts == pytest.approx([1 / 6, 1 / 2, 1 / 6, 1 / 6], abs=0.03)


def test_one_token_is_left_with_top_k_1_and_with_tiny_top_p_and_min_p_1(network):
    greedy = generate(network, PROMPTS, max_new_tokens=12)
    for settings in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 1e-4}):
        assert generate(network, PROMPTS, **{**SAMPLED, **settings}) == greedy


def test_filters_keep_the_likeliest_tokens():
    scores = ft.log(ft.asarray([[0.5, 0.05, 0.3, 0.15]]))
    assert (TopK(2)(scores, [[]]) > -math.inf).tolist() == [[True, False, True, False]]
    assert (TopP(0.7)(scores, [[]]) > -math.inf).tolist() == [[True, False, True, False]]
    assert (TopP(0.85)(scores, [[]]) > -math.inf).tolist() == [[True, False, True, True]]
    assert (TopP(0.4)(scores, [[]]) > -math.inf).tolist() == [[True, False, False, False]]


def test_processors_are_plain_callables(network):
    seen = []

    def only_even(scores, tokens):
        seen.append([list(row) for row in tokens])
        even = ft.arange(scores.shape[1]) % 2 == 0
        return ft.where(even, scores, -math.inf)

    found = generate(network, PROMPTS, max_new_tokens=3, processors=[only_even])
    assert all(token % 2 == 0 for one in found for token in one.tokens)
    assert seen[0] == PROMPTS and seen[2][1] == PROMPTS[1] + found[1].tokens[:2]


def test_repetition_is_penalised(network):
    found = generate(network, PROMPTS[:1], max_new_tokens=12, repetition_penalty=1e6)
    assert len(set(found[0].tokens) | set(PROMPTS[0])) == 15


# ---- contexts ------------------------------------------------------------------------------------


def test_a_context_may_be_filled_to_the_last_token(network):
    (found,) = generate(network, [[7]], max_new_tokens=40)
    assert len(found.tokens) == 40 and found.tokens == highest(network.network, [7], 40)
    with pytest.raises(TextError, match=r"prompt 0 has 1 tokens, and max_new_tokens is 41: .*40 t"):
        generate(network, [[7]], max_new_tokens=41)


def test_sliding_goes_on_with_the_later_half(network):
    together = generate(network, PROMPTS, max_new_tokens=90, sliding=True)
    for row, one in zip(PROMPTS, together, strict=True):
        tokens, first = list(row), 0
        for _ in range(90):
            if len(tokens) - first > 40:
                first = len(tokens) - 20
            scores = network.network(ft.asarray([tokens[first:]]))[0, -1]
            tokens.append(int(ft.argmax(scores).item()))
        assert one.tokens == tokens[len(row) :]


def test_sliding_cuts_long_prompts(network):
    prompt = [n % 50 for n in range(100)]
    found = generate(network, [prompt], max_new_tokens=5, sliding=True)
    assert tokens_of(found) == [highest(network.network, prompt[-20:], 5)]


# ---- text ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def letters():
    """Byte pairs that merge nothing: three tokens for one letter such as a euro sign."""
    return Tokenizer.train(["abc"], "bpe", 257, special=SpecialTokens(None, "?", None, None, None))


def cycle(tokens, vocabulary):
    """A network after which every token of the list is followed by the next one."""
    following = dict(zip(tokens, tokens[1:], strict=False))

    class Cycle(Fixed):
        def forward(self, given, caches):
            super().forward(given, caches)
            table = ft.asarray([following.get(n, 0) for n in range(vocabulary)])
            return ft.one_hot(ft.gather(table, given, 0), vocabulary).astype(ft.float32)

    return Cycle(vocabulary)


def test_bytes_of_an_unfinished_character_wait(letters):
    ids = letters.encode("a\u20ac\U0001f600b")
    assert len(ids) == 9
    network = cycle(ids, len(letters))
    pieces = list(stream(network, ["a"], letters, max_new_tokens=8))
    assert [piece.text for piece in pieces] == ["", "", "\u20ac", "", "", "", "\U0001f600", "b"]
    assert [piece.token for piece in pieces] == ids[1:]
    assert [piece.finish for piece in pieces] == [None] * 7 + ["length"]


def test_a_text_that_ends_inside_a_character_is_decoded_as_it_is(letters):
    network = cycle(letters.encode("a\u20ac"), len(letters))
    (found,) = generate(network, ["a"], letters, max_new_tokens=2)
    assert found.text == letters.decode(found.tokens) == "\ufffd"


def test_stop_strings_end_a_row_and_are_no_part_of_its_text(letters):
    network = cycle(letters.encode("abcdefgh"), len(letters))
    (found,) = generate(network, ["a"], letters, max_new_tokens=7, stop=["ef", "xyz"])
    assert (found.text, found.finish) == ("bcd", "stop")
    assert found.tokens == letters.encode("bcdef")
    pieces = [p.text for p in stream(network, ["a"], letters, max_new_tokens=5, stop="dez")]
    assert pieces == ["b", "c", "", "", "def"]


def test_eos_is_no_part_of_the_text(letters):
    network = cycle(letters.encode("abcd"), len(letters))
    (found,) = generate(network, ["a"], letters, max_new_tokens=7, eos=letters.encode("d"))
    assert (found.text, found.finish) == ("bc", "eos")


def test_words_keep_the_spaces_between_them():
    words = WordEncoder(Dictionary(["one", "two", "three", "four"]))
    (found,) = generate(Fixed(4), ["one"], words, max_new_tokens=3)
    assert found.text == " two three four"


def test_tokens_that_the_tokenizer_lacks_are_never_chosen():
    words = WordEncoder(Dictionary(["one", "two"]))
    (found,) = generate(Fixed(3), ["one"], words, max_new_tokens=3)
    assert max(found.tokens) == 1


def test_pieces_come_one_by_one(network):
    pieces = stream(network, PROMPTS, max_new_tokens=4)
    first = [next(pieces) for _ in PROMPTS]
    assert [piece.row for piece in first] == [0, 1, 2]
    rest = list(pieces)
    assert len(rest) == 9 and [piece.finish for piece in rest[-3:]] == ["length"] * 3


# ---- beam search ---------------------------------------------------------------------------------


def test_one_beam_is_greedy(network):
    found = beam_search(network, PROMPTS, beams=1, max_new_tokens=8)
    assert [row[0].tokens for row in found] == tokens_of(
        generate(network, PROMPTS, max_new_tokens=8)
    )


def test_all_beams_find_the_best_text_of_all(network):
    small = CompiledNetwork(GPT2(tokens=4, steps=8, size=8, heads=2, layers=1).eval())
    ((best, *_),) = beam_search(small, [[0]], beams=64, max_new_tokens=3)
    texts = [[a, b, c] for a in range(4) for b in range(4) for c in range(4)]

    def score(text):
        scores = ft.log_softmax(small.network(ft.asarray([[0, *text[:-1]]]))[0], -1)
        return sum(scores[t, token].item() for t, token in enumerate(text)) / 3

    assert best.tokens == max(texts, key=score)
    assert best.score == pytest.approx(score(best.tokens), rel=1e-4)


def test_prompts_are_searched_as_they_are_alone(network):
    settings = dict(beams=3, best=2, max_new_tokens=8, eos=7)
    together = beam_search(network, PROMPTS, **settings)
    for row, prompt in zip(together, PROMPTS, strict=True):
        (alone,) = beam_search(network, [prompt], **settings)
        assert tokens_of(row) == tokens_of(alone)
        assert row[0].score >= row[1].score


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[1], []], r"prompt 1 has no tokens: .*tokenizer\.bos_id"),
        ([], "there are no prompts"),
        ("text", r"prompts is one text: give a list, as \[text\]"),
        (["text"], "prompt 0 is a text, and there is no tokenizer"),
        ([[1, 2.5]], r"token 1 of prompt 0 is 2\.5: expected an integer"),
        ([[1, 50]], "token 1 of prompt 0 is 50: the network has 0 to 49"),
        ([[-1]], "token 0 of prompt 0 is -1"),
        ([None], "prompt 0 is a NoneType"),
        (5, "prompts is a int"),
        ([[1], [2] * 30], "prompt 1 has 30 tokens, and max_new_tokens is 20: .*sliding=True"),
    ],
)
def test_prompts_that_do_not_fit(network, prompts, message):
    with pytest.raises(TextError, match=message):
        generate(network, prompts, max_new_tokens=20)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": 1.5},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"processors": [3]},
        {"eos": -1},
        {"eos": "a"},
        {"stop": [""]},
        {"stop": "a"},
        {"sliding": 1},
    ],
)
def test_settings_that_do_not_fit(network, settings):
    (name,) = settings
    with pytest.raises(TextError, match=name):
        stream(network, [[1]], **{"max_new_tokens": 2, **settings})


@pytest.mark.parametrize(
    "settings",
    [
        {"beams": 0},
        {"best": 5},
        {"early_stopping": "always"},
        {"length_penalty": math.inf},
        {"length_penalty": "1"},
    ],
)
def test_settings_of_beam_search_that_do_not_fit(network, settings):
    (name,) = settings
    with pytest.raises(TextError, match=name):
        beam_search(network, [[1]], max_new_tokens=2, **settings)


def test_networks_that_do_not_fit():
    with pytest.raises(TextError, match="a Linear is no causal network"):
        generate(nn.Linear(2, 2), [[1]])
    with pytest.raises(TextError, match=r"in training mode: call its eval\(\)"):
        generate(GPT2(tokens=4, steps=8, size=8, heads=2, layers=1), [[1]], max_new_tokens=2)


def test_scores_without_a_choice_name_the_row():
    def none(scores, tokens):
        return scores * 0.0 - math.inf

    with pytest.raises(TextError, match="scores of row 0 forbid every token at new token 0"):
        generate(Fixed(4), [[1]], max_new_tokens=2, processors=[none])
    with pytest.raises(TextError, match="scores of row 0 are nan"):
        generate(Fixed(4, math.nan), [[1]], max_new_tokens=2)
    with pytest.raises(TextError, match="scores of prompt 0 are NaN"):
        beam_search(Fixed(4, math.nan), [[1]], max_new_tokens=2)


def test_processors_that_change_the_shape(network):
    with pytest.raises(TextError, match=r"gave an array \(1, 3\) for scores \(1, 50\)"):
        generate(network, [[1]], max_new_tokens=2, processors=[lambda scores, _: scores[:, :3]])
