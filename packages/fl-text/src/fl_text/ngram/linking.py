"""Tables of lists of n-grams: every n-gram gets its context, its state and its suffix."""

from __future__ import annotations

import numpy as np

from fl_text.errors import TextError
from fl_text.ngram import kernels
from fl_text.ngram.ngrams import NGrams, Order
from fl_text.ngram.reading_kernels import link_order
from fl_text.ngram.tables import EMPTY, IntArray, NGramTables, find, pair_keys, place, walk

MOST = (1 << 31) - 2
"""The most n-grams of a model: states are 32-bit numbers."""


def link(ngrams: NGrams, where: str = "ngram") -> NGramTables:
    """The tables of a model.

    The context of an n-gram that is not in the model itself becomes a state with backoff 0, with
    the probability that backing off gives it: scores are those of the lists. (KenLM refuses such
    a model.) A context that nothing follows and whose backoff is 0 becomes no state: its suffix
    stands for it.
    Raises TextError for n-grams that come twice, naming one.
    """
    return _built(ngrams, where).tables()


def with_contexts(ngrams: NGrams, where: str = "ngram") -> NGrams:
    """The same model with the contexts of all n-grams among them."""
    return NGrams(ngrams.vocabulary, _built(ngrams, where).orders)


def _built(ngrams: NGrams, where: str) -> _Builder:
    orders = list(ngrams.orders)
    while True:
        builder = _Builder(ngrams.vocabulary, orders, where)
        missing = builder.run()
        if missing is None:
            return builder
        n = missing.shape[1]
        old = orders[n - 1]
        # NaN: the builder puts in what backing off gives.
        orders[n - 1] = Order(
            np.concatenate([old.words, missing]),
            np.append(old.log_prob, np.full(len(missing), np.nan, old.log_prob.dtype)),
            np.append(old.backoff, np.zeros(len(missing), old.backoff.dtype)),
        )


#: Slots behind the buckets, for the keys of the last ones.
_SPARE = 256


class _Builder:
    # States: 0, then the unigrams, then the bigrams, ... up to the order below the highest.

    def __init__(self, vocabulary: list[str], orders: list[Order], where: str) -> None:
        self.vocabulary, self.orders, self.where = vocabulary, list(orders), where
        rows = [len(order.words) for order in orders]
        self.first = np.cumsum([1, *rows])
        if self.first[-1] > MOST:
            raise TextError(f"[{where}] {self.first[-1]} n-grams are more than {MOST}")
        states = int(self.first[-2])
        self.backoff = np.zeros(states, np.float32)
        self.suffix = np.zeros(states, np.int32)
        self.extended = np.zeros(states, bool)
        self.entries: list[tuple[IntArray, IntArray, IntArray]] = []

    def run(self) -> IntArray | None:
        """Links all orders; or the contexts that are missing, as word indices."""
        one = self.orders[0]
        words = len(one.words)
        highest = len(self.orders) == 1
        next_1 = np.zeros(words, np.int32) if highest else np.arange(1, words + 1, dtype=np.int32)
        if not highest:
            self.backoff[1 : words + 1] = one.backoff
        self.linked = NGramTables(
            np.array([EMPTY, EMPTY]),
            np.zeros(2, np.float32),
            np.zeros(2, np.int32),
            self.backoff,
            self.suffix,
            one.log_prob.astype(np.float32),
            next_1,
            1,
        )
        if kernels.compiled() and self._run_kernels():
            return None
        for n in range(2, len(self.orders) + 1):
            missing = self._add(n)
            if missing is not None:
                return missing
        return None

    def _run_kernels(self) -> bool:
        """Links all orders if nothing is missing and nothing there twice."""
        unigrams = self.linked
        longer = int(self.first[-1] - self.first[1])
        buckets = 2 * longer + 1
        size = buckets + _SPARE
        self.linked = unigrams._replace(
            key=np.full(size, EMPTY, np.int64),
            log_prob=np.zeros(size, np.float32),
            next=np.zeros(size, np.int32),
            buckets=buckets,
        )
        extended = self.extended.view(np.uint8)
        for n, order in enumerate(self.orders[1:], 2):
            values = (order.log_prob, order.backoff)
            log_prob, backoff = (np.ascontiguousarray(x, np.float32) for x in values)
            words, highest = np.ascontiguousarray(order.words).ravel(), n == len(self.orders)
            state = int(self.first[n - 1])
            if np.isnan(log_prob).any() or not link_order(
                self.linked, words, log_prob, backoff, extended, n, state, highest
            ):
                self.linked = unigrams
                return False
        return True

    def _add(self, n: int) -> IntArray | None:
        """Adds the n-grams of order n to the tables."""
        order, highest = self.orders[n - 1], n == len(self.orders)
        words = order.words
        # The state of the first word, then of the first two, ...
        states = words[:, 0] + np.int32(1)
        for k in range(2, n):
            slots = find(self.linked.key, self.linked.buckets, pair_keys(states, words[:, k - 1]))
            lost = np.flatnonzero(slots < 0)
            if len(lost):
                return np.unique(words[lost, :k], axis=0)
            states = self.linked.next[slots]
        last = words[:, -1]
        self.extended[states] = True
        backed_off, after = walk(self.linked, self.suffix[states], last)
        log_prob = order.log_prob.astype(np.float32)
        blank = np.flatnonzero(np.isnan(log_prob))
        if len(blank):
            log_prob[blank] = backed_off[blank] + self.backoff[states[blank]]
            self.orders[n - 1] = Order(words, log_prob, order.backoff)
        if not highest:
            mine = slice(self.first[n - 1], self.first[n])
            self.backoff[mine] = order.backoff
            self.suffix[mine] = after
            after = np.arange(mine.start, mine.stop, dtype=np.int32)
        self.entries.append((pair_keys(states, last), log_prob, after))
        self._rebuild()
        return None

    def _rebuild(self) -> None:
        keys, log_probs, after = map(np.concatenate, zip(*self.entries))
        slots, size, buckets = place(keys)
        key = np.full(size, EMPTY, np.int64)
        key[slots] = keys
        log_prob, next_ = np.zeros(size, np.float32), np.zeros(size, np.int32)
        log_prob[slots], next_[slots] = log_probs, after
        self.linked = self.linked._replace(key=key, log_prob=log_prob, next=next_, buckets=buckets)
        twice = np.flatnonzero(find(key, buckets, keys) != slots)
        if len(twice):
            rows = np.cumsum([len(entry[0]) for entry in self.entries])
            n = int(np.searchsorted(rows, twice[0], side="right"))
            row = twice[0] - (rows[n - 1] if n else 0)
            name = " ".join(self.vocabulary[word] for word in self.orders[n + 1].words[row])
            raise TextError(
                f"[{self.where}] the n-gram {name[:80]!r} is there twice: remove one of them"
            )

    def tables(self) -> NGramTables:
        """The tables, with states that make no difference replaced by their suffixes."""
        alias = np.arange(len(self.suffix), dtype=np.int32)
        for n in range(1, len(self.orders)):
            mine = slice(self.first[n - 1], self.first[n])
            needless = ~self.extended[mine] & (self.backoff[mine] == 0)
            alias[mine] = np.where(needless, alias[self.suffix[mine]], alias[mine])
        linked = self.linked
        return linked._replace(
            next=alias[linked.next], next_1=alias[linked.next_1], suffix=alias[linked.suffix]
        )
