"""Names of interchangeable members: ours, and those of installed packages.

A member is listed by where it lives, `"module:attribute"`, and imported when it is asked for. A
package adds its own by an entry point of the registry's group, such as

    [project.entry-points."opsplit.physics"]
    my-equation = "my_package.equation:MyEquation"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from opsplit.errors import OpsplitError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to members, in the order they are listed.

    Arguments:
        what: what a member is, for messages: `"search"`.
        group: the entry-point group of other packages: `"opsplit.searches"`.
        members: our own, by name.
    """

    def __init__(self, what: str, group: str, members: Mapping[str, str]) -> None:
        self.what, self.group = what, group
        self._own = dict(members)
        self._loaded: dict[str, T] = {}
        self._found: dict[str, str] | None = None

    def _places(self) -> dict[str, str]:
        if self._found is None:
            others = {e.name: e.value for e in entry_points(group=self.group)}
            self._found = {**others, **self._own}
        return {**self._own, **self._found}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            self.require(name)
            places = self._places()
            module, _, attribute = places[name].partition(":")
            try:
                self._loaded[name] = getattr(import_module(module), attribute)
            except (ImportError, AttributeError) as reason:
                raise OpsplitError(
                    f"The {self.what} {name!r} cannot be imported from {places[name]}: {reason}"
                ) from None
        return self._loaded[name]

    def require(self, name: str) -> None:
        """Refuse a name that is not in the registry, without importing its member."""
        places = self._places()
        if name not in places:
            raise OpsplitError(
                f"Unknown {self.what} {name!r:.60}; choose from {', '.join(places)}."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self._places())

    def __len__(self) -> int:
        return len(self._places())

    def __contains__(self, name: object) -> bool:
        return name in self._places()

    def add(self, name: str, member: T) -> None:
        """Register a member of the running program, such as a class in a notebook."""
        self._own[name] = ""
        self._loaded[name] = member
