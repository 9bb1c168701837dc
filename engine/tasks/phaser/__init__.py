"""Phaser 3 games: programs that are parsed, checked against Phaser's API and run in a real Phaser without a screen."""

ROW_FIELDS = ("must_use_apis",)
