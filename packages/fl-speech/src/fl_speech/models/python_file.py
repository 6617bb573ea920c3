"""`from_python`: an acoustic model that a Python file makes."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import CodeType

import fl_nn as nn
from fl_speech.models.acoustic import AcousticModel
from fl_tensor.annotations import explained

FUNCTION = "create_module"


@explained
def from_python(path: str | os.PathLike[str], features: int, classes: int) -> nn.Module:
    """What `create_module(n_features, n_classes)` of the Python file at `path` returns.

    A module whose `forward` takes `(features, lengths)` and that sets `takes_lengths = True` is
    used as it is. A Sequential, and any module without lengths, takes features (B, T, F) and
    becomes an AcousticModel; return an AcousticModel for another layout.

    The file is run: use only files that you trust. Raises ModuleError, which names the file and the
    line, for one that cannot be read or run, has no such function, or returns no module.
    """
    file = os.fspath(path)
    if features < 1 or classes < 1:
        raise nn.ModuleError(f"{file}: {features} features and {classes} classes: at least 1")
    if not Path(file).is_file():
        raise nn.ModuleError(f"{file}: there is no such file: give the path of a Python file")
    # A name of its own for each path: classes of the file are found by it.
    digest = hashlib.sha256(os.path.abspath(file).encode()).hexdigest()[:12]
    name = f"_fl_speech_model_{digest}"
    spec = importlib.util.spec_from_loader(name, _Loader(name, file), origin=file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = file
    sys.modules[name] = module
    try:
        assert spec.loader is not None
        spec.loader.exec_module(module)
        create = getattr(module, FUNCTION, None)
        if not callable(create):
            raise nn.ModuleError(
                f"{file}: it defines no {FUNCTION}(n_features, n_classes), which makes the model"
            )
        made = create(features, classes)
    except (Exception, SystemExit) as error:
        if isinstance(error, nn.ModuleError) and str(error).startswith(file):
            raise
        raise nn.ModuleError(f"{_place(file, error)}: {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module):
        raise nn.ModuleError(f"{file}: {FUNCTION} returned {made!r}, which is not a Module")
    if made.takes_lengths and not isinstance(made, (nn.Sequential, nn.FourAxes)):
        return made
    return AcousticModel(made)


class _Loader(importlib.machinery.SourceFileLoader):
    # Any suffix is read as source, and no cache is written beside the file.

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        return compile(source, self.path, "exec", dont_inherit=True)


def _place(file: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{file}:{error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f"{file}:{lines[-1]}" if lines else file
