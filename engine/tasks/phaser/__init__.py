"""Phaser 3 games: programs that are parsed, checked against Phaser's API and run in a real Phaser without a screen."""
