"""Examples in docstrings are tests; modules that have none are not imported to look for some.

Those of the CDK take seconds to import, and each starts Node, in every process of the tests.
"""

from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a module without an example."""
    if collection_path.suffix == ".py" and ">>> " not in collection_path.read_text():
        return True
    return None
