"""Pickled files of other programs, read by a machine that cannot run code.

Python's own unpickler imports what a file names, and calls it. This one imports nothing that a file
names: a name is one of `_names`, which says what is done for it, or it is refused. The standard
library takes the bytes apart into opcodes (`pickletools.genops`); only those of protocols 2 to 5
that make data are known. It takes no longer, and no more memory, than its bytes say.
"""

from __future__ import annotations

import collections
import functools
import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from rltrain.data import MOST, NARROW, UnsafePickle, check_tree, narrow_dtype

__all__ = [
    "ArrayType",
    "Name",
    "fill_array",
    "load_data",
    "scalar",
]

_TYPE = re.compile(r"[?biufc]\d{0,2}|[SU]\d{1,5}")
"""numpy's types of truth values, numbers and text; never Python's objects."""


@dataclass(frozen=True)
class Name:
    """A name that a pickle may have, and what is done for it."""

    make: Callable[..., Any] | None = None
    """Returns an object for the arguments in the pickle; None if the name is only an argument."""
    update: Callable[[Any, Any], None] | None = None
    """Gives that object the state in the pickle; None if it has none."""
    numbers: str = ""
    """The type of numbers, one of `NARROW`, that it is a name of."""


def load_data(
    data: bytes,
    trusted: bool = False,
    persistent: Callable[[Any], Any] | None = None,
    names: Mapping[str, Name] | None = None,
) -> Any:
    """Unpickle data: numbers, text, containers, and numpy's arrays and numbers.

    If it is trusted, Python builds anything that it names, which may run any code. Otherwise it is
    an `UnsafePickle` if it names what is not known to be data only, and a `pickle.UnpicklingError`
    if it is damaged.

    `persistent` returns what an id stands for that the pickler wrote in an object's place; `names`
    is what else it may name, such as "datetime.datetime".
    """
    if trusted:
        unpickler = pickle.Unpickler(io.BytesIO(data))
        if persistent is not None:
            unpickler.persistent_load = persistent  # type: ignore[method-assign]
        return unpickler.load()
    try:
        return _Machine({**_names(), **(names or {})}, persistent).run(data, len(data))
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # Wrong contents are refused in many ways.
        text = f"{type(error).__name__}: {error}"
        raise pickle.UnpicklingError(f"damaged ({text[:_LONGEST]})") from error


_LONGEST = 200
"""Letters of a message that come from the file."""

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set}


class _Machine:
    """Does what a pickle's opcodes say, on a stack of its own."""

    def __init__(self, names: Mapping[str, Name], persistent: Callable[[Any], Any] | None) -> None:
        self._names, self._persistent = names, persistent
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._made: dict[int, tuple[Any, Name]] = {}
        """What `Name.make` returned, by its id; kept, so that no other object gets the id."""

    def run(self, data: bytes, size: int) -> Any:
        self._left = 3 * size + _LONGEST  # An array's bytes are text first, in old protocols.
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                (whole,) = self._stack
                check_tree(whole, max(size, MOST))
                return whole
            self._step(opcode.name, argument)
        raise ValueError("it ends too early")

    def _step(self, opcode: str, argument: Any) -> None:
        stack = self._stack
        match opcode:
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "LONG4" | "BINFLOAT":
                stack.append(argument)
            case "SHORT_BINUNICODE" | "BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "SHORT_BINBYTES" | "BINBYTES" | "BINBYTES8" | "BYTEARRAY8":
                stack.append(argument)
            case "MEMOIZE" | "BINPUT" | "LONG_BINPUT":
                self._memo[len(self._memo) if argument is None else argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append(_CONSTANTS[opcode])
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_TUPLE" | "EMPTY_SET":
                stack.append(_EMPTY[opcode]())
            case "MARK":
                stack.append(_MARK)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(opcode[-1])
                if len(stack) < size:
                    raise ValueError("an empty stack")
                stack[-size:] = [tuple(stack[-size:])]
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "FROZENSET":
                stack.append(frozenset(_keys(self._marked())))
            case "APPEND" | "APPENDS":
                items = self._marked() if opcode == "APPENDS" else [stack.pop()]
                self._target(list, collections.deque).extend(items)
            case "ADDITEMS":
                items = self._marked()
                self._target(set).update(_keys(items))
            case "SETITEM" | "SETITEMS":
                if opcode == "SETITEM":
                    stack.insert(len(stack) - 2, _MARK)
                items = self._marked()
                target = self._target(dict, collections.OrderedDict, collections.Counter)
                target.update(zip(_keys(items[::2]), items[1::2], strict=True))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(self._named(module, name))
            case "GLOBAL":
                stack.append(self._named(*argument.split(" ", 1)))
            case "REDUCE" | "NEWOBJ":
                self._call()
            case "BUILD":
                self._build()
            case "BINPERSID" if self._persistent is not None:
                stack.append(self._persistent(stack.pop()))
            case "BINPERSID":
                raise UnsafePickle("an object that was kept elsewhere")
            case "PROTO" | "FRAME":
                pass  # They only say how the bytes are divided.
            case _:
                raise UnsafePickle(f"the opcode {opcode}")

    def _marked(self) -> list[Any]:
        """Take everything above the last mark off the stack."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:  # Below the first, -1 would be the last again.
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        taken = self._stack[at + 1 :]
        del self._stack[at:]
        return taken

    def _target(self, *types: type) -> Any:
        if type(self._stack[-1]) not in types:
            raise TypeError(f"a {type(self._stack[-1]).__name__} for a {types[0].__name__}")
        return self._stack[-1]

    def _named(self, module: Any, name: Any) -> Name:
        found = self._names.get(f"{module}.{name}")
        if found is None:
            raise UnsafePickle(f"{module}.{name}"[:_LONGEST])
        return found

    def _call(self) -> None:
        arguments, name = self._stack.pop(), self._stack.pop()
        if not isinstance(name, Name) or name.make is None or type(arguments) is not tuple:
            raise UnsafePickle("a call of what makes no data")
        self._spend(arguments)
        made = name.make(*arguments)
        self._made[id(made)] = made, name
        self._stack.append(made)

    def _build(self) -> None:
        state = self._stack.pop()
        made, name = self._made.get(id(self._stack[-1]), (None, Name()))
        if name.update is None:
            raise UnsafePickle("a state for what has none")
        self._spend(state)
        name.update(made, state)

    def _spend(self, parts: Any) -> None:
        """Count what is copied: a copy is longer than its opcode where the original is shared."""
        self._left -= sum(len(each) for each in parts if isinstance(each, Sized))
        if self._left < 0:
            raise ValueError("it grows as it is read")


class ArrayType:
    """A type of numpy's arrays, which a pickle makes in two steps.

    numpy's own `__setstate__` of a type crashes on a state that is none.
    """

    def __init__(self, code: Any, *flags: Any) -> None:
        if isinstance(code, Name) and code.numbers:
            self.dtype = narrow_dtype(code.numbers)
        elif isinstance(code, str) and _TYPE.fullmatch(code):
            import numpy as np

            self.dtype = np.dtype(code)
        else:
            raise UnsafePickle(f"arrays of {code}"[:_LONGEST])

    def __setstate__(self, state: Any) -> None:
        """Set the order of bytes, which types of `ml_dtypes` do not have."""
        if state[1] in ("<", ">") and self.dtype.isbuiltin == 1:
            self.dtype = self.dtype.newbyteorder(state[1])


def _empty_array(*arguments: Any) -> Any:
    import numpy as np

    return np.empty(0, np.int8)


def fill_array(array: Any, state: Any) -> None:
    """Give an array its contents, as `ndarray.__setstate__` does."""
    _, shape, kind, by_columns, contents = state
    if not isinstance(kind, ArrayType) or not isinstance(contents, bytes):
        raise UnsafePickle("an array of objects")
    if math.prod(map(_length, shape)) * kind.dtype.itemsize != len(contents):
        raise ValueError("an array of another size")
    array.__setstate__((1, tuple(shape), kind.dtype, bool(by_columns), contents))


def _array(contents: Any, kind: Any, shape: Any, order: Any) -> Any:
    array = _empty_array()
    fill_array(array, (1, shape, kind, order == "F", bytes(_bytearray(contents))))
    return array


def scalar(kind: Any, contents: Any) -> Any:
    """Return a number of numpy's, of an `ArrayType` and with these bytes."""
    return _array(contents, kind, (), "C")[()]


def _length(length: Any) -> int:
    if type(length) is not int or length < 0:
        raise ValueError("an array's shape")
    return length


def _bytearray(contents: bytes = b"") -> bytearray:
    if not isinstance(contents, (bytes, bytearray)):  # A number would be a size.
        raise UnsafePickle("a bytearray of no bytes")
    return bytearray(contents)


def _keys(items: Any) -> Any:
    """Return what becomes keys or members: hashing walks them, shared parts too."""
    for each in items:
        if isinstance(each, (tuple, frozenset)):
            check_tree(each, _LONGEST)
    return items


def _set(members: Any = ()) -> set[Any]:
    return set(_keys(members))


def _counter(counts: Any = ()) -> collections.Counter[Any]:
    if counts and type(counts) is not dict:
        raise UnsafePickle("a Counter of no dict")
    return collections.Counter(counts)


@functools.cache
def _names() -> dict[str, Name]:
    """Return what every pickle may name: what only makes data."""
    names = {
        **{f"builtins.{kind.__name__}": Name(kind) for kind in (complex, slice)},
        "builtins.bytearray": Name(_bytearray),
        "builtins.set": Name(_set),
        "collections.OrderedDict": Name(lambda: collections.OrderedDict()),
        "collections.Counter": Name(_counter),
        "collections.deque": Name(collections.deque),
        "numpy.ndarray": Name(),
        "numpy.dtype": Name(ArrayType, ArrayType.__setstate__),
        **{f"ml_dtypes.{name}": Name(numbers=name) for name in NARROW},
    }
    names |= {name.replace("builtins.", "__builtin__."): of for name, of in names.items()}
    for core in ("numpy._core", "numpy.core"):  # numpy 2 and numpy 1.
        names[f"{core}.multiarray._reconstruct"] = Name(_empty_array, fill_array)
        names[f"{core}.multiarray.scalar"] = Name(scalar)
        names[f"{core}.numeric._frombuffer"] = Name(_array)
    return names
