"""SIGINT, SIGTERM and SIGHUP: the step is finished, the checkpoint written, the process ends."""

from __future__ import annotations

import fcntl
import io
import os
import signal
import subprocess
import sys
import termios
import threading

import pytest

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft

STATUSES = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def interrupts():
    """Signals as from a terminal: where tests run in the background or under `nohup`, they are
    ignored, here and in processes that start here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hang_up)


class Send(nn.Callback):
    """Sends a signal to this process before step `at` (from 0) is made."""

    def __init__(self, number, at, times=1):
        self.number, self.at, self.times = number, at, times

    def before_step(self, trainer):
        if trainer.step == self.at and trainer.communicator.rank == 0:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)


def batches(**place):
    x = ft.randn((24, 2), ft.Generator(0))
    return data.Batch(data.Shuffle(data.TensorDataset(x, x[:, :1]), seed=0), 4, **place)


def trainer(*callbacks, **options):
    model = nn.Linear(2, 1, generator=ft.Generator(1))
    options.setdefault("progress", False)
    return nn.Trainer(
        model, nn.Adam(model.parameters(), lr=0.1), nn.mse, callbacks=callbacks, **options
    )


@pytest.mark.parametrize("number, status", STATUSES)
@pytest.mark.parametrize("at", [1, 5, 7])  # 5: the last step of an epoch
def test_the_step_is_finished_and_the_run_goes_on_later(tmp_path, number, status, at):
    before = [signal.getsignal(n) for n, _ in STATUSES]
    run = trainer(Send(number, at), out=tmp_path)
    with pytest.raises(nn.Interrupted) as stopped:
        run.fit(batches(), batches(), epochs=3)
    assert (stopped.value.code, stopped.value.signal) == (status, number)
    assert stopped.value.checkpoint == tmp_path / "checkpoint.safetensors"
    assert [signal.getsignal(n) for n, _ in STATUSES] == before
    assert nn.load_checkpoint(stopped.value.checkpoint).position["step"] == at + 1

    resumed = trainer(out=tmp_path)
    resumed.resume()
    resumed.fit(batches(), batches(), epochs=3)
    whole = trainer()
    whole.fit(batches(), batches(), epochs=3)
    assert resumed.model.weight.tolist() == whole.model.weight.tolist()
    assert [r["valid_loss"] for r in resumed.history] == [r["valid_loss"] for r in whole.history]


def test_validation_is_not_waited_for(tmp_path):
    class Interrupting(data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            assert index < 2
            os.kill(os.getpid(), signal.SIGTERM)
            return ft.ones((1, 2)), ft.ones((1, 1))

    run = trainer(out=tmp_path)
    with pytest.raises(nn.Interrupted):
        run.fit(batches(), Interrupting(), epochs=2)
    assert nn.load_checkpoint(run.checkpoint).position["batch"] == 6


def test_the_second_signal_acts_at_once(tmp_path):
    run = trainer(Send(signal.SIGINT, 1, times=2), out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.fit(batches(), epochs=1)
    assert run.step == 1 and not run.checkpoint.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.defect("P16")
def test_a_second_hang_up_is_no_impatience(tmp_path):
    run = trainer(Send(signal.SIGHUP, 1, times=3), out=tmp_path)
    with pytest.raises(nn.Interrupted):
        run.fit(batches(), epochs=1)
    assert nn.load_checkpoint(run.checkpoint).position["step"] == 2


@pytest.mark.defect("P16")
def test_a_run_goes_on_when_nobody_hears_it():
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    run = trainer(progress=True, stream=Closed())
    assert len(run.fit(batches(), epochs=2)) == 2


def test_what_is_said_and_that_nothing_is_kept_without_a_folder():
    stream = io.StringIO()
    with pytest.raises(nn.Interrupted) as stopped:
        trainer(Send(signal.SIGTERM, 1), progress=True, stream=stream).fit(batches(), epochs=1)
    assert stopped.value.checkpoint is None
    expected = "stopped by SIGTERM after step 2; nothing was written: there is no out folder"
    assert stream.getvalue().splitlines()[-1] == str(stopped.value) == expected


def test_no_handler_of_failures_swallows_it():
    assert not issubclass(nn.Interrupted, Exception)


def test_ranks_in_threads_stop_at_the_same_step(tmp_path):
    def program(communicator):
        place = {"rank": communicator.rank, "world_size": communicator.world_size}
        run = trainer(Send(signal.SIGTERM, 2), communicator=communicator, out=tmp_path)
        try:
            run.fit(batches(**place), epochs=3)
        except nn.Interrupted:
            return run.step
        return None

    with nn.stop_signals() as signals:
        steps = dist.threads.run(2, program)
        assert signals.received == signal.SIGTERM
        signals.received = None  # answered
    assert steps[0] == steps[1] and steps[0] in range(3, 7)
    assert nn.load_checkpoint(tmp_path / "checkpoint.safetensors").position["step"] == steps[0]


def test_a_signal_that_nothing_answered_acts_at_the_end_of_the_block():
    with pytest.raises(KeyboardInterrupt), nn.stop_signals():
        os.kill(os.getpid(), signal.SIGINT)


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with nn.stop_signals() as signals:
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_train_as_ever():
    found = []
    thread = threading.Thread(target=lambda: found.append(trainer().fit(batches(), epochs=1)))
    thread.start()
    thread.join()
    assert len(found[0]) == 1


PROGRAM = """
import time, fl_nn as nn, fl_tensor as ft
class Slow(nn.Callback):
    def on_step(self, trainer):
        print(trainer.step, flush=True)
        time.sleep(0.02)
model = nn.Linear(2, 1)
run = nn.Trainer(model, nn.SGD(model.parameters(), lr=0.1), nn.mse, callbacks=[Slow()], out="run")
run.fit([(ft.ones((4, 2)), ft.ones((4, 1)))] * 10_000, epochs=1)
"""


QUIET = PROGRAM.replace("print(trainer.step, flush=True)", "pass")


@pytest.mark.defect("P16")
def test_the_terminal_is_closed(tmp_path):
    def take_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    lead, follow = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", QUIET], cwd=tmp_path, stdin=follow, stdout=follow, stderr=follow,
        start_new_session=True, preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(follow)
    while b"loss" not in os.read(lead, 1000):  # the bar: it trains
        pass
    os.close(lead)
    try:
        assert process.wait(timeout=60) == 129
    finally:
        process.kill()
    position = nn.load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").position
    assert position["step"] >= 1


def test_as_a_process(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    last = int(out.split()[-1]) if out.split() else 1
    assert f"stopped by SIGTERM after step {last}; resume() goes on from run" in errors
    assert "Traceback" not in errors
    checkpoint = nn.load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert checkpoint.position["step"] == last
