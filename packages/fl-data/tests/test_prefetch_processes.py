"""Prefetching in processes: the same samples, memory that is safe to keep, nothing left behind."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import fl_data as data
import fl_tensor as ft
import prefetched

unix = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="counts /proc")
FOLDER = Path(__file__).parent


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture(autouse=True)
def no_process_and_no_descriptor_is_left():
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert descriptors() <= before + 1  # multiprocessing keeps one for its resource tracker


def numbers_of(samples):
    return [sample[-1].item() for sample in samples]


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_the_order_is_that_of_the_dataset(start_method):
    ds = prefetched.Numbered(20, do=prefetched.sleep)
    prefetch = data.Prefetch(ds, processes=2, start_method=start_method)
    assert numbers_of(prefetch) == list(range(20))
    prefetch.close()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="warns when there are threads")
def test_fork_is_there_for_those_who_know_what_they_do():
    prefetch = data.Prefetch(prefetched.Numbered(5), processes=2, start_method="fork")
    assert numbers_of(prefetch) == list(range(5))
    prefetch.close()


def test_samples_of_every_kind_arrive_as_they_are():
    ds = prefetched.Everything()
    expected = [ds[i] for i in range(len(ds))]
    for depth in (1, 4):
        for found, wanted in zip(data.Prefetch(ds, depth=depth, processes=2), expected):
            assert list(found) == list(wanted)
            for name in prefetched.DTYPES:
                x, y = found["all"][name], wanted["all"][name]
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                assert bytes(x.tobytes()) == bytes(y.tobytes())
            shared, (again, about) = found["nested"]
            assert again is shared
            assert shared.tolist() == wanted["nested"][0].tolist()
            assert about == wanted["nested"][1][1]
            assert found["empty"].shape == (0, 3)
            assert found["turned"].tolist() == wanted["turned"].tolist()
            assert found["number"] == wanted["number"]


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_samples_that_are_kept_are_never_written_over(backend):
    if backend == "jit":
        pytest.importorskip("fl_jit")
    with ft.use(backend):
        prefetch = data.Prefetch(prefetched.Numbered(40, width=10_000), processes=2, depth=3)
        kept = [(x, x[5_000:], number) for x, number in prefetch]
        for _ in prefetch:  # fills what slots there are once more
            pass
        prefetch.close()
        for x, part, number in kept:
            assert x.backend.name == backend
            assert (x == number).all().item() and (part == number).all().item()
        with_a_change = kept[0][0]
        with_a_change[0] = 99.0  # a value of its own, as ever
        assert kept[0][1][0].item() == 0


@pytest.mark.defect("N36")
def test_floats_have_the_default_dtype_of_the_iteration():
    samples = prefetched.Numbered(4)
    for workers in ({"threads": 1}, {"processes": 1}):
        with contextlib.closing(data.Prefetch(samples, **workers)) as prefetch:
            for dtype in ("float64", "float32"):  # the same processes
                with ft.default_dtype(dtype):
                    assert {x.dtype.name for x, _ in prefetch} == {dtype}


@unix
def test_memory_is_used_again_and_does_not_grow_with_what_is_kept():
    prefetch = data.Prefetch(prefetched.Numbered(60, width=50_000), processes=2, depth=4)
    iterator = iter(prefetch)
    kept = [next(iterator) for _ in range(10)]
    many = descriptors()
    kept += [next(iterator) for _ in range(45)]
    assert descriptors() <= many + 4
    assert numbers_of(kept) == list(range(55))
    iterator.close()


def test_a_depth_beyond_what_pipes_hold():
    prefetch = data.Prefetch([(i, "text") for i in range(1500)], processes=1, depth=1500)
    assert list(prefetch) == [(i, "text") for i in range(1500)]
    prefetch.close()


def test_a_worker_computes_with_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # what it would have otherwise
    prefetch = data.Prefetch(
        data.Transform(prefetched.Numbered(2), prefetched.threads_of), processes=1
    )
    assert list(prefetch) == [(1,), (1,)]
    prefetch.close()


def samples_of(prefetch, epoch):
    prefetch.set_epoch(epoch)
    return [[field.tolist() for field in sample] for sample in prefetch]


def test_the_samples_are_the_same_with_any_workers(rows):
    ds = data.Transform(data.Shuffle(rows(24), seed=3), prefetched.add_noise)
    ds = data.Batch(data.RandomTransform(ds, prefetched.augment, seed=5), 5)
    ft.seed(11)
    kinds = [{"threads": 0}, {"threads": 3}, {"processes": 1}, {"processes": 3, "depth": 7}]
    loaders = [data.Prefetch(ds, **kind) for kind in kinds]
    first, second = ([samples_of(loader, epoch) for loader in loaders] for epoch in (0, 1))
    assert first == [first[0]] * 4
    assert second == [second[0]] * 4
    assert first[0] != second[0]
    ft.seed(12)
    assert samples_of(loaders[3], 0) == samples_of(loaders[1], 0) != first[0]


def test_workers_make_whole_batches_whichever_is_inside_the_other(rows):
    noisy = data.Transform(rows(10), prefetched.add_noise)
    ft.seed(2)
    outside = data.Prefetch(data.Batch(noisy, 4), processes=1)
    inside = data.Batch(data.Prefetch(noisy, processes=1), 4)
    for one, other in zip(outside, inside, strict=True):
        assert [x.tolist() for x in one] == [x.tolist() for x in other]
    makers = data.Batch(
        data.Prefetch(data.Transform(rows(4), prefetched.process_of), processes=1), 2
    )
    first, second = [batch[0].tolist() for batch in makers], [b[0].tolist() for b in makers]
    assert os.getpid() not in sum(first, [])
    assert first == second  # kept for the next epoch


def test_an_iterator_goes_on_where_its_state_says(rows):
    ds = data.Transform(data.Shuffle(rows(20), seed=0), prefetched.add_noise)
    ft.seed(4)
    expected = samples_of(data.Prefetch(ds, threads=0), 2)
    prefetch = data.Prefetch(ds, processes=2)
    prefetch.set_epoch(2)
    iterator = iter(prefetch)
    for _ in range(7):
        next(iterator)
    state = iterator.state()
    assert state == {"epoch": 2, "position": 7, "length": 20}
    iterator.close()
    resumed = iter(data.Prefetch(ds, processes=3))
    resumed.load_state(state)
    assert [[field.tolist() for field in sample] for sample in resumed] == expected[7:]


def test_the_processes_stay_for_the_next_iteration(rows):
    prefetch = data.Prefetch(data.Transform(rows(8), prefetched.process_of), processes=2)
    processes = [{sample[0].item() for sample in prefetch} for _ in range(3)]
    assert len(processes[0] | processes[1] | processes[2]) == 2
    assert os.getpid() not in processes[0]
    prefetch.close()
    assert multiprocessing.active_children() == []
    assert {sample[0].item() for sample in prefetch} & processes[0] == set()


def test_what_changes_between_iterations_reaches_the_workers():
    ds = prefetched.Numbered(4)
    prefetch = data.Prefetch(ds, processes=1)
    assert [x.shape for x, _ in prefetch] == [(1,)] * 4
    ds.width = 3
    assert [x.shape for x, _ in prefetch] == [(3,)] * 4


def test_two_iterators_do_not_disturb_each_other(rows):
    prefetch = data.Prefetch(rows(10), processes=1)
    pairs = list(zip(prefetch, prefetch, strict=True))
    assert numbers_of(a for a, _ in pairs) == numbers_of(b for _, b in pairs) == list(range(10))


def test_an_error_arrives_in_its_turn_with_index_and_traceback():
    iterator = iter(data.Prefetch(prefetched.Numbered(8, do=prefetched.fail_at_3), processes=2))
    assert numbers_of(next(iterator) for _ in range(3)) == [0, 1, 2]
    with pytest.raises(data.WorkerError, match=r"sample 3 .* process .* ValueError: file 3") as got:
        next(iterator)
    assert got.value.index == 3
    cause = got.value.__cause__
    assert isinstance(cause, ValueError)
    assert "in fail_at_3" in str(cause.__cause__)
    assert numbers_of(iterator) == [4, 5, 6, 7]


def test_an_error_that_cannot_be_made_again_arrives_as_text():
    iterator = iter(data.Prefetch(prefetched.Numbered(2, do=prefetched.fail_fussily), processes=1))
    with pytest.raises(data.WorkerError) as got:
        next(iterator)
    assert "Fussy: one and another" in str(got.value.__cause__)
    assert "in fail_fussily" in str(got.value.__cause__)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (prefetched.leave_at_4, "ended with exit status 7 while it made sample 4"),
        (prefetched.be_killed_at_4, r"was killed by SIGKILL \(out of memory\?\) .* sample 4"),
    ],
)
def test_a_worker_that_dies_is_an_error_and_not_a_hang(end, message):
    iterator = iter(data.Prefetch(prefetched.Numbered(8, do=end), processes=2))
    assert numbers_of(next(iterator) for _ in range(4)) == [0, 1, 2, 3]
    with pytest.raises(data.WorkerError, match=message) as got:
        next(iterator)
    assert got.value.index == 4
    assert numbers_of(iterator) == [5, 6, 7]


def test_workers_killed_between_two_iterations_are_replaced(rows):
    prefetch = data.Prefetch(rows(6), processes=2)
    assert numbers_of(prefetch) == list(range(6))
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    assert numbers_of(prefetch) == list(range(6))


def test_what_cannot_be_pickled_says_so(rows):
    prefetch = data.Prefetch(data.Transform(rows(3), lambda sample: sample), processes=1)
    with pytest.raises(data.SampleTypeError, match="cannot be sent .* no lambda.*threads"):
        next(iter(prefetch))
    with pytest.raises(data.WorkerError, match="cannot pickle '_thread.lock'"):
        next(iter(data.Prefetch(prefetched.Unpackable(), processes=1)))


def test_a_dataset_that_a_worker_cannot_read_says_so():
    iterator = iter(data.Prefetch(prefetched.Unreadable(), processes=1))
    with pytest.raises(
        data.IterationError, match=r"could not read the dataset: ValueError.*no num"
    ):
        next(iterator)
    assert iterator.position == 0


def test_signals_for_the_whole_group_do_not_end_the_workers():
    ds = prefetched.Numbered(4, do=prefetched.interrupt_workers)
    assert numbers_of(data.Prefetch(ds, processes=2)) == [0, 1, 2, 3]


def test_an_interrupt_while_waiting_leaves_an_iterator_that_goes_on():
    iterator = iter(data.Prefetch(prefetched.Numbered(6, do=prefetched.sleep), processes=1))
    next(iterator)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        iterator._ds.do = prefetched.sleep_long
        iterator.close()
        timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        assert time.monotonic() - started < 30
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert iterator.position == 1
    iterator._ds.do = None
    assert numbers_of(iterator) == [1, 2, 3, 4, 5]


def test_processes_end_when_the_loop_is_left():
    for _ in data.Prefetch(prefetched.Numbered(100), processes=2):
        break
    gc.collect()
    assert multiprocessing.active_children() == []


def test_closing_from_another_thread_wakes_the_waiting_consumer():
    ds = prefetched.Numbered(3, do=prefetched.sleep_long)
    iterator = iter(data.Prefetch(ds, processes=1))
    threading.Timer(1.0, iterator.close).start()
    with pytest.raises(data.IterationError, match="closed"):
        next(iterator)
    deadline = time.monotonic() + 20
    while multiprocessing.active_children():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_empty_dataset_starts_no_process(rows):
    assert list(data.Prefetch(rows(0), processes=2)) == []


def test_a_prefetch_is_pickled_without_its_processes(rows):
    prefetch = data.Prefetch(rows(3), processes=1)
    assert numbers_of(prefetch) == [0, 1, 2]
    copy = pickle.loads(pickle.dumps(prefetch))
    assert repr(copy) == repr(prefetch)
    assert numbers_of(copy) == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": 1, "processes": 1}, "give one of the two"),
        ({"processes": -1}, "processes must be at least 0"),
        ({"processes": 2, "depth": 0}, "depth must be at least 1"),
        ({"processes": 2, "start_method": "clone"}, "unknown start_method 'clone'"),
    ],
)
def test_bad_settings_are_refused(rows, settings, message):
    with pytest.raises(data.FlError, match=message):
        data.Prefetch(rows(3), **settings)


SCRIPT = """
import os, signal, sys
import fl_data as data
import prefetched

def main():
    iterator = iter(data.Prefetch(prefetched.Numbered(50, width=50_000), processes=2))
    kept = [next(iterator) for _ in range(5)]
    print(len(kept), flush=True)
    {end}

{guard}
"""


def run_script(tmp_path, end="", guard="if __name__ == '__main__': main()"):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=end, guard=guard))
    path = os.pathsep.join([str(FOLDER), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-W", "error", script],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def group_is_gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def group(pid):
    """The processes of a group, as /proc lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that ends meanwhile
            state, _, of_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == pid and state != "Z":
                found.append(path.parent)
    return found


def shared_by_name(processes):
    """The files in /dev/shm that these processes have open or mapped."""
    found = set()
    for process in processes:
        with contextlib.suppress(OSError):
            found |= {os.readlink(link) for link in (process / "fd").iterdir()}
            lines = (process / "maps").read_text().splitlines()
            found |= {line.split(maxsplit=5)[5] for line in lines if line.count("/")}
    return {f for f in found if f.startswith("/dev/shm/") and not f.endswith("(deleted)")}


@unix
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del iterator", "globals()['kept'] = kept"])
def test_a_program_ends_in_silence_and_leaves_nothing(tmp_path, end):
    script = run_script(tmp_path, f"sys.stdin.readline(); {end}")
    assert script.stdout.readline() == "5\n"
    processes = group(script.pid)
    assert len(processes) >= 3, "the program, and two workers"
    assert shared_by_name(processes) == set()  # what has no name ends with the processes
    # Other programs may use shared memory at the same time.
    with tempfile.NamedTemporaryFile(dir="/dev/shm"):
        out, err = script.communicate(timeout=60)
    assert (out, err, script.returncode) == ("", "", 0)
    assert group_is_gone(script.pid)


@unix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_the_program(tmp_path, number):
    script = run_script(tmp_path, "signal.pause()")
    assert script.stdout.readline() == "5\n"
    script.send_signal(number)
    script.communicate(timeout=60)
    assert group_is_gone(script.pid)


@unix
def test_control_c_ends_a_program_with_one_traceback(tmp_path):
    script = run_script(tmp_path, "signal.signal(2, signal.default_int_handler); signal.pause()")
    assert script.stdout.readline() == "5\n"
    time.sleep(0.5)
    os.killpg(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=60)
    assert err.count("Traceback") == 1 and err.strip().endswith("KeyboardInterrupt")
    assert group_is_gone(script.pid)


def test_a_script_without_a_guard_is_told_what_it_lacks(tmp_path):
    script = run_script(tmp_path, guard="main()")
    _, err = script.communicate(timeout=60)
    assert script.returncode == 1
    assert "if __name__ == '__main__':`, because every worker imports the script" in err
    assert group_is_gone(script.pid)
