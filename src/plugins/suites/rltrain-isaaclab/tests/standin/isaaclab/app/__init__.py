"""Starts the app."""

from __future__ import annotations

import os
import signal
import sys
import threading

RUNNING: dict = {}
"""The arguments that the app was started with; empty before."""


def start(args):
    if RUNNING:
        raise RuntimeError("one process has one app")
    if sys.argv[1:]:
        raise RuntimeError(f"Kit does not know {sys.argv[1:]}")
    print("[INFO] a lot of text on stdout")
    RUNNING.update(args)


class App:
    def close(self):
        print("Simulation App Shutting Down", flush=True)
        os._exit(0)


class AppLauncher:
    def __init__(self, launcher_args=None, **kwargs):
        start({"headless": False, "enable_cameras": False, **(launcher_args or {}), **kwargs})
        self.app = App()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV):
                signal.signal(number, lambda *_: self.app.close())
