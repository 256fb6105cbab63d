"""The configurations of a rung that a device can run: data of the rung, `Param.choices` and `Rung.refusal`.

What cannot run is left out before anything is compiled, and so is what would need more registers than a GPU has for a
work-item or a work-group: the compiler takes long for it, and then keeps numbers in memory instead.
"""

from __future__ import annotations

from gemmlab._gpu.ladder.rung import Rung
from gemmlab._gpu.runtime import Device
from gemmlab.tune.search.space import Space, Values

ITEM_REGISTERS, GROUP_REGISTERS = 255, 65536  # of four bytes, of a work-item and a group: NVIDIA's, and about AMD's


class RungSpace(Space):
    """The configurations of a rung for a dtype on a device."""

    def __init__(self, rung: Rung, dtype: str, device: Device) -> None:
        self._rung, self._dtype, self._device = rung, dtype, device
        usual, searched = rung.resolve({}, device.kind), rung.searched(device.kind)
        super().__init__({
            param.name: tuple(map(int, param.choices)) if param.name in searched else (usual[param.name],)
            for param in rung.params
        })  # fmt: skip

    def can_run(self, values: Values) -> bool:
        """Whether it fits the device, as far as the rung's data tell."""
        parameters = self.parameters(values)
        refusal = self._rung.refusal(parameters, self._dtype, self._device)
        return refusal is None and self._has_registers(parameters)

    def _has_registers(self, parameters: dict[str, int]) -> bool:
        if self._device.kind == "cpu":  # its runtime spreads a work-group over vectors, one after the other
            return True
        x, y = self._rung.group(parameters)
        registers = self._rung.registers(parameters) * max(1, self._rung.numbers[self._dtype].sum_size // 4)
        return registers <= ITEM_REGISTERS and registers * x * y <= GROUP_REGISTERS
