"""The helpers of this folder (`brute`, `programs`) are imported by their bare names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
