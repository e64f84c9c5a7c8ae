"""`python tests/conformance`: see `--help`."""

import sys
from pathlib import Path

# A folder that is run as a script is no package: its modules are imported from the folder above, the suites from the
# folder beside it.
_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "python")]

from conformance.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
