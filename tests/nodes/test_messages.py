"""What launchers and ranks read from each other: data that can be printed, or one named error."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltrain.nodes import messages
from rltrain.nodes.line import Refused, Said, parse_message
from rltrain.nodes.messages import (
    Answer,
    BadMessage,
    Hello,
    Member,
)

HELLO = Hello(Member("node", 1, 2, {"rltrain": "0.1"}, "m1"))
READERS = (parse_message, messages.parse_hello, messages.parse_answer)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


def test_what_is_packed_is_read():
    assert messages.parse_hello(messages.pack_hello(HELLO)) == HELLO
    answer = Answer("two\nlines", "m0", waits="for node 2")
    assert messages.parse_answer(messages.pack_answer(answer)) == answer


@pytest.mark.parametrize(
    "changes",
    [
        *({"host": host} for host in ("\x1b[31m", "a\nb", "x" * 256, "\u202e")),
        *({"facts": facts} for facts in ({"a": "\x07"}, {"\r": "a"}, {"a": "x" * 256})),
        *({"number": number, "count": 2} for number in (0, -1, 2, True)),
        {"number": 1, "count": 1 << 40},
        {"kind": "\x9b31m"},
    ],
)
def test_a_member_whose_name_or_number_is_no_such_thing_is_none(changes):
    member = dataclasses.replace(HELLO.member, **changes)
    with pytest.raises(BadMessage):
        messages.parse_hello(messages.pack_hello(Hello(member)))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b"null\n", None),
        (b'"Node 1 failed.\\nWhy \\u001b[2J"\n', "Node 1 failed.\nWhy \\x1b[2J"),
        (b'{"say": "\\u009b2J\\r"}\n', Said("\\x9b2J\\r")),
        (b'{"refused": "\\u001b"}\n', Refused("\\x1b")),
    ],
)
def test_what_launchers_say_is_read(line, read):
    assert parse_message(line) == read


@pytest.mark.parametrize(
    "message",
    [
        *(3, True, [], {}, {"say": 3}, {"say": "x", "more": 1}),
        {"run_dir": "/home/me/.ssh", "mark": "x"},
        "x" * 60_000,
    ],
)
def test_other_words_of_launchers_are_refused(message):
    with pytest.raises(BadMessage):
        parse_message(json.dumps(message).encode() + b"\n")


@pytest.mark.parametrize("read", READERS)
@given(line=st.binary() | JSON.map(lambda each: json.dumps(each).encode()))
def test_any_bytes_are_read_or_refused(read, line):
    with contextlib.suppress(BadMessage):
        read(line)


@pytest.mark.parametrize("line", [b"[" * 100_000, b"9" * 5000, b"\xff", b"", b'"\\ud800"'])
def test_bytes_that_upset_parsers_are_refused(line):
    for read in READERS[1:]:
        with pytest.raises(BadMessage):
            read(line)
