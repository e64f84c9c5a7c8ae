"""``python tests/attack``: everything that is tried to bring Warpmill down, and one table of what became of it.

Each step is a part of the tests: of the Rust crates, or of the Python packages. A step fails where a process ends or
hangs, where rows are lost or mixed up, where more memory or time is taken than may be; the tests say which.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# A folder that is run has no package: the modules are found from the folder above, which has to be named first.
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS)]

from attack.tally import read  # noqa: E402

LONG = {
    "WARPMILL_MUTATIONS": "5000",
    "WARPMILL_DDL_SECONDS": "40",
    "WARPMILL_KILLS": "100",
    "WARPMILL_INTERRUPTS": "300",
    "WARPMILL_CHANGES": "20",
}
"""The tests with more repetitions in the long tier."""

HANGS = 3 * 3600
"""Seconds after which a step hangs: builds of the tests count."""


@dataclass(frozen=True)
class Step:
    """Tests that are run together: the filters of a Rust test binary, or files of pytest."""

    name: str
    tests: tuple[str, ...]
    crate: str | None = None

    def command(self, long: bool) -> list[str]:
        if self.crate is None:
            files = [str(TESTS / name) for name in self.tests]
            tier = "slow or not slow" if long else "not slow"
            return [sys.executable, "-m", "pytest", "-q", "-s", "-m", tier, *files]
        package, *target = self.crate.split(" ")
        target = target or ["--lib"]
        # Settings of builds, as `make` takes them: others would build everything anew.
        settings = os.environ.get("CARGO_CONFIG")
        config = ["--config", settings] if settings else []
        return ["cargo", "test", "--release", *config, "-p", package, *target, "--", "--nocapture", *self.tests]


STEPS = (
    Step("statements", ("attack/test_statements.py", "attack/test_doubling.py")),
    Step("memory", ("attack/test_memory.py",)),
    Step("panics", ("python/test_panics.py",)),
    Step("writers and DDL", ("python/test_ddl_stress.py",)),
    Step("interrupts", ("python/test_interrupts.py",)),
    Step("kills", ("python/test_kills.py", "python/test_killed_transactions.py")),
    Step(
        "kills and faults of commits",
        ("table::tests::processes", "table::tests::faults", "table::tests::transactions"),
        "warpmill-format",
    ),
    Step("mutated tables", ("table::tests::mutations",), "warpmill-format"),
    Step("programs over mutated tables", ("pipeline::tests",), "warpmill-cpu"),
    Step("mutated files", ("python/test_mutations.py", "python/test_bad_files.py")),
    Step("files that change", ("python/test_changed_files.py",)),
    Step("server", ("fuzz::", "clients::", "limits::", "access::"), "warpmill-flight --test flight"),
)


@dataclass
class Outcome:
    """The outcome of a step."""

    step: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    tried: dict[str, Counter[str]] = field(default_factory=dict)
    tail: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, object]:
        """All but the output."""
        return {name: value for name, value in vars(self).items() if name != "tail"}


def run(step: Step, long: bool) -> Outcome:
    """Runs a step and counts."""
    outcome, begin = Outcome(step.name), time.monotonic()
    packages = {"WARPMILL_PYTHON_PATH": sysconfig.get_path("purelib")}
    child = subprocess.Popen(
        step.command(long),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=TESTS.parent,
        env=packages | dict(os.environ) | (LONG if long else {}),
        start_new_session=True,
    )
    assert child.stdout is not None
    # With the processes that it has started: these may be what hangs.
    watch = threading.Timer(HANGS, os.killpg, (child.pid, signal.SIGKILL))
    watch.start()
    for line in child.stdout:
        if found := read(line):
            category, what, times = found
            outcome.tried.setdefault(category, Counter())[what] += times
        elif summary := re.match(r"test result: \w+\. (\d+) passed; (\d+) failed", line):
            outcome.passed += int(summary[1])
            outcome.failed += int(summary[2])
        elif re.match(r".*\d+ (passed|failed|error).* in [\d.]+s", line):
            outcome.passed += sum(int(n) for n in re.findall(r"(\d+) passed", line))
            outcome.failed += sum(int(n) for n in re.findall(r"(\d+) (?:failed|error)", line))
        outcome.tail = [*outcome.tail[-60:], line.rstrip()]
    watch.cancel()
    # A step that did not end by itself has failed.
    if (child.wait() != 0 and outcome.failed == 0) or outcome.passed == 0:
        outcome.failed += 1
    outcome.seconds = time.monotonic() - begin
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """Lines for people."""
    lines = [f"{'step':28}{'tests':>7}{'failed':>8}{'seconds':>9}   tried, and what became of it"]
    for it in outcomes:
        head = f"{it.step:28}{it.passed + it.failed:>7}{it.failed:>8}{it.seconds:>9.0f}   "
        for category, counts in it.tried.items() or [("", Counter())]:
            parts = ", ".join(f"{times} {what}" for what, times in counts.most_common())
            lines.append(head + (f"{category}: {counts.total()}: {parts}" if category else ""))
            head = " " * len(head)
    tried = sum(counts.total() for it in outcomes for counts in it.tried.values())
    tests, failed = sum(it.passed + it.failed for it in outcomes), sum(it.failed for it in outcomes)
    lines.append(f"{'all':28}{tests:>7}{failed:>8}{sum(it.seconds for it in outcomes):>9.0f}   {tried} cases")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/attack", description=__doc__.partition("\n")[0])
    parser.add_argument("--long", action="store_true", help="more cases of each kind (about an hour)")
    parser.add_argument("--only", action="append", metavar="STEP", choices=[step.name for step in STEPS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there, too")
    options = parser.parse_args()
    outcomes = []
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        print(f"{step.name} ...", file=sys.stderr, flush=True)
        outcomes.append(run(step, options.long))
        if outcomes[-1].failed:
            print("\n".join(outcomes[-1].tail), file=sys.stderr)
    print(table(outcomes))
    if options.json:
        options.json.write_text(json.dumps([it.counts() for it in outcomes], indent=1) + "\n")
    return 1 if any(it.failed for it in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
