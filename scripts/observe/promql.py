"""A partial parser of PromQL that finds the series of an expression."""

import re

TOKEN = re.compile(
    r"""\s+|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<number>\d[\w.+]*)"""
    r"""|(?P<name>[A-Za-z_:][\w:]*)|(?P<other>.)""",
    re.S,
)
# Followed by a list of labels in parentheses.
WITH_LABELS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
KEYWORDS = WITH_LABELS | {"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}
AGGREGATIONS = {
    "sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values",
    "bottomk", "topk", "quantile",
}
CLOSING = {"(": ")", "{": "}", "[": "]"}


def selectors(expression):
    """Returns the selectors of an expression as text, without duplicates."""
    tokens = [match for match in TOKEN.finditer(expression) if match.lastgroup]
    found, at = [], 0
    while at < len(tokens):
        token, name = tokens[at], tokens[at].group("name")
        at += 1
        if token.group() == "[":
            at = _end(tokens, at - 1)
        elif token.group() == "{":
            raise ValueError(f"a selector without a name in {expression}")
        elif name and name.lower() in WITH_LABELS:
            at = _end(tokens, at) if _is(tokens, at, "(") else at
        elif name and not (name.lower() in KEYWORDS | AGGREGATIONS or _is(tokens, at, "(")):
            end = token.end()
            if _is(tokens, at, "{"):
                at = _end(tokens, at)
                end = tokens[at - 1].end()
            found.append(expression[token.start() : end])
    return list(dict.fromkeys(found))


def _is(tokens, at, text):
    return at < len(tokens) and tokens[at].group() == text


def _end(tokens, at):
    """Returns the index after the bracket that closes the one at `at`."""
    opening = tokens[at].group()
    depth = 0
    for index in range(at, len(tokens)):
        text = tokens[index].group()
        depth += (text == opening) - (text == CLOSING[opening])
        if depth == 0:
            return index + 1
    raise ValueError(f"{opening} is not closed")
