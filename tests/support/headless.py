"""`python -m headless TABLE…`: the engine's catch_up in a process of its own, without Dagster.

For tests that kill runs: it starts in a third of the time of `tidemark run`, which the same tests use where the Dagster
run itself is the subject.
"""

import json
import os
import sys
import uuid
from pathlib import Path

from tidemark.engine.catch_up import catch_up
from tidemark.engine.configuration import load
from tidemark.engine.lake import Lake


def main(tables: list[str]) -> int:
    """Run the tables one after the other; prints what `tidemark run --json` prints."""
    configuration = load(
        None,
        Path(os.environ["TIDEMARK_CONTRACTS"]),
        environ=os.environ,
        home=Path(os.environ["TIDEMARK_HOME"]),
    )
    lake = Lake(configuration)
    run_id = f"headless-{uuid.uuid4().hex[:8]}"
    wanted = [contract for contract in configuration.contracts if contract.table in tables]
    outcomes = [catch_up(lake, contract, run_id).as_json() for contract in wanted]
    print(json.dumps(outcomes))
    return int(any(outcome["error"] for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
