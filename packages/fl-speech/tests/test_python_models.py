"""`from_python`: models that Python files make."""

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.models import AcousticModel, from_python

SEQUENTIAL = """
import fl_nn as nn

def create_module(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))
"""

WHOLE = """
import fl_nn as nn

class Halved(nn.Module):
    takes_lengths = True

    def __init__(self, features, classes):
        self.linear = nn.Linear(features, classes)

    def forward(self, features, lengths=None):
        return self.linear(features[:, ::2]), None if lengths is None else (lengths + 1) // 2

def create_module(n_features, n_classes):
    return Halved(n_features, n_classes)
"""


def written(tmp_path, text, name="model.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_sequential_becomes_an_acoustic_model(tmp_path):
    model = from_python(written(tmp_path, SEQUENTIAL), 4, 3)
    assert isinstance(model, AcousticModel)
    output, lengths = model(ft.randn((2, 6, 4)), [6, 5])
    assert output.shape == (2, 6, 3)
    assert lengths.tolist() == [6, 5]


def test_a_module_with_the_interface_stays(tmp_path):
    model = from_python(str(written(tmp_path, WHOLE)), 4, 3)
    output, lengths = model(ft.randn((2, 6, 4)), ft.asarray([6, 5]))
    assert type(model).__name__ == "Halved"
    assert output.shape == (2, 3, 3)
    assert lengths.tolist() == [3, 3]


def test_two_files_of_one_name_do_not_meet(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = from_python(written(tmp_path / "a", WHOLE), 4, 3)
    second = from_python(written(tmp_path / "b", WHOLE.replace("Halved", "Other")), 4, 3)
    assert type(first).__name__ != type(second).__name__
    assert not list(tmp_path.glob("*/__pycache__"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"model.py: it defines no create_module\(n_features, n_classes\)"),
        ("create_module = 3", "it defines no create_module"),
        ("def create_module(a, b):\n    return 3", "returned 3, which is not a Module"),
        ("import fl_nn\ndef create_module(a, b:\n", "model.py:2: SyntaxError"),
        ("import nowhere_at_all", "model.py:1: ModuleNotFoundError"),
        ("def create_module(a, b):\n    c = 1\n    return a / 0", "model.py:3: ZeroDivisionError"),
        ("def create_module(a):\n    return a", "model.py: TypeError: create_module"),
        ("raise SystemExit(3)", "model.py:1: SystemExit: 3"),
    ],
)
def test_errors_name_the_file(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(nn.ModuleError, match=message) as error:
        from_python(path, 4, 3)
    assert str(error.value).startswith(str(path))


def test_missing_files_and_sizes(tmp_path):
    with pytest.raises(nn.ModuleError, match="there is no such file"):
        from_python(tmp_path / "none.py", 4, 3)
    with pytest.raises(nn.ModuleError, match="at least 1"):
        from_python(written(tmp_path, SEQUENTIAL), 0, 3)
