"""Checkpoints of several models and optimizers."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft

pytestmark = pytest.mark.defect("N27")


class Gan:
    """Two models that train against each other, each with an optimizer of its own."""

    def __init__(self, seed: int, scores: int = 1, dropout: bool = True) -> None:
        ft.seed(seed)
        noisy = nn.Dropout(0.3, generator=ft.Generator(seed)) if dropout else nn.Identity()
        self.generator = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
        self.critic = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), noisy, nn.Linear(4, scores))
        self.generator_optimizer = nn.Adam(self.generator.parameters(), lr=0.01)
        self.critic_optimizer = nn.SGD(self.critic.parameters(), lr=0.01, momentum=0.9)

    @property
    def parts(self):
        return {"critic": self.critic, "critic_optimizer": self.critic_optimizer}

    def train(self, steps: int) -> None:
        for _ in range(steps):
            for optimizer, sign in ((self.critic_optimizer, -1.0), (self.generator_optimizer, 1.0)):
                optimizer.zero_grad()
                score = self.critic(self.generator(ft.randn((8, 2))))
                (sign * ft.mean(score * score)).backward()
                optimizer.step()

    def save(self, path) -> None:
        nn.save_checkpoint(path, self.generator, self.generator_optimizer, parts=self.parts)

    def restore(self, path) -> None:
        checkpoint = nn.load_checkpoint(path)
        checkpoint.restore(self.generator, self.generator_optimizer, parts=self.parts)

    def values(self):
        models = (self.generator, self.critic)
        return [tensor.tolist() for model in models for tensor in model.state_dict().values()]


def test_two_models_and_two_optimizers_go_on_with_the_same_bits(tmp_path):
    whole = Gan(0)
    whole.train(6)
    before = Gan(0)
    before.train(3)
    before.save(tmp_path / "gan.safetensors")
    after = Gan(7)
    after.restore(tmp_path / "gan.safetensors")
    after.train(3)
    assert after.values() == whole.values()


def test_a_part_that_does_not_fit_leaves_everything_as_it_was(tmp_path):
    Gan(0).save(tmp_path / "gan.safetensors")
    other = Gan(1, scores=2)
    before = other.values()
    with pytest.raises(nn.CheckpointError, match=r"3\.weight has shape \(1, 4\), here \(2, 4\)"):
        other.restore(tmp_path / "gan.safetensors")
    assert other.values() == before


def test_a_part_with_other_generators_is_refused(tmp_path):
    Gan(0).save(tmp_path / "gan.safetensors")
    other = Gan(1, dropout=False)
    with pytest.raises(nn.CheckpointError, match="part critic has not the random generators"):
        other.restore(tmp_path / "gan.safetensors")


def test_the_state_of_an_optimizer_is_no_module(tmp_path):
    gan = Gan(0)
    gan.save(tmp_path / "gan.safetensors")
    checkpoint = nn.load_checkpoint(tmp_path / "gan.safetensors")
    with pytest.raises(nn.CheckpointError, match="part critic_optimizer is not the state of a mod"):
        checkpoint.restore(gan.generator, parts={"critic_optimizer": gan.critic})


def test_parameters_that_are_one_are_stored_once_and_are_one_again(tmp_path):
    def tied():
        layers = [nn.Linear(3, 3, bias=False) for _ in range(2)]
        return nn.Sequential(*layers)

    first, second, model = tied(), tied(), nn.Linear(1, 1)
    first[1].weight = first[0].weight
    nn.save_checkpoint(tmp_path / "tied.safetensors", model, parts={"tied": first})
    with nn.open_tensors(tmp_path / "tied.safetensors") as file:
        assert [name for name in file.tensors if "tied" in name] == ["parts.tied.0.weight"]
    nn.load_checkpoint(tmp_path / "tied.safetensors").restore(model, parts={"tied": second})
    assert second[1].weight is second[0].weight


def test_an_older_version_of_a_part_is_migrated_and_its_optimizer_is_not(tmp_path):
    def scale(version):
        at = version

        class Scale(nn.Module):
            version = at

            def __init__(self):
                setattr(self, "w" if at == 1 else "weight", nn.Parameter(ft.full((2,), 3.0)))

        return Scale

    new = scale(2)

    @nn.migration(new, 1)
    def _(state):
        state["weight"] = state.pop("w")

    model, old, path = nn.Linear(1, 1), scale(1)(), tmp_path / "old.safetensors"
    old.w.tensor = ft.asarray([1.0, 2.0])
    optimizer = nn.SGD(old.parameters(), momentum=0.9)
    ft.sum(old.w * old.w).backward()
    optimizer.step()
    nn.save_checkpoint(path, model, parts={"scale": old, "optimizer_of_scale": optimizer})
    restored = new()
    nn.load_checkpoint(path).restore(model, parts={"scale": restored})
    assert restored.weight.tolist() == old.w.tolist()
    parts = {"scale": new(), "optimizer_of_scale": nn.SGD(restored.parameters(), momentum=0.9)}
    with pytest.raises(nn.CheckpointError, match="optimizer_of_scale may not fit"):
        nn.load_checkpoint(path).restore(model, parts=parts)


def test_a_trainer_keeps_modules_as_parts(tmp_path):
    def trainer(teacher):
        ft.seed(0)
        model = nn.Linear(3, 2)
        return nn.Trainer(
            model, nn.SGD(model.parameters()), nn.mse, progress=False, out=tmp_path,
            parts={"teacher": teacher},
        )  # fmt: skip

    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    trainer(first).fit([(ft.ones((4, 3)), ft.ones((4, 2)))], epochs=1)
    trainer(second).resume()
    assert nn.all_params_close(first, second, 0.0)


@pytest.mark.defect("N30")
@pytest.mark.parametrize("several", [list, lambda pair: dict(zip("ab", pair))])
def test_several_models_in_the_place_of_one_are_told_where_to_go(tmp_path, several):
    gan = Gan(0)
    models = several([gan.generator, gan.critic])
    with pytest.raises(nn.CheckpointError, match=r"of 2 was given .* parts=\{\"critic\": critic"):
        nn.save_checkpoint(tmp_path / "x.safetensors", models, gan.critic_optimizer)
    optimizers = several([gan.generator_optimizer, gan.critic_optimizer])
    with pytest.raises(nn.CheckpointError, match=r"of 2 was given"):
        nn.save_checkpoint(tmp_path / "x.safetensors", gan.generator, optimizer=optimizers)
