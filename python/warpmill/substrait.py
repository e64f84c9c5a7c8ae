"""Substrait plans: what `Connection.execute_substrait` takes and gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from warpmill.relation import Relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill._warpmill import QueryResult
    from warpmill.connection import Connection


@runtime_checkable
class Message(Protocol):
    """A message of a protobuf library."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return the bytes of the message."""


@runtime_checkable
class Encodable(Protocol):
    """A plan of the package ``datafusion``."""

    def encode(self) -> bytes:
        """Return the bytes of the plan."""


#: A plan: its bytes, its JSON form as a text or as a dict, a protobuf message, a plan of ``datafusion.substrait``.
Plan = bytes | str | Mapping[str, object] | Message | Encodable


def plan_source(plan: Plan) -> bytes | str:
    """The bytes of a plan, or the text of its JSON form."""
    if isinstance(plan, bytes | str):
        return plan
    if isinstance(plan, bytearray | memoryview):
        return bytes(plan)
    if isinstance(plan, Mapping):
        return json.dumps(plan)
    if isinstance(plan, Message):
        return plan.SerializeToString()
    if isinstance(plan, Encodable):
        return plan.encode()
    raise TypeError(f"a Substrait plan is bytes, a JSON text, a dict or a protobuf message, not {type(plan).__name__}")


class SubstraitRelation(Relation):
    """The result of a Substrait plan."""

    def __init__(self, connection: Connection, plan: bytes | str, run: Callable[[], QueryResult]) -> None:
        super().__init__(connection, "", None, run)
        self._plan = plan

    @property
    def query(self) -> str:
        """The logical plan that the Substrait plan means, and how it is run."""
        return self.explain()

    def explain(
        self,
        analyze: bool = False,
        *,
        kernels: bool = False,
        format: str | None = None,  # noqa: A002 - SQL's word
    ) -> str:
        """The plan; with `analyze` it runs again and the text shows what it did."""
        if format not in (None, "text"):
            raise ValueError(f"the plan of a Substrait plan is a text: explain(format={format!r}) takes SQL")
        if kernels:
            raise ValueError("the kernels of a Substrait plan cannot be shown: explain(kernels=True) takes SQL")
        return self._connection.explain_substrait(self._plan, analyze)
