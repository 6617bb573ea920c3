"""The example of ranks as Ray actors runs, with two actors on this machine."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fl_dist import environment

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "launching"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="not in a checkout")

WITH_A_DEATH = """
import sys
sys.path.insert(0, {folder!r})
import os, ray, ray_actors
import fl_dist as dist

@ray.remote
class Dies(ray_actors.Rank.__ray_metadata__.modified_class):
    def train(self, info):
        if info.rank == 1 and info.generation == 0:
            dist.load("processes").join(info, timeout=60)
            os.kill(os.getpid(), 9)
        return info.generation, super().train(info)

ray_actors.Rank = Dies
ray.init(include_dashboard=False)
print(ray_actors.run(2))
"""


def run(start, program):
    """The last line that a program with a local Ray prints."""
    process = start(program, sys.executable, "program.py")
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err[-3000:]
    return out.splitlines()[-1]


@pytest.mark.skipif(
    find_spec("ray") is None and "ray" not in os.environ.get("FL_REQUIRED", "").split(),
    reason="ray is not installed",
)
class TestRay:
    def test_two_actors_make_one_world(self, start):
        assert run(start, (EXAMPLES / "ray_actors.py").read_text()) == "[3.0, 3.0]"

    def test_after_the_death_of_an_actor_all_are_started_anew(self, start):
        assert run(start, WITH_A_DEATH.format(folder=str(EXAMPLES))) == "[(1, 3.0), (1, 3.0)]"


def test_the_kubernetes_manifest_sets_what_environment_reads():
    text = (EXAMPLES / "kubernetes-job.yaml").read_text()
    values = dict(re.findall(r"- name: (FL_DIST_\w+)\s+value: \"?([^\"\n]+)", text))
    referred = re.findall(r"- name: (FL_DIST_\w+)\s+valueFrom:", text)
    assert referred == ["FL_DIST_RANK", "FL_DIST_TOKEN"]
    completions = int(re.search(r"completions: (\d+)", text)[1])
    info = environment({**values, "FL_DIST_RANK": "3", "FL_DIST_TOKEN": "t"})
    assert (info.world_size, info.node, info.token) == (completions, 3, "t")
    assert info.store == "tcp://train-0.train:29400"
