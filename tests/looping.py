"""Seeds and sizes tried in one test, where each is no case of its own: a test for each costs more than the trial."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def looped(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Loops as ``pytest.mark.parametrize`` does, but in one test: one value after the other, up to the first failure.

    A note under the failure's traceback names the values. Fixtures are made once for all of them.

    Args:
        names: of the test's arguments that are looped over, separated by commas.
        values: for one name its values, for several a tuple of values each.
    """
    keys = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            for value in tried:
                chosen = dict(zip(keys, value if len(keys) > 1 else (value,), strict=True))
                try:
                    test(*args, **fixtures, **chosen)
                except BaseException as error:
                    error.add_note(f"with {', '.join(f'{name} = {each!r}' for name, each in chosen.items())}")
                    raise

        tried = list(values)
        signature = inspect.signature(test)
        rest = [each for name, each in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest asks for what is left
        return run

    return decorate
