"""The pages of the documentation site: a hook of mkdocs, which `mkdocs.yml` names.

The site has every page of the repository at its path, so that links work there as they do in the
checkout. It adds a page of API reference for each public module, made of docstrings: one entry for
each name that the module exports.
"""

from __future__ import annotations

from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["*.md", "docs/**/*.md", "benchmarks/README.md"]
PAGES += ["packages/*/*.md", "backends/*/*.md", "examples/*/*.md"]
#: Files that pages show or link to.
OTHERS = ["benchmarks/results/**/*.png", "docs/tutorials/*.ipynb"]
#: Public modules, each with a page. A package exports what its `__init__.py` imports.
MODULES = """
    fl_memory fl_memory.contract fl_memory.testing fl_memory.traces fl_memory.plot
    fl_tensor fl_tensor.linalg fl_tensor.fft fl_tensor.random fl_tensor.extend
    fl_tensor.kernels fl_tensor.testing
    fl_jit
    fl_cupy
    fl_dist fl_dist.testing
    fl_autograd fl_autograd.extend fl_autograd.testing
    fl_data
    fl_nn fl_nn.arch fl_nn.init fl_nn.lora fl_nn.plot fl_nn.quantization fl_nn.rename
    fl_speech fl_speech.criteria fl_speech.datasets fl_speech.effects fl_speech.features
    fl_speech.inference fl_speech.models fl_speech.reports fl_speech.training
    fl_vision fl_vision.datasets fl_vision.detection fl_vision.detectors fl_vision.models
    fl_vision.transforms
    fl_text fl_text.decoder fl_text.evaluation fl_text.generation fl_text.heads
    fl_text.language_model fl_text.language_model_folder fl_text.models fl_text.ngram
    fl_text.rescoring fl_text.token_model fl_text.training
""".split()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """All files of the site."""
    found = {path for pattern in (*PAGES, *OTHERS) for path in ROOT.glob(pattern)}
    site = [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for path in sorted(found)
    ]
    folders = [*ROOT.glob("packages/*/src"), *ROOT.glob("backends/*/src")]
    sources = [str(path) for path in sorted(folders)]
    loader = griffe.GriffeLoader(search_paths=sources)
    for package in sorted({name.partition(".")[0] for name in MODULES}):
        loader.load(package)
    loader.resolve_aliases()
    for name in MODULES:
        text = page(name, loader.modules_collection[name])
        site.append(File.generated(config, f"docs/api/{name}.md", content=text))
    return Files(site)


def page(name: str, module: griffe.Object) -> str:
    """A title, the docstring of the module, and an entry for each of its public names."""
    entries = [f"::: {name}.{member}" for member in sorted(exported(module), key=str.lower)]
    about = f"::: {name}\n    options:\n        members: false\n        heading_level: 1"
    return "\n\n".join([about, *entries]) + "\n"


def exported(module: griffe.Object) -> set[str]:
    """`__all__`, or the names that the module defines or imports from our packages."""
    if module.exports is not None:
        found = {str(name) for name in module.exports}
    else:
        members = module.members.items()
        defined = {name for name, member in members if not member.is_alias and not member.is_module}
        found = defined | imported(module)
    return {name for name in found if not name.startswith("_")}


def imported(module: griffe.Object) -> set[str]:
    """Names that a module imports from our packages, those of a star included."""
    named = {name for name, path in module.imports.items() if path.startswith("fl_")}
    aliases = [member for member in module.members.values() if isinstance(member, griffe.Alias)]
    return named | {alias.name for alias in aliases if is_ours(alias)}


def is_ours(alias: griffe.Alias) -> bool:
    """Whether a name leads to an object of our packages."""
    try:
        return bool(alias.final_target.path)
    except griffe.AliasResolutionError:
        return False  # an object of the standard library, which is not loaded
