"""The kit finds injected faults: each class below breaks one promise, and a named test of the suite
says so. ``CheckedCommunicator`` finds the faults that show in a real run."""

from __future__ import annotations

import contextvars
import time

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist import derived, reduction
from fl_dist.testing import CommunicatorSuite, ViolationError, checked
from fl_dist.work import Work


class Sound(dist.ThreadsCommunicator):
    """No fault: ``do_...`` methods of subclasses take effect, the others are derived."""

    CONTRACT = (1, 0)
    name = "sound"
    start = dist.Communicator.start


class ForgetsTheLastRank(Sound):
    CONTRACT = (1, 0)

    def do_all_reduce(self, x, op, deadline, into=None):
        values = self.do_all_gather(x, deadline)
        return reduction.fold(op, values[:-1] if op == "sum" else values)


class ReducesBackwards(Sound):
    CONTRACT = (1, 0)  # and inherits "ordered"

    def do_all_reduce(self, x, op, deadline, into=None):
        return reduction.fold(op, self.do_all_gather(x, deadline)[::-1])


class StartsWithItself(Sound):
    """Each rank adds in its own order: the ranks drift apart by rounding."""

    CONTRACT = (1, 0)
    capabilities = frozenset({"agreement"})

    def do_all_reduce(self, x, op, deadline, into=None):
        values = self.do_all_gather(x, deadline)
        return reduction.fold(op, values[self.rank :] + values[: self.rank])


class WidensIntegers(Sound):
    CONTRACT = (1, 0)

    def do_all_reduce(self, x, op, deadline, into=None):
        y = super().do_all_reduce(x, op, deadline)
        return y.astype("int64") if y.dtype.is_integer else y


class FlattensScalars(Sound):
    CONTRACT = (1, 0)

    def do_broadcast(self, x, root, deadline):
        y = super().do_broadcast(x, root, deadline)
        return y.reshape(1) if y.shape == () else y


class WritesToItsOperand(Sound):
    CONTRACT = (1, 0)

    def do_all_reduce(self, x, op, deadline, into=None):
        total = super().do_all_reduce(x, op, deadline)
        x[...] = total
        return total


class ReturnsItsOperand(Sound):
    CONTRACT = (1, 0)

    def do_all_gather(self, x, deadline):
        values = super().do_all_gather(x, deadline)
        values[self.rank] = x
        return values


class SharesOneHandle(Sound):
    """All ranks get the same object from a broadcast."""

    CONTRACT = (1, 0)
    board: dict = {}

    def do_broadcast(self, x, root, deadline):
        if self.rank == root:
            self.board["value"] = x + 0
        self.do_barrier(deadline)
        value = self.board["value"]
        self.do_barrier(deadline)
        return value


class GivesEveryoneTheRootsShare(Sound):
    CONTRACT = (1, 0)

    def do_reduce(self, x, op, root, deadline):
        return self.do_all_reduce(x, op, deadline)


class IgnoresTags(Sound):
    CONTRACT = (1, 0)

    def do_send(self, x, dst, tag, channel, deadline):
        super().do_send(x, dst, 0 if tag < 1 << 15 else tag, channel, deadline)

    def do_recv(self, src, tag, channel, deadline, like=None):
        return super().do_recv(src, 0 if tag < 1 << 15 else tag, channel, deadline)


class DoesNotCheckRanks(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    def broadcast(self, x, root=0, *, async_op=False, timeout=None):
        parameters = {"root": root % self.world_size}
        return self._collective("broadcast", (x,), async_op, timeout, parameters)


class DoesNotCheckAgreement(Sound):
    CONTRACT = (1, 0)

    def check_consistent(self, call, deadline):
        return None


class BlamesNobody(Sound):
    """Notices a mismatch but does not say who did what."""

    CONTRACT = (1, 0)

    def check_consistent(self, call, deadline):
        try:
            super().check_consistent(call, deadline)
        except dist.MismatchError:
            raise dist.MismatchError(deadline.where, ["something else"]) from None


class BarrierForNobody(Sound):
    CONTRACT = (1, 0)
    capabilities = frozenset()  # agreeing alone would hold everybody

    def do_barrier(self, deadline):
        return None


class ForgetsKeys(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    def split(self, color, key=0, *, timeout=None):
        return super().split(color, 0, timeout=timeout)


class NeverAsynchronous(Sound):
    """Gives the value where a Work was asked for."""

    CONTRACT = (1, 0)

    def all_reduce(self, x, op="sum", *, async_op=False, timeout=None):
        return super().all_reduce(x, op, timeout=timeout)


class ForgetfulWork(Work):
    def wait(self, timeout=None):
        value = super().wait(timeout)
        return value + 0 if isinstance(value, ft.Tensor) else value


class WaitsTwiceDifferently(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    def start(self, call, deadline):
        return ForgetfulWork(call.title).succeed(super().start(call, deadline).wait())


class IgnoresTimeouts(Sound):
    CONTRACT = (1, 0)

    def do_recv(self, src, tag, channel, deadline, like=None):
        deadline.at = time.monotonic() + 60
        return super().do_recv(src, tag, channel, deadline)


class OneRandomStream(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    @classmethod
    def run(cls, world_size, fn, *args, timeout=None):
        def program(comm, *given):
            ft.set_default_generator(ft.Generator(5))
            return fn(comm, *given)

        return super().run(world_size, program, *args, timeout=timeout)


class HidesTheCause(dist.ThreadsCommunicator):
    """The others learn that a rank died, but not why."""

    CONTRACT = (1, 0)

    def abort(self, cause):
        super().abort("something happened")


class AbortsInSilence(dist.ThreadsCommunicator):
    """The others learn of an abort by their timeouts alone."""

    CONTRACT = (1, 0)

    def abort(self, cause):
        dist.Communicator.abort(self, cause)


class RoundsAtEveryStep(Sound):
    """Sums float16 in float16."""

    CONTRACT = (1, 0)

    def do_all_reduce(self, x, op, deadline, into=None):
        total, *others = self.do_all_gather(x, deadline)
        for value in others:
            total = reduction._STEP[op](total, value)
        return total / self.world_size if op == "mean" else total


class WritesToDonatedMemoryOfOthers(Sound):
    """Takes the memory of a donated handle although another handle shares it."""

    CONTRACT = (1, 0)

    def do_all_reduce(self, x, op, deadline, into=None):
        total = super().do_all_reduce(x, op, deadline)
        if into is not None:
            into.adapter.array[...] = total.numpy()
        return total


class KeepsTheDonatedHandle(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    def all_reduce(self, x, op="sum", *, donate=False, async_op=False, timeout=None):
        return super().all_reduce(x, op, async_op=async_op, timeout=timeout)


class GathersEvenRowsOnly(Sound):
    CONTRACT = (1, 0)

    def do_all_gather_tensor(self, x, counts, deadline):
        rows = max(counts)
        padded = ft.pad(x, ((0, rows - x.shape[0]), *((0, 0),) * (x.ndim - 1)))
        return ft.concatenate(dist.Communicator.do_all_gather(self, padded, deadline))

    def do_all_gather(self, x, deadline):
        return derived.all_gather(self, x, deadline, tag=derived.EXCHANGE)


class DividesInReverse(Sound):
    CONTRACT = (1, 0)

    def do_reduce_scatter_tensor(self, x, op, counts, deadline):
        total = self.do_all_reduce(x, op, deadline)
        return derived.rows(total, counts)[self.world_size - 1 - self.rank]


class TakesWhatItProbes(Sound):
    CONTRACT = (1, 0)

    def do_probe(self, src, tag, channel):
        try:
            self.do_recv(src, tag, channel, dist.Deadline.past("[probe]"))
        except dist.DistTimeoutError:
            return False
        return True


class ServesTheFirstRankOnly(Sound):
    CONTRACT = (1, 0)

    def do_recv_any(self, tag, channel, deadline):
        src = 1 if self.rank == 0 else 0
        return src, self.do_recv(src, tag, channel, deadline)


class StaysOpen(dist.ThreadsCommunicator):
    CONTRACT = (1, 0)

    def close(self, timeout=None):
        self.sync()
        self._world.end(self.rank)


def suite(communicator):
    return type("TestFaulty", (CommunicatorSuite,), {"communicator": communicator})()


FAULTS = [
    (ForgetsTheLastRank, "test_all_reduce", (2, "sum", "float32")),
    (ForgetsTheLastRank, "test_own_algorithms_equal_the_derived_ones", (3,)),
    (ReducesBackwards, "test_reduces_in_rank_order", (3, "sum", "all_reduce")),
    (StartsWithItself, "test_every_rank_gets_the_same_bits_every_time", (3, "all_reduce")),
    (WidensIntegers, "test_all_reduce", (2, "max", "int32")),
    (WritesToItsOperand, "test_all_reduce", (2, "sum", "int64")),
    (ReturnsItsOperand, "test_all_gather", (2, (3,), False)),
    (SharesOneHandle, "test_broadcast_from_every_root", (2, "float32", False)),
    (GivesEveryoneTheRootsShare, "test_reduce_to_every_root", (2, "sum", False)),
    (IgnoresTags, "test_tags_are_separate_channels", (2,)),
    (DoesNotCheckRanks, "test_refuses_wrong_arguments_and_stays_in_step", (2,)),
    (DoesNotCheckAgreement, "test_a_mismatch_is_an_error_on_every_rank", (2, "root")),
    (BlamesNobody, "test_a_mismatch_is_an_error_on_every_rank", (2, "shape")),
    (BarrierForNobody, "test_barrier_holds_everybody", (3,)),
    (ForgetsKeys, "test_split_by_color_and_key", (3,)),
    (NeverAsynchronous, "test_async_all_reduce", (2, "float32")),
    (WaitsTwiceDifferently, "test_async_all_reduce", (2, "float32")),
    (IgnoresTimeouts, "test_timeout", (2, "recv")),
    (OneRandomStream, "test_every_rank_has_random_numbers_of_its_own", (2,)),
    (HidesTheCause, "test_a_dead_rank_is_a_prompt_error", (2, "all_reduce", "last")),
    (HidesTheCause, "test_an_abort_reaches_the_others", (2,)),
    (RoundsAtEveryStep, "test_sixteen_bit_floats_are_summed_in_float32", (3,)),
    (RoundsAtEveryStep, "test_random_programs", (3, 1)),
    (ReducesBackwards, "test_random_programs", (3, 0)),
    (KeepsTheDonatedHandle, "test_a_donated_tensor_is_given_up", (2,)),
    (WritesToDonatedMemoryOfOthers, "test_a_donated_tensor_is_given_up", (2,)),
    (GathersEvenRowsOnly, "test_flat_forms_with_uneven_shares", (3, False)),
    (DividesInReverse, "test_reduce_scatter_tensor", (2, "sum", False)),
    (TakesWhatItProbes, "test_a_probe_looks_without_taking", (2,)),
    (ServesTheFirstRankOnly, "test_a_receive_from_anybody_names_the_sender", (3,)),
    (StaysOpen, "test_closing_twice_is_closing_once", (2,)),
]


@pytest.mark.parametrize(
    "fault, test, arguments", FAULTS, ids=lambda v: getattr(v, "__name__", None)
)
def test_the_suite_finds(fault, test, arguments):
    getattr(suite(Sound), test)(*arguments)
    with pytest.raises((AssertionError, AttributeError, dist.ProgramError)):
        getattr(suite(fault), test)(*arguments)


def test_a_message_without_shape_is_found():
    class Flat(Sound):
        CONTRACT = (1, 0)

        def do_send(self, x, dst, tag, channel, deadline):
            super().do_send(x.reshape(-1), dst, tag, channel, deadline)

    with pytest.raises(AssertionError):
        suite(Flat).test_messages_carry_shape_and_dtype_in_order(2)


# ---- the same in a real run ----------------------------------------------------------------------


def training(comm):
    """A little of everything, as a training script would do it."""
    weights = [ft.full((3,), 0.1 * (comm.rank + 1)), ft.asarray([1, 2, 3], dtype="int32")]
    weights[0] = comm.broadcast(weights[0])
    comm.broadcast(ft.asarray(1.5))
    for _ in range(2):
        gradient = weights[0] * (1.1 + comm.rank)
        weights[0] = weights[0] - comm.all_reduce(gradient, "mean")
        comm.all_reduce(weights[1], "max")
        comm.all_reduce(gradient, "sum", async_op=True).wait()
    part = comm.split(comm.rank % 2)
    part.all_gather(weights[0])
    comm.all_gather(weights[0])
    comm.reduce(weights[0], "max", root=1)
    comm.barrier()
    return weights[0].tolist()


RUNTIME_FAULTS = [
    (ForgetsTheLastRank, "wrong values"),
    (ReducesBackwards, "wrong values"),
    (StartsWithItself, "different bits"),
    (WidensIntegers, "dtype 'int64', should be 'int32'"),
    (FlattensScalars, r"shape \(1,\), should be \(\)"),
    (WritesToItsOperand, "an operand was changed"),
    (ReturnsItsOperand, "shares a handle with an operand"),
    (SharesOneHandle, "two ranks hold one handle"),
    (GivesEveryoneTheRootsShare, "expected None"),
    (NeverAsynchronous, "no Work"),
    (WaitsTwiceDifferently, "Work changed"),
]


@pytest.mark.parametrize("fault, text", RUNTIME_FAULTS, ids=lambda v: getattr(v, "__name__", None))
def test_the_checking_wrapper_finds(fault, text):
    assert checked(Sound).run(3, training) == Sound.run(3, training)
    with pytest.raises(dist.ProgramError) as caught:
        checked(fault).run(3, training)
    assert isinstance(caught.value.__cause__, ViolationError)
    assert caught.match(text)


def test_the_checking_wrapper_finds_ranks_that_disagree_where_nobody_else_looks():
    def program(comm):
        comm.broadcast(ft.zeros((2,)), root=comm.rank)

    DoesNotCheckAgreement.run(2, program)  # nothing is noticed
    with pytest.raises(dist.ProgramError) as caught:
        checked(DoesNotCheckAgreement).run(2, program)
    assert isinstance(caught.value.__cause__, dist.MismatchError)


def test_the_checking_wrapper_finds_a_part_with_wrong_numbers():
    def program(comm):
        comm.split(0, key=-comm.rank)

    checked(Sound).run(2, program)
    with pytest.raises(dist.ProgramError, match="split gave rank and size"):
        checked(ForgetsKeys).run(2, program)


def test_the_checking_wrapper_finds_two_threads_in_one_communicator():
    import threading

    def program(comm):
        if comm.rank == 1:
            time.sleep(0.3)
            comm.barrier()
            return None
        context = contextvars.copy_context()
        helper = threading.Thread(target=context.run, args=(comm.barrier,))
        helper.start()
        time.sleep(0.1)
        try:
            comm.all_reduce(ft.zeros((1,)))
        except dist.DistError as error:
            return str(error)
        finally:
            helper.join()
        return None

    assert "another thread of this rank" in checked(Sound).run(2, program)[0]
