"""What shows environments while a policy plays: a window, or a page in the browser."""
