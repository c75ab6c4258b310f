"""Every cell of a list in one world of ranks: LIST, its argument, holds the paths of requests.

Publishing runs use fresh processes for each cell; here the start-up would take longer than everything else.
"""

import gc
import json
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", category=FutureWarning)

from scaleproof.measure.trainer.measure import measure_in  # noqa: E402
from scaleproof.measure.trainer.request import Request  # noqa: E402
from scaleproof.measure.trainer.session import Session  # noqa: E402

if __name__ == "__main__":
    requests = [Request.read(Path(p)) for p in json.loads(Path(sys.argv[1]).read_text())]
    session = Session(requests[0].cell, timeout_s=120)
    for request in requests:
        measure_in(session, request, time.time())
        gc.collect()
    session.leave()
