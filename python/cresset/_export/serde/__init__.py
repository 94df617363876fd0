"""Exported programs as texts and bytes without an archive around them."""
