"""A window with the frames that environments draw, by Tk, which comes with Python."""

from __future__ import annotations

import importlib
from typing import Any

from rltrain.errors import UsageError
from rltrain_play.video.recorder import draw_frame
from rltrain_play.viewers.controls import HELP, Controls, Status

_KEYS = {"minus": "-", "equal": "=", "comma": ",", "period": "."}
"""Tk's names of keys, where they are not ours."""


class FrameWindow:
    """Shows what `render()` returns, and below it the status."""

    def __init__(self, env: Any, controls: Controls, title: str) -> None:
        """Open the window."""
        try:
            self._tk: Any = importlib.import_module("tkinter")
            self._root = self._tk.Tk()
        except Exception as error:  # ImportError, or TclError, which is Tk's.
            raise UsageError(
                f"--viewer native: no window can be opened: {error}. Without Tk, install your "
                "system's python3-tk. Or give --viewer viser or none."
            ) from error
        self.controls, self._env = controls, env
        self._open = True
        self._root.title(title)
        self._root.protocol("WM_DELETE_WINDOW", self.close)
        self._root.bind("<Key>", self._pressed)
        self._image = self._tk.PhotoImage(master=self._root)
        self._picture = self._tk.Label(self._root, image=self._image)
        self._picture.pack()
        self._text = self._tk.Label(self._root, justify="left", font="TkFixedFont")
        self._text.pack(anchor="w")

    @property
    def place(self) -> str:
        """Where to look, and the keys."""
        return HELP

    def is_open(self) -> bool:
        """Return whether the window is open; handles its events."""
        if self._open:
            self._root.update()
        return self._open

    def show(self, status: Status) -> None:
        """Draw a frame."""
        frame = draw_frame(self._env.render)
        if not self._open:
            return
        height, width, _ = frame.shape
        ppm = b"P6 %d %d 255 " % (width, height) + frame.tobytes()
        self._image.configure(data=ppm, format="PPM")
        self._text.configure(text="\n".join(f"{name:12}{text}" for name, text in status.lines()))

    def close(self) -> None:
        """Close the window."""
        if self._open:
            self._open = False
            self._root.destroy()

    def _pressed(self, event: Any) -> None:
        name = str(event.keysym)
        self.controls.press(_KEYS.get(name, name.lower()))
