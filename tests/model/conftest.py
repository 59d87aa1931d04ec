"""Property tests are judged by what they find, not by how long one example takes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("model", deadline=None, max_examples=40)
settings.load_profile("model")
