"""StepCost: the time and the peak of a training step, added up from measurements."""

from __future__ import annotations

from fl_nn.parallel.measurements import Measurements
from fl_nn.parallel.step_segments import Segment


class StepCost:
    """A step of the units `first` to `last - 1`, and of the rest of the model with the last of
    them, on one of `ranks`: its time, its live bytes and their peak are added up."""

    def __init__(
        self,
        m: Measurements,
        stage: int,
        ranks: int,
        checkpointed: set[int],
        first: int,
        last: int,
        microbatches: int,
    ) -> None:
        self.m, self.stage, self.ranks, self.microbatches = m, stage, ranks, microbatches
        self.is_last = last == len(m.units) - 1
        # What another part sends, and sends back.
        self.received = m.units[first - 1].output_bytes / microbatches if first else 0.0
        self.places = {*range(first, last), *([-1] if self.is_last else [])}
        self.segments: list[Segment] = [
            again if plain.unit in checkpointed else plain
            for plain, again in zip(m.plain, m.checkpointed, strict=True)
            if plain.unit in self.places
        ]
        self.parameters = sum(m.units[place].parameter_bytes for place in self.places)
        self.trained = sum(m.units[place].trained_bytes for place in self.places)
        part = self.trained / sum(unit.trained_bytes for unit in m.units)
        self.sharded = ranks if stage else 1
        self.state = m.state_bytes * part / self.sharded
        self.update_ms = m.update_ms * part / self.sharded
        self.buckets = [round(nbytes * part) for nbytes in m.buckets]
        self.ms, self.live, self.kept, self.peak = 0.0, 0.0, 0.0, 0

    def step(self, depth: int, held: int) -> None:
        """Add up a step of a pipeline of `depth` stages. `held`: microbatches whose activations
        are alive at most."""
        self.begin(held)
        # A pipeline is full after depth - 1 microbatches (Narayanan et al., 2019).
        self.compute((self.microbatches + depth - 1) / self.microbatches)
        self.reduce_at_the_end()
        self.update()

    def begin(self, held: int) -> None:
        """What is alive throughout: batch, state, parameters, other microbatches."""
        m = self.m
        self.add(growth=m.batch_bytes + self.state)
        if self.stage < 3:
            self.add(growth=self.parameters)
        else:  # what the model holds beside its units is whole
            rest = m.units[-1].parameter_bytes if self.is_last else 0
            self.add(growth=self.parameters / self.ranks + rest)
        if self.received:
            ms = 2 * self.microbatches * m.links["send"].ms(self.received)
            self.add(ms, held * self.received)
        saved = sum(s.growth for s in self.segments if s.phase == "forward") / self.microbatches
        self.add(growth=(held - 1) * saved)
        if self.microbatches > 1:
            self.add(growth=self.trained / (self.ranks if self.stage >= 2 else 1))

    def compute(self, filling: float) -> None:
        """The forward and backward passes, and the messages of stages 2 and 3 in them."""
        # Gradients of a unit that is called several times are complete in its last segment.
        last = {s.unit: i for i, s in enumerate(self.segments) if s.phase == "backward"}
        trained = [
            self.m.units[s.unit].trained_bytes if last.get(s.unit) == i else 0
            for i, s in enumerate(self.segments)
        ]
        reduced = self.buckets if self.stage == 2 else [nbytes for nbytes in trained if nbytes]
        if self.stage >= 2:
            # The communicator keeps the result of its last asynchronous call until the next.
            self.kept = reduced[-1] / self.ranks
            self.add(growth=self.kept)
        pending, buckets = 0.0, list(self.buckets)
        for segment, gradients in zip(self.segments, trained):
            gathered = 0
            if self.stage == 3 and segment.unit >= 0:
                gathered = self.m.units[segment.unit].parameter_bytes
            self.gather(gathered)
            self.add(
                segment.ms * filling,
                (segment.growth - gradients) / self.microbatches + gradients,
                (segment.peak - gradients) / self.microbatches + gradients,
            )
            self.add(growth=-gathered)
            if self.microbatches > 1 and self.stage < 2:
                self.add(growth=-gradients)  # added to those of the microbatches before
            pending += gradients
            while self.stage == 2 and buckets and pending >= buckets[0]:
                pending -= buckets[0]
                self.reduce(buckets.pop(0))
            if self.stage == 3 and gradients:
                self.reduce(gradients)
        if self.stage == 2:
            for bucket in buckets:
                self.reduce(bucket)

    def reduce_at_the_end(self) -> None:
        """The messages of stages 0 and 1, whose gradients are whole until then."""
        m = self.m
        if self.ranks == 1 or self.stage >= 2:
            return
        name = "reduce_scatter_tensor" if self.stage else "all_reduce"
        for bucket in self.buckets:
            share = bucket / self.ranks if self.stage else 0.0
            ms = m.links["copy"].ms(bucket) + m.links[name].ms(bucket)
            self.add(ms, share, bucket * (1 + m.workspace[name]))

    def update(self) -> None:
        """The optimizer's step; at stages 1 and 2 with a copy of the share, gathered afterwards."""
        m, own = self.m, self.trained / self.ranks
        copied = self.stage in (1, 2)
        if copied:
            self.add(m.links["copy"].ms(own), own)
        # One parameter or vector at a time; all at once where the backend puts operations off.
        largest = max(self.buckets) / self.ranks if self.stage else m.largest
        renewed = self.trained / self.sharded + self.state
        self.add(self.update_ms, 0.0, min(m.update_peak * largest / m.largest, renewed))
        if copied:
            for bucket in self.buckets:
                ms = m.links["all_gather_tensor"].ms(bucket)
                self.add(ms, 0.0, bucket * m.workspace["all_gather_tensor"])

    # ---- sums --------------------------------------------------------------------------------

    def add(self, ms: float = 0.0, growth: float = 0.0, peak: float = 0.0) -> None:
        """What takes `ms`, leaves `growth` bytes alive, and has `peak` bytes alive at most."""
        self.ms += ms
        self.peak = max(self.peak, round(self.live + max(peak, growth)))
        self.live += growth

    def gather(self, nbytes: float) -> None:
        """Parameters come from all ranks."""
        if nbytes:
            ms = self.m.links["all_gather_tensor"].ms(nbytes) * self.microbatches
            self.add(ms, nbytes, nbytes * self.m.workspace["all_gather_tensor"])

    def reduce(self, nbytes: float) -> None:
        """Gradients go to their owners: copied into one vector, then a share of them stays."""
        m = self.m
        ms = m.links["copy"].ms(nbytes) + m.links["reduce_scatter_tensor"].ms(nbytes)
        peak = nbytes * (1 + m.workspace["reduce_scatter_tensor"])
        self.add(ms * self.microbatches, 0.0, peak)
        share = nbytes / self.ranks if self.microbatches == 1 else 0.0
        self.add(growth=share - nbytes - self.kept)
        self.kept = 0.0
