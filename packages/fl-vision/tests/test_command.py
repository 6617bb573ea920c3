"""The command: what it writes and prints, and one line for everything that can be wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from fl_nn import run_folder
from fl_vision import DataOptions, load_dataset
from fl_vision.cli import main

SMALL = ["--holdout", "20", "--epochs", "2", "--batch-size", "16", "--lr", "0.004", "--quiet"]


@pytest.fixture
def digits_dir(tmp_path: Path, write_digits: Callable[..., None]) -> Path:
    """80 images of four classes, as MNIST files."""
    write_digits("data", "t10k", 80)
    return tmp_path / "data"


@pytest.fixture
def run(streams: Callable[..., tuple[list[str], list[str]]]) -> Callable[..., list[str]]:
    """run(*arguments) -> the lines on standard output; the command must succeed."""
    return lambda *arguments: streams(*arguments)[0]


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """refuse(*arguments) -> the one line on standard error; the command must end with status 2."""

    def refuse(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert len(lines) == 1, captured.err
        assert lines[0].startswith("fl-vision: error: ")
        return lines[0]

    return refuse


def epochs(folder: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [
        {name: x for name, x in record.items() if name != "seconds"}
        for record in records
        if record["event"] != "start"
    ]


def test_train_eval_predict(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    out = tmp_path / "run"
    data = ["--dataset", "mnist", "--data-dir", digits_dir]
    printed = run("train", *data, *SMALL, "--epochs", 6, "--batch-size", 8, "--out", out)
    assert re.fullmatch(r"test accuracy [01]\.\d{4}", printed[-1])
    assert float(printed[-1].split()[-1]) >= 0.9
    records = epochs(out)
    assert [r["epoch"] for r in records if r["event"] == "epoch"] == [1, 2, 3, 4, 5, 6]
    assert sum(r["event"] == "step" for r in records) == 48

    assert run("eval", out)[-1] == printed[-1]
    assert run("eval", out / "checkpoint.safetensors", *data, "--holdout", 20)[-1] == printed[-1]

    test = load_dataset("mnist", DataOptions(data_dir=digits_dir, holdout=20)).test
    files = []
    for index in range(4):
        files.append(tmp_path / f"class-{index}.png")
        _, height, width = test[index][0].shape
        picture = Image.frombytes("L", (width, height), bytes(test[index][0].tobytes()))
        picture.resize((24, 24)).save(files[-1])
    lines = run("predict", out, *files)
    said = [re.fullmatch(r"(.*): (\d) \((0|1)\.\d{4}\)", line) for line in lines]
    assert [match and match[1] for match in said] == [str(path) for path in files]
    assert sum(match is not None and int(match[2]) == k for k, match in enumerate(said)) >= 3
    assert run("predict", out, files[0], "--top", 3)[0].count("(") == 3
    assert run("predict", out, files[0], "--invert") != lines[:1]


def test_two_epochs_and_resume_equal_one_run(tmp_path: Path, run: Callable[..., list[str]]) -> None:
    pytest.importorskip("sklearn", reason="the extra fl-vision[digits] is not installed")
    settings = ["train", "--limit", 100, "--quiet", "--seed", 3]
    whole = run(*settings, "--epochs", 4, "--out", tmp_path / "whole")
    run(*settings, "--epochs", 2, "--out", tmp_path / "parts")
    parts = run("train", "--resume", "--epochs", 4, "--quiet", "--out", tmp_path / "parts")
    assert parts[-1] == whole[-1]
    assert epochs(tmp_path / "parts") == epochs(tmp_path / "whole")
    # A finished run has nothing left to do.
    again = run("train", "--resume", "--quiet", "--out", tmp_path / "parts")
    assert again[-1] == whole[-1]


@pytest.mark.parametrize(
    "ranks, communicator, number",
    [
        (1, "local", signal.SIGTERM),
        (2, "threads", signal.SIGTERM),
        (2, "processes", signal.SIGTERM),
        pytest.param(2, "processes", signal.SIGHUP, marks=pytest.mark.defect("P16")),
    ],
)
def test_a_signal_ends_a_run_that_goes_on_later(
    tmp_path: Path,
    digits_dir: Path,
    run: Callable[..., list[str]],
    ranks: int,
    communicator: str,
    number: signal.Signals,
) -> None:
    several = ["--ranks", ranks, "--communicator", communicator]
    data = ["--dataset", "mnist", "--data-dir", digits_dir, *SMALL, *several, "--seed", 4]
    out = tmp_path / "run"
    command = [sys.executable, "-m", "fl_vision", "train", *data, "--epochs", 500, "--out", out]
    process = subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # ignored under `nohup`
    )
    deadline = time.monotonic() + 60
    try:
        while not (out / "checkpoint.safetensors").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        if number == signal.SIGHUP:  # as it comes from a terminal: to all its processes
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number
    stopped = re.fullmatch(r"fl-vision: stopped after step (\d+); --resume goes on", errors.strip())
    assert stopped is not None, errors

    more = int(stopped[1]) // 4 + 2  # 4 steps in an epoch
    options = ["--quiet", "--epochs", more, "--out", out, *several]
    parts = run("train", "--resume", *options)
    whole = run("train", *data, "--epochs", more, "--out", tmp_path / "whole")
    assert parts[-1] == whole[-1]
    assert epochs(out)[-1] == epochs(tmp_path / "whole")[-1]


def test_all_of_the_trainer_by_options(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    options = [
        *("--compiled", "--amp", "--ema", 0.9, "--clip", 1, "--accumulate", 2, "--patience", 5),
        *("--keep-best", 1, "--checkpoint-every", 1, "--prefetch", 2, "--out", tmp_path / "run"),
    ]
    printed = run("train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, *options)
    (best,) = (tmp_path / "run").glob("best-*.safetensors")
    accuracy = max(r["valid_accuracy"] for r in epochs(tmp_path / "run") if r["event"] == "epoch")
    assert run("eval", best)[-1] == f"test accuracy {accuracy / 100:.4f}"
    assert run("train", "--resume", "--quiet", "--out", tmp_path / "run")[-1] == printed[-1]


@pytest.mark.defect("P3")
def test_a_finished_run_is_replaced_if_asked_alone(
    tmp_path: Path,
    digits_dir: Path,
    run: Callable[..., list[str]],
    refuse: Callable[..., str],
) -> None:
    data = ["train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL]
    out = tmp_path / "run"
    run(*data, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    said = refuse(*data, "--out", out)
    assert f"{out} holds a run already: --resume goes on with it, --overwrite" in said
    assert "not allowed with argument --resume" in refuse(*data, "--resume", "--overwrite")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    run(*data, "--epochs", 1, "--overwrite", "--out", out)
    assert [r["epoch"] for r in epochs(out) if r["event"] == "epoch"] == [1]


@pytest.mark.defect("P3")
def test_each_data_set_has_a_folder_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    digits_dir: Path,
    write_image: Callable[..., Path],
    run: Callable[..., list[str]],
    refuse: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for index in range(4):
        write_image(f"pictures/a/{index}.png", size=(8, 8))
        write_image(f"pictures/b/{index}.png", size=(8, 8))
    run("train", "--dataset", "mnist", "--data-dir", "data", *SMALL)
    run("train", "--dataset", "folder", "--data-dir", "pictures", "--epochs", 1, "--quiet")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "folder-pictures", "mnist",
    ]  # fmt: skip
    said = refuse("train", "--resume")
    assert "no run to resume in runs/digits" in said and "--dataset which run it is" in said


@pytest.mark.defect("P4")
def test_a_run_that_another_process_writes_is_left_alone(
    tmp_path: Path, digits_dir: Path, refuse: Callable[..., str]
) -> None:
    with run_folder(tmp_path / "run"):
        thread = threading.Thread(
            target=lambda: said.append(
                refuse("train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--out",
                       tmp_path / "run")
            )
        )  # fmt: skip
        said: list[str] = []
        thread.start()
        thread.join()
    assert f"process {os.getpid()} (this one) writes a run there" in said[0]


@pytest.mark.defect("P17")
def test_one_figure_decides_and_the_report_says_of_which_weights(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    out = tmp_path / "run"
    data = ["train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--patience", 2]
    printed = run(*data, "--epochs", 30, "--lr", 1e-20, "--out", out)  # it cannot learn
    records = [r for r in epochs(out) if r["event"] == "epoch"]
    best = max(records, key=lambda r: r["valid_accuracy"])["epoch"]  # of equals the first
    assert len(records) == best + 2 < 30
    file = f"best-{best:04d}.safetensors"
    said = f"weights of epoch {best}, which has the best accuracy on held-out samples ({file})"
    assert printed[-2] == said
    top = "test accuracy of the best five"

    def evaluated(path: Path) -> list[str]:
        return [line for line in run("eval", path) if not line.startswith(top)][-2:]

    assert evaluated(out) == printed[-2:]
    assert evaluated(out / file) == [f"weights of epoch {best}", printed[-1]]
    assert evaluated(out / "checkpoint.safetensors")[0] == f"weights of epoch {best + 2}"
    assert run("train", "--resume", "--quiet", "--out", out)[-2:] == printed[-2:]


@pytest.mark.defect("P17")
def test_without_a_choice_the_weights_are_the_last(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    data = ["--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--out", tmp_path / "run"]
    assert run("train", *data)[-2] == "weights of epoch 2, the last"
    assert "weights of epoch 2" in run("eval", tmp_path / "run")


def test_a_folder_of_images(
    tmp_path: Path, write_image: Callable[..., Path], run: Callable[..., list[str]]
) -> None:
    for index in range(10):
        write_image(f"pictures/day/{index}.png", (200 + index, 210, 230), size=(9, 12))
        write_image(f"pictures/night/{index}.png", (10, 5 + index, 40), size=(12, 9))
    folder = tmp_path / "pictures"
    size = ["--dataset", "folder", "--data-dir", folder, "--image-size", "10x8"]
    out = tmp_path / "run"
    printed = run(
        "train", *size, "--limit", 12, "--epochs", 8, "--batch-size", 4, "--quiet", "--out", out
    )
    assert printed[-1] == "test accuracy 1.0000"
    assert run("eval", out)[-1] == "test accuracy 1.0000"
    assert run("predict", out, folder / "night" / "3.png")[0].endswith(")")
    assert ": night (" in run("predict", out, folder / "night" / "3.png")[0]


def test_implementations_are_chosen_by_name(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    data = ["train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--epochs", 1]
    plain = run(*data, "--out", tmp_path / "a")
    other = run(
        *data, "--memory", "system", "--backend", "numpy", "--prefetch", 2, "--out", tmp_path / "b"
    )
    assert plain[-1] == other[-1]
    for one, two in zip(epochs(tmp_path / "a"), epochs(tmp_path / "b"), strict=True):
        assert one.pop("event") == two.pop("event")
        assert one == pytest.approx(two, rel=1e-6)  # `jit` rounds a step as a whole


def test_ranks_of_every_kind_train_alike(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    data = ["train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--dropout", 0]
    data += ["--dtype", "float64", "--epochs", 1]
    alone = run(*data, "--out", tmp_path / "alone")
    expected = epochs(tmp_path / "alone")
    for name in ("processes", "threads"):
        printed = run(*data, "--ranks", 2, "--communicator", name, "--out", tmp_path / name)
        # Pictures and accuracy come once.
        assert [re.sub(r"(processes|threads|[0-9.]+ s)", "", line) for line in printed] == [
            re.sub(r"(alone|[0-9.]+ s)", "", line) for line in alone
        ]
        for one, two in zip(epochs(tmp_path / name), expected, strict=True):
            assert one.pop("event") == two["event"]
            assert one == pytest.approx({k: v for k, v in two.items() if k != "event"}, rel=1e-9)


def test_ranks_that_a_launcher_started_join(tmp_path: Path, digits_dir: Path) -> None:
    out = tmp_path / "run"
    data = ["train", "--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--out", out]
    command = [sys.executable, "-m", "fl_vision", *map(str, data)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            command,
            # As torchrun sets them.
            env={
                **os.environ,
                **{"RANK": str(rank), "LOCAL_RANK": str(rank)},
                **{"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"},
                **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    assert said[0][0].splitlines()[-1].startswith("test accuracy") and not said[1][0]
    assert [r["epoch"] for r in epochs(out) if r["event"] == "epoch"] == [1, 2]


def test_another_number_of_ranks_goes_on(
    tmp_path: Path, digits_dir: Path, run: Callable[..., list[str]]
) -> None:
    data = ["--dataset", "mnist", "--data-dir", digits_dir, *SMALL, "--dropout", 0]
    data += ["--dtype", "float64"]
    run("train", *data, "--epochs", 3, "--out", tmp_path / "whole")
    run("train", *data, "--epochs", 1, "--out", tmp_path / "parts")
    for ranks, more in ((2, 2), (1, 3)):
        options = ["--ranks", ranks, "--epochs", more, "--quiet", "--out", tmp_path / "parts"]
        run("train", "--resume", *options)
    one, two = epochs(tmp_path / "parts")[-1], epochs(tmp_path / "whole")[-1]
    assert one.pop("event") == two.pop("event") == "epoch"
    assert one == pytest.approx(two, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: command; see fl-vision --help"),
        (["fly"], "invalid choice: 'fly'"),
        (["train", "--epochs", "0"], "'0': give at least 1"),
        (["train", "--epochs", "x"], "'x': give a whole number"),
        (["train", "--lr", "-1"], "'-1': give more than 0"),
        (["train", "--lr", "nan"], "'nan': give more than 0"),
        (["train", "--dropout", "1"], "'1': give at least 0, and below 1"),
        (["train", "--dtype", "int8"], "invalid choice: 'int8'"),
        (["train", "--image-size", "0x3"], "0x3 is not HEIGHTxWIDTH"),
        (["train", "--unknown"], "unrecognized arguments: --unknown"),
        (["train", "--ranks", "0"], "'0': give at least 1"),
        (["train", "--dataset", "cifar"], "unknown data set 'cifar'; choose one of digits, mnist"),
        (["train", "--dataset", "folder"], "Give --data-dir"),
        (["train", "--dataset", "folder", "--data-dir", "absent"], "give a folder"),
        (["train", "--backend", "absent"], "absent"),
        (["train", "--memory", "absent"], "absent"),
        (["train", "--holdout", "5"], "--holdout has no meaning here"),
        (["train", "--resume", "--out", "absent"], "no run to resume in absent; leave --resume"),
        (["eval", "absent.safetensors"], "absent.safetensors"),
        (["predict", "absent.safetensors", "x.png"], "absent.safetensors"),
        (["predict", "absent.safetensors"], "required: images"),
    ],
)
def test_bad_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[..., str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refuse(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_bad_files(
    tmp_path: Path,
    digits_dir: Path,
    run: Callable[..., list[str]],
    refuse: Callable[..., str],
) -> None:
    out = tmp_path / "run"
    data = ["--dataset", "mnist", "--data-dir", digits_dir]
    run("train", *data, *SMALL, "--epochs", 1, "--out", out)

    (tmp_path / "text.png").write_text("no image")
    assert "text.png: not an image" in refuse("predict", out, tmp_path / "text.png")
    assert "no such file" in refuse("predict", out, tmp_path / "absent.png")

    assert "--lr was 0.004, is 0.1" in refuse("train", "--resume", "--out", out, "--lr", 0.1)
    assert "2 ranks" not in refuse("train", "--resume", "--out", out, "--seed", 9)
    unknown = refuse("train", *data, "--ranks", 2, "--communicator", "absent", "--out", out)
    assert "no communicator named 'absent'" in unknown

    occupied = refuse("train", *data, *SMALL, "--out", tmp_path / "text.png")
    assert "text.png" in occupied
    assert "give a folder to write to" in occupied

    checkpoint = out / "checkpoint.safetensors"
    whole = checkpoint.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole[:100],
        b"",
        whole[:-1] + bytes([whole[-1] ^ 1]),
    ):
        checkpoint.write_bytes(damaged)
        assert str(checkpoint) in refuse("eval", out)
        assert str(checkpoint) in refuse("train", "--resume", "--out", out)

    labels = digits_dir / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(labels.read_bytes()[:20])
    again = ["train", *data, *SMALL, "--overwrite", "--out", out]
    assert f"[idx] {labels}" in refuse(*again)


def test_an_image_that_breaks_while_training(
    tmp_path: Path, write_image: Callable[..., Path], refuse: Callable[..., str]
) -> None:
    for index in range(6):
        write_image(f"p/a/{index}.png", size=(8, 8))
        write_image(f"p/b/{index}.png", size=(8, 8))
    broken = tmp_path / "p" / "b" / "5.png"
    broken.write_bytes(broken.read_bytes()[:50])
    for options in ([], ["--ranks", 2], ["--prefetch", 2]):
        line = refuse(
            *("train", "--dataset", "folder", "--data-dir", tmp_path / "p", "--quiet", "--epochs"),
            *(1, "--out", tmp_path / "run", *options),
        )
        assert f"[image] {broken}: damaged or cut off" in line


def test_as_a_process(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "fl_vision", "eval", "absent"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert process.returncode == 2
    assert process.stdout == ""
    assert len(process.stderr.splitlines()) == 1
    assert process.stderr.startswith("fl-vision: error: ")


def test_real_mnist_digits(tmp_path: Path, mnist_dir: Path, run: Callable[..., list[str]]) -> None:
    printed = run(
        *("train", "--dataset", "mnist", "--data-dir", mnist_dir, "--holdout", 200, "--limit", 320),
        *("--epochs", 3, "--batch-size", 16, "--lr", 0.003, "--quiet", "--out", tmp_path),
    )
    assert float(printed[-1].split()[-1]) >= 0.7
