"""Stores: what every one promises, and what each refuses."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import fl_dist as dist
from fl_dist.store import KEY_LIMIT, VALUE_LIMIT, Store, StoreError, open_store
from fl_dist.store.file import FileStore
from fl_dist.store.tcp import TCPStore


@pytest.fixture(params=["file", "tcp"])
def url(request, tmp_path, unused_port):
    if request.param == "file":
        return f"file:{tmp_path / 'job'}"
    return f"tcp://127.0.0.1:{unused_port}"


@pytest.fixture
def two(url):
    """The store of rank 0, and the same as another rank sees it."""
    with open_store(url, "secret", server=True) as first:
        with open_store(url, "secret", timeout=5) as second:
            yield first, second


# ---- every store ---------------------------------------------------------------------------------


def test_a_value_is_read_by_the_others_and_replaced_as_a_whole(two):
    first, second = two
    first.set("a/1", b"one")
    assert second.get("a/1", 5) == b"one"
    second.set("a/1", b"")
    assert first.get("a/1", 5) == b""


def test_get_waits_for_the_value(two):
    first, second = two
    timer = threading.Timer(0.2, first.set, ("late", b"there"))
    timer.start()
    assert second.get("late", 10) == b"there"
    timer.join()


def test_get_gives_up_after_the_timeout_and_names_the_key(two):
    start = time.monotonic()
    with pytest.raises(dist.DistTimeoutError, match=r"0\.2 s waiting for 'nobody/sets/this'"):
        two[1].get("nobody/sets/this", 0.2)
    assert 0.15 < time.monotonic() - start < 5


def test_a_wait_of_one_thread_does_not_hold_up_another(two):
    _, second = two
    got = []
    thread = threading.Thread(target=lambda: got.append(second.get("slow", 20)))
    thread.start()
    second.set("quick", b"1")
    assert second.get("quick", 5) == b"1"
    second.set("slow", b"2")
    thread.join(10)
    assert got == [b"2"]


def test_a_counter_gives_every_number_once(two):
    numbers = []

    def count(store):
        for _ in range(50):
            numbers.append(store.add("counter", 1))

    threads = [threading.Thread(target=count, args=(store,)) for store in two * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 201))
    assert two[0].get("counter", 1) == b"200"
    assert two[0].add("counter", -200) == 0


def test_add_refuses_what_is_no_counter(two):
    two[0].set("text", b"hello")
    with pytest.raises(StoreError, match="'text'.*no counter"):
        two[1].add("text", 1)


def test_delete_removes_what_begins_with_the_prefix(two):
    first, second = two
    for key in ("a/1", "a/2", "ab", "b/1"):
        first.set(key, b"x")
    second.delete("a/")
    for key in ("a/1", "a/2"):
        with pytest.raises(dist.DistTimeoutError):
            first.get(key, 0.05)
    assert first.get("ab", 1) == first.get("b/1", 1) == b"x"


def test_keys_may_hold_any_text_and_values_any_bytes_up_to_the_limits(two):
    first, second = two
    keys = ["../escape", "ä/ö ü\n", ".hidden", "owner", "x" * KEY_LIMIT, "x" * (KEY_LIMIT - 1)]
    for number, key in enumerate(keys):
        first.set(key, bytes([number]) * VALUE_LIMIT)
    for number, key in enumerate(keys):
        assert second.get(key, 5) == bytes([number]) * VALUE_LIMIT
    second.delete("")
    with pytest.raises(dist.DistTimeoutError):
        first.get("owner", 0.05)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("x" * (KEY_LIMIT + 1), b"", "1025 bytes"),
        ("", b"", "expected text"),
        ("k", "text", "expected bytes"),
        ("k", b"x" * (VALUE_LIMIT + 1), "at most 1048576"),
    ],
)
def test_what_is_too_long_or_of_another_type_is_refused_before_it_is_sent(two, key, value, message):
    with pytest.raises(dist.ArgumentError, match=message):
        two[1].set(key, value)
    two[1].set("k", b"still usable")


def test_another_token_is_an_error_of_the_one_who_has_it(url, two):
    with pytest.raises(StoreError, match="another token"):
        open_store(url, "guess", timeout=5)
    two[1].set("k", b"v")
    assert two[0].get("k", 5) == b"v"


def test_a_rank_of_before_a_restart_is_refused(url):
    with open_store(url, generation=3, server=True):
        with pytest.raises(StoreError, match="generation 3.*generation 2.*before a restart"):
            open_store(url, generation=2, timeout=5)


def test_waiting_for_a_store_that_nobody_serves_ends(url):
    with pytest.raises(dist.DistTimeoutError, match="gave up after 0.3 s.*rank 0"):
        open_store(url, timeout=0.3)


def test_when_the_server_leaves_the_others_get_an_error_at_once(url):
    first = open_store(url, server=True)
    second = open_store(url, timeout=5)
    timer = threading.Timer(0.2, first.close)
    timer.start()
    with pytest.raises(StoreError, match="is gone"):
        second.get("never", 60)
    timer.join()
    first.close()
    second.close()


def test_a_late_rank_0_is_waited_for(url):
    opened = []
    timer = threading.Timer(0.3, lambda: opened.append(open_store(url, server=True)))
    timer.start()
    open_store(url, timeout=20).close()
    timer.join()
    opened[0].close()


@pytest.mark.parametrize("wrong", ["", "no scheme", 7, None])
def test_a_text_that_is_no_url_is_refused(wrong):
    with pytest.raises(dist.FlError, match="store"):
        open_store(wrong)


def test_mpi_is_no_store():
    with pytest.raises(StoreError, match="FL_DIST_STORE"):
        open_store("mpi:")


def test_a_scheme_that_nobody_offers_names_those_that_are_there():
    with pytest.raises(dist.FlError, match=r"etcd.*file, tcp.*fl\.dist\.store\.v1"):
        open_store("etcd://host")


def test_a_store_of_another_distribution_is_found_by_its_scheme():
    class Table(Store):
        CONTRACT = (1, 0)

        def __init__(self, arguments):
            self.arguments = arguments

        @classmethod
        def open(cls, *arguments):
            return cls(arguments)

        def set(self, key, value): ...
        def get(self, key, timeout): ...
        def add(self, key, n): ...
        def delete(self, prefix): ...
        def close(self): ...

    from fl_dist.store import REGISTRY

    REGISTRY.register("table", Table)
    try:
        store = open_store("table:here", "t", 2, True, timeout=3)
    finally:
        REGISTRY.unregister("table")
    assert store.arguments == ("table:here", "t", 2, True, 3)


# ---- files ---------------------------------------------------------------------------------------


def test_the_folder_of_an_earlier_job_or_of_another_one_is_refused_and_says_who_made_it(tmp_path):
    store = open_store(f"file:{tmp_path}", server=True)  # never closed, as after SIGKILL
    with pytest.raises(StoreError, match=f"exists already, made by process {os.getpid()} on"):
        open_store(f"file:{tmp_path}", server=True)
    store.close()
    open_store(f"file:{tmp_path}", server=True).close()
    assert list(tmp_path.iterdir()) == []


def test_a_restart_takes_a_new_generation_in_the_same_folder(tmp_path):
    old = open_store(f"file:{tmp_path}", generation=0, server=True)
    old.set("k", b"old")
    with open_store(f"file:{tmp_path}", generation=1, server=True) as new:
        with pytest.raises(dist.DistTimeoutError):
            new.get("k", 0.05)


def test_a_relative_folder_is_refused():
    with pytest.raises(dist.ArgumentError, match="absolute"):
        open_store("file:here", server=True)


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create .*Not a directory"):
        open_store(f"file:{tmp_path}/file/job", server=True)


def test_a_damaged_owner_file_is_a_clear_error(tmp_path):
    store = open_store(f"file:{tmp_path}", server=True)
    (tmp_path / "generation-0" / "owner").write_text("{")
    with pytest.raises(StoreError, match="owner cannot be read"):
        open_store(f"file:{tmp_path}", timeout=1)
    store.close()


def test_a_full_disk_is_a_clear_error_and_leaves_the_old_value(tmp_path):
    """A limit on the size of files stands for the full disk: the same error path of write."""
    script = (
        "import resource, signal, sys\n"
        "from fl_dist.store import StoreError, open_store\n"
        "store = open_store(sys.argv[1], server=True)\n"
        "store.set('k', b'old')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    store.set('k', b'x' * 100_000)\n"
        "except StoreError as error:\n"
        "    print(error)\n"
        "print(store.get('k', 1), len(list(store._folder.glob('.part*'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"file:{tmp_path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "[store] cannot write 'k' in" in done.stdout and "File too large" in done.stdout, done
    assert done.stdout.endswith("b'old' 0\n")


# ---- TCP -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 500, b"fl-dist store 1\n" + b"x" * 200, b""]
)
def test_junk_on_the_port_is_ignored_and_logged(junk, caplog):
    with open_store("tcp://127.0.0.1:0", "secret", server=True) as store:
        port = int(store.url.rpartition(":")[2])
        with caplog.at_level(logging.WARNING, "fl_dist.store"):
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(junk)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass  # until the server closes
            store.set("k", b"v")
        assert store.get("k", 1) == b"v"
        assert "127.0.0.1" in caplog.text


def test_silent_strangers_keep_neither_the_members_from_work_nor_newcomers_for_long(monkeypatch):
    monkeypatch.setattr("fl_dist.store.server.STRANGERS", 4)
    monkeypatch.setattr("fl_dist.store.wire.HANDSHAKE", 0.5)
    with open_store("tcp://127.0.0.1:0", server=True) as store:
        address = ("127.0.0.1", int(store.url.rpartition(":")[2]))
        strangers = [socket.create_connection(address, 5) for _ in range(12)]
        try:
            store.set("k", b"v")
            with open_store(store.url, timeout=30) as newcomer:
                assert newcomer.get("k", 5) == b"v"
        finally:
            for stranger in strangers:
                stranger.close()


def test_a_member_that_asks_for_too_much_is_dropped(caplog):
    from fl_dist.store import wire

    with open_store("tcp://127.0.0.1:0", server=True) as store:
        with store._connection() as connection:
            connection.sendall(wire.REQUEST.pack(wire.SET, 1, VALUE_LIMIT + 1, 0.0) + b"k")
            assert connection.recv(1) == b""
        assert "none of a store" in caplog.text


def test_another_program_on_the_port_is_a_clear_error():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def greet():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n" + b"x" * 100)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(StoreError, match="not as a store of this version: b'SSH-2.0"):
            open_store(f"tcp://127.0.0.1:{server.getsockname()[1]}", timeout=5)
        thread.join()


def test_rank_0_uses_the_store_that_its_launcher_serves():
    with open_store("tcp://127.0.0.1:0", "secret", server=True) as launcher:
        with open_store(launcher.url, "secret", server=True) as rank_0:
            rank_0.set("k", b"v")
        assert launcher.get("k", 1) == b"v"
        with pytest.raises(StoreError, match="another token"):
            open_store(launcher.url, "of another job", server=True)


def test_an_unknown_host_is_a_clear_error():
    with pytest.raises(StoreError, match="unknown host"):
        open_store("tcp://no-such-host.invalid:1", timeout=1)


@pytest.mark.parametrize("url", ["tcp://host", "tcp://:1", "tcp://host:port", "tcp://host:70000"])
def test_a_url_without_host_or_port_is_refused(url):
    with pytest.raises(dist.ArgumentError, match="tcp://host:port"):
        open_store(url)


def test_the_server_ends_its_thread_and_frees_the_port():
    before = threading.active_count()
    store = open_store("tcp://127.0.0.1:0", server=True)
    url = store.url
    store.close()
    store.close()
    assert threading.active_count() == before
    open_store(url, server=True).close()
    with pytest.raises(StoreError, match="closed by this process"):
        store.get("k", 1)


def test_the_classes_state_their_contract():
    assert FileStore.CONTRACT == TCPStore.CONTRACT == (1, 0)
