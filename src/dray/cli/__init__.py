"""The command `dray`: parse a command line and run its command.

Each module here is a command with `add_parser(subparsers)` and `run(args)`. Only the module of the requested command
is imported, and its own imports wait until `run`, so that commands start quickly.
"""

from __future__ import annotations

import argparse
import builtins
import difflib
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from dray import __version__
from dray.cli._examples import epilog
from dray.files import YamlError

T = TypeVar("T", bound=msgspec.Struct)
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
GATES_HELP = "feature gates to turn on or off; see `dray gates`"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: of this process). Returns the exit status."""
    # `list` is a command in this package
    return run_command("dray", commands(), [*(sys.argv[1:] if argv is None else argv)])


def run_command(prog: str, known: Sequence[str], arguments: list[str]) -> int:
    """Run one of the known commands, or print help if none is given. Returns the exit status.

    This is the command's own status, 2 for an unknown command or argument, 1 if the reader of the output has gone,
    130 after Ctrl-C.
    """
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and first not in known:
        print(f"{prog}: there is no command {first}{suggestion(first, known)}", file=sys.stderr)
        return 2
    parser = parser_of(prog, [first] if first in known else known)
    if "_ARGCOMPLETE" in os.environ:  # a shell requests completions
        import argcomplete

        argcomplete.autocomplete(parser)
    if not first:
        parser.print_help()
        return 0
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        print(f"{prog} {first}: {_not_understood(unknown[0], parser)}", file=sys.stderr)
        return 2
    try:
        return int(args.run(args))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output has closed it
        return 1
    except KeyboardInterrupt:
        return 130


def parser_of(prog: str, names: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line with these commands."""
    parser = _CommandParser(
        prog=prog,
        description="A complete implementation of Kubernetes Dynamic Resource Allocation (DRA), in Python.",
        epilog=f"`{prog} COMMAND --help` describes a command and its options. Exit status: 0 for success, 1 for failure, 2 for a "
        "command line or a file that cannot be used.",
    )
    parser.add_argument("--version", action="version", version=f"dray {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        importlib.import_module(f"{__name__}.{name.replace('-', '_')}").add_parser(subparsers)
        command = subparsers.choices[name]
        command.epilog = command.epilog or epilog(name)
        command.formatter_class = _HelpFormatter
    return parser


class _CommandParser(argparse.ArgumentParser):
    """Parser that suggests the most similar word for an unknown one. Parsers of commands have this class too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {value}{suggestion(str(value), [*action.choices])}")


def _not_understood(word: str, parser: argparse.ArgumentParser) -> str:
    """Return the error for a word that no option or argument accepts."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f"{word} is one argument too many"
    known = sorted(option for option in _options(parser) if option.startswith("--"))
    return f"there is no option {name}{suggestion(name, known)}"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield all options of a parser and its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps prose in help texts; keeps texts with line breaks, such as examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the end of an error message: the most similar known word, or all known words."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


class InputError(ValueError):
    """Error in the user's input. The text says what to change."""


def fail(command: str, why: object, status: int = 1) -> int:
    """Print why a command failed. Returns the exit status: 2 for unusable input, else `status`."""
    text = problem(why) if isinstance(why, Exception) else why
    print(f"dray {command}: {text}", file=sys.stderr)
    return 2 if isinstance(why, BaseException) and _is_unusable_input(why) else status


def problem(error: Exception) -> str:
    """Return the message of an error. For a file: its name and the reason, without the error number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _is_unusable_input(error: BaseException | None) -> bool:
    """Return whether an error comes from a file that cannot be read or from text that cannot be parsed."""
    while error is not None:
        if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)):
            return True
        if isinstance(error, (UnicodeDecodeError, YamlError, msgspec.MsgspecError)):
            return True
        error = error.__cause__
    return False


def options_of(kind: type[T], args: argparse.Namespace) -> T:
    """Return the typed options in the arguments of a command line. Fields have the names of options."""
    given = vars(args)
    lists = ((name, tuple(value) if isinstance(value, builtins.list) else value) for name, value in given.items())
    return kind(**{name: value for name, value in lists if name in kind.__struct_fields__})


def commands() -> list[str]:
    """Return the names of all commands."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")
