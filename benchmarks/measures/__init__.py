"""The measurements by name, in the order in which they run. Each makes its own stage and returns rows of the table."""

from collections.abc import Awaitable, Callable, Mapping

from benchmarks.measures.conversation import conversation
from benchmarks.measures.crowds import crowd, limits, rush
from benchmarks.measures.instructions import instructions
from benchmarks.measures.mentions import mentions
from benchmarks.measures.stalls import stalls
from benchmarks.measures.start import start
from benchmarks.stage import Bench
from benchmarks.table import Row

Measure = Callable[[Bench], Awaitable[list[Row]]]

MEASURES: Mapping[str, Measure] = {
    measure.__name__: measure for measure in (start, mentions, instructions, conversation, crowd, limits, rush, stalls)
}
