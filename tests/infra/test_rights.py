"""All permissions of a stage: what the lists beside this file do not contain is not allowed.

A change of the rights is a change of the list in the same commit, for people to read. To see what
the app gives now: ``python -m tests.infra.test_rights aws-large``, in the checkout.
"""

import sys
import tempfile
from pathlib import Path

from tests.infra.assembly import Assembly, synthesise
from tests.infra.rights import Rights, read, written


def test_nobody_may_do_anything_that_is_not_in_the_list(each_stage: Assembly):
    assert Rights(each_stage).held() == read(each_stage.stage)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        synthesise(Path(folder, "cdk.out"), sys.argv[1])
        sys.stdout.write(written(Rights(Assembly(Path(folder, "cdk.out"), sys.argv[1])).held()))
