"""Files of effects: what is written is read, and what is wrong is named."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft
from fl_speech.effects import (
    AdditiveNoise,
    Amplify,
    ClampAmplitude,
    GaussianNoise,
    Normalize,
    ReverbEcho,
    SoundEffect,
    SoundEffectChain,
    TimeStretch,
    create_effects,
    read_effects,
    write_effects,
)
from fl_speech.errors import EffectError


@pytest.fixture
def noise_list(write, tmp_path):
    write("a.wav", np.ones(100) / 2)
    (tmp_path / "list.txt").write_text("a.wav\n")
    return str(tmp_path / "list.txt")


@pytest.fixture
def chain(noise_list):
    return SoundEffectChain(
        [
            AdditiveNoise(noise_list, ratio=0.8, min_snr=0, max_snr=30, n_clips_min=0),
            Amplify(1.0, 10.0),
            ClampAmplitude(),
            ReverbEcho(proba=0.5, initial_max=0.2, rt60_max=1.0, repeat=2, jitter=0.2),
            TimeStretch(proba=0.25, min_factor=0.9, max_factor=1.1),
            Normalize(only_if_too_high=False),
            GaussianNoise(max_snr=20),
        ]
    )


def test_what_is_written_is_read(chain, tmp_path, tone):
    path = tmp_path / "effects.json"
    write_effects(path, chain)
    again = read_effects(path)
    assert again.effects == chain.effects
    x = tone(2000)
    np.testing.assert_array_equal(again(x, 5), chain(x, 5))
    assert create_effects(json.loads(path.read_text())).effects == chain.effects
    write_effects(tmp_path / "none.json", SoundEffectChain())
    assert len(read_effects(tmp_path / "none.json")) == 0


def test_the_keys_are_flashlights(chain, tmp_path, noise_list):
    write_effects(tmp_path / "e.json", chain)
    (entries,) = json.loads((tmp_path / "e.json").read_text()).values()
    found = {entry["type"]: entry for entry in entries}
    assert found["AdditiveNoise"]["additiveNoiseConfig"] == {
        "listFilePath": noise_list, "proba": 1.0, "ratio": 0.8, "minSnr": 0, "maxSnr": 30,
        "nClipsMin": 0, "nClipsMax": 3,
    }  # fmt: skip
    assert found["ReverbEcho"]["reverbEchoConfig"] == {
        "proba": 0.5, "initialMin": 0.0, "initialMax": 0.2, "rt60Min": 0.3, "rt60Max": 1.0,
        "firstDelayMin": 0.01, "firstDelayMax": 0.03, "repeat": 2, "jitter": 0.2,
        "sampleRate": 16000,
    }  # fmt: skip
    stretch = found["TimeStretch"]["timeStretchConfig"]
    assert stretch == {"proba": 0.25, "minFactor": 0.9, "maxFactor": 1.1, "sampleRate": 16000}
    assert found["Amplify"]["amplifyConfig"] == {"ratioMin": 1.0, "ratioMax": 10.0}
    assert found["ClampAmplitude"] == {"type": "ClampAmplitude"}
    assert found["Normalize"] == {"type": "Normalize", "normalizeOnlyIfTooHigh": False}


def test_settings_that_a_file_leaves_out_have_their_defaults(noise_list):
    config = {
        "soundEffectChain": [
            {"type": "AdditiveNoise", "additiveNoiseConfig": {"listFilePath": noise_list}},
            {"type": "ReverbEcho"},
            {"type": "TimeStretch", "timeStretchConfig": {}},
            {"type": "Normalize"},
        ]
    }
    wanted = (AdditiveNoise(noise_list), ReverbEcho(), TimeStretch(), Normalize())
    assert create_effects(config).effects == wanted


GOOD = '{"type": "ClampAmplitude"}'


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"type": "Echo"}', "entry 1] type is 'Echo': give one of AdditiveNoise, GaussianNoise"),
        ("{}", "entry 1] type is missing: give one of"),
        ("[]", 'entry 1] it is a list: give {"type": ...}'),
        ('{"type": "Amplify", "amplify": {}}',
         "entry 1 (Amplify)] 'amplify' is no key of this: give amplifyConfig and type"),
        ('{"type": "Amplify", "amplifyConfig": {"ratio": 1}}',
         "entry 1 (Amplify)] 'ratio' is no key of this: give ratioMax and ratioMin"),
        ('{"type": "Amplify", "amplifyConfig": {"ratioMin": "1"}}',
         "entry 1 (Amplify)] ratioMin is '1': give a number"),
        ('{"type": "Amplify", "amplifyConfig": {"ratioMin": 3}}',
         "entry 1 (Amplify)] ratioMin is 3: it must be at most ratioMax, which is 1.0"),
        ('{"type": "Amplify", "amplifyConfig": [1]}',
         "entry 1 (Amplify)] amplifyConfig is a list: give a block of settings"),
        ('{"type": "ReverbEcho", "reverbEchoConfig": {"repeat": 1.5}}',
         "entry 1 (ReverbEcho)] repeat is 1.5: give a whole number"),
        ('{"type": "ReverbEcho", "reverbEchoConfig": {"jitter": NaN}}',
         "entry 1 (ReverbEcho)] jitter is nan: it must be at least 0 and below 1"),
        ('{"type": "ReverbEcho", "reverbEchoConfig": {"repeat": Infinity}}',
         "entry 1 (ReverbEcho)] repeat is inf: give a whole number"),
        ('{"type": "Normalize", "normalizeOnlyIfTooHigh": 1}',
         "entry 1 (Normalize)] normalizeOnlyIfTooHigh is 1: give true or false"),
        ('{"type": "AdditiveNoise"}', "entry 1 (AdditiveNoise)] listFilePath is missing: give a"),
        ('{"type": "ReverbEcho"}, {"type": "TimeStretch", "timeStretchConfig": '
         '{"sampleRate": 8000}}', "] sampleRate of effects[2], TimeStretch, is 8000 Hz"),
        ('{"type": "Amplify", "type": "Amplify"}', "the file is no JSON (the key 'type' stands"),
        ("{", "the file is no JSON (Expecting property name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, entry, message):
    path = tmp_path / "effects.json"
    path.write_text(f'{{"soundEffectChain": [{GOOD}, {entry}]}}')
    with pytest.raises(EffectError) as caught:
        read_effects(path)
    assert str(caught.value).startswith(f"[{path}")
    assert message in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.key) == (str(caught.value), caught.value.key)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", 'the whole is a list: give {"soundEffectChain": [...]}'),
        ("{}", "soundEffectChain is missing"),
        ('{"soundEffectChain": {}}', "soundEffectChain is no list"),
        ('{"soundEffectChain": [], "seed": 1}', "'seed' is no key of this: give soundEffectChain"),
        ("[" * 100_000, "the file is no JSON"),
        (" " * (1 << 21), "the file is larger than 1048576 bytes"),
    ],
)
def test_files_that_are_no_chain(tmp_path, content, message):
    path = tmp_path / "effects.json"
    path.write_text(content)
    with pytest.raises(EffectError) as caught:
        read_effects(path)
    assert message in str(caught.value)


def test_files_that_are_not_there(tmp_path, noise_list):
    with pytest.raises(speech.AudioError, match="no such file of effects: check the path"):
        read_effects(tmp_path / "none.json")
    with pytest.raises(speech.AudioError, match="not a regular file"):
        read_effects(tmp_path)
    with pytest.raises(
        EffectError, match=r"entry 0 \(AdditiveNoise\)\] listFilePath cannot be used"
    ):
        block = {"listFilePath": "none.txt"}
        entry = {"type": "AdditiveNoise", "additiveNoiseConfig": block}
        create_effects({"soundEffectChain": [entry]})


def test_effects_that_a_file_has_no_name_for(tmp_path):
    class Own(SoundEffect):
        def apply(self, x, generator):
            return x

    for effect, name in [(Own(), "Own"), (SoundEffectChain(), "SoundEffectChain")]:
        with pytest.raises(EffectError, match=f"entry 0] it is a {name}: make a chain of"):
            write_effects(tmp_path / "e.json", SoundEffectChain([effect]))
    assert not (tmp_path / "e.json").exists()
    with pytest.raises(ft.DTypeError, match="effects"):
        write_effects(tmp_path / "e.json", [Amplify()])
