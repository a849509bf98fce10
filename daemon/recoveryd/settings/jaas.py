"""Java's login line (`sasl.jaas.config`): one module and its options, read without Java, and how a value stands
in it.
"""

import re
from typing import Final

KEY: Final = "sasl.jaas.config"
_LINE: Final = re.compile(r"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", flags=re.DOTALL)
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_QUOTED: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", flags=re.DOTALL)
_BARE: Final = re.compile(r"""[^\s;"']*""")
_IN_BARE: Final = re.compile(rf"""=\s*{_BARE.pattern}$""")


class PropertyProblem(ValueError):  # noqa: N818  (named for what happened)
    """A property that cannot be used. `key` is its name, `message` says why (without values that may be secret);
    `unknown`: there is no property of that name.
    """

    def __init__(self, key: str, message: str, hint: str = "", *, unknown: bool = False) -> None:
        self.key = key
        self.message = message
        self.hint = hint
        self.unknown = unknown
        super().__init__(f"{key}: {message}")


def read_jaas(text: str, module: str, mechanism: str, example: str) -> dict[str, str]:
    """The options of the line, which must name `module`. Raises `PropertyProblem`, with `example` as the options to
    write.
    """
    match = _LINE.fullmatch(text)
    if match is None:
        raise PropertyProblem(
            KEY, "is missing or not of the form MODULE required NAME=VALUE ...;", f"Write {module} required {example};"
        )
    if match[1] != module:
        raise PropertyProblem(KEY, f"names {match[1]}", f"sasl.mechanism {mechanism} goes with {module}.")
    return {
        name: re.sub(r"\\(.)", r"\1", quoted or single) if quoted or single else bare
        for name, quoted, single, bare in _OPTION.findall(match[2])
    }


def fitted(value: str, before: str) -> str:
    """The value as it has to be written behind `before` so that the line is read with this value. Raises
    `PropertyProblem` where it would need quotes and there are none. Outside of values it is a part of the line.
    """
    if set("\"'") & set(_QUOTED.sub("", before)):
        return re.sub(r"""([\\"'])""", r"\\\1", value)
    if _IN_BARE.search(before) and not _BARE.fullmatch(value):
        raise PropertyProblem(KEY, "has a value without quotes that needs them")
    return value
