"""Who may do what, whole: what is not in the lists beside this file is not allowed in any stage.

A change of the rights is a change of the list in the same commit, for people to read. To see what
the app gives now: ``python -m tests.infra.test_rights aws-large``, in the checkout.
"""

import sys
import tempfile
from pathlib import Path

from tests.infra.assembly import Assembly, synthesise
from tests.infra.rights import Rights


def test_nobody_may_do_anything_that_is_not_in_the_list(each_stage: Assembly):
    expected = Path(__file__).with_name(f"rights_{each_stage.stage}.txt").read_text()

    assert Rights(each_stage).text() == expected


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        synthesise(Path(folder, "cdk.out"), sys.argv[1])
        sys.stdout.write(Rights(Assembly(Path(folder, "cdk.out"), sys.argv[1])).text())
