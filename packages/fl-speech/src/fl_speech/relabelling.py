"""When recordings without labels get some: the settings `relabel_epochs` and `relabel_ratio`."""

from __future__ import annotations


def relabelling_plan(epochs: str, ratio: str) -> dict[int, float]:
    """After which epochs recordings are labelled, and which share of them: of "10,20" and "0.5", or
    "10,20" and "0.5,1". Raises ValueError for others."""
    if not epochs:
        return {}
    numbers = [int(text) for text in epochs.split(",")]
    shares = [float(text) for text in ratio.split(",")]
    shares = shares * len(numbers) if len(shares) == 1 else shares
    rising = all(a < b for a, b in zip([0, *numbers], numbers))
    if not rising or not all(0 < share <= 1 for share in shares):
        raise ValueError("epochs that rise from 1 on, and shares above 0 and at most 1")
    return dict(zip(numbers, shares, strict=True))


def relabelling_problem(epochs: str, ratio: str) -> str | None:
    """What is wrong with the settings, in words."""
    try:
        relabelling_plan(epochs, ratio)
    except ValueError:
        return (
            f"relabel_epochs {epochs!r} with relabel_ratio {ratio!r}: give rising epochs from 1 "
            "on, and one share above 0 and at most 1, or one each"
        )
    return None
