"""tests/dist/ranks.py is imported by its name."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
