"""amdsmi of devices that are not there: two MI300X, which answer as version 7.0 does. Imports no torch."""

from enum import Enum
from types import ModuleType

SERIALS = ["0xCC858DB4078D02A6", "0x74A1000000000001"]


def uuid_of(number: int) -> str:
    """A device's UUID as torch has it: the codes of the characters of its serial."""
    codes = SERIALS[number][2:].lower().encode().hex()
    return "-".join([codes[:8], codes[8:12], codes[12:16], codes[16:20], codes[20:]])


class AmdSmi(ModuleType):
    """A field that is not known is "N/A", a function that may not be called raises."""

    class AmdSmiException(Exception):
        pass

    AmdSmiMemoryType = Enum("AmdSmiMemoryType", ["VRAM"])
    AmdSmiClkType = Enum("AmdSmiClkType", ["GFX"])

    def __init__(self, **answers) -> None:
        super().__init__("amdsmi")
        self.answers = {
            "init": None,
            "get_processor_handles": [0, 1],
            "get_gpu_driver_info": {"driver_version": "6.12.12"},
            "get_gpu_memory_total": 192 * 2**30,
            "get_power_info": {"socket_power": "N/A", "current_socket_power": 700, "average_socket_power": "N/A"},
            "get_clock_info": {"clk": 2100},
            "get_gpu_activity": {"gfx_activity": 98},
            "get_violation_status": {"active_ppt_pwr": True, "active_socket_thrm": False, "active_hbm_thrm": "N/A"},
            "topo_get_numa_node_number": 1,
        } | answers
        self.energy = 0

    def __getattr__(self, name):
        question = name.removeprefix("amdsmi_")
        if question == name or question not in self.answers:
            raise AttributeError(name)

        def answer(*arguments):
            value = self.answers[question]
            if isinstance(value, Exception):
                raise value
            return value

        return answer

    def amdsmi_get_gpu_asic_info(self, handle):
        return {
            "market_name": "AMD Instinct MI300X",
            "asic_serial": SERIALS[handle],
            "target_graphics_version": "gfx942",
        }

    def amdsmi_get_energy_count(self, handle):
        self.energy += 1000
        return {"energy_accumulator": self.energy, "counter_resolution": 15.25, "timestamp": 0}
