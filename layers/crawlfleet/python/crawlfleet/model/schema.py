"""The schema of records: what they must be to be stored (SPEC.md B9)."""

from typing import Any, TypeAlias

#: A JSON Schema (draft 2020-12) of a record's fields. References lead nowhere but into itself.
RecordSchema: TypeAlias = dict[str, Any]
