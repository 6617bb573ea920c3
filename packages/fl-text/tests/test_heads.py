"""Heads of language models: full, adaptive, sampled and noise-contrastive."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_text import TextError
from fl_text.heads import (
    AdaptiveSoftMax,
    FullSoftmax,
    Head,
    NoiseContrastive,
    Proposal,
    SampledSoftmax,
    log_uniform,
    unigram,
)

SIZE, TOKENS = 6, 40


@pytest.fixture
def full() -> FullSoftmax:
    ft.seed(1)
    head = FullSoftmax(SIZE, TOKENS)
    head.weight.tensor = head.weight.tensor * 4.0
    head.bias.tensor = ft.randn((TOKENS,))
    return head


@pytest.fixture
def vectors() -> ft.Tensor:
    return ft.Generator(2).normal((3, 5, SIZE))


@pytest.fixture
def targets() -> ft.Tensor:
    return ft.Generator(3).integers(0, TOKENS, (3, 5))


def sharing(kind, full, *arguments, **settings):
    """A head of another kind with the parameters of `full`."""
    return kind(SIZE, TOKENS, *arguments, weight=full.weight, bias=full.bias, **settings)


# ---- what all have in common ---------------------------------------------------------------------


HEADS = {
    "full": lambda: FullSoftmax(SIZE, TOKENS),
    "without bias": lambda: FullSoftmax(SIZE, TOKENS, bias=False),
    "adaptive": lambda: AdaptiveSoftMax(SIZE, TOKENS, [8, 20]),
    "sampled": lambda: SampledSoftmax(SIZE, TOKENS, 7),
    "noise": lambda: NoiseContrastive(SIZE, TOKENS, 7),
}
every_head = pytest.mark.parametrize("name", HEADS)


@every_head
def test_the_loss_in_eval_mode_is_minus_log_p(name, vectors, targets):
    head = HEADS[name]().eval()
    log_probs = head.log_probs(vectors)
    assert isinstance(head, Head) and log_probs.shape == (3, 5, TOKENS)
    assert ft.allclose(ft.logsumexp(log_probs, -1), ft.zeros((3, 5)), atol=1e-5)
    assert ft.allclose(log_probs, ft.log_softmax(head(vectors), -1), atol=1e-5)
    expected = -ft.take_along_axis(log_probs, targets[..., None], -1)[..., 0]
    assert ft.allclose(head.loss(vectors, targets, reduction="none"), expected, atol=1e-5)
    assert head.loss(vectors, targets).item() == pytest.approx(ft.mean(expected).item(), abs=1e-5)
    summed = head.loss(vectors, targets, reduction="sum").item()
    assert summed == pytest.approx(ft.sum(expected).item(), rel=1e-5)


@every_head
def test_ignored_targets_count_for_nothing(name, vectors, targets):
    head = HEADS[name]().eval()
    ignored = ft.where(ft.arange(5) < 2, -100, targets)
    found = head.loss(vectors, ignored, ignore_index=-100)
    assert found.item() == pytest.approx(head.loss(vectors[:, 2:], targets[:, 2:]).item(), abs=1e-6)
    none = ft.full((3, 5), -100, ft.int64)
    assert head.train().loss(vectors, none, ignore_index=-100).item() == 0.0


@every_head
def test_training_gives_gradients_to_every_parameter(name, vectors, targets):
    head = HEADS[name]()
    # Targets of every cluster, and none of another token: gradients are those of sampling.
    head.loss(vectors, targets).backward()
    assert all(p.grad is not None for p in head.parameters())


@every_head
def test_what_does_not_fit_is_refused(name, vectors, targets):
    head = HEADS[name]()
    kind = type(head).__name__
    with pytest.raises(TextError, match=rf"\[{kind}\] hidden \(3, 5, 6\) and targets \(3, 4\)"):
        head.loss(vectors, targets[:, :4])
    with pytest.raises(TextError, match="targets are float32: expected integers"):
        head.loss(vectors, vectors[..., 0])
    with pytest.raises(TextError, match="targets hold 40: expected 0 .. 39; pass ignore_index"):
        head.loss(vectors, targets * 0 + TOKENS)
    with pytest.raises(TextError, match="targets are a list: give an array"):
        head.loss(vectors, [1, 2])
    with pytest.raises(nn.ModuleError, match="reduction 'product': one of mean, sum, none"):
        head.loss(vectors, targets, reduction="product")


def test_shared_parameters_have_the_right_shape(full):
    with pytest.raises(TextError, match=r"weight \(40, 6\): expected \(40, 5\)"):
        FullSoftmax(5, TOKENS, weight=full.weight)
    with pytest.raises(TextError, match=r"bias \(40,\): expected \(41,\)"):
        FullSoftmax(SIZE, 41, full.bias)
    with pytest.raises(TextError, match="size 0, tokens 3: give at least 1"):
        FullSoftmax(0, 3)


# ---- sampled softmax -----------------------------------------------------------------------------


def test_all_tokens_sampled_is_the_full_softmax(full, vectors, targets):
    sampled = sharing(SampledSoftmax, full, TOKENS)
    found, wanted = (head.loss(vectors, targets) for head in (sampled, full))
    assert found.item() == pytest.approx(wanted.item(), abs=1e-5)
    grads = [ag.grad(loss, [full.weight, full.bias]) for loss in (found, wanted)]
    for ours, theirs in zip(*grads, strict=True):
        assert ft.allclose(ours, theirs, atol=1e-6)


def mean_gradient(head, vectors, targets, draws):
    grads = [ag.grad(head.loss(vectors, targets), [head.weight])[0].numpy() for _ in range(draws)]
    return np.mean(grads, 0)


@pytest.mark.parametrize("proposal", [None, unigram(range(1, TOKENS + 1), 0.5)])
def test_expected_gradients_tend_to_those_of_the_full_softmax(full, vectors, targets, proposal):
    """The mean over 200 draws, as a share of the norm of the full gradient. Measured: 0.07 to 0.12
    from it with 4 samples of 40 tokens, and 0.01 with 30, which is the noise of the mean."""
    full.weight.tensor, full.bias.tensor = full.weight.tensor * 0.25, full.bias.tensor * 0.25
    (wanted,) = ag.grad(full.loss(vectors, targets), [full.weight])
    errors = []
    for samples in (4, 30):
        head = sharing(SampledSoftmax, full, samples, proposal, seed=5)
        found = mean_gradient(head, vectors, targets, 200)
        errors.append(np.linalg.norm(found - wanted.numpy()) / np.linalg.norm(wanted.numpy()))
    assert errors[1] < 0.03 and errors[1] < 0.5 * errors[0]


def test_the_sum_of_exponentials_has_the_right_expectation(full):
    """p-hat of a target is 1 / (1 + S), where S estimates a sum of 39 terms. The mean of S over
    600 draws lies within 4 standard errors."""
    head = sharing(SampledSoftmax, full, 6, seed=0)
    vector, target = ft.Generator(7).normal((1, SIZE)), ft.asarray([2])
    losses = [head.loss(vector, target).item() for _ in range(600)]
    sums = np.expm1(losses)
    exact = math.expm1(full.loss(vector, target).item())
    assert abs(sums.mean() - exact) < 4 * sums.std() / math.sqrt(len(sums))


def test_a_sampled_target_is_no_negative(full):
    # One vector whose target is most of the proposal: it would be drawn nearly always.
    weights = [1e-6] * TOKENS
    weights[4] = 1.0
    head = sharing(SampledSoftmax, full, TOKENS - 1, Proposal(weights), seed=1)
    vector, target = ft.zeros((1, SIZE)), ft.asarray([4])
    bias = full.bias.numpy().astype(float)
    others = np.delete(bias, 4)
    limit = math.log(np.exp(bias).sum()) - bias[4]
    # 38 of the 39 others, each corrected by its probability to be in: near the full loss, never
    # above by the target's own weight.
    assert abs(head.loss(vector, target).item() - limit) < 0.2
    assert others.size == TOKENS - 1


def test_draws_depend_on_the_seed_and_how_many_came_before(full, vectors, targets):
    first, second = (sharing(SampledSoftmax, full, 5, seed=3) for _ in range(2))
    losses = [first.loss(vectors, targets).item() for _ in range(3)]
    assert len(set(losses)) == 3
    assert losses == [second.loss(vectors, targets).item() for _ in range(3)]
    second.generator.set_state(ft.Generator(3).state())
    assert second.loss(vectors, targets).item() == losses[0]
    assert sharing(SampledSoftmax, full, 5, seed=4).loss(vectors, targets).item() != losses[0]


@pytest.mark.parametrize("kind", [SampledSoftmax, NoiseContrastive])
def test_sparse_gradients_have_the_rows_that_were_used(kind, vectors, targets):
    sparse, dense = kind(SIZE, TOKENS, 5, sparse=True, seed=1), kind(SIZE, TOKENS, 5, seed=1)
    dense.load_state_dict(sparse.state_dict())
    for head in (sparse, dense):
        head.loss(vectors, targets).backward()
    assert isinstance(sparse.weight.grad, ag.SparseGradient)
    assert ft.allclose(ag.sparse.to_dense(sparse.weight.grad), dense.weight.grad, atol=1e-6)
    assert ft.allclose(sparse.bias.grad, dense.bias.grad, atol=1e-6)


P = np.array([0.5, 0.25, 0.125] + [0.125 / 13] * 13)


def test_sampled_softmax_learns_what_the_full_one_does():
    """The head's log-probabilities after training on 10 samples of 16 tokens come to those of the
    data within 0.15 for the three likeliest."""
    ft.seed(0)
    head = SampledSoftmax(1, 16, 10, seed=0)
    targets = ft.asarray(np.random.default_rng(0).choice(16, 1000, p=P))
    optimizer = nn.Adam(head.parameters(), lr=0.1)
    schedule = nn.ExponentialLR(optimizer, 0.97)
    for _ in range(150):
        optimizer.zero_grad()
        head.loss(ft.zeros((1000, 1)), targets).backward()
        optimizer.step()
        schedule.step()
    found = head.eval().log_probs(ft.zeros((1, 1)))[0, :3].numpy()
    assert np.abs(found - np.log(P[:3])).max() < 0.15


@pytest.mark.parametrize("log_normalizer", [0.0, 3.0])
def test_noise_contrastive_estimation_is_at_rest_at_the_log_probabilities(log_normalizer):
    """With targets in the proportions of P and scores log P + log_normalizer, the mean gradient
    over 300 draws lies within 4.5 standard errors of 0; with other scores it does not."""
    head = NoiseContrastive(1, 16, 5, seed=0, log_normalizer=log_normalizer)
    targets = ft.asarray(np.repeat(np.arange(16), np.round(P * 208).astype(int)))
    p = np.bincount(targets.numpy(), minlength=16) / len(targets)

    def gradients(scores):
        head.bias.tensor = ft.asarray(scores, ft.float32)
        x = ft.zeros((len(targets), 1))
        return np.array(
            [ag.grad(head.loss(x, targets), [head.bias])[0].numpy() for _ in range(300)]
        )

    def deviations(found):
        return np.abs(found.mean(0)) / (found.std(0) / math.sqrt(len(found)))

    assert deviations(gradients(np.log(p) + log_normalizer)).max() < 4.5
    assert deviations(gradients(np.log(p) + log_normalizer + 0.5)).max() > 4.5


def test_noise_contrastive_estimation_is_its_formula(full, vectors, targets):
    """Against the formula in NumPy, with the noise of the same seed."""
    proposal = log_uniform(TOKENS)
    head = sharing(NoiseContrastive, full, 9, proposal, seed=8, log_normalizer=2.0)
    noise = proposal.draw(9, ft.Generator(8)).numpy()
    scores = full(vectors).numpy().reshape(-1, TOKENS) - 2.0
    d = scores - math.log(9) - np.log(proposal.probs.numpy())
    t = targets.numpy().reshape(-1)
    wanted = np.logaddexp(0, -d[range(15), t]) + np.logaddexp(0, d[:, noise]).sum(1)
    found = head.loss(vectors, targets, reduction="none").numpy().reshape(-1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


# ---- proposals -----------------------------------------------------------------------------------


def test_log_uniform_follows_zipf():
    found = log_uniform(5).probs.numpy()
    wanted = [math.log((k + 2) / (k + 1)) / math.log(6) for k in range(5)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_unigrams_follow_counts():
    np.testing.assert_allclose(unigram([1, 3]).probs.numpy(), [0.25, 0.75])
    np.testing.assert_allclose(unigram([1, 16], 0.75).probs.numpy(), [1 / 9, 8 / 9])
    np.testing.assert_allclose(unigram([0, 5, 1], 0.0).probs.numpy(), [0, 0.5, 0.5])


def test_draws_have_the_frequencies_of_the_proposal():
    proposal = unigram([0, 6, 3, 1])
    counts = np.bincount(proposal.draw(20_000, ft.Generator(0)).numpy(), minlength=4)
    # Four standard deviations of a binomial.
    np.testing.assert_allclose(
        counts / 20_000, [0, 0.6, 0.3, 0.1], atol=4 * 0.5 / math.sqrt(20_000)
    )
    assert counts[0] == 0


def test_distinct_draws_are_distinct_and_know_their_probability():
    """Counting each drawn token as 1 / its probability gives 1 for each token on average."""
    proposal, generator = log_uniform(10), ft.Generator(4)
    total, draws = np.zeros(10), 1500
    for _ in range(draws):
        tokens, log_counts = proposal.draw_distinct(4, generator)
        assert len(set(tokens.tolist())) == 4
        total[tokens.numpy()] += np.exp(-log_counts.numpy())
    np.testing.assert_allclose(total / draws, 1.0, atol=0.2)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Proposal([]), "expected one axis, of all tokens"),
        (lambda: Proposal([[1.0]]), r"weights \(1, 1\): expected one axis"),
        (lambda: Proposal([0.0, 0.0]), "finite numbers from 0 on, some above 0"),
        (lambda: Proposal([1.0, -1.0]), "finite numbers from 0 on"),
        (lambda: Proposal([1.0, math.nan]), "finite numbers from 0 on"),
        (lambda: log_uniform(0), "tokens 0: give at least 1"),
        (lambda: unigram([1], -1.0), "power=-1.0: give a number from 0 on"),
        (lambda: SampledSoftmax(2, 3, 0), r"\[SampledSoftmax\] samples=0: give at least 1"),
        (lambda: SampledSoftmax(2, 3, 4), "samples=4 different tokens: the proposal has 3"),
        (lambda: SampledSoftmax(2, 3, 2, unigram([1, 1, 0])), "the proposal has 2 of a weight"),
        (lambda: SampledSoftmax(2, 3, 1, log_uniform(4)), "the proposal has 4 tokens, the head 3"),
        (lambda: NoiseContrastive(2, 3, 1, log_normalizer=math.inf), "give a finite number"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make, message):
    with pytest.raises(TextError, match=message):
        make()


def test_a_shared_weight_has_no_sparse_gradient(full):
    with pytest.raises(TextError, match="sparse=True: a shared weight has a dense gradient"):
        sharing(SampledSoftmax, full, 3, sparse=True)
