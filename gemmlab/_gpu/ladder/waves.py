"""How the work-groups of a product fill the waves of a device.

A device holds so many work-groups at a time: a wave. With one tile of C for each, all its units wait for the last
tiles, and a product of 2.2 waves takes as long as one of three. So the tiles that fill no wave are shared, together
with those of the last whole wave: their steps of k are cut into equal, contiguous shares, one for each work-group that
the device holds. A tile may then have several sums, which are added in the order of k.

Source: Osama, Merrill, Cecka, Garland and Owens, "Stream-K", PPoPP 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MAX_PAIRS = 2**31 - 1  # the kernel counts them in 32 bits
LEAST_DEPTH = 256  # of k: a share is as deep, and sharing saves as much; else a second launch costs more
MOST_A_UNIT = 8  # shares for each compute unit that are worth a prediction


class Work(NamedTuple):
    """What a product gives a device to do: what a prediction of its time is made of.

    `groups` are the numbers of work-groups that are as deep as one another, and the k that each goes through. Shares
    keep `sums` numbers, which a second launch adds.
    """

    groups: tuple[tuple[int, float], ...]
    sums: int = 0


@dataclass(frozen=True)
class Schedule:
    """Which steps of k of which tiles of C each work-group takes.

    Attributes
    ----------
    tiles, steps : int
        The tiles of C of all products of a batch, and the steps of k in each.
    whole : int
        The first tiles, which one work-group each computes.
    shares : int
        The work-groups that share the other tiles.
    """

    tiles: int
    steps: int
    whole: int
    shares: int

    @classmethod
    def of(cls, tiles: int, steps: int, shares: int) -> Schedule:
        """That of so many work-groups that may share tiles; 1 or less: no tile is shared."""
        whole = tiles if shares <= 1 or tiles % shares == 0 else max(0, tiles // shares - 1) * shares
        pairs = (tiles - whole) * steps
        if not 0 < pairs <= MAX_PAIRS:
            return cls(tiles, steps, tiles, 0)
        return cls(tiles, steps, whole, min(shares, pairs))

    @property
    def groups(self) -> int:
        """All work-groups."""
        return self.whole + self.shares

    @property
    def shared(self) -> int:
        """The tiles that are shared."""
        return self.tiles - self.whole

    def work(self, step: int, numbers: int) -> Work:
        """It in figures, for steps of so much of k and tiles of so many numbers."""
        depth = self.steps * step
        if not self.shares:
            return Work(((self.tiles, depth),))
        # Where shares begin and end within tiles, each of these has a sum more.
        sums = self.shares + (self.shared if self.shares % self.shared else 0)
        shares = self.shares, self.shared * depth / self.shares
        return Work(((self.whole, depth), shares) if self.whole else (shares,), sums * numbers)

    def depth(self, at_a_time: int) -> float:
        """The steps of k that a compute unit takes one after another, in all waves of so many work-groups."""
        shared = self.shared * self.steps / self.shares if self.shares else 0
        return -(-self.whole // at_a_time) * self.steps + -(-self.shares // at_a_time) * shared


def shares_for(tiles: int, k: int, at_a_time: int, least: int = LEAST_DEPTH) -> int:
    """How many work-groups share tiles that are `k` deep, where a device holds so many at a time; 1: none do.

    A share is at least so deep, and sharing saves at least as much.
    """
    shares = min(at_a_time, tiles * k // least)
    saved = Schedule.of(tiles, k, 1).depth(at_a_time) - Schedule.of(tiles, k, shares).depth(at_a_time)
    return shares if saved >= least else 1


def candidates(tiles: int, steps: int, units: int) -> list[int]:
    """The numbers of shares that are worth a prediction: 1, some for each compute unit, as many for each tile."""
    filling = [units * each for each in range(1, MOST_A_UNIT + 1)]
    of_each_tile = {*(shares // tiles for shares in filling), 2, 4, 8, 16, 32}
    found = {1, *filling, *(tiles * each for each in of_each_tile if each)}
    return sorted(shares for shares in found if shares == 1 or shares <= min(tiles * steps, filling[-1]))
