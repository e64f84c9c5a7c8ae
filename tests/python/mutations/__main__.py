"""``python -m mutations --count 5000 --seed 1 --device sim``: tries mutants and prints what became of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from mutations.files import subjects
from mutations.run import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="kinds of files whose names begin so")
    parser.add_argument("--keep", type=Path, help="a folder for mutants that were neither right nor an error")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary) / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        chosen = [subject for subject in subjects(Path(temporary)) if subject.name.startswith(options.only)]
        result = run(chosen, options.count, options.seed, {"device": options.device}, folder)
    print(result.table())
    for line in [*result.unnoticed, *result.failures]:
        print(line)
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
