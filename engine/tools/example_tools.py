"""Four small tools to try tool calls with: a calculator, a clock, a word counter, and a table of countries.

Each takes the arguments of its schema, and returns a short text.
"""

from __future__ import annotations

import ast
import datetime
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.errors import SafelightError

Value = TypeVar("Value")
ERROR = "Error: "
"""What the result of a call that failed begins with."""
MAX_EXPRESSION = 80  # characters
MAX_COUNTED_CHARACTERS = 10_000  # characters of a text whose words are counted
_MAX_NUMBER = 10**15  # a larger number is refused
_DECIMALS = 6

ZONES: Mapping[str, str] = MappingProxyType(
    {
        place: zone
        for zone, places in {
            "Africa/Cairo": ("Cairo", "Egypt"),
            "Africa/Johannesburg": ("Cape Town", "South Africa"),
            "Africa/Lagos": ("Lagos", "Nigeria"),
            "Africa/Nairobi": ("Nairobi", "Kenya"),
            "Africa/Casablanca": ("Casablanca", "Morocco"),
            "America/Bogota": ("Bogota", "Colombia"),
            "America/Buenos_Aires": ("Buenos Aires", "Argentina"),
            "America/Chicago": ("Chicago", "Dallas"),
            "America/Denver": ("Denver",),
            "America/Havana": ("Havana", "Cuba"),
            "America/Lima": ("Lima", "Peru"),
            "America/Los_Angeles": ("Los Angeles", "San Francisco", "Seattle"),
            "America/Mexico_City": ("Mexico City", "Mexico"),
            "America/New_York": ("New York", "Boston", "Miami"),
            "America/Santiago": ("Santiago", "Chile"),
            "America/Sao_Paulo": ("Sao Paulo",),
            "America/Toronto": ("Toronto", "Montreal"),
            "Asia/Bangkok": ("Bangkok", "Thailand"),
            "Asia/Dubai": ("Dubai",),
            "Asia/Hong_Kong": ("Hong Kong",),
            "Asia/Jakarta": ("Jakarta",),
            "Asia/Kolkata": ("Delhi", "Mumbai", "India"),
            "Asia/Manila": ("Manila",),
            "Asia/Seoul": ("Seoul", "Korea"),
            "Asia/Shanghai": ("Beijing", "Shanghai", "China"),
            "Asia/Singapore": ("Singapore",),
            "Asia/Tokyo": ("Tokyo", "Japan"),
            "Atlantic/Reykjavik": ("Reykjavik", "Iceland"),
            "Australia/Perth": ("Perth",),
            "Australia/Sydney": ("Sydney", "Melbourne"),
            "Europe/Amsterdam": ("Amsterdam",),
            "Europe/Athens": ("Athens", "Greece"),
            "Europe/Berlin": ("Berlin", "Munich", "Germany"),
            "Europe/Brussels": ("Brussels", "Belgium"),
            "Europe/Dublin": ("Dublin", "Ireland"),
            "Europe/Helsinki": ("Helsinki", "Finland"),
            "Europe/Istanbul": ("Istanbul", "Turkey"),
            "Europe/Lisbon": ("Lisbon", "Portugal"),
            "Europe/London": ("London", "Oxford"),
            "Europe/Madrid": ("Madrid", "Spain"),
            "Europe/Oslo": ("Oslo", "Norway"),
            "Europe/Paris": ("Paris", "France"),
            "Europe/Prague": ("Prague",),
            "Europe/Rome": ("Rome", "Milan", "Italy"),
            "Europe/Stockholm": ("Stockholm", "Sweden"),
            "Europe/Vienna": ("Vienna", "Austria"),
            "Europe/Warsaw": ("Warsaw", "Poland"),
            "Europe/Zurich": ("Zurich", "Geneva"),
            "Pacific/Auckland": ("Auckland",),
        }.items()
        for place in places
    }
)
"""The time zone of each place that the clock knows."""

COLUMNS = ("capital", "currency", "continent")
_COUNTRIES = """Argentina Buenos Aires,peso,America; Australia Canberra,dollar,Australia; Austria Vienna,euro,Europe;
Belgium Brussels,euro,Europe; Bolivia Sucre,boliviano,America; Brazil Brasilia,real,America;
Bulgaria Sofia,euro,Europe; Cambodia Phnom Penh,riel,Asia; Canada Ottawa,dollar,America; Chile Santiago,peso,America;
China Beijing,yuan,Asia; Colombia Bogota,peso,America; Croatia Zagreb,euro,Europe; Cuba Havana,peso,America;
Denmark Copenhagen,krone,Europe; Ecuador Quito,dollar,America; Egypt Cairo,pound,Africa; Estonia Tallinn,euro,Europe;
Ethiopia Addis Ababa,birr,Africa; Finland Helsinki,euro,Europe; France Paris,euro,Europe; Germany Berlin,euro,Europe;
Ghana Accra,cedi,Africa; Greece Athens,euro,Europe; Hungary Budapest,forint,Europe; Iceland Reykjavik,krona,Europe;
India New Delhi,rupee,Asia; Indonesia Jakarta,rupiah,Asia; Ireland Dublin,euro,Europe; Italy Rome,euro,Europe;
Japan Tokyo,yen,Asia; Jordan Amman,dinar,Asia; Kenya Nairobi,shilling,Africa; Latvia Riga,euro,Europe;
Lithuania Vilnius,euro,Europe; Malaysia Kuala Lumpur,ringgit,Asia; Mexico Mexico City,peso,America;
Mongolia Ulaanbaatar,tugrik,Asia; Morocco Rabat,dirham,Africa; Nepal Kathmandu,rupee,Asia; Nigeria Abuja,naira,Africa;
Norway Oslo,krone,Europe; Pakistan Islamabad,rupee,Asia; Peru Lima,sol,America; Poland Warsaw,zloty,Europe;
Portugal Lisbon,euro,Europe; Romania Bucharest,leu,Europe; Senegal Dakar,franc,Africa; Serbia Belgrade,dinar,Europe;
Spain Madrid,euro,Europe; Sweden Stockholm,krona,Europe; Thailand Bangkok,baht,Asia; Tunisia Tunis,dinar,Africa;
Turkey Ankara,lira,Asia; Uganda Kampala,shilling,Africa; Uruguay Montevideo,peso,America; Vietnam Hanoi,dong,Asia;
Zambia Lusaka,kwacha,Africa"""
TABLE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        country: dict(zip(COLUMNS, values.split(","), strict=True))
        for country, values in (row.split(maxsplit=1) for row in _COUNTRIES.split(";"))
    }
)
"""Countries, with the columns of each."""


@dataclass(frozen=True)
class ExampleTool:
    """A tool. ``run`` takes arguments that fit ``parameters``, a JSON schema; it raises a ``SafelightError``."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., str]

    @property
    def declaration(self) -> dict[str, Any]:
        """The tool as chat templates take it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def calculate(expression: str) -> str:
    """Computes an expression of numbers, + - * / and brackets.

    Raises:
        SafelightError: it is none, divides by zero, or has a number of over 15 digits.
    """
    try:
        tree = ast.parse(expression, mode="eval") if len(expression) <= MAX_EXPRESSION else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None:
        raise SafelightError("not an expression")
    value = _value(tree.body)
    return str(value) if value.denominator == 1 else f"{float(value):.{_DECIMALS}f}".rstrip("0").rstrip(".")


_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = _bounded(Fraction(str(number)) if abs(number) <= _MAX_NUMBER else Fraction(_MAX_NUMBER + 1))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = -_value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            try:
                value = _OPERATORS[type(op)](_value(left), _value(right))
            except ZeroDivisionError:
                raise SafelightError("division by zero") from None
        case _:
            raise SafelightError("not an expression")
    return _bounded(value)


def _bounded(value: Fraction) -> Fraction:
    if abs(value) > _MAX_NUMBER or value.denominator > _MAX_NUMBER:
        raise SafelightError("the number is too large")
    return value


def clock(place: str | None = None, now: datetime.datetime | None = None) -> str:
    """Returns the day and time in a place, or here: ``Friday 14:05``. ``now``: the time to show, with its zone.

    Raises:
        SafelightError: the place is unknown.
    """
    try:
        zone = None if place is None else ZoneInfo(_named(ZONES, place, "place"))
    except ZoneInfoNotFoundError:
        raise SafelightError("this computer has no list of time zones") from None
    there = (now or datetime.datetime.now(datetime.UTC)).astimezone(zone)
    return f"{there:%A %H:%M}"


def count_words(text: str) -> str:
    return str(len(text.split()))


def look_up(column: str, name: str) -> str:
    """Returns a value of the table of countries.

    Raises:
        SafelightError: the table has no such country or column.
    """
    return _named(_named(TABLE, name, "row"), column, "column")


def _named(values: Mapping[str, Value], name: str, kind: str) -> Value:
    for known, value in values.items():
        if known.lower() == name.strip().lower():
            return value
    raise SafelightError(f"no {kind} called {name[:40]}")


def _object(required: tuple[str, ...] = (), **members: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


TOOLS: Mapping[str, ExampleTool] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            ExampleTool(
                "calculate",
                "Computes an expression of numbers, + - * / and brackets, as 12*(3+4).",
                _object(("expression",), expression={"type": "string", "maxLength": MAX_EXPRESSION}),
                calculate,
            ),
            ExampleTool(
                "clock",
                "Returns the day and the time, here or in a city or country.",
                _object(place={"type": "string", "maxLength": 40}),
                clock,
            ),
            ExampleTool(
                "count_words",
                "Counts the words of a text.",
                _object(("text",), text={"type": "string", "maxLength": MAX_COUNTED_CHARACTERS}),
                count_words,
            ),
            ExampleTool(
                "look_up",
                "Looks up the capital, the currency or the continent of a country in a small table.",
                _object(
                    ("column", "name"),
                    column={"type": "string", "enum": list(COLUMNS)},
                    name={"type": "string", "maxLength": 40},
                ),
                look_up,
            ),
        )
    }
)
"""The tools by their names."""
