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
        whole = sum(unit.trained_bytes for unit in m.units)
        self.part = self.trained / whole
        self.buckets = [round(nbytes * self.part) for nbytes in m.buckets]
        self.ms, self.live, self.peak = 0.0, 0.0, 0

    def step(self, depth: int, held: int) -> None:
        """Add up a step of a pipeline of `depth` stages. `held`: microbatches whose activations
        are alive at most."""
        m, stage = self.m, self.stage
        # A pipeline is full after depth - 1 microbatches (Narayanan et al., 2019).
        filling = (self.microbatches + depth - 1) / self.microbatches
        sharded = self.ranks if stage else 1
        alone = m.units[-1].parameter_bytes if self.is_last else 0  # whole throughout the step
        whole = stage < 3
        self.add(growth=m.batch_bytes + m.state_bytes * self.part / sharded)
        self.add(growth=self.parameters if whole else self.parameters / sharded + alone)
        if self.received:
            ms = 2 * self.microbatches * m.links["send"].ms(self.received)
            self.add(ms, held * self.received)
        saved = sum(s.growth for s in self.segments if s.phase == "forward") / self.microbatches
        self.add(growth=(held - 1) * saved)
        # The communicator keeps the result of its last asynchronous call, one of the step before.
        kept = self.last_reduced() / self.ranks if stage >= 2 else 0.0
        self.add(growth=kept)
        if self.microbatches > 1:  # gradients of those before
            self.add(growth=self.trained / (self.ranks if stage >= 2 else 1))
        pending, buckets = 0.0, list(self.buckets)
        for segment in self.segments:
            unit = m.units[segment.unit]
            gathered = 0 if whole or segment.unit < 0 else unit.parameter_bytes
            gradients = unit.trained_bytes if segment.phase == "backward" else 0
            self.gather(gathered)
            self.add(
                segment.ms * filling,
                (segment.growth - gradients) / self.microbatches + gradients,
                (segment.peak - gradients) / self.microbatches + gradients,
            )
            again = gradients if self.microbatches > 1 and stage < 2 else 0
            self.add(growth=-gathered - again)
            pending += gradients
            while stage == 2 and buckets and pending >= buckets[0]:
                pending -= buckets[0]
                self.reduce(buckets.pop(0), kept)
                kept = 0.0
            if stage == 3 and gradients:
                self.reduce(gradients, kept)
                kept = 0.0
        if stage == 2:
            for bucket in buckets:
                self.reduce(bucket, kept)
                kept = 0.0
        self.update(sharded)

    def last_reduced(self) -> int:
        """Bytes of the gradients that are reduced last."""
        if self.stage == 2:
            return self.buckets[-1]
        trained = (
            self.m.units[s.unit].trained_bytes for s in self.segments if s.phase == "backward"
        )
        return [nbytes for nbytes in trained if nbytes][-1]

    def add(self, ms: float = 0.0, growth: float = 0.0, peak: float = 0.0) -> None:
        self.ms += ms
        self.peak = max(self.peak, round(self.live + max(peak, growth)))
        self.live += growth

    def gather(self, nbytes: float) -> None:
        """Parameters come from all ranks."""
        if nbytes:
            ms = self.m.links["all_gather_tensor"].ms(nbytes) * self.microbatches
            self.add(ms, nbytes, nbytes * self.m.workspace["all_gather_tensor"])

    def reduce(self, nbytes: float, replaced: float) -> None:
        """Gradients go to their owners: copied into one vector, then a share of them stays. What
        the communicator kept goes."""
        m = self.m
        ms = m.links["copy"].ms(nbytes) + m.links["reduce_scatter_tensor"].ms(nbytes)
        peak = nbytes * (1 + m.workspace["reduce_scatter_tensor"])
        self.add(ms * self.microbatches, 0.0, peak)
        share = nbytes / self.ranks if self.microbatches == 1 else 0.0
        self.add(growth=share - nbytes - replaced)

    def update(self, sharded: int) -> None:
        m = self.m
        if self.ranks > 1 and not self.stage:
            for bucket in self.buckets:
                ms = m.links["copy"].ms(bucket) + m.links["all_reduce"].ms(bucket)
                self.add(ms, 0.0, bucket * (1 + m.workspace["all_reduce"]))
        if self.stage == 1:
            for bucket in self.buckets:  # each gradient is kept until the end
                ms = m.links["copy"].ms(bucket) + m.links["reduce_scatter_tensor"].ms(bucket)
                self.add(ms, bucket / sharded, bucket * (1 + m.workspace["reduce_scatter_tensor"]))
        own = self.trained / sharded if self.stage in (1, 2) else 0.0
        self.add(m.links["copy"].ms(own) if own else 0.0, own)
        # One parameter or vector at a time; all at once where the backend puts operations off.
        largest = max(self.buckets) / sharded if self.stage else m.largest
        renewed = (self.trained + m.state_bytes * self.part) / sharded
        peak = min(m.update_peak * largest / m.largest, renewed)
        self.add(m.update_ms * self.part / sharded, 0.0, peak)
        if own:
            for bucket in self.buckets:
                ms = m.links["all_gather_tensor"].ms(bucket)
                self.add(ms, 0.0, bucket * m.workspace["all_gather_tensor"])
