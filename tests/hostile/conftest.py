"""The helpers of this folder are modules of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
