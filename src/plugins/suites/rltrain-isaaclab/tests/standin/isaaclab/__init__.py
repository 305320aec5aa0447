"""Stands in for Isaac Lab 2.3 in tests, which needs Isaac Sim: the same interfaces, small physics.

Nothing that makes environments can be imported before the app runs. It was written after reading
Isaac Lab's sources, and contains none of them.
"""
