"""`python -m scaleproof.measure.launch.torchrun ...`: torchrun, whose start and end take half as long.

Nothing is collected while it imports, and nothing is torn down once all ranks have ended well.
"""

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()
    from torch.distributed.run import main

    gc.enable()
    main()  # raises where a rank failed, and then ends as always
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
