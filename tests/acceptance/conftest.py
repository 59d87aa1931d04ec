"""Databases for systems that a module's tests share, and their logs when a test fails."""

from system import module_database
from system import show_logs as pytest_runtest_makereport

__all__ = ["module_database", "pytest_runtest_makereport"]
