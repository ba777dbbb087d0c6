"""Quoted strings as Kubernetes prints them in messages: double quotes with Go's escapes.

Python's repr prefers single quotes and uses other escapes, and JSON escapes more characters.
"""

_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    r"""Return the text in double quotes, with unprintable characters escaped.

    >>> print(quote('a "b"' + chr(10)))
    "a \"b\"\n"
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    r"""Return the text with control characters escaped, except newlines and tabs.

    Messages of drivers and nodes are printed on terminals, which obey such characters.

    >>> print(visible("red: " + chr(27) + "[31m"))
    red: \x1b[31m
    """
    return text.translate(_CONTROLS)


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
