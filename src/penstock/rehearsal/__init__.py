"""What-if questions about recorded streams, answered in the simulator of micro-batches."""

from penstock.rehearsal.choice import frontier, recommended
from penstock.rehearsal.recorded import Recorded, recorded
from penstock.rehearsal.scenarios import Scenario, Setting
from penstock.rehearsal.trace import Trace, is_trace, read_trace
from penstock.rehearsal.whatif import Outcome, rehearse, settings_of

__all__ = [
    "Outcome",
    "Recorded",
    "Scenario",
    "Setting",
    "Trace",
    "frontier",
    "is_trace",
    "read_trace",
    "recommended",
    "recorded",
    "rehearse",
    "settings_of",
]
