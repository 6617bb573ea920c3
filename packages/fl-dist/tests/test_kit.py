"""The kit as a stranger uses it: the command, the report card, and its guards."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FAULTY = """
import fl_dist as dist


class Faulty(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)
    name = "faulty"
    start = dist.Communicator.start

    def do_all_reduce(self, x, op, deadline, into=None):
        return x
"""


def kit(*arguments, folder):
    command = [sys.executable, "-m", "fl_dist.testing", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_a_sound_communicator_gets_a_clean_report_card(tmp_path):
    done = kit("local", "--report", "cards/local.json", folder=tmp_path)
    card = json.loads((tmp_path / "cards" / "local.json").read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{card['passed']} passed, 0 failed"
    assert card["passed"] > 50 and card["failed"] == 0
    assert card["what"] == "communicator"
    assert card["implementation"] == "fl_dist.local:LocalCommunicator"
    assert card["contract"] == card["hosted_contract"] == "1.0"


def test_a_faulty_communicator_fails_the_tests_that_name_its_fault(tmp_path):
    (tmp_path / "acme_faulty.py").write_text(FAULTY)
    done = kit(
        "acme_faulty:Faulty", "-k", "bits or broadcast", "--report", "c.json", folder=tmp_path
    )
    card = json.loads((tmp_path / "c.json").read_text())
    tests = card["tests"]
    failed = {t["name"].partition("[")[0] for t in tests if t["outcome"] == "failed"}
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"{card['passed']} passed, {card['failed']} failed"
    assert failed == {"test_every_rank_gets_the_same_bits_every_time"}
    assert card["passed"] > 0


@pytest.mark.parametrize("name, text", [("nobody", "nobody"), ("os:path", "os:path")])
def test_a_wrong_name_is_told_before_any_test_runs(name, text, tmp_path):
    done = kit(name, folder=tmp_path)
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr


def test_no_test_at_all_is_a_failure(tmp_path):
    done = kit("local", "-k", "nothing_like_this", folder=tmp_path)
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("0 passed")


@pytest.mark.parametrize(
    "body, text",
    [
        ("def test_timeout(self): ...", "overrides test_timeout"),
        ("launch = None", "overrides launch"),
        ("communicator = None", "communicator = YourClass"),
        ("known_failures = {'test_x': 'no'}", "test_x"),
    ],
    ids=["test overridden", "launcher replaced", "nothing to test", "stale known failure"],
)
def test_a_suite_that_was_tampered_with_is_an_error(body, text, tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "from fl_dist import LocalCommunicator\nfrom fl_dist.testing import CommunicatorSuite\n"
        f"class TestMine(CommunicatorSuite):\n    communicator = LocalCommunicator\n    {body}\n"
    )
    options = ["-q", "-p", "fl_pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert text in done.stdout
